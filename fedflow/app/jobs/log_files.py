"""The log files of jobs under the names that FATE gives them: how long they are, and their lines.

| log type | file below `logs/<job>` |
|---|---|
| jobSchedule, jobScheduleError | `fate_flow_schedule.log`, `fate_flow_schedule_error.log` |
| partyError, partyWarning, partyInfo, partyDebug | `<role>/<party>/ERROR.log` ... `DEBUG.log` |
| componentInfo | `<role>/<party>/<component>/<latest attempt>/INFO.log` |

Source: `reference/flow-rest-api.md` section 2.7.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from fedflow.app.folders import Folders
from fedflow.app.ports import Store
from fedflow.base.errors import BadRequest, JobNotFound
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobFilter, JobKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import fits

MAX_LINES: Final = 5_000  #: that one call gives
MAX_BYTES: Final = 4 * 1024 * 1024  #: of file that one call gives
MAX_LINE: Final = 16_384  #: bytes of one line that are shown
MASK: Final = "xxx.xxx.xxx.xxx"

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
_BLOCK: Final = 1024 * 1024
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]?\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{0,39}:[0-9A-Fa-f:.]{0,39}(?![\w:])")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogName:
    """One log of one job, as a client names it."""

    log_type: str
    job_id: str
    role: str | None = None
    party_id: str | None = None
    component: str | None = None


class LogLine(TypedDict):
    """A line with its number, from 1 on."""

    line_num: int
    content: str


class LogFiles:
    """The use cases of `/v1/log`."""

    def __init__(self, *, store: Store, folders: Folders) -> None:
        self._store = store
        self._folders = folders

    def size(self, which: LogName) -> int:
        """Return how many lines a log has, 0 if there is none yet.

        Raises: BadRequest: unknown log type, or what it needs is missing. JobNotFound.
        """
        path = self._path(which)
        if path is None or not path.is_file():
            return 0
        lines, last = 0, b"\n"
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                lines += block.count(b"\n")
                last = block[-1:]
        return lines + (last != b"\n")

    def lines(self, which: LogName, begin: int = 1, end: int | None = None) -> list[LogLine]:
        """Return the lines from `begin` to `end`, both included, with addresses masked.

        At most `MAX_LINES` and `MAX_BYTES`: ask again from the next number for more.
        Raises: as `size`; BadRequest: `begin` or `end` make no range.
        """
        if begin < 1 or (end is not None and end < begin):
            raise BadRequest(reason="lines are numbered from 1, and `end` is not before `begin`")
        path = self._path(which)
        if path is None or not path.is_file():
            return []
        last = begin + MAX_LINES - 1 if end is None else min(end, begin + MAX_LINES - 1)
        found: list[LogLine] = []
        given = 0
        for number, line in enumerate(_lines(path), 1):
            if number > last or given > MAX_BYTES:
                break
            if number >= begin:
                given += len(line)
                text = line.decode("utf-8", errors="replace").rstrip("\r\n")
                found.append({"line_num": number, "content": mask_addresses(text)})
        return found

    def _path(self, which: LogName) -> Path | None:
        """Return where a log lies; every part of the path is checked before it is used."""
        if which.log_type in _JOB_FILES:
            self._check_job(which.job_id)
            return self._folders.job_logs(which.job_id) / _JOB_FILES[which.log_type]
        if which.log_type not in (*_PARTY_FILES, _COMPONENT):
            known = ", ".join((*_JOB_FILES, *_PARTY_FILES, _COMPONENT))
            raise BadRequest(reason=f"{which.log_type[:100]!r} is no log type; known are {known}")
        folder = self._folders.party_logs(JobKey(job_id=which.job_id, site=_site(which)))
        self._check_job(which.job_id)
        if which.log_type in _PARTY_FILES:
            return folder / _PARTY_FILES[which.log_type]
        if which.component is None or not fits("component", which.component):
            raise BadRequest(reason="component_name must name a component of the job")
        return _latest(folder / which.component)

    def _check_job(self, job_id: str) -> None:
        """Raises: JobNotFound."""
        with self._store.read() as tx:
            known = tx.jobs.find(JobFilter(job_id=job_id, limit=1)) or tx.schedules.get(job_id)
        if not known or not fits("job_id", job_id):
            raise JobNotFound(job_id=job_id[:100])


def mask_addresses(text: str) -> str:
    """Return `text` with the IP addresses in it replaced."""
    return _IPV6.sub(_masked_if_address, _IPV4.sub(MASK, text))


def _masked_if_address(found: re.Match[str]) -> str:
    text = found[0].rstrip(":.") if not found[0].endswith("::") else found[0]
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return found[0]
    return MASK + found[0][len(text) :] if len(text) > 2 else found[0]


def _site(which: LogName) -> Site:
    """Raises: BadRequest: role or party id are missing or wrong."""
    role, party_id = which.role or "", which.party_id or ""
    if role not in {r.value for r in Role} or not fits("party_id", party_id):
        raise BadRequest(
            reason=f"{which.log_type} needs role and party_id of one of the job's sites"
        )
    return Site(Role(role), PartyId(party_id))


def _latest(folder: Path) -> Path | None:
    """Return INFO.log of a component's latest attempt, None if there is no attempt."""
    if not folder.is_dir():
        return None
    versions = [int(f.name) for f in folder.iterdir() if f.name.isascii() and f.name.isdigit()]
    return folder / str(max(versions)) / "INFO.log" if versions else None


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, each at most `MAX_LINE` bytes; the rest of a longer one is cut."""
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(_BLOCK)
            yield line
