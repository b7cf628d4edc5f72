"""What a job waits for, and why it ended: one `Wait` for every thing that somebody waits for.

Made from what the scheduler looks at (`JobView`), for people: each says what, where, since when,
until when, and what helps. All `_ms` are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.executors import ExecutorDied
from fedflow.base.errors.jobs import PartyAbsent
from fedflow.base.messages import Message, joined, verbatim
from fedflow.base.values import dataclass
from fedflow.domain.phases import SitePhase
from fedflow.domain.policies import Policy, Verdict, verdict
from fedflow.domain.policies import UpstreamEnd as Kind
from fedflow.domain.reason import AWAITS_STEP, NOT_SELECTED, PAUSED, Reason
from fedflow.domain.records import Command, CommandKind, JobRecord, PartyTaskView, TaskRecord
from fedflow.domain.scheduling.agreement import CODE as PARTIES_DISAGREE
from fedflow.domain.scheduling.circuit import without
from fedflow.domain.scheduling.decide import first_reason
from fedflow.domain.scheduling.retries import may_retry, retry_at_ms, was_skipped
from fedflow.domain.scheduling.views import ElasticView, JobView, SiteView, TaskView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_FINAL,
    TASK_SUCCEEDED,
    JobStatus,
    TaskStatus,
)

CREATING: Final = "Creating"  #: a site has not answered whether it takes part
QUEUED: Final = "Queued"  #: too little is free at the initiator, or others go first
APPLYING: Final = "Applying"  #: a site was asked for cores and has not answered
DENIED: Final = "NotEnoughResources"  #: a site has too few cores
STARTING: Final = "Starting"  #: all sites have granted their cores
RUNNING: Final = "Running"  #: a task runs
LAUNCHING: Final = "Launching"  #: a task's process has not begun
UPSTREAM: Final = "Upstream"  #: a task needs others first
NO_START: Final = "WillNotStart"  #: another task's failure keeps a task from starting
FULL: Final = "TaskParallelism"  #: a task has its inputs, but enough others run
RETRY: Final = "Retry"  #: a task failed and is tried again later
UNDELIVERED: Final = "Undelivered"  #: a command does not arrive
SILENT: Final = "Silent"  #: a party has not been heard for a while
STOPPING: Final = "Stopping"  #: somebody wants the job to end
INITIATOR: Final = "Initiator"  #: the initiator decides what follows

SILENT_MS: Final = 10_000  #: a party that was not heard for longer is worth a word


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """One thing that a job, a site's share or a task waits for."""

    code: str  #: a constant of this module, or the code of the reason that is behind it
    message: Message  #: what is waited for
    remedy: Message  #: what would unblock it
    site: Site | None = None
    component: str = ""
    since_ms: int | None = None
    heard_ms: int | None = None  #: when the site was last heard, where that matters
    next_ms: int | None = None  #: when it is tried again
    deadline_ms: int | None = None  #: when the wait ends by itself, mostly as a failure

    @property
    def reason(self) -> Reason:
        """Return what is waited for as a reason."""
        return Reason(code=self.code, message=self.message, site=self.site)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuePosition:
    """Why a job in the queue of its initiator does not ask for cores, and its place there."""

    reason: Reason
    position: int | None = None  #: from 1; None: nobody looked
    waiting: int = 0  #: how many jobs wait in all
    ahead: tuple[str, ...] = ()  #: ids of those that go right before it


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnd:
    """Why a job ended as it did: the first component that failed, where, and what helps."""

    status: JobStatus
    message: Message
    remedy: Message
    code: str = ""
    site: Site | None = None
    component: str = ""
    version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueContext:
    """What is known of a job's surroundings. `denied_ms`: since when sites deny their cores."""

    place: QueuePosition | None = None
    undelivered: Sequence[Command] = ()
    denied_ms: Mapping[Site, int] = field(default_factory=dict)
    applied_ms: Mapping[Site, int] = field(default_factory=dict)
    absent_ms: Mapping[Site, int] = field(default_factory=dict)  #: since when an elastic job's are


ALONE: Final = QueueContext()


def disagreements(job: JobRecord) -> list[Wait]:
    """Return what other sites have of an ended job that is not as here."""
    return [
        Wait(
            code=one.code,
            message=verbatim(one.message),
            remedy=verbatim(one.hint),
            site=Site.from_key(one.path),
        )
        for one in job.warnings
        if one.code == PARTIES_DISAGREE
    ]


