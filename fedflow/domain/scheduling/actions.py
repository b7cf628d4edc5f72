"""What `decide` names: the next steps of a job."""

from __future__ import annotations

from fedflow.base.values import dataclass
from fedflow.domain.reason import Reason
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueJob:
    """All sites accepted: the job is waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplyAt:
    """Ask one site for the job's cores."""

    site: Site


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseAt:
    """Give the job's cores back at these sites, and ask again later."""

    sites: tuple[Site, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StartJob:
    """Every site granted its cores: the job runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartTask:
    """Start a task at all its sites."""

    component: str
    version: int
    without: tuple[Site, ...] = ()  #: absent hosts of an elastic job


@dataclass(frozen=True, kw_only=True, slots=True)
class SettleTask:
    """A task ended: tell its sites, and stop those that still run it."""

    component: str
    version: int
    status: TaskStatus
    reason: Reason | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SkipTask:
    """A task will not run: its policy forbids it for good, or nobody asked for it."""

    component: str
    version: int
    reason: Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryTask:
    """A task failed and shall be tried again: make a new attempt at all its sites."""

    component: str
    version: int  #: of the attempt that failed
    infrastructure: bool = False  #: a server failed, not the task: it costs none of its retries


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldJob:
    """Nothing runs and nothing may start: give the cores back and wait."""

    reason: Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class EndJob:
    """The job ended: tell every site, stop what still runs."""

    status: JobStatus
    reason: Reason | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaveOut:
    """An elastic job goes on without a host; ask it to come back from `retry_ms` on."""

    site: Site
    reason: Reason
    retry_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejoin:
    """An absent host was heard from again: ask it to take part once more."""

    site: Site


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchAgain:
    """Start one site's part of a task again, in the attempt that the others are in."""

    component: str
    version: int
    site: Site


Action = (
    QueueJob
    | ApplyAt
    | ReleaseAt
    | StartJob
    | StartTask
    | SettleTask
    | SkipTask
    | RetryTask
    | HoldJob
    | EndJob
    | LeaveOut
    | Rejoin
    | LaunchAgain
)
