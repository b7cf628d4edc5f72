"""Which logs there are of a job at one site, and in which files they lie
(`app/protocol/folders.py`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.records import JobKey
from fedflow.wire.paths import fits


class LogKind(StrEnum):
    """A file among those of a site or an attempt, or one of the server about the job."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    PRINTED = "printed"  #: what the process of an attempt printed
    SCHEDULE = "schedule"
    SCHEDULE_ERROR = "schedule-error"

    @property
    def is_of_job(self) -> bool:
        """Tell whether the server wrote it about the job as a whole."""
        return self in (LogKind.SCHEDULE, LogKind.SCHEDULE_ERROR)


FILES: Final = {
    LogKind.DEBUG: "DEBUG.log",
    LogKind.INFO: "INFO.log",
    LogKind.WARNING: "WARNING.log",
    LogKind.ERROR: "ERROR.log",
    LogKind.PRINTED: "stdout.log",
    LogKind.SCHEDULE: "fate_flow_schedule.log",
    LogKind.SCHEDULE_ERROR: "fate_flow_schedule_error.log",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPlace:
    """One log: of the job, of all tasks of a site, or of one attempt of a component there."""

    job: JobKey
    kind: LogKind
    component: str | None = None
    attempt: int | None = None

    @property
    def folder(self) -> tuple[str, ...]:
        """Return the names of the folders that lead to it, from the one of all logs on."""
        if self.kind.is_of_job:
            return (self.job.job_id,)
        own = (self.job.job_id, self.job.site.role.value, self.job.site.party_id)
        if self.component is None:
            return own
        return (*own, self.component, str(self.attempt or 0))

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names that lead to its file."""
        return (*self.folder, FILES[self.kind])


def log_place(job: JobKey, *, kind: str, component: str = "", attempt: str = "") -> LogPlace:
    """Return the log that texts name; of a component's attempts the first unless told.

    Raises: BadRequest: they name none.
    """
    if component and not fits("component", component):
        raise BadRequest(reason="this is no name of a component")
    if attempt and not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise BadRequest(reason="attempts are numbered from 0")
    if kind not in FILES:
        raise BadRequest(reason=f"the logs of a job are {', '.join(FILES)}")
    if not fits("job_id", job.job_id) or not fits("party_id", job.site.party_id):
        raise BadRequest(reason="this is no job at a site")
    chosen = LogKind(kind)
    if chosen.is_of_job or not component:
        return LogPlace(job=job, kind=chosen)
    return LogPlace(job=job, kind=chosen, component=component, attempt=int(attempt or 0))