# --- at the initiator -----------------------------------------------------------------------------


def waits_of(view: JobView, now_ms: int, around: QueueContext = ALONE) -> list[Wait]:
    """Return what a job waits for, as its initiator sees it; what holds it most comes first.

    An ended job waits only for commands that did not arrive, such as its end.
    """
    if view.status in JOB_FINAL:
        return list(_undelivered(around.undelivered))
    waits: list[Wait] = []
    if view.elastic is not None:
        from fedflow.domain.scheduling import membership  # most jobs never need it

        waits += _absent(view, view.elastic, around, hindrance=membership.hindrance)
        view = membership.of_members(view)
    if view.stop is not None:
        waits.append(_stopping(view.stop.reason))
    if view.status is JobStatus.READY:
        waits += _creating(view)
    elif view.paused is not None or view.steps_left == 0:
        waits.append(_held(view))
    if view.status is JobStatus.WAITING and view.held_ms is None:
        waits += _acquiring(view, around)
    if view.status is JobStatus.RUNNING:
        waits += _tasks(view, now_ms)
    waits += _silent(view, now_ms)
    waits += _undelivered(around.undelivered)
    return waits


def deadline_ms(view: JobView) -> int | None:
    """Return when the job ends by itself if it has not ended before; None: it has ended."""
    if view.status in JOB_FINAL:
        return None
    if view.held_ms is not None:
        return view.held_ms + view.hold_limit_ms
    if view.status is JobStatus.READY:
        return view.created_ms + view.create_timeout_ms
    return view.created_ms + view.rested_ms + view.timeout_ms


def _stopping(reason: Reason) -> Wait:
    return Wait(
        code=STOPPING,
        message=Message("it is being stopped: {stop}", reason.message),
        remedy=Message("nothing needs to be done: its processes get a few seconds to end"),
        site=reason.site,
    )


def _absent(
    view: JobView, rule: ElasticView, around: QueueContext,
    *, hindrance: Callable[[JobView, ElasticView, Site], Message | None],
) -> Iterator[Wait]:  # fmt: skip
    """Yield the sites that an elastic job goes on without, or waits for."""
    for site in view.sites:
        if site.phase is not SitePhase.ABSENT:
            continue
        reason = site.reason.message if site.reason else Message("it does not take part any more")
        wait = Wait(
            code=PartyAbsent.__name__,
            message=Message(
                "{site} is absent, and the job goes on without it: {reason}",
                site=site.site,
                reason=reason.removesuffix("."),
            ),
            remedy=_COMES_BACK if rule.rejoin else _STAYS_AWAY,
            site=site.site,
            since_ms=around.absent_ms.get(site.site),
            heard_ms=site.heard_ms,
            next_ms=site.retry_ms if rule.rejoin else None,
        )
        lacks = hindrance(view, rule, site.site)
        if rule.rejoin and lacks is not None:
            message = Message("nothing: it does not come back to this job, as {reason}", lacks)
            wait = replace(wait, remedy=message, next_ms=None)
        if site.site.role is Role.ARBITER:
            wait = replace(
                wait,
                message=Message(
                    "{site} is absent, and what needs it waits: {reason}",
                    site=site.site,
                    reason=reason.removesuffix("."),
                ),
                remedy=_IS_AWAITED,
                next_ms=site.retry_ms,
                deadline_ms=site.heard_ms + view.lease_ms + rule.arbiter_wait_ms,
            )
        yield wait


_IS_AWAITED: Final = Message(
    "start its server, or see that it can be reached: the rounds then go on with the last whole one"
)
_COMES_BACK: Final = Message(
    "it is started again when its server is heard from, while rounds are left that it can join"
)
_STAYS_AWAY: Final = Message("nothing: `rejoin` is off, so it stays away until the job ends")


def _creating(view: JobView) -> Iterator[Wait]:
    for site in view.sites:
        if site.phase is SitePhase.CREATING:
            yield Wait(
                code=CREATING,
                message=Message("{site} has not answered yet whether it takes part", site.site),
                remedy=_LIST,
                site=site.site,
                since_ms=view.created_ms,
                deadline_ms=view.created_ms + view.create_timeout_ms,
            )


