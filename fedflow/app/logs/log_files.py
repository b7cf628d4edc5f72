"""The log files of jobs under the names that FATE gives them: how long they are, and their lines.

| log type | file below `logs/<job>` |
|---|---|
| jobSchedule, jobScheduleError | `fate_flow_schedule.log`, `fate_flow_schedule_error.log` |
| partyError, partyWarning, partyInfo, partyDebug | `<role>/<party>/ERROR.log` ... `DEBUG.log` |
| componentInfo | `<role>/<party>/<component>/<latest attempt>/INFO.log` |

Source: `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

from typing import Final

from fedflow.app.logs.log_index import LogIndexes
from fedflow.app.logs.log_opening import names_below
from fedflow.app.logs.log_text import mask_addresses
from fedflow.app.ports.store import Store
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.records import JobFilter
from fedflow.domain.site import Role
from fedflow.wire.api.administration import LogLine
from fedflow.wire.paths import fits

MAX_LINES: Final = 5_000  #: that one call gives
MAX_BYTES: Final = 4 * 1024 * 1024  #: of file that one call gives
MAX_LINE: Final = 16_384  #: bytes of one line that are shown

_JOB_FILES: Final = {
    "jobSchedule": "fate_flow_schedule.log",
    "jobScheduleError": "fate_flow_schedule_error.log",
}
_PARTY_FILES: Final = {
    "partyError": "ERROR.log",
    "partyWarning": "WARNING.log",
    "partyInfo": "INFO.log",
    "partyDebug": "DEBUG.log",
}
_COMPONENT: Final = "componentInfo"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogName:
    """One log of one job, as a client names it."""

    log_type: str
    job_id: str
    role: str | None = None
    party_id: str | None = None
    component: str | None = None


class LogFiles:
    """The use cases of `/v1/log`."""

    def __init__(self, *, store: Store, folders: Folders, indexes: LogIndexes) -> None:
        self._store = store
        self._root = folders.shared / "logs"
        self._indexes = indexes

    def size(self, which: LogName) -> int:
        """Return how many lines a log has, 0 if there is none yet.

        Raises: BadRequest: unknown log type, or what it needs is missing. JobNotFound.
        """
        with self._indexes.open(self._root, self._parts(which)) as log:
            if log is None:
                return 0
            log.count()
            return log.total or 0

    def lines(self, which: LogName, begin: int = 1, end: int | None = None) -> list[LogLine]:
        """Return the lines from `begin` to `end`, both included, with addresses masked.

        At most `MAX_LINES` and `MAX_BYTES`: ask again from the next number for more.
        Raises: as `size`; BadRequest: `begin` or `end` make no range.
        """
        if begin < 1 or (end is not None and end < begin):
            raise BadRequest(reason="lines are numbered from 1, and `end` is not before `begin`")
        last = begin + MAX_LINES - 1 if end is None else min(end, begin + MAX_LINES - 1)
        found: list[LogLine] = []
        given = 0
        with self._indexes.open(self._root, self._parts(which)) as log:
            if log is None:
                return found
            log.count(until=begin)
            for number, line in enumerate(log.lines(begin, longest=MAX_LINE), begin):
                if number > last or given > MAX_BYTES:
                    break
                given += len(line.content)
                text = line.content.decode("utf-8", errors="replace")
                found.append(LogLine(line_num=number, content=mask_addresses(text)))
        return found

    def _parts(self, which: LogName) -> tuple[str, ...]:
        """Return the names that lead to a log; each is checked before it is used."""
        if which.log_type in _JOB_FILES:
            self._check_job(which.job_id)
            return (which.job_id, _JOB_FILES[which.log_type])
        if which.log_type not in (*_PARTY_FILES, _COMPONENT):
            known = ", ".join((*_JOB_FILES, *_PARTY_FILES, _COMPONENT))
            raise BadRequest(reason=f"{which.log_type[:100]!r} is no log type; known are {known}")
        site = _site(which)
        self._check_job(which.job_id)
        if which.log_type in _PARTY_FILES:
            return (which.job_id, *site, _PARTY_FILES[which.log_type])
        if which.component is None or not fits("component", which.component):
            raise BadRequest(reason="component_name must name a component of the job")
        folder = (which.job_id, *site, which.component)
        versions = [int(n) for n in names_below(self._root, folder) if n.isascii() and n.isdigit()]
        return (*folder, str(max(versions, default=0)), "INFO.log")

    def _check_job(self, job_id: str) -> None:
        """Raises: JobNotFound."""
        with self._store.read() as tx:
            known = tx.jobs.find(JobFilter(job_id=job_id, limit=1)) or tx.schedules.get(job_id)
        if not known or not fits("job_id", job_id):
            raise JobNotFound(job_id=job_id[:100])


def _site(which: LogName) -> tuple[str, str]:
    """Return role and party id. Raises: BadRequest: they are missing or wrong."""
    role, party_id = which.role or "", which.party_id or ""
    if role not in {r.value for r in Role} or not fits("party_id", party_id):
        raise BadRequest(
            reason=f"{which.log_type} needs role and party_id of one of the job's sites"
        )
    return role, party_id
