"""What to do next for one job: `decide(view, now_ms)`.

The scheduler of the initiator looks at a frozen snapshot of one job and names the next steps.
Decisions are level-triggered: computed from what is stored, so a lost event costs one tick and
deciding twice gives the same answer. `app/apply.py` carries the actions out; each may be applied
twice without harm.

A job passes through its *sites* (role and party) in phases: it is created at all of them at once;
then cores are asked for one site after the other, in the order of `Site.order`, so that two
initiators cannot hold each other up for ever; a denial gives back what was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fedflow.base.clock import is_older
from fedflow.domain.dag import Dag
from fedflow.domain.site import Site
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_FINAL,
    TASK_SUCCEEDED,
    JobStatus,
    TaskStatus,
    federated_status,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why something waits or ended: an error's name, a sentence, and the site it happened at."""

    code: str
    message: str
    site: Site | None = None


class SitePhase(StrEnum):
    """How far a job has come at one site, as the initiator knows it."""

    CREATING = "creating"  #: the create command is on its way
    CREATED = "created"  #: accepted; holds no cores
    REFUSED = "refused"  #: not accepted
    APPLYING = "applying"  #: cores were asked for
    GRANTED = "granted"  #: cores are held
    DENIED = "denied"  #: no cores now; asked again at `retry_ms`
    GONE = "gone"  #: the site has given the job up, or is lost


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteView:
    """One site of the job. `heard_ms` is when its server last answered, `retry_ms` when to ask
    again.
    """

    site: Site
    phase: SitePhase
    heard_ms: int
    retry_ms: int = 0
    reason: Reason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyTaskView:
    """One site's share of a task."""

    status: TaskStatus
    reason: Reason | None = None
    since_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskView:
    """The latest attempt of a task and what each of its sites reported.

    A `kept` attempt is of an earlier epoch: a rerun left it as it was, its failure stops nothing.
    """

    version: int
    status: TaskStatus
    parties: Mapping[Site, PartyTaskView]
    ended_ms: int | None = None
    retries_left: int = 0
    kept: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequest:
    """Somebody wants the job to end with `status`."""

    status: JobStatus
    reason: Reason


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
    timeout_ms: int  #: from then to the end
    create_timeout_ms: int  #: how long the sites may take to accept the job
    lease_ms: int  #: a site that did not answer for longer is lost
    retry_delay_ms: int = 0  #: pause before a failed task is tried again
    may_apply: bool = True  #: the queue lets this job ask for cores now
    stop: StopRequest | None = None


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SettleTask:
    """A task ended: tell its sites, and stop those that still run it."""

    component: str
    version: int
    status: TaskStatus
    reason: Reason | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryTask:
    """A task failed and shall be tried again: make a new attempt at all its sites."""

    component: str
    version: int  #: of the attempt that failed


@dataclass(frozen=True, kw_only=True, slots=True)
class EndJob:
    """The job ended: tell every site, stop what still runs."""

    status: JobStatus
    reason: Reason | None


Action = QueueJob | ApplyAt | ReleaseAt | StartJob | StartTask | SettleTask | RetryTask | EndJob


def decide(view: JobView, now_ms: int) -> list[Action]:
    """Return the next steps for a job, in the order in which they must be applied."""
    if view.status in JOB_FINAL:
        return []
    if view.stop is not None:
        return [EndJob(status=view.stop.status, reason=view.stop.reason)]
    lost = _lost(view, now_ms)
    if lost is not None:
        return [EndJob(status=JobStatus.FAILED, reason=lost)]
    if is_older(view.created_ms, view.timeout_ms, now_ms):
        return [EndJob(status=JobStatus.TIMEOUT, reason=_timed_out(view))]
    if view.status is JobStatus.READY:
        return _create(view, now_ms)
    if view.status is JobStatus.WAITING:
        return _acquire(view, now_ms)
    return _run(view, now_ms)


def _lost(view: JobView, now_ms: int) -> Reason | None:
    """Return why the job cannot go on, if a site refused, gave up or is silent for too long."""
    for site in view.sites:
        if site.phase in (SitePhase.REFUSED, SitePhase.GONE):
            return site.reason or Reason(
                code="PartyRefused",
                message=f"{site.site} does not take part any more",
                site=site.site,
            )
        if site.phase is not SitePhase.CREATING and is_older(site.heard_ms, view.lease_ms, now_ms):
            seconds = (now_ms - site.heard_ms) // 1000
            return Reason(
                code="PartyUnreachable",
                message=f"{site.site} has not answered for {seconds} seconds",
                site=site.site,
            )
    return None


def _timed_out(view: JobView) -> Reason:
    seconds = view.timeout_ms // 1000
    return Reason(
        code="JobTimedOut",
        message=f"the job was still {view.status.value} after its timeout of {seconds} seconds",
    )


def _create(view: JobView, now_ms: int) -> list[Action]:
    if all(s.phase is SitePhase.CREATED for s in view.sites):
        return [QueueJob()]
    if is_older(view.created_ms, view.create_timeout_ms, now_ms):
        silent = [str(s.site) for s in view.sites if s.phase is SitePhase.CREATING]
        message = (
            f"no answer from {', '.join(silent)} within {view.create_timeout_ms // 1000} seconds"
        )
        return [
            EndJob(status=JobStatus.FAILED, reason=Reason(code="PartyUnreachable", message=message))
        ]
    return []