def _held(view: JobView) -> Wait:
    running = any(t.status is TaskStatus.RUNNING for t in view.tasks.values())
    if view.paused is not None:
        return Wait(
            code=view.paused.code,
            message=_goes_on(view.paused.message, running=running),
            remedy=_continue(view.job_id),
            site=view.paused.site,
            since_ms=view.held_ms,
            deadline_ms=_hold_end_ms(view),
        )
    return Wait(
        code=AWAITS_STEP,
        message=_goes_on(
            Message("it runs step by step, and the next component has not been allowed"),
            running=running,
        ),
        remedy=Message(
            "`fedflow job continue -j {job_id}` allows the next one, `--all` all", view.job_id
        ),
        since_ms=view.held_ms,
        deadline_ms=_hold_end_ms(view),
    )


def _goes_on(message: Message, *, running: bool) -> Message:
    return Message("{message}; what runs goes on", message) if running else message


def _continue(job_id: str) -> Message:
    return Message("`fedflow job continue -j {job_id}` lets it go on", job_id)


def _hold_end_ms(view: JobView) -> int | None:
    return None if view.held_ms is None else view.held_ms + view.hold_limit_ms


def _acquiring(view: JobView, around: QueueContext) -> Iterator[Wait]:
    """Yield which sites have not granted their cores; the queue, if none was asked."""
    sites = sorted(view.sites, key=lambda s: s.site.order)
    asked = False
    for site in sites:
        if site.phase is SitePhase.APPLYING:
            asked = True
            yield Wait(
                code=APPLYING,
                message=Message(
                    "{site} was asked for the job's cores and has not answered yet", site.site
                ),
                remedy=_LIST,
                site=site.site,
                since_ms=around.applied_ms.get(site.site),
                deadline_ms=_end_ms(view),
            )
        elif site.phase is SitePhase.DENIED:
            asked = True
            yield _denied(view, site, around)
    if asked:
        return
    if sites and all(s.phase is SitePhase.GRANTED for s in sites):
        yield Wait(
            code=STARTING,
            message=Message("all its sites have granted their cores, and it is about to run"),
            remedy=_NOTHING,
        )
    else:
        yield _queued(view, around.place)


def _denied(view: JobView, site: SiteView, around: QueueContext) -> Wait:
    reason = site.reason
    is_reserved = reason is not None and reason.code == "Reserved"
    return Wait(
        code=reason.code if reason else DENIED,
        message=reason.message if reason else Message("{site} has too few free cores", site.site),
        remedy=Message(
            "jobs that have waited longer go first at {site}"
            if is_reserved
            else "other jobs at {site} must end, or this one must need less",
            site=site.site,
        ),
        site=site.site,
        since_ms=around.denied_ms.get(site.site),
        next_ms=site.retry_ms,
        deadline_ms=_end_ms(view),
    )


def _queued(view: JobView, place: QueuePosition | None) -> Wait:
    """Return what a job waits for that no site was asked about."""
    reason = place.reason if place else Reason(code=QUEUED, message=Message("waits for its turn"))
    message = reason.message
    if place is not None and place.position is not None:
        message = Message(
            "{message}; it is number {position} of {waiting} in the queue, right behind {jobs}"
            if place.ahead
            else "{message}; it is number {position} of {waiting} in the queue",
            message=message,
            position=place.position,
            waiting=place.waiting,
            jobs=", ".join(place.ahead),
        )
    return Wait(
        code=reason.code,
        message=message,
        remedy=_QUEUE_REMEDIES.get(reason.code, _LOOKED_AT),
        site=reason.site,
        since_ms=view.created_ms,
        deadline_ms=_end_ms(view),
    )


_LIST: Final = Message("`fedflow party list` shows whether that party can be reached")
_NOTHING: Final = Message("nothing needs to be done")
_LOOKED_AT: Final = Message("nothing: the queue is looked at all the time")
_QUEUE_REMEDIES: Final[Mapping[str, Message]] = {
    DENIED: Message("other jobs must end, or it must need less; a greater `priority` goes first"),
    "Reserved": Message("the job that has waited for longer must get its cores, or be stopped"),
}


def _end_ms(view: JobView) -> int:
    return view.created_ms + view.rested_ms + view.timeout_ms


