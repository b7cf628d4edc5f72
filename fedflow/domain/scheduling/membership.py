"""Who takes part in an elastic job: which hosts are left out, and what brings them back.

The guest must be there. Another site is *present* while it holds the job's cores. One that is lost
is left out: its site is `absent`, and its party tasks `pass`. When its server is heard from again,
its site goes through the phases of a new one (`creating`, `created`, `applying`, `granted`) while
the job runs on. Then its party tasks are launched again.

The others go on without a *host*. It runs what it missed one after the other in the order of the
DAG, up to the first component that still trains. For an *arbiter* they wait: what needs it does not
start or end, and once it is away for too long the job fails. If only its process was lost, its site
stays present.

What counts as a loss says `LOSSES`. An error of a component's own, such as bad data, fails the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from fedflow.base.clock import is_older
from fedflow.base.errors.jobs import PartyAbsent, TaskTimedOut, TooFewParties
from fedflow.base.messages import Message
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import PartyTaskView
from fedflow.domain.scheduling.actions import (
    Action,
    ApplyAt,
    EndJob,
    LaunchAgain,
    LeaveOut,
    Rejoin,
    StartTask,
)
from fedflow.domain.scheduling.views import ElasticView, JobView, SiteView, TaskView, silence
from fedflow.domain.site import Role, Site
from fedflow.domain.states import (
    TASK_FINAL,
    TASK_SUCCEEDED,
    JobStatus,
    TaskStatus,
)

ABSENT: Final = PartyAbsent.__name__
"""Code of the reason of party tasks that pass because their site is absent."""

LOSSES: Final = frozenset(
    {
        "ExecutorDied", "ExecutorNotStarted", "InitiatorLost", "JobNotFound", "PartyUnreachable",
        "PeerFailed", "ServerLost", "ServerRestarted", "SparkLost", "ValueTooLate",
    }
)  # fmt: skip
"""Errors that say that something went away, not that a component met a mistake."""

MOST_LAUNCHES: Final = 8  #: how often one party task is started again in an attempt
MOST_TRIES: Final = 16  #: how often a site is asked to come back without success
_PAUSE_MS: Final = 1_000  #: before the first relaunch; doubles with each
_PAUSE_CAP_MS: Final = 60_000

_INTERRUPTED: Final = TASK_FINAL - TASK_SUCCEEDED


def membership(view: JobView, rule: ElasticView, now_ms: int) -> list[Action]:
    """Return the next steps about who takes part; nothing else may be decided before them."""
    lost = {
        site: reason
        for site in view.sites
        if (reason := _loss(view, rule, site, now_ms)) is not None
    }
    trains = [s for s in view.sites if s.site.role in (Role.GUEST, Role.HOST)]
    left = sum(s not in lost and is_present(view, s) for s in trains)
    if left < rule.min_parties:
        return [EndJob(status=JobStatus.FAILED, reason=_too_few(view, rule, lost, left))]
    if (given_up := _without_arbiter(view, rule, now_ms)) is not None:
        return [EndJob(status=JobStatus.FAILED, reason=given_up)]
    if lost:
        return [
            LeaveOut(site=s.site, reason=reason, retry_ms=now_ms + _pause_ms(_tries(view, s)))
            for s, reason in lost.items()
        ]
    if view.status is not JobStatus.RUNNING:
        return []
    return [*_relaunches(view, now_ms), *_joins(view, rule, now_ms)]


def is_present(view: JobView, site: SiteView) -> bool:
    """Tell whether a site counts among those that take part."""
    if site.site.role is Role.GUEST or view.status is JobStatus.READY:
        return site.phase is not SitePhase.ABSENT
    if view.status is JobStatus.RUNNING:
        return site.phase is SitePhase.GRANTED
    return site.phase not in (SitePhase.ABSENT, SitePhase.CREATING)


def of_members(view: JobView) -> JobView:
    """Return what the rules of every job shall see: the sites that take part, and of an arbiter
    that is about to be started again that it runs.
    """
    tasks = dict(view.tasks)
    for name, task in view.tasks.items():
        for site in _waits_for(task):
            masked = replace(task.parties[site], status=TaskStatus.RUNNING, reason=None)
            tasks[name] = replace(task, parties={**task.parties, site: masked})
    return replace(view, sites=tuple(s for s in view.sites if is_present(view, s)), tasks=tasks)


def among_present(view: JobView, actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions that may be done now. A task starts without absent hosts, and those that
    lack its inputs, but not without its arbiter.
    """
    away = {s.site for s in view.sites if s.site.role is Role.ARBITER and not is_present(view, s)}
    for action in actions:
        if not isinstance(action, StartTask):
            yield action
        elif away.isdisjoint(view.tasks[action.component].parties):
            yield replace(action, without=_left_out_of(view, action.component))


