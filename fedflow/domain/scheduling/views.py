"""The frozen snapshot of a job that `decide` looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.task_rule import PLAIN, Rule
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import PartyTaskView
from fedflow.domain.scheduling.circuit import Lack, without
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteView:
    """One site of the job. `heard_ms` is when its server last answered, `retry_ms` when to ask
    again; with a `lack` it answers, but does nothing.
    """

    site: Site
    phase: SitePhase
    heard_ms: int
    lack: Lack | None = None
    retry_ms: int = 0
    denials: int = 0
    reason: Reason | None = None


def silence(site: SiteView, now_ms: int) -> Reason:
    """Return for how long a site has been silent, as the reason of what follows."""
    seconds = (now_ms - site.heard_ms) // 1000
    silent = Message("{site} has not answered for {seconds} seconds", site.site, seconds)
    message = without(site.lack, site.site, seconds) if site.lack else silent
    return Reason(code="PartyUnreachable", message=message, site=site.site)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskView:
    """The latest attempt of a task and what each of its sites reported.

    A `kept` attempt is of an earlier epoch: a rerun left it as it was, its failure stops nothing.
    """

    version: int
    status: TaskStatus
    parties: Mapping[Site, PartyTaskView]
    started_ms: int | None = None
    ended_ms: int | None = None
    reason: Reason | None = None  #: why it ended, once that is stored
    retries_left: int = 0
    infrastructure_left: int = 0  #: retries after failures of `INFRASTRUCTURE`
    kept: bool = False
    begun: bool = False  #: an attempt of this epoch was started, so it has had its step
    rule: Rule = PLAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class ElasticView:
    """How an elastic job lives with absent sites, see `membership`."""

    min_parties: int
    rejoin: bool
    round_deadline_ms: int
    arbiter_wait_ms: int  #: beyond its lease
    rounds: frozenset[str]  #: components that train in rounds; each site runs the others for itself


@dataclass(frozen=True, kw_only=True, slots=True)
class JobView:
    """A snapshot of one job at its initiator. Times are milliseconds since the epoch."""

    job_id: str
    status: JobStatus
    dag: Dag
    sites: tuple[SiteView, ...]
    tasks: Mapping[str, TaskView]
    parallelism: int  #: how many tasks may run at once
    created_ms: int  #: when this epoch of the job began
    timeout_ms: int  #: from then to the end, without the time in which it was held
    create_timeout_ms: int  #: how long the sites may take to accept the job
    lease_ms: int  #: a site that did not answer for longer is lost
    shares: Mapping[Site, ComputeResources] = field(
        default_factory=dict
    )  #: empty: any `parallelism` fit
    selected: frozenset[str] | None = None  #: components that shall run; None: all
    paused: Reason | None = None  #: who wants nothing to start
    steps_left: int | None = None  #: how many more components may begin; None: all
    held_ms: int | None = None  #: since when it is held
    rested_ms: int = 0  #: how long it was held before, in this epoch
    waits_ms: int | None = None  #: since when it waits for cores; None: since its epoch began
    hold_limit_ms: int = 604_800_000
    may_request: bool = True  #: the queue lets this job ask for cores now
    starving_after_ms: int | None = None  #: a job that waits for longer keeps what it was granted
    stop: StopRequest | None = None
    elastic: ElasticView | None = None  #: None: all sites are needed all the time

    @property
    def queued_ms(self) -> int:
        """Return when it began to wait for cores."""
        return self.created_ms if self.waits_ms is None else self.waits_ms