def _tasks(view: JobView, now_ms: int) -> Iterator[Wait]:
    """Yield what every task waits for that has not ended for good, in the order of the DAG."""
    running = [c for c in view.dag.order if view.tasks[c].status is TaskStatus.RUNNING]
    failed = _failed(view)
    for component in view.dag.order:
        task = view.tasks[component]
        if task.status is TaskStatus.RUNNING:
            yield from _running(view, component, task, now_ms)
        elif task.status is TaskStatus.WAITING:
            if view.selected is None or component in view.selected:
                yield _waiting(view, component, running, failed)
        elif may_retry(task, task.status, _reason_of(task)):
            yield _retried(component, task, now_ms)


def _running(view: JobView, component: str, task: TaskView, now_ms: int) -> Iterator[Wait]:
    heard = {s.site: s.heard_ms for s in view.sites if s.heard_ms != now_ms}
    limit_ms = task.rule.timeout_ms
    end_ms = None
    if limit_ms is not None and task.started_ms is not None:
        end_ms = task.started_ms + limit_ms
    for site, share in task.parties.items():
        if share.status not in TASK_FINAL:
            yield Wait(
                code=RUNNING,
                message=Message(
                    "{component} runs at {site}, which has not reported its end", component, site
                ),
                remedy=_log_remedy(view.job_id, component, site),
                site=site,
                component=component,
                since_ms=_since(task, share),
                heard_ms=heard.get(site),
                deadline_ms=end_ms if end_ms is not None else _end_ms(view),
            )


def _log_remedy(job_id: str, component: str, site: Site) -> Message:
    return Message(
        "its log, at the server of party {party_id}, tells more: `{command}`",
        site.party_id,
        _log_command(job_id, component, site),
    )


def _log_command(job_id: str, component: str, site: Site) -> str:
    return f"fedflow job log -j {job_id} -c {component} -r {site.role} -p {site.party_id}"


def _since(task: TaskView, share: PartyTaskView) -> int | None:
    return share.since_ms or task.started_ms


def _waiting(view: JobView, component: str, running: Sequence[str], failed: str | None) -> Wait:
    upstream = view.dag.upstream(component)
    ends = {up: _end_kind(view, up) for up in upstream}
    found = verdict(view.tasks[component].rule.policy, ends.values())
    if found is Verdict.SKIP or failed is not None:
        bad = failed or next(up for up in upstream if ends[up] in (Kind.FAILED, Kind.SKIPPED))
        return Wait(
            code=NO_START,
            message=Message(
                "{component} will not start, because {other} is {status}",
                component, bad, view.tasks[bad].status.value,
            ),
            remedy=Message("once the job has ended: `fedflow job rerun -j {job_id}`", view.job_id),
            component=component,
            since_ms=view.tasks[bad].ended_ms,
        )  # fmt: skip
    if found is Verdict.WAIT:
        needs = [up for up in upstream if ends[up] is Kind.OPEN]
        shown = ", ".join(f"{up} ({view.tasks[up].status.value})" for up in needs)
        return Wait(
            code=UPSTREAM,
            message=Message("{component} waits for {components}", component, shown),
            remedy=Message("it starts when these have ended, as its policy says"),
            component=component,
            since_ms=view.created_ms,
            deadline_ms=_end_ms(view),
        )
    since_ms = max((view.tasks[up].ended_ms or 0 for up in view.dag.upstream(component)), default=0)
    if view.paused is not None or view.steps_left == 0:
        message = Message(
            "{component} has what it needs and starts when the job goes on", component
        )
        remedy = _continue(view.job_id)
    elif running:
        message = Message(
            "{component} has what it needs, but {others} takes the job's share of cores"
            if len(running) == 1
            else "{component} has what it needs, but {others} take the job's share of cores",
            component=component,
            others=", ".join(running),
        )
        remedy = Message(
            "a greater `task_parallelism` than {parallelism} lets more tasks run at once",
            view.parallelism,
        )
    else:
        message = Message("{component} is about to start", component)
        remedy = _NOTHING
    return Wait(
        code=FULL if running else STARTING,
        message=message,
        remedy=remedy,
        component=component,
        since_ms=since_ms or view.created_ms,
        deadline_ms=_end_ms(view),
    )