def _left_out_of(view: JobView, component: str) -> tuple[Site, ...]:
    present = {s.site for s in view.sites if is_present(view, s)}
    return tuple(
        site
        for site in view.tasks[component].parties
        if site.role is Role.HOST
        and (site not in present or not _has_inputs(view, component, site))
    )


def due_ms(view: JobView, rule: ElasticView) -> Iterator[int]:
    """Yield when the answer may be another one without any event."""
    for site in view.sites:
        comes_back = site.phase is SitePhase.ABSENT and _may_come_back(rule, site.site)
        if site.phase is SitePhase.DENIED or comes_back:
            yield site.retry_ms
    for task in view.tasks.values():
        yield from (_launch_ms(task.parties[arbiter]) for arbiter in _waits_for(task))
        ended_ms = _others_ended_ms(task)
        if ended_ms is not None and task.status is TaskStatus.RUNNING:
            yield ended_ms + rule.round_deadline_ms + 1


# --- who is lost ----------------------------------------------------------------------------------


def _loss(view: JobView, rule: ElasticView, site: SiteView, now_ms: int) -> Reason | None:
    """Return why a site is to be left out, None if it is not."""
    is_arbiter = site.site.role is Role.ARBITER
    if site.site.role is Role.GUEST or site.phase is SitePhase.ABSENT:
        return None
    if is_arbiter and (view.status is JobStatus.READY or not rule.arbiter_wait_ms):
        return None
    if site.phase in (SitePhase.REFUSED, SitePhase.GONE):
        reason = site.reason or _reason(site.site, Message("it does not take part any more"))
        ends_submit = view.status is JobStatus.READY and reason.code not in LOSSES
        return None if ends_submit else reason
    if site.phase is SitePhase.CREATING:
        if view.status is not JobStatus.READY:
            return None
        if not is_older(view.created_ms, view.create_timeout_ms, now_ms):
            return None
        seconds = view.create_timeout_ms // 1000
        return Reason(
            code="PartyUnreachable",
            message=Message("it did not accept the job within {seconds} seconds", seconds),
            site=site.site,
        )
    if is_older(site.heard_ms, view.lease_ms, now_ms):
        return silence(site, now_ms)
    if is_arbiter or view.status is not JobStatus.RUNNING or site.phase is not SitePhase.GRANTED:
        return None
    found = (_loss_in(view, rule, name, site.site, now_ms) for name in view.dag.order)
    return next((reason for reason in found if reason is not None), None)


def _loss_in(
    view: JobView, rule: ElasticView, component: str, site: Site, now_ms: int
) -> Reason | None:
    """Return why a host is lost to one of its tasks."""
    task = view.tasks[component]
    share = task.parties.get(site)
    if share is None or task.kept or task.status in (TaskStatus.WAITING, *_INTERRUPTED):
        return None
    if share.status in _INTERRUPTED:
        again = task.status in TASK_FINAL  # the others have ended it: no failure of it counts
        is_loss = share.reason is None or share.reason.code in LOSSES
        reason = share.reason or _reason(site, Message("{status}", share.status.value))
        return reason if again or is_loss else None
    if share.status in TASK_FINAL or task.status is not TaskStatus.RUNNING:
        return None
    ended_ms = _others_ended_ms(task)
    if ended_ms is None:
        return None
    if component in rule.rounds and is_older(ended_ms, rule.round_deadline_ms, now_ms):
        seconds = (now_ms - ended_ms) // 1000
        message = Message("{seconds} seconds after the others it had not ended", seconds)
        return _reason(site, message)
    limit_ms, started_ms = task.rule.timeout_ms, task.started_ms
    if limit_ms is None or started_ms is None or not is_older(started_ms, limit_ms, now_ms):
        return None
    error = TaskTimedOut(
        component=component, seconds=(now_ms - started_ms) // 1000, limit=limit_ms // 1000
    )
    return Reason(code=error.name, message=error.message.removesuffix("."), site=site)


