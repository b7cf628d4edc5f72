"""What `decide` must never do, on any view; and that a job always comes to an end."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.ids import PartyId
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.rules import selection
from fedflow.domain.job.task_rule import Rule
from fedflow.domain.phases import SitePhase
from fedflow.domain.policies import Policy
from fedflow.domain.reason import Reason, StopRequest
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
from fedflow.domain.scheduling.decide import CAUSE_WAIT_MS, decide, first_reason, next_look_ms
from fedflow.domain.scheduling.retries import may_retry, was_skipped
from fedflow.domain.scheduling.views import JobView, SiteView, TaskView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import (
    JOB_FINAL,
    JOB_INTERRUPTED,
    TASK_FINAL,
    TASK_SUCCEEDED,
    JobStatus,
    TaskStatus,
)

NOW_MS = 1_800_000_000_000
SITES = (
    Site(Role.GUEST, PartyId("9999")),
    Site(Role.HOST, PartyId("10000")),
    Site(Role.HOST, PartyId("10001")),
    Site(Role.ARBITER, PartyId("10000")),
)
CODES = ("BadData", "ExecutorDied", "PeerFailed", "InitiatorLost")

A = TypeVar("A")
quick = settings(max_examples=60, deadline=None)


def only(kind: type[A], actions: list[Action]) -> list[A]:
    return [a for a in actions if isinstance(a, kind)]


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    count = draw(st.integers(1, 6))
    ranked = [f"c{i}" for i in range(count)]
    pairs = [(ranked[i], ranked[j]) for j in range(count) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=10)) if pairs else []
    return Dag(names=tuple(draw(st.permutations(ranked))), edges=tuple(edges))


reasons = st.builds(Reason, code=st.sampled_from(CODES), message=st.just("m"))
shares = st.builds(
    PartyTaskView,
    status=st.sampled_from(TaskStatus),
    reason=st.none() | reasons,
    since_ms=st.integers(NOW_MS - 2 * CAUSE_WAIT_MS, NOW_MS),
)


delays = st.sampled_from((0, 1_000))
rules = st.builds(
    Rule,
    policy=st.sampled_from(Policy),
    timeout_ms=st.none() | st.just(10_000),
    retry_delay_ms=delays,
    retry_on=st.none() | st.sets(st.sampled_from(CODES)).map(frozenset),
)


@st.composite
def views(draw: st.DrawFn, status: JobStatus | None = None) -> JobView:
    """Return any view at all, also of states that no job should ever be in."""
    dag = draw(dags())
    sites = draw(st.lists(st.sampled_from(SITES), min_size=1, unique=True))
    mixed = draw(st.booleans())
    calm = draw(st.booleans())  # else hardly a view would get past the checks of the sites
    phases = [SitePhase.GRANTED] if calm else list(SitePhase)
    return JobView(
        job_id="1",
        status=status or draw(st.sampled_from(JobStatus)),
        dag=dag,
        sites=tuple(
            SiteView(
                site=s,
                phase=draw(st.sampled_from(phases)),
                heard_ms=NOW_MS - (0 if calm else draw(st.integers(0, 61_000))),
                retry_ms=NOW_MS + draw(st.integers(-100, 100)),
                reason=draw(st.none() | reasons),
            )
            for s in sites
        ),
        tasks={
            name: TaskView(
                version=draw(st.integers(0, 2)),
                status=draw(st.sampled_from(TaskStatus)),
                parties=draw(
                    st.dictionaries(st.sampled_from(sites), shares, min_size=1, max_size=3)
                ),
                started_ms=NOW_MS - draw(st.integers(0, 20_000)),
                ended_ms=NOW_MS - draw(st.integers(0, 2_000)),
                reason=draw(st.none() | reasons),
                retries_left=draw(st.sampled_from((0, 0, 1, 2))),
                infrastructure_left=draw(st.sampled_from((0, 0, 1))),
                kept=draw(st.sampled_from((False, False, True))),
                begun=draw(st.booleans()),
                rule=draw(rules if mixed else st.builds(Rule, retry_delay_ms=delays)),
            )
            for name in dag.names
        },
        parallelism=draw(st.integers(1, 4)),
        selected=draw(
            st.none()
            | st.sets(st.sampled_from(dag.names), min_size=1).map(
                lambda names: selection(dag, names)
            )
        ),
        paused=None if calm else draw(st.none() | reasons),
        steps_left=None if calm else draw(st.none() | st.integers(0, 3)),
        held_ms=None if calm else draw(st.none() | st.just(NOW_MS)),
        created_ms=NOW_MS - (0 if calm else draw(st.integers(0, 110_000))),
        timeout_ms=100_000,
        create_timeout_ms=10_000,
        lease_ms=60_000,
        may_request=draw(st.booleans()),
        stop=None
        if calm
        else draw(
            st.none()
            | st.builds(
                StopRequest, status=st.sampled_from(sorted(JOB_INTERRUPTED)), reason=reasons
            )
        ),
    )


def after_settling(view: JobView, actions: list[Action]) -> dict[str, TaskStatus]:
    """Return the tasks' statuses once what ended is settled."""
    statuses = {name: task.status for name, task in view.tasks.items()}
    statuses.update({a.component: a.status for a in only(SettleTask, actions)})
    statuses.update({a.component: TaskStatus.CANCELED for a in only(SkipTask, actions)})
    return statuses