def _end_kind(view: JobView, component: str) -> Kind:
    """Return how a component stands for those behind it, as `decide` sees it."""
    task = view.tasks[component]
    if task.status in TASK_SUCCEEDED:
        return Kind.SUCCEEDED
    if task.status not in TASK_FINAL:
        left_out = view.selected is not None and component not in view.selected
        return Kind.SKIPPED if left_out else Kind.OPEN
    reason = _reason_of(task)
    if was_skipped(task.status, reason):
        return Kind.SKIPPED
    return Kind.OPEN if may_retry(task, task.status, reason) else Kind.FAILED


def _failed(view: JobView) -> str | None:
    """Return the component whose failure keeps all others from starting, if there is one."""
    if any(t.rule.policy is not Policy.ALL_SUCCESS for t in view.tasks.values()):
        return None
    for component in view.dag.order:
        if not view.tasks[component].kept and _end_kind(view, component) is Kind.FAILED:
            return component
    return None


def _retried(component: str, task: TaskView, now_ms: int) -> Wait:
    reason = _reason_of(task)
    at_ms = retry_at_ms(task)
    return Wait(
        code=RETRY,
        message=Message(
            "{component} is {status} ({code}: {message}) and is tried again"
            if reason
            else "{component} is {status} (without a reason) and is tried again",
            component=component,
            status=task.status.value,
            code=reason.code if reason else "",
            message=reason.message.removesuffix(".") if reason else "",
        ),
        remedy=Message(
            "nothing needs to be done; retries that are left: {retries}", task.retries_left
        ),
        site=reason.site if reason else None,
        component=component,
        since_ms=task.ended_ms,
        next_ms=max(at_ms, now_ms),
    )