def _without_arbiter(view: JobView, rule: ElasticView, now_ms: int) -> Reason | None:
    """Return why the job cannot wait for an arbiter any more, None if it can, or need not."""
    for site in view.sites:
        if site.site.role is not Role.ARBITER or view.status is JobStatus.READY:
            continue
        if is_older(site.heard_ms, view.lease_ms + rule.arbiter_wait_ms, now_ms):
            return silence(site, now_ms)
        if site.phase is not SitePhase.ABSENT or not _is_needed(view, site.site):
            continue
        tries = _tries(view, site)
        if tries >= MOST_TRIES or any(_is_worn(t, site.site) for t in view.tasks.values()):
            why = site.reason.message if site.reason else Message("it is not back yet")
            message = Message(
                "{site} was started again, or asked to come back, {tries} times: {reason}",
                site=site.site, tries=tries, reason=why.removesuffix("."),
            )  # fmt: skip
            return Reason(code="PartyUnreachable", message=message, site=site.site)
    return None


def _is_worn(task: TaskView, site: Site) -> bool:
    """Tell whether a site may not be started again in a task that runs."""
    share = task.parties.get(site)
    return task.status is TaskStatus.RUNNING and share is not None and share.launch >= MOST_LAUNCHES


def _reason(site: Site, message: Message) -> Reason:
    return Reason(code=ABSENT, message=message, site=site)


def _too_few(view: JobView, rule: ElasticView, lost: dict[SiteView, Reason], left: int) -> Reason:
    reasons = dict(lost)
    for site in view.sites:
        if site.phase is SitePhase.ABSENT and site.reason is not None:
            reasons[site] = site.reason
    away = [s for s in view.sites if s in reasons or not is_present(view, s)]
    site = away[0]
    why = reasons[site].message if site in reasons else Message("it is not back yet")
    error = TooFewParties(left=left, needed=rule.min_parties, site=site.site, reason=why)
    return Reason(code=error.name, message=error.message.removesuffix("."), site=site.site)


# --- who comes back -------------------------------------------------------------------------------


def _relaunches(view: JobView, now_ms: int) -> Iterator[Action]:
    """Yield the launches of arbiters that were lost; what runs goes on while a job is paused."""
    granted = {s.site for s in view.sites if s.phase is SitePhase.GRANTED}
    for name in view.dag.order:
        task = view.tasks[name]
        for site in _waits_for(task):
            if site in granted and now_ms >= _launch_ms(task.parties[site]):
                yield LaunchAgain(component=name, version=task.version, site=site)


def _waits_for(task: TaskView) -> list[Site]:
    """Return the arbiters of a running task that are started again sooner or later.

    None if the guest has failed, or if all the others have got what an absent one made with them.
    """
    if task.status is not TaskStatus.RUNNING:
        return []
    guests = [p.status for s, p in task.parties.items() if s.role is Role.GUEST]
    if any(status in _INTERRUPTED for status in guests):
        return []
    is_done = _is_done(task)
    return [
        site
        for site, share in task.parties.items()
        if site.role is Role.ARBITER
        and share.launch < MOST_LAUNCHES
        and (_was_lost(share) or (is_excused(share) and not is_done))
    ]


def _is_done(task: TaskView) -> bool:
    """Tell whether all but arbiters have ended a task with success."""
    shares = (p for s, p in task.parties.items() if s.role is not Role.ARBITER)
    return all(p.status in TASK_SUCCEEDED for p in shares)


def _was_lost(share: PartyTaskView) -> bool:
    reason = share.reason
    return share.status is TaskStatus.FAILED and reason is not None and reason.code in LOSSES


def _launch_ms(share: PartyTaskView) -> int:
    return share.since_ms + _pause_ms(share.launch)


def _joins(view: JobView, rule: ElasticView, now_ms: int) -> Iterator[Action]:
    """Yield what brings each site that is not present one step nearer."""
    for site in view.sites:
        target = _target(view, rule, site.site) if view.paused is None else None
        if site.site.role is Role.ARBITER:
            if not _is_needed(view, site.site):
                continue
        elif target is None:
            continue
        match site.phase:
            case SitePhase.ABSENT:
                tries = _tries(view, site)
                heard = not is_older(site.heard_ms, view.lease_ms, now_ms)
                may = _may_come_back(rule, site.site) and tries < MOST_TRIES
                if may and heard and now_ms >= site.retry_ms:
                    yield Rejoin(site=site.site)
            case SitePhase.CREATED:
                yield ApplyAt(site=site.site)
            case SitePhase.DENIED:
                if now_ms >= site.retry_ms:
                    yield ApplyAt(site=site.site)
            case SitePhase.GRANTED if target is not None:
                yield from _missed(view, site.site, target)