def reason_after(view: JobView, actions: list[Action], name: str) -> Reason | None:
    """Return why a task ended, once what ended is settled."""
    settled = [a.reason for a in only(SettleTask, actions) if a.component == name]
    settled += [a.reason for a in only(SkipTask, actions) if a.component == name]
    task = view.tasks[name]
    return (settled[0] if settled else task.reason) or first_reason(task.parties.items())


def goes_on(view: JobView) -> bool:
    """Tell whether some component can live with failures."""
    return any(t.rule.policy is not Policy.ALL_SUCCESS for t in view.tasks.values())


# --- on any view ----------------------------------------------------------------------------------


@quick
@given(views())
def test_deciding_twice_gives_the_same(view: JobView) -> None:
    assert decide(view, NOW_MS) == decide(view, NOW_MS)


@quick
@given(views())
def test_a_final_job_gets_no_action_and_another_ends_at_most_once_and_last(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    if view.status in JOB_FINAL:
        assert actions == []
    ends = only(EndJob, actions)
    assert ends == actions[-1:] or ends == []


@quick
@given(views())
def test_a_stop_or_a_lost_site_always_ends_the_job(view: JobView) -> None:
    if view.status in JOB_FINAL:
        return
    actions = decide(view, NOW_MS)
    if view.stop is not None:
        assert actions == [EndJob(status=view.stop.status, reason=view.stop.reason)]
    elif any(s.phase in (SitePhase.GONE, SitePhase.REFUSED) for s in view.sites):
        assert [a.status for a in only(EndJob, actions)] == [JobStatus.FAILED]
        assert len(actions) == 1


@quick
@given(views(JobStatus.RUNNING))
def test_never_starts_a_task_before_its_policy_allows_it(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    statuses = after_settling(view, actions)
    for start in only(StartTask, actions):
        name = start.component
        assert statuses[name] is TaskStatus.WAITING
        assert view.selected is None or name in view.selected
        ends = {up: statuses[up] for up in view.dag.upstream(name)}
        policy = view.tasks[name].rule.policy
        if policy is Policy.ALL_SUCCESS:
            assert set(ends.values()) <= TASK_SUCCEEDED
            continue
        assert set(ends.values()) <= TASK_FINAL
        for up, status in ends.items():
            reason = reason_after(view, actions, up)
            assert not may_retry(view.tasks[up], status, reason)
            if policy is Policy.NONE_FAILED:
                assert status in TASK_SUCCEEDED or was_skipped(status, reason)
        if policy is Policy.ONE_SUCCESS:
            assert not ends or set(ends.values()) & TASK_SUCCEEDED


@quick
@given(views(JobStatus.RUNNING))
def test_what_is_skipped_could_never_start(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    statuses = after_settling(view, actions)
    for skip in only(SkipTask, actions):
        assert view.tasks[skip.component].status is TaskStatus.WAITING
        assert skip.component not in {s.component for s in only(StartTask, actions)}
        if skip.reason.code == "NotSelected":
            assert view.selected is not None
            assert skip.component not in view.selected
            assert only(EndJob, actions)
        else:
            ends = {statuses[up] for up in view.dag.upstream(skip.component)}
            assert ends - TASK_SUCCEEDED
            assert view.tasks[skip.component].rule.policy is not Policy.ALL_DONE


@quick
@given(views())
def test_nothing_begins_while_a_job_is_paused_or_has_no_step_left(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    starts = only(StartTask, actions)
    if view.paused is not None:
        assert not starts
        assert not only(RetryTask, actions)
        assert not only(ApplyAt, actions)
    if view.steps_left is not None:
        new = [s for s in starts if not view.tasks[s.component].begun]
        assert len(new) <= view.steps_left
    if only(HoldJob, actions):
        running = TaskStatus.RUNNING in after_settling(view, actions).values()
        assert view.status is JobStatus.WAITING or not running
        assert view.paused is not None or view.steps_left == 0


@quick
@given(views())
def test_between_now_and_the_next_look_time_alone_changes_nothing(view: JobView) -> None:
    if decide(view, NOW_MS):
        return
    due_ms = next_look_ms(view, NOW_MS)
    lost_ms = min(s.heard_ms for s in view.sites) + view.lease_ms  # a repair pass sees to that
    until_ms = min(due_ms or NOW_MS + 10**9, lost_ms)
    for at_ms in {NOW_MS + 1, (NOW_MS + until_ms) // 2, until_ms - 1}:
        if NOW_MS < at_ms < until_ms:
            assert decide(view, at_ms) == []


@quick
@given(views(JobStatus.RUNNING))
def test_never_more_tasks_run_than_allowed(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    running = sum(s is TaskStatus.RUNNING for s in after_settling(view, actions).values())
    starts = only(StartTask, actions)
    assert len({s.component for s in starts}) == len(starts)
    assert not starts or running + len(starts) <= view.parallelism


@quick
@given(views(JobStatus.RUNNING))
def test_settles_each_task_once_and_only_what_has_not_ended(view: JobView) -> None:
    settled = only(SettleTask, decide(view, NOW_MS))
    assert len({s.component for s in settled}) == len(settled)
    for settle in settled:
        assert view.tasks[settle.component].status not in TASK_FINAL
        assert settle.status in TASK_FINAL
        assert settle.version == view.tasks[settle.component].version
        if settle.status in TASK_SUCCEEDED:
            assert settle.reason is None


@quick
@given(views(JobStatus.RUNNING))
def test_after_a_failure_nothing_starts(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    statuses = after_settling(view, actions)
    if goes_on(view):
        return
    if any(
        stops(view.tasks[name], status, reason_after(view, actions, name))
        for name, status in statuses.items()
    ):
        assert not only(StartTask, actions)
        assert not only(RetryTask, actions)


def stops(task: TaskView, status: TaskStatus, reason: Reason | None) -> bool:
    """Tell whether a task's status is a failure that nothing makes up for."""
    failed = status in TASK_FINAL and status not in TASK_SUCCEEDED
    return failed and not task.kept and not may_retry(task, status, reason)


@quick
@given(views(JobStatus.RUNNING))
def test_only_a_settled_failure_of_this_epoch_is_tried_again_and_not_too_soon(
    view: JobView,
) -> None:
    actions = decide(view, NOW_MS)
    for retry in only(RetryTask, actions):
        task = view.tasks[retry.component]
        assert task.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT)
        assert not task.kept
        assert (task.infrastructure_left if retry.infrastructure else task.retries_left) > 0
        assert NOW_MS - (task.ended_ms or 0) >= task.rule.retry_delay_ms
        assert retry.version == task.version
        assert not only(EndJob, actions)


@quick
@given(views(JobStatus.RUNNING))
def test_a_job_succeeds_only_if_every_task_did_or_was_made_up_for(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    statuses = after_settling(view, actions)
    for end in only(EndJob, actions):
        if end.status is JobStatus.SUCCESS:
            assert end.reason is None
            for name in view.dag.order if view.selected is None else view.selected:
                behind = [
                    down for down in view.dag.downstream(name)
                    if view.selected is None or down in view.selected
                ]  # fmt: skip
                ran = TASK_FINAL - {TaskStatus.CANCELED}
                if statuses[name] in TASK_SUCCEEDED or name not in view.tasks:
                    continue
                if statuses[name] is not TaskStatus.WAITING:
                    assert behind
                    assert all(statuses[down] in ran for down in behind)
        else:
            assert end.reason is not None


@quick
@given(views(JobStatus.RUNNING))
def test_a_running_job_never_waits_for_nothing(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    if not actions:
        running = TaskStatus.RUNNING in {t.status for t in view.tasks.values()}
        assert running or any(
            may_retry(t, t.status, t.reason or first_reason(t.parties.items()))
            for t in view.tasks.values()
        )


@quick
@given(views(JobStatus.WAITING))
def test_cores_are_asked_for_in_order_and_one_site_at_a_time(view: JobView) -> None:
    actions = decide(view, NOW_MS)
    ordered = sorted(view.sites, key=lambda s: s.site.order)
    for ask in only(ApplyAt, actions):
        assert actions == [ask]
        assert SitePhase.APPLYING not in {s.phase for s in ordered}
        before = [s for s in ordered if s.site.order < ask.site.order]
        assert all(s.phase is SitePhase.GRANTED for s in before)
    for release in only(ReleaseAt, actions):
        granted = {s.site for s in ordered if s.phase is SitePhase.GRANTED}
        assert set(release.sites) == granted != set()
        held = view.paused is not None or view.steps_left == 0
        assert held or SitePhase.DENIED in {s.phase for s in ordered}
    if only(StartJob, actions):
        assert {s.phase for s in ordered} == {SitePhase.GRANTED}


# --- a whole job ----------------------------------------------------------------------------------


@dataclass
class Model:
    """One job and its sites as a toy: actions are applied, sites answer by the dice."""

    dag: Dag
    sites: tuple[Site, ...]
    rng: Random
    parallelism: int
    now_ms: int = NOW_MS
    status: JobStatus = JobStatus.READY
    stop: StopRequest | None = None
    retries: int = 0
    policies: dict[str, Policy] = field(default_factory=dict)
    step: bool = False
    selected: frozenset[str] | None = None
    paused: Reason | None = None
    allowed: int = 0
    held_ms: int | None = None
    begun: set[str] = field(default_factory=set)
    reasons: dict[str, Reason | None] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    phases: dict[Site, tuple[SitePhase, int]] = field(default_factory=dict)
    tasks: dict[str, TaskStatus] = field(default_factory=dict)
    shares: dict[str, dict[Site, PartyTaskView]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.phases = dict.fromkeys(self.sites, (SitePhase.CREATING, 0))
        self.tasks = dict.fromkeys(self.dag.names, TaskStatus.WAITING)
        self.versions = dict.fromkeys(self.dag.names, 0)
        waiting = PartyTaskView(status=TaskStatus.WAITING)
        self.shares = {
            c: dict.fromkeys(self.rng.sample(self.sites, self.rng.randint(1, len(self.sites))))
            for c in self.dag.names
        }  # type: ignore[assignment]
        for shares in self.shares.values():
            shares.update(dict.fromkeys(shares, waiting))

    def view(self) -> JobView:
        return JobView(
            job_id="1",
            status=self.status,
            dag=self.dag,
            sites=tuple(
                SiteView(site=s, phase=p, heard_ms=self.now_ms, retry_ms=retry)
                for s, (p, retry) in self.phases.items()
            ),
            tasks={
                c: TaskView(
                    version=self.versions[c],
                    status=self.tasks[c],
                    parties=dict(self.shares[c]),
                    ended_ms=NOW_MS,
                    reason=self.reasons.get(c),
                    retries_left=self.retries - self.versions[c],
                    begun=c in self.begun,
                    rule=Rule(policy=self.policies.get(c, Policy.ALL_SUCCESS)),
                )
                for c in self.dag.names
            },
            selected=self.selected,
            paused=self.paused,
            steps_left=max(0, self.allowed - len(self.begun)) if self.step else None,
            held_ms=self.held_ms,
            parallelism=self.parallelism,
            created_ms=NOW_MS,
            timeout_ms=10**9,
            create_timeout_ms=10**9,
            lease_ms=10**9,
            stop=self.stop,
        )

    def apply(self, action: Action) -> None:
        """Do what `app/initiator/apply.py` does, and be as strict as the store."""
        assert self.status not in JOB_FINAL
        match action:
            case QueueJob():
                assert self.status is JobStatus.READY
                self.status = JobStatus.WAITING
            case ApplyAt(site=site):
                self.phases[site] = (SitePhase.APPLYING, 0)
            case ReleaseAt(sites=sites):
                self.phases.update(dict.fromkeys(sites, (SitePhase.CREATED, 0)))
            case StartJob():
                assert self.status is JobStatus.WAITING
                self.status = JobStatus.RUNNING
            case StartTask(component=component):
                assert self.tasks[component] is TaskStatus.WAITING
                assert self.paused is None
                self.tasks[component] = TaskStatus.RUNNING
                self.begun.add(component)
                assert not self.step or len(self.begun) <= self.allowed
            case SkipTask(component=component, reason=reason):
                assert self.tasks[component] is TaskStatus.WAITING
                self.tasks[component] = TaskStatus.CANCELED
                self.reasons[component] = reason
            case HoldJob():
                assert TaskStatus.RUNNING not in self.tasks.values()
                self.held_ms = self.now_ms
                self.status = JobStatus.WAITING
                for site, (phase, _) in self.phases.items():
                    if phase is SitePhase.GRANTED:
                        self.phases[site] = (SitePhase.CREATED, 0)
            case SettleTask(component=component, status=status, reason=reason):
                assert self.tasks[component] not in TASK_FINAL
                self.tasks[component] = status
                self.reasons[component] = reason
            case RetryTask(component=component, version=version):
                assert self.tasks[component] is TaskStatus.FAILED
                assert self.versions[component] == version < self.retries
                self.versions[component] += 1
                self.reasons.pop(component)
                self.tasks[component] = TaskStatus.WAITING
                waiting = PartyTaskView(status=TaskStatus.WAITING)
                self.shares[component] = dict.fromkeys(self.shares[component], waiting)
            case EndJob(status=status):
                self.status = status

    def people(self, *, fair: bool) -> None:
        """Let somebody pause the job or let it go on; in the end somebody always does."""
        if self.status in JOB_FINAL:
            return
        if not fair and self.paused is None and self.rng.random() < 0.2:
            self.paused = Reason(code="Paused", message="m")
        elif fair or self.rng.random() < 0.3:
            stopped = self.step and self.allowed <= len(self.begun)
            if self.paused is not None or stopped:
                self.allowed = len(self.begun) + 1
                self.paused = self.held_ms = None

    def answer(self, *, fair: bool) -> None:
        """Let time pass and some of the sites say something; all of them if `fair`."""
        self.now_ms += self.rng.randint(1, 1_000)
        for site, (phase, _) in self.phases.items():
            if not fair and self.rng.random() < 0.5:
                continue
            if phase is SitePhase.CREATING:
                self.phases[site] = (SitePhase.CREATED, 0)
            elif phase is SitePhase.APPLYING and not fair and self.rng.random() < 0.5:
                self.phases[site] = (SitePhase.DENIED, self.now_ms + self.rng.randint(1, 500))
            elif phase is SitePhase.APPLYING:
                self.phases[site] = (SitePhase.GRANTED, 0)
        for component, shares in self.shares.items():
            for site, share in shares.items():
                started = self.tasks[component] is not TaskStatus.WAITING
                if started and share.status not in TASK_FINAL and (fair or self.rng.random() < 0.5):
                    shares[site] = self.report(share.status, fair=fair)

    def report(self, status: TaskStatus, *, fair: bool) -> PartyTaskView:
        choices = [TaskStatus.SUCCESS, TaskStatus.PASS]
        if not fair:
            choices += [status, TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.CANCELED]
        new = self.rng.choice(choices)
        bad = new in TASK_FINAL - TASK_SUCCEEDED
        reason = Reason(code=self.rng.choice(CODES), message="m") if bad else None
        return PartyTaskView(status=new, reason=reason, since_ms=self.now_ms)


@settings(max_examples=120, deadline=None)
@given(
    dags(),
    st.lists(st.sampled_from(SITES), min_size=1, unique=True),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
    st.integers(0, 15),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
def test_every_job_comes_to_an_end_whatever_its_sites_say_and_wherever_a_pass_is_cut_off(
    dag: Dag, sites: list[Site], rng: Random, parallelism: int, unfair: int, stops: bool,
    retries: int, step: bool, mixed: bool,
) -> None:  # fmt: skip
    model = Model(dag=dag, sites=tuple(sites), rng=rng, parallelism=parallelism, retries=retries)
    model.step = step
    if mixed:
        model.policies = {name: rng.choice(list(Policy)) for name in dag.names}
        model.selected = selection(dag, rng.sample(dag.names, rng.randint(0, len(dag.names))))
    rounds = 4 + 4 * len(sites)  # a job that was held asks for its cores again
    bound = unfair + 12 + rounds * (len(dag.names) * (1 + retries) + 2)
    for turn in range(bound):
        if stops and turn == unfair // 2 and model.status not in JOB_FINAL:
            reason = Reason(code="Stopped", message="m")
            model.stop = StopRequest(status=JobStatus.CANCELED, reason=reason)
        for _ in range(16):
            actions = decide(model.view(), model.now_ms)
            if not actions:
                break
            cut = rng.randint(1, len(actions)) if turn < unfair else len(actions)
            for action in actions[:cut]:
                model.apply(action)
        else:
            raise AssertionError("one pass never comes to rest")
        if model.status in JOB_FINAL:
            break
        model.answer(fair=turn >= unfair)
        model.people(fair=turn >= unfair)
    assert model.status in JOB_FINAL, f"still {model.status} after {bound} turns"
    if model.stop is not None:
        assert model.status is not JobStatus.SUCCESS or turn <= unfair // 2
    if model.status is JobStatus.SUCCESS and not mixed:
        assert set(model.tasks.values()) == {TaskStatus.SUCCESS}
    assert mixed or not any(a and a.code == "Skipped" for a in model.reasons.values())