def _silent(view: JobView, now_ms: int) -> Iterator[Wait]:
    """Yield the parties that were not heard for a while."""
    seen: set[str] = set()
    for site in view.sites:
        if site.phase is SitePhase.CREATING or now_ms - site.heard_ms <= SILENT_MS:
            continue
        if site.site.party_id in seen:
            continue
        seen.add(site.site.party_id)
        yield Wait(
            code=SILENT,
            message=without(site.lack, site.site, (now_ms - site.heard_ms) // 1000)
            if site.lack
            else Message("{site} has not been heard for a while", site.site),
            remedy=_ping(site.site),
            site=site.site,
            since_ms=site.heard_ms,
            heard_ms=site.heard_ms,
            deadline_ms=site.heard_ms + view.lease_ms,
        )


def _ping(site: Site) -> Message:
    return Message("`fedflow party ping {party_id}` tries the way to it", site.party_id)


_WORDS: Final[Mapping[CommandKind, str]] = {
    CommandKind.CREATE_JOB: "the job itself",
    CommandKind.RERUN_JOB: "the rerun",
    CommandKind.CREATE_TASK: "a further attempt",
    CommandKind.APPLY_CORES: "the request for cores",
    CommandKind.RETURN_CORES: "the return of cores",
    CommandKind.START_JOB: "the start of the job",
    CommandKind.START_TASK: "the start of a task",
    CommandKind.SETTLE_TASK: "the end of a task",
    CommandKind.END_JOB: "the end of the job",
    CommandKind.REPORT_TASK: "the report of a task",
    CommandKind.ASK_STOP: "the request to stop",
}


def _undelivered(commands: Iterable[Command]) -> Iterator[Wait]:
    for command in commands:
        if command.attempts == 0:
            continue
        what = _WORDS.get(command.kind, command.kind.value)
        yield Wait(
            code=UNDELIVERED,
            message=Message(
                "{command} could not be sent to {site} in {tries} tries: {error}",
                what, command.destination, command.attempts, command.error,
            ),
            remedy=_ping(command.destination),
            site=command.destination,
            since_ms=command.created_ms,
            next_ms=command.due_ms,
            deadline_ms=command.deadline_ms,
        )  # fmt: skip


def _reason_of(task: TaskView) -> Reason | None:
    return task.reason or first_reason(task.parties.items())


# --- at a site that did not submit the job --------------------------------------------------------


def waits_of_share(
    job: JobRecord, tasks: Iterable[TaskRecord], *, heard_ms: int, lease_ms: int,
    undelivered: Sequence[Command] = (),
) -> list[Wait]:  # fmt: skip
    """Return what one site's share of a job waits for; the initiator knows about the others."""
    if job.status in JOB_FINAL:
        return list(_undelivered(undelivered))
    waits = [
        Wait(
            code=LAUNCHING if task.handle is None and task.started_ms is None else RUNNING,
            message=_share_text(task),
            remedy=_log_remedy(job.key.job_id, task.key.component, task.key.site),
            site=task.key.site,
            component=task.key.component,
            since_ms=task.started_ms or task.requested_ms,
        )
        for task in tasks
        if task.party_status not in TASK_FINAL and task.requested_ms is not None
    ]
    site = job.initiator
    message = Message("{site} decides what follows", site)
    remedy = Message("`fedflow job explain` at party {party_id} knows more", site.party_id)
    if job.status is JobStatus.WAITING:
        message = Message("{site} has not started the job", site)
        if job.reason is not None and job.reason.code in (PAUSED, AWAITS_STEP):
            hold = job.reason.message
            message = Message("{site} held the job ({hold}) and has not let it go on", site, hold)
            remedy = joined((_continue(job.key.job_id), remedy), "; ")
    waits.append(
        Wait(
            code=INITIATOR,
            message=message,
            remedy=remedy,
            site=site,
            since_ms=job.applied_ms if job.in_use else job.created_ms,
            heard_ms=heard_ms,
            deadline_ms=heard_ms + lease_ms,
        )
    )
    return [*waits, *_undelivered(undelivered)]


def _share_text(task: TaskRecord) -> Message:
    return Message(
        "{component} is to start here, and its process has not begun"
        if task.handle is None and task.started_ms is None
        else "{component} runs here",
        component=task.key.component,
    )


# --- ended jobs -----------------------------------------------------------------------------------


Ended = tuple[str, int, TaskStatus, Reason | None]
"""How a task ended: component, version, status, reason."""


def end_of(
    job_id: str, status: JobStatus, reason: Reason | None, tasks: Sequence[Ended]
) -> JobEnd:  # fmt: skip
    """Return why an ended job ended so; `tasks` in the order of the DAG."""
    if status is JobStatus.SUCCESS:
        left = [c for c, _, s, r in tasks if r is not None and r.code == NOT_SELECTED]
        bad = [c for c, _, s, _ in tasks if s not in TASK_SUCCEEDED and c not in left]
        message = Message("everything that was to run succeeded")
        if bad:
            message = Message(
                "everything that counts succeeded; {failed} did not, and does not count",
                ", ".join(bad),
            )
        if left:
            message = Message(
                "{message}; {components} were not asked for", message, ", ".join(left)
            )
        return JobEnd(status=status, message=message, remedy=_NOTHING)
    component, version, why = _first_failed(status, tasks, reason)
    unknown = Message("the job is {status}", status.value)
    told = reason or why or Reason(code="", message=unknown)
    why = why or told
    return JobEnd(
        status=status,
        code=why.code,
        message=told.message,
        remedy=_remedy(why.code, job_id, component=component, site=why.site),
        site=why.site,
        component=component,
        version=version,
    )


def _first_failed(
    status: JobStatus, tasks: Sequence[Ended], reason: Reason | None
) -> tuple[str, int | None, Reason | None]:
    """Return the first component that ended as the job did, unless the job's end was its own."""
    for component, version, task_status, why in tasks:
        if task_status.value != status.value or was_skipped(task_status, why):
            continue
        if reason is None or reason.message.startswith((f"{component}:", f"{component} ")):
            return component, version, why
    return "", None, None


def _remedy(code: str, job_id: str, *, component: str = "", site: Site | None = None) -> Message:
    hint: str = hint_of(code)
    if code == _DIED and component and site is not None:
        hint = Message(
            "{hint} At the server of party {party_id}: `{command}`.",
            hint,
            site.party_id,
            f"{_log_command(job_id, component, site)} --level stdout",
        )
    return Message(
        "{hint} Then `fedflow job rerun -j {job_id}` runs again what did not succeed."
        if hint
        else "`fedflow job rerun -j {job_id}` runs again what did not succeed.",
        hint=hint,
        job_id=job_id,
    )


def hint_of(code: str) -> str:
    """Return what helps against an error, empty if its name is not in the catalogue."""
    return _HINTS.get(code, "")


_DIED: Final = ExecutorDied.__name__
_HINTS: Final[Mapping[str, str]] = {e.__name__: e.hint for e in all_errors()}