def _acquire(view: JobView, now_ms: int) -> list[Action]:
    """Ask for cores one site after the other; after a denial give everything back first."""
    sites = sorted(view.sites, key=lambda s: s.site.order)
    if any(s.phase is SitePhase.APPLYING for s in sites):
        return []
    granted = tuple(s.site for s in sites if s.phase is SitePhase.GRANTED)
    if len(granted) == len(sites):
        return [StartJob()]
    if any(s.phase is SitePhase.DENIED and now_ms < s.retry_ms for s in sites):
        return [ReleaseAt(sites=granted)] if granted else []
    if not view.may_apply and not granted:
        return []
    return [ApplyAt(site=next(s.site for s in sites if s.phase is not SitePhase.GRANTED))]


def _run(view: JobView, now_ms: int) -> list[Action]:
    """Settle what ended, start what is ready, and end the job when neither is left.

    A task that waits for its retry does not stop the others; any other failure does.
    """
    actions: list[Action] = []
    retries: list[Action] = []
    statuses: dict[str, TaskStatus] = {}
    stopped = False
    pending = False
    for component in view.dag.order:
        task = view.tasks[component]
        status = task.status
        if status not in TASK_FINAL:
            derived = federated_status(p.status for p in task.parties.values())
            if derived in TASK_FINAL and not _awaits_cause(task, now_ms):
                status = derived
                actions.append(_settle(component, task, derived))
        statuses[component] = status
        if status in TASK_SUCCEEDED or status not in TASK_FINAL:
            continue
        if may_retry(task, status):
            pending = True
            if task.status in TASK_FINAL and now_ms >= retry_at_ms(view, task):
                retries.append(RetryTask(component=component, version=task.version))
        elif not task.kept:
            stopped = True
    running = sum(s is TaskStatus.RUNNING for s in statuses.values())
    if not stopped:
        actions += retries
        ready = [c for c in view.dag.order if _is_ready(c, view.dag, statuses)]
        starts = ready[: max(0, view.parallelism - running)]
        actions += [StartTask(component=c, version=view.tasks[c].version) for c in starts]
        running += len(starts)
    if running == 0 and (stopped or not pending):
        actions.append(_end(view, statuses))
    return actions


PERMANENT: frozenset[str] = frozenset(
    {
        "BadParameter", "UnknownComponent", "TableNotFound", "TableExists", "BadTableName",
        "BadData", "FileNotAllowed", "NoData", "NoCommonIds", "Diverged", "NotEncodable",
        "NotSupportedYet", "BadRequest", "InvalidJobSpec", "CodecError",
    }
)  # fmt: skip
"""Errors that a second try would meet again."""


def may_retry(task: TaskView, status: TaskStatus) -> bool:
    """Tell whether a failed attempt will be tried again."""
    if status is not TaskStatus.FAILED or task.retries_left < 1 or task.kept:
        return False
    reason = first_reason(task.parties.items())
    return reason is None or reason.code not in PERMANENT


def retry_at_ms(view: JobView, task: TaskView) -> int:
    """Return when the retry of an ended attempt is due."""
    return (task.ended_ms or 0) + view.retry_delay_ms


def _is_ready(component: str, dag: Dag, statuses: Mapping[str, TaskStatus]) -> bool:
    return statuses[component] is TaskStatus.WAITING and all(
        statuses[up] in TASK_SUCCEEDED for up in dag.upstream(component)
    )


def _settle(component: str, task: TaskView, status: TaskStatus) -> SettleTask:
    reason = None if status in TASK_SUCCEEDED else first_reason(task.parties.items())
    return SettleTask(component=component, version=task.version, status=status, reason=reason)


FOLLOW_ON = frozenset({"PeerFailed", "InitiatorLost", "ValueTooLate"})
"""Errors that another site's failure causes: never the first real one if there is another."""

CAUSE_WAIT_MS = 2_000
"""How long a task that failed only because of another site waits for that site's own report."""


def _awaits_cause(task: TaskView, now_ms: int) -> bool:
    """Tell whether all that failed followed another site, whose own word is still on its way.

    News of a failure travel faster between executors than between servers.
    """
    failed = [p for p in task.parties.values() if p.reason is not None]
    if not failed or all(p.status in TASK_FINAL for p in task.parties.values()):
        return False
    followed = all(p.reason is not None and p.reason.code in FOLLOW_ON for p in failed)
    return followed and not is_older(min(p.since_ms for p in failed), CAUSE_WAIT_MS, now_ms)


def first_reason(parties: Iterable[tuple[Site, PartyTaskView]]) -> Reason | None:
    """Return the first real error of a task: the earliest that another site's failure did not
    cause.
    """
    with_reason = [(p.reason, p.since_ms) for _, p in parties if p.reason is not None]
    if not with_reason:
        return None
    return min(with_reason, key=lambda item: (item[0].code in FOLLOW_ON, item[1]))[0]


def _end(view: JobView, statuses: Mapping[str, TaskStatus]) -> EndJob:
    seen = set(statuses.values())
    for status in (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED):
        if status in seen:
            component = next(c for c in view.dag.order if statuses[c] is status)
            reason = first_reason(view.tasks[component].parties.items())
            return EndJob(status=JobStatus(status.value), reason=_named(component, reason))
    return EndJob(status=JobStatus.SUCCESS, reason=None)


def _named(component: str, reason: Reason | None) -> Reason:
    if reason is None:
        return Reason(code="ComponentFailed", message=f"{component} did not succeed")
    where = f" at {reason.site}" if reason.site else ""
    return Reason(
        code=reason.code, message=f"{component}{where}: {reason.message}", site=reason.site
    )
