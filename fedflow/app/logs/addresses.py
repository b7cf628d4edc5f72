"""Which logs there are of a job, in which files they lie (`app/protocol/folders.py`), and opening
these: nothing that a link leads to.

Code of components runs with the rights to write into its log folder, so it could put a link there
to a file that it wants somebody to show.

| FATE's log type | file below `logs/<job>` |
|---|---|
| jobSchedule, jobScheduleError | `fate_flow_schedule.log`, `fate_flow_schedule_error.log` |
| partyError, partyWarning, partyInfo, partyDebug | `<role>/<party>/ERROR.log` ... `DEBUG.log` |
| componentInfo | `<role>/<party>/<component>/<latest attempt>/INFO.log` |

Source: `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
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
COMPONENT: Final = "componentInfo"  #: the log type that needs a component
LOG_TYPES: Final = {
    "jobSchedule": LogKind.SCHEDULE,
    "jobScheduleError": LogKind.SCHEDULE_ERROR,
    "partyError": LogKind.ERROR,
    "partyWarning": LogKind.WARNING,
    "partyInfo": LogKind.INFO,
    "partyDebug": LogKind.DEBUG,
    COMPONENT: LogKind.INFO,
}

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True, slots=True)
class LogAddress:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class LogName:
    """One log of one job, as clients of FATE's routes name it."""

    log_type: str
    job_id: str
    role: str | None = None
    party_id: str | None = None
    component: str | None = None


def log_address(job: JobKey, *, kind: str, component: str = "", attempt: str = "") -> LogAddress:
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
        return LogAddress(job=job, kind=chosen)
    return LogAddress(job=job, kind=chosen, component=component, attempt=int(attempt or 0))


def open_below(root: Path, parts: Sequence[str]) -> int | None:
    """Return a descriptor of the regular file `root/parts...`, None if there is none that can be
    read, or if a link is part of the way. `root` itself may be a link.
    """
    try:
        with _folder(root, parts[:-1]) as folder:
            file = os.open(parts[-1], _FILE, dir_fd=folder)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def names_below(root: Path, parts: Sequence[str]) -> dict[str, int | None]:
    """Return what lies in the folder `root/parts...`: name -> size of a regular file in bytes, or
    None for a folder. Links and all else are left out. Empty if there is no such folder.
    """
    try:
        with _folder(root, parts) as folder, os.scandir(folder) as entries:
            return dict(_kinds(entries))
    except (OSError, ValueError):
        return {}


def _kinds(entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, int | None]]:
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield entry.name, None
        elif entry.is_file(follow_symlinks=False):
            yield entry.name, entry.stat(follow_symlinks=False).st_size


@contextmanager
def _folder(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """Give a descriptor of the folder `root/parts...`. Raises: OSError."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            deeper = os.open(_plain(part), _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def _plain(part: str) -> str:
    """Raises: ValueError: this is no name of one folder."""
    if part in ("", ".", "..") or "/" in part:
        raise ValueError(part)
    return part