def _may_come_back(rule: ElasticView, site: Site) -> bool:
    return rule.rejoin or site.role is Role.ARBITER


def _is_needed(view: JobView, arbiter: Site) -> bool:
    """Tell whether anything is left to do for an arbiter."""
    return any(
        t.status not in TASK_FINAL and arbiter in t.parties and not _is_done(t)
        for t in view.tasks.values()
    )


def _target(view: JobView, rule: ElasticView, site: Site) -> str | None:
    """Return the component for whose rounds a host may still come back, None if there is none.

    It is the first whose rounds go on or are to come, if the host had its part in all rounds
    before it.
    """
    if site.role is not Role.HOST:
        return None
    for name in view.dag.order:
        share = view.tasks[name].parties.get(site)
        if name not in rule.rounds or share is None:
            continue
        if share.status is TaskStatus.SUCCESS:
            continue
        trained = {up for up in view.dag.ancestors(name) if up in rule.rounds}
        if not _is_open(view.tasks[name]) or share.launch >= MOST_LAUNCHES:
            continue
        if all(view.tasks[up].parties[site].status is TaskStatus.SUCCESS for up in trained):
            return name
    return None


def hindrance(view: JobView, rule: ElasticView, site: Site) -> Message | None:
    """Return why a host cannot join rounds of a job that runs any more, None if it may."""
    if site.role is not Role.HOST or _target(view, rule, site) is not None:
        return None
    for name in view.dag.order:
        if name not in rule.rounds or site not in view.tasks[name].parties:
            continue
        for up in view.dag.ancestors(name) if _is_open(view.tasks[name]) else ():
            share = view.tasks[up].parties.get(site)
            if up in rule.rounds and share is not None and is_excused(share):
                return Message(
                    "it missed the rounds of {missed}, and {component} needs them", up, name
                )
    return Message("no rounds are left that it can join")


def _is_open(task: TaskView) -> bool:
    """Tell whether nobody has ended a task's rounds yet."""
    if task.status is TaskStatus.WAITING:
        return True
    others = [p for s, p in task.parties.items() if s.role is not Role.HOST]
    ended = any(p.status in TASK_SUCCEEDED and not is_excused(p) for p in others)
    return task.status is TaskStatus.RUNNING and not ended


def _missed(view: JobView, site: Site, target: str) -> Iterator[Action]:
    """Yield the next launch of what a present host has missed, one at a time."""
    needed = {target, *view.dag.ancestors(target)}
    for name in view.dag.order:
        task = view.tasks[name]
        share = task.parties.get(site)
        if name not in needed or share is None or task.status is TaskStatus.WAITING:
            continue
        if share.status not in TASK_FINAL:
            return
        if is_excused(share) and share.launch < MOST_LAUNCHES and _has_inputs(view, name, site):
            yield LaunchAgain(component=name, version=task.version, site=site)
            return


def is_excused(share: PartyTaskView) -> bool:
    """Tell whether a party task passes because its site is absent."""
    reason = share.reason
    return share.status is TaskStatus.PASS and reason is not None and reason.code == ABSENT


def _has_inputs(view: JobView, component: str, site: Site) -> bool:
    """Tell whether a host has run all that comes before a component and is not behind with it."""
    for name in view.dag.upstream(component):
        task = view.tasks[name]
        share = task.parties.get(site)
        if share is None or task.status in _INTERRUPTED:  # then no site has that input
            continue
        if share.status not in TASK_FINAL or is_excused(share):
            return False
    return True


def _others_ended_ms(task: TaskView) -> int | None:
    """Return when guest and arbiter had ended a task with success; None: they have not."""
    others = [p for s, p in task.parties.items() if s.role is not Role.HOST]
    if not others or any(p.status not in TASK_SUCCEEDED for p in others):
        return None
    return max(p.since_ms for p in others)


def _tries(view: JobView, site: SiteView) -> int:
    """Return how often a site was started again, or asked to come back, without success."""
    shares = (task.parties.get(site.site) for task in view.tasks.values())
    return site.denials + max((share.launch for share in shares if share is not None), default=0)


def _pause_ms(tries: int) -> int:
    return int(min(_PAUSE_CAP_MS, _PAUSE_MS * 2 ** min(tries, 10)))
