"""What to do next for one job: `decide(view, now_ms)`.

The scheduler of the initiator looks at a frozen snapshot of one job and names the next steps.
Decisions are level-triggered: computed from what is stored, so a lost event costs one tick and
deciding twice gives the same answer. `app/initiator/apply.py` carries the actions out; each may
be applied twice without harm.

A job passes through its *sites* (role and party) in phases: it is created at all of them at once;
then cores are asked for one site after the other, in the order of `Site.order`, so that two
initiators cannot hold each other up for ever; a denial gives back what was taken, unless the job
has waited for so long that it starves (`domain/scheduling/queue.py`).

A job is *held* while nothing of it may start (somebody paused it, or its next step is not allowed
yet) and nothing of it runs: it gives its cores back and waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fedflow.base.clock import is_older
from fedflow.base.errors.jobs import HeldTooLong, TaskTimedOut
from fedflow.base.messages import Message
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.task_rule import Rule
from fedflow.domain.phases import SitePhase
from fedflow.domain.policies import Policy, UpstreamEnd, Verdict, verdict
from fedflow.domain.reason import AWAITS_STEP, NOT_SELECTED, SKIPPED, Reason
from fedflow.domain.records import PartyTaskView
from fedflow.domain.scheduling.actions import (
    Action,
    ApplyAt,
    EndJob,
    HoldJob,
    QueueJob,
    ReleaseAt,
    RetryTask,
    SettleTask,
    SkipTask,
    StartJob,
    StartTask,
)
from fedflow.domain.scheduling.retries import is_infrastructure, may_retry, retry_at_ms, was_skipped
from fedflow.domain.scheduling.views import JobView, TaskView, silence
from fedflow.domain.site import Site
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_FINAL,
    TASK_SEVERITY,
    TASK_SUCCEEDED,
    JobStatus,
    TaskStatus,
    federated_status,
)


def decide(view: JobView, now_ms: int) -> list[Action]:
    """Return the next steps for a job, in the order in which they must be applied."""
    if view.status in JOB_FINAL:
        return []
    if view.stop is not None:
        return [EndJob(status=view.stop.status, reason=view.stop.reason)]
    if view.elastic is not None:
        from fedflow.domain.scheduling import membership  # most jobs never need it

        changes = membership.membership(view, view.elastic, now_ms)
        if changes:
            return changes
        actions = _decided(membership.of_members(view), now_ms)
        return list(membership.among_present(view, actions))
    return _decided(view, now_ms)


def _decided(view: JobView, now_ms: int) -> list[Action]:
    """Return the next steps for a job that goes on."""
    lost = _lost(view, now_ms)
    if lost is not None:
        return [EndJob(status=JobStatus.FAILED, reason=lost)]
    late = _too_late(view, now_ms)
    if late is not None:
        return [EndJob(status=JobStatus.TIMEOUT, reason=late)]
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
                message=Message("{site} does not take part any more", site.site),
                site=site.site,
            )
        if site.phase is not SitePhase.CREATING and is_older(site.heard_ms, view.lease_ms, now_ms):
            return silence(site, now_ms)
    return None


def _too_late(view: JobView, now_ms: int) -> Reason | None:
    """Return why the job's time is up: its timeout, which stands still while it is held, or the
    limit of that.
    """
    if view.held_ms is not None:
        if not is_older(view.held_ms, view.hold_limit_ms, now_ms):
            return None
        error = HeldTooLong(hours=view.hold_limit_ms // 3_600_000)
        return Reason(code=error.name, message=error.message)
    if not is_older(view.created_ms + view.rested_ms, view.timeout_ms, now_ms):
        return None
    seconds = view.timeout_ms // 1000
    return Reason(
        code="JobTimedOut",
        message=Message(
            "the job was still {status} after its timeout of {seconds} seconds",
            view.status.value,
            seconds,
        ),
    )


def _create(view: JobView, now_ms: int) -> list[Action]:
    if all(s.phase is SitePhase.CREATED for s in view.sites):
        return [QueueJob()]
    if is_older(view.created_ms, view.create_timeout_ms, now_ms):
        silent = [str(s.site) for s in view.sites if s.phase is SitePhase.CREATING]
        message = Message(
            "{sites} did not accept the job within {seconds} seconds",
            ", ".join(silent),
            view.create_timeout_ms // 1000,
        )
        return [
            EndJob(status=JobStatus.FAILED, reason=Reason(code="PartyUnreachable", message=message))
        ]
    return []


def _acquire(view: JobView, now_ms: int) -> list[Action]:
    """Ask for cores one site after the other; after a denial give everything back first."""
    sites = sorted(view.sites, key=lambda s: s.site.order)
    granted = tuple(s.site for s in sites if s.phase is SitePhase.GRANTED)
    if view.paused is not None or view.steps_left == 0:
        if view.held_ms is None:
            return [HoldJob(reason=_why_held(view))]
        return [ReleaseAt(sites=granted)] if granted else []
    if any(s.phase is SitePhase.APPLYING for s in sites):
        return []
    if len(granted) == len(sites):
        return [StartJob()]
    if any(s.phase is SitePhase.DENIED and now_ms < s.retry_ms for s in sites):
        return [ReleaseAt(sites=granted)] if granted and not _starves(view, now_ms) else []
    if not view.may_request and not granted:
        return []
    return [ApplyAt(site=next(s.site for s in sites if s.phase is not SitePhase.GRANTED))]


def _starves(view: JobView, now_ms: int) -> bool:
    after_ms = view.starving_after_ms
    return after_ms is not None and is_older(view.queued_ms, after_ms, now_ms)


def _run(view: JobView, now_ms: int) -> list[Action]:
    """Settle what ended, start what is ready, and hold or end the job when nothing is left.

    A task that waits for its retry does not stop the others. Any other failure does, unless some
    component of the job has a policy that can live with failures.
    """
    look = _TaskScan(view, now_ms)
    actions = look.actions
    if look.stopped and not look.goes_on:
        return actions if look.running else [*actions, *_end(view, look)]
    if view.paused is None:
        actions += look.retries
    starts = _starts(view, look)
    actions += [StartTask(component=c, version=view.tasks[c].version) for c in starts]
    if look.running or starts or (look.pending and view.paused is None):
        return actions
    if look.ready or look.pending:
        return [*actions, HoldJob(reason=_why_held(view))]
    return [*actions, *_end(view, look)]


class _TaskScan:
    """What one pass over a running job's tasks found, in the order of the DAG."""

    def __init__(self, view: JobView, now_ms: int) -> None:
        self.actions: list[Action] = []
        self.retries: list[Action] = []  #: that are due
        self.ready: list[str] = []
        self.running: list[str] = []
        self.unselected: list[str] = []  #: that have not ended
        self.statuses: dict[str, TaskStatus] = {}
        self.reasons: dict[str, Reason | None] = {}  #: of what did not succeed
        self.stopped = False  #: a failure of this epoch that nothing makes up for
        self.pending = False  #: some task waits for its retry
        self.goes_on = any(t.rule.policy is not Policy.ALL_SUCCESS for t in view.tasks.values())
        self._ends: dict[str, UpstreamEnd] = {}
        for component in view.dag.order:
            task = view.tasks[component]
            if task.status is TaskStatus.WAITING:
                status = self._waiting(view, component, task)
            else:
                status = self._started(component, task, now_ms)
            self.statuses[component] = status

    def _waiting(self, view: JobView, component: str, task: TaskView) -> TaskStatus:
        if view.selected is not None and component not in view.selected:
            self.unselected.append(component)
            self._ends[component] = UpstreamEnd.SKIPPED
            return task.status
        upstream = view.dag.upstream(component)
        found = verdict(task.rule.policy, [self._ends[up] for up in upstream])
        self._ends[component] = UpstreamEnd.OPEN
        if found is Verdict.START:
            self.ready.append(component)
        if found is not Verdict.SKIP or not self.goes_on:
            return task.status
        reason = self._why_skipped(upstream, task.rule.policy)
        self.actions.append(SkipTask(component=component, version=task.version, reason=reason))
        self.reasons[component] = reason
        self._ends[component] = UpstreamEnd.SKIPPED
        return TaskStatus.CANCELED

    def _why_skipped(self, upstream: Iterable[str], policy: Policy) -> Reason:
        bad = next(
            up for up in upstream if self._ends[up] in (UpstreamEnd.FAILED, UpstreamEnd.SKIPPED)
        )
        message = Message(
            "skipped by its policy {policy}, because {component} was skipped"
            if self._ends[bad] is UpstreamEnd.SKIPPED
            else "skipped by its policy {policy}, because {component} is {status}",
            policy=policy.value,
            component=bad,
            status=self.statuses[bad].value,
        )
        return Reason(code=SKIPPED, message=message)

    def _started(self, component: str, task: TaskView, now_ms: int) -> TaskStatus:
        status, reason = task.status, task.reason
        if status not in TASK_FINAL:
            settled = _settled(component, task, now_ms)
            if settled is None:
                self.running.append(component)
                self._ends[component] = UpstreamEnd.OPEN
                return status
            self.actions.append(settled)
            status, reason = settled.status, settled.reason
        if status in TASK_SUCCEEDED:
            self._ends[component] = UpstreamEnd.SUCCEEDED
            return status
        reason = reason or first_reason(task.parties.items())
        self.reasons[component] = reason
        if was_skipped(status, reason):
            self._ends[component] = UpstreamEnd.SKIPPED
        elif may_retry(task, status, reason):
            self._ends[component] = UpstreamEnd.OPEN
            self.pending = True
            if task.status in TASK_FINAL and now_ms >= retry_at_ms(task):
                infrastructure = is_infrastructure(task, reason)
                self.retries.append(
                    RetryTask(
                        component=component, version=task.version, infrastructure=infrastructure
                    )
                )
        else:
            self._ends[component] = UpstreamEnd.FAILED
            self.stopped = self.stopped or not task.kept
        return status


