"""The home page: what it shows of a server and its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.app.queries.job_lists import Overview
from fedflow.base.values import dataclass
from fedflow.domain.job_lines import JobLine
from fedflow.domain.states import JobStatus

ORDER: Final = (
    JobStatus.RUNNING, JobStatus.WAITING, JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.TIMEOUT,
    JobStatus.CANCELED,
)  # fmt: skip
_ALWAYS: Final = (JobStatus.RUNNING, JobStatus.WAITING, JobStatus.SUCCESS, JobStatus.FAILED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """How many jobs of a status were created in the last day and week."""

    status: str
    day: int
    week: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerHealth:
    """Whether the server can run jobs, and its free cores and memory."""

    is_ready: bool
    has_store: bool
    has_executor: bool
    may_write: bool  #: to all of its folders
    has_space: bool
    cores: int
    free_cores: int
    memory_mib: int  #: 0: not counted
    free_memory_mib: int
    outbox: int  #: commands to other parties that wait


@dataclass(frozen=True, kw_only=True, slots=True)
class SilentParty:
    """Another party that does not answer."""

    party_id: str
    since_ms: int | None
    error: str
    waiting: int


def counts(seen: Overview) -> list[Count]:
    """Return the counts by status, in a fixed order; rare statuses only if there are any."""
    return [
        Count(status=s.value, day=seen.day.get(s, 0), week=seen.week.get(s, 0))
        for s in ORDER
        if s in _ALWAYS or seen.week.get(s, 0)
    ]


def health(ready: bool, parts: Mapping[str, Any]) -> ServerHealth:
    """Return the health line from what the server says of its parts."""
    cores, memory = parts["cores"], parts["memory_mib"]
    return ServerHealth(
        is_ready=ready,
        has_store=bool(parts["store"]),
        has_executor=bool(parts["executor"]),
        has_space=bool(parts["disk"]),
        may_write=not parts["closed"],
        cores=cores["total"],
        free_cores=cores["free"],
        memory_mib=memory["total"],
        free_memory_mib=memory["free"],
        outbox=parts["outbox"],
    )


def tag_of(seen: Overview, told: ServerHealth, silent: Sequence[SilentParty]) -> str:
    """Return what changes when the page changes; the time alone does not count."""
    marks = [_mark(line) for line in (*seen.running, *seen.waiting, *seen.failed)]
    return repr((sorted(seen.day.items()), sorted(seen.week.items()), told, silent, marks))


def _mark(line: JobLine) -> tuple[object, ...]:
    return (
        line.key.job_id, line.status, line.progress, line.updated_ms, line.reason, line.on_hold,
        line.silent,
    )  # fmt: skip