def _starts(view: JobView, look: _TaskScan) -> list[str]:
    """Return which of the ready components start now: in order, as many as may and fit."""
    if view.paused is not None:
        return []
    taken: dict[Site, ComputeResources] = {}
    for component in look.running if view.shares else ():
        _take(taken, view.tasks[component].rule)
    starts: list[str] = []
    steps = view.steps_left
    for component in look.ready:
        if len(look.running) + len(starts) >= view.parallelism:
            break
        task = view.tasks[component]
        if steps == 0 and not task.begun:
            continue
        if (look.running or starts) and not _fits(view, taken, task.rule):
            continue
        _take(taken, task.rule)
        starts.append(component)
        if steps is not None and not task.begun:
            steps -= 1
    return starts


def _take(taken: dict[Site, ComputeResources], rule: Rule) -> None:
    for site, amount in rule.takes.items():
        taken[site] = taken.get(site, ComputeResources()) + amount


def _fits(view: JobView, taken: Mapping[Site, ComputeResources], rule: Rule) -> bool:
    """Tell whether a task fits into what the running ones leave of the job's shares."""
    return all(
        (taken.get(site, ComputeResources()) + amount).fits(view.shares[site])
        for site, amount in rule.takes.items()
        if site in view.shares
    )


def _why_held(view: JobView) -> Reason:
    message = Message("`fedflow job continue` lets the next component begin")
    return view.paused or Reason(code=AWAITS_STEP, message=message)


def _settled(component: str, task: TaskView, now_ms: int) -> SettleTask | None:
    """Return how a started task ended: as its sites say, or because its time is up."""
    derived = federated_status(p.status for p in task.parties.values())
    if derived in TASK_FINAL:
        return None if _awaits_cause(task, now_ms) else _settle(component, task, derived)
    limit_ms, started_ms = task.rule.timeout_ms, task.started_ms
    if limit_ms is None or started_ms is None or not is_older(started_ms, limit_ms, now_ms):
        return None
    error = TaskTimedOut(
        component=component, seconds=(now_ms - started_ms) // 1000, limit=limit_ms // 1000
    )
    return SettleTask(
        component=component,
        version=task.version,
        status=TaskStatus.TIMEOUT,
        reason=Reason(code=error.name, message=error.message.removesuffix(".")),
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
    failed = [p for p in task.parties.values() if _has_failed(p)]
    if not failed or all(p.status in TASK_FINAL for p in task.parties.values()):
        return False
    followed = all(p.reason is not None and p.reason.code in FOLLOW_ON for p in failed)
    return followed and not is_older(min(p.since_ms for p in failed), CAUSE_WAIT_MS, now_ms)


def _has_failed(share: PartyTaskView) -> bool:
    """Tell whether a share says why it failed; an absent host's passes, and says why, too."""
    return share.reason is not None and share.status is not TaskStatus.PASS


def first_reason(parties: Iterable[tuple[Site, PartyTaskView]]) -> Reason | None:
    """Return the first real error of a task: the earliest that another site's failure did not
    cause.
    """
    with_reason = [(p.reason, p.since_ms) for _, p in parties if p.reason and _has_failed(p)]
    if not with_reason:
        return None
    return min(with_reason, key=lambda item: (item[0].code in FOLLOW_ON, item[1]))[0]


def _end(view: JobView, look: _TaskScan) -> Iterator[Action]:
    """Yield the end of the job, and before it that of the components that nobody asked for.

    The worst of what counts names the end. What did not succeed does not count if everything
    behind it ran all the same.
    """
    for component in look.unselected:
        version = view.tasks[component].version
        yield SkipTask(component=component, version=version, reason=_not_selected())
    worst: dict[TaskStatus, str] = {}
    for component in view.dag.order:
        if look.statuses[component] in TASK_SEVERITY and _counts(view, look, component):
            worst.setdefault(look.statuses[component], component)
    for status in TASK_SEVERITY:
        if status in worst:
            reason = named_reason(worst[status], look.reasons.get(worst[status]))
            yield EndJob(status=JobStatus(status.value), reason=reason)
            return
    yield EndJob(status=JobStatus.SUCCESS, reason=None)


def _not_selected() -> Reason:
    return Reason(code=NOT_SELECTED, message=Message("the job's parameter run_to leaves it out"))


def _counts(view: JobView, look: _TaskScan, component: str) -> bool:
    reason = look.reasons.get(component)
    if reason is not None and reason.code == NOT_SELECTED:
        return False
    ran = TASK_FINAL - {TaskStatus.CANCELED}
    behind = [
        down
        for down in view.dag.downstream(component)
        if view.selected is None or down in view.selected
    ]
    return not behind or not all(look.statuses[down] in ran for down in behind)


def named_reason(component: str, reason: Reason | None) -> Reason:
    """Return why a job ended with a component that did not succeed."""
    if reason is None:
        message = Message("{component} did not succeed", component)
        return Reason(code="ComponentFailed", message=message)
    message = Message(
        "{component} at {site}: {message}" if reason.site else "{component}: {message}",
        component=component,
        site=reason.site,
        message=reason.message,
    )
    return Reason(code=reason.code, message=message, site=reason.site)


def next_look_ms(view: JobView, now_ms: int) -> int | None:
    """Return when `decide` may answer differently without any event; None: only an event helps.

    What is due already waits for an answer, not for time.
    """
    if view.status in JOB_FINAL:
        return None
    return min((at_ms for at_ms in _due_ms(view) if at_ms > now_ms), default=None)


def _due_ms(view: JobView) -> Iterator[int]:
    if view.elastic is not None:
        from fedflow.domain.scheduling.membership import due_ms  # most jobs never need it

        yield from due_ms(view, view.elastic)
    if view.held_ms is not None:
        yield view.held_ms + view.hold_limit_ms + 1
    else:
        yield view.created_ms + view.rested_ms + view.timeout_ms + 1
    if view.status is JobStatus.READY:
        yield view.created_ms + view.create_timeout_ms + 1
    elif view.status is JobStatus.WAITING:
        yield from (s.retry_ms for s in view.sites if s.phase is SitePhase.DENIED)
    else:
        for task in view.tasks.values():
            yield from _task_due_ms(view, task)


def _task_due_ms(view: JobView, task: TaskView) -> Iterator[int]:
    if task.status is TaskStatus.RUNNING:
        if task.rule.timeout_ms is not None and task.started_ms is not None:
            yield task.started_ms + task.rule.timeout_ms + 1
        since_ms = [p.since_ms for p in task.parties.values() if p.reason is not None]
        if since_ms:
            yield min(since_ms) + CAUSE_WAIT_MS + 1
    elif task.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT) and view.paused is None:
        reason = task.reason or first_reason(task.parties.items())
        if may_retry(task, task.status, reason):
            yield retry_at_ms(task)
