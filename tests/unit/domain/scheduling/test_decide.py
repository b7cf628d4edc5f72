"""What `decide` does next for one job: each rule by an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fedflow.base.errors.catalog import all_errors
from fedflow.base.ids import PartyId
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.task_rule import Rule
from fedflow.domain.phases import SitePhase
from fedflow.domain.policies import Policy
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import PartyTaskView
from fedflow.domain.scheduling.actions import (
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
from fedflow.domain.scheduling.decide import FOLLOW_ON, decide, first_reason, next_look_ms
from fedflow.domain.scheduling.retries import PERMANENT
from fedflow.domain.scheduling.views import JobView, SiteView, TaskView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, JobStatus, TaskStatus

NOW_MS = 1_800_000_000_000
GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10000"))
CHAIN = Dag(names=("a", "b", "c"), edges=(("a", "b"), ("b", "c")))
FAN = Dag(names=("a", "b", "c", "d"), edges=())
W, R, S, P = TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.PASS
F, T, C = TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED


def site(which: Site, phase: SitePhase = SitePhase.GRANTED, *, retry_ms: int = 0) -> SiteView:
    return SiteView(site=which, phase=phase, heard_ms=NOW_MS, retry_ms=retry_ms)


def task(*parties: TaskStatus, status: TaskStatus = R, version: int = 0) -> TaskView:
    sites = (GUEST, HOST, ARBITER)
    shares = {s: PartyTaskView(status=p, reason=why(p, s)) for s, p in zip(sites, parties)}
    return TaskView(version=version, status=status, parties=shares)


def why(status: TaskStatus, at: Site) -> Reason | None:
    if status in (F, T, C):
        return Reason(code="BadData", message=f"{status.value} there", site=at)
    return None


def view(
    status: JobStatus = JobStatus.RUNNING,
    *,
    sites: tuple[SiteView, ...] = (site(GUEST), site(HOST)),
    dag: Dag = CHAIN,
    tasks: Mapping[str, TaskView] | None = None,
    **more: object,
) -> JobView:
    waiting = {name: task(W, W, status=W) for name in dag.names}
    base = JobView(
        job_id="1",
        status=status,
        dag=dag,
        sites=sites,
        tasks={**waiting, **(tasks or {})},
        parallelism=1,
        created_ms=NOW_MS,
        timeout_ms=3_600_000,
        create_timeout_ms=10_000,
        lease_ms=60_000,
    )
    return replace(base, **more)  # type: ignore[arg-type]


def phases(*which: SitePhase) -> tuple[SiteView, ...]:
    """Return host, guest and arbiter (not in the order of asking) in these phases."""
    return tuple(site(s, p) for s, p in zip((HOST, GUEST, ARBITER), which))


# --- create ---------------------------------------------------------------------------------------


def test_a_job_is_queued_once_every_site_accepted_it() -> None:
    creating = phases(SitePhase.CREATED, SitePhase.CREATING)
    assert decide(view(JobStatus.READY, sites=creating), NOW_MS) == []
    created = phases(SitePhase.CREATED, SitePhase.CREATED)
    assert decide(view(JobStatus.READY, sites=created), NOW_MS) == [QueueJob()]


def test_a_site_that_does_not_answer_in_time_ends_the_job_and_is_named() -> None:
    ready = view(JobStatus.READY, sites=phases(SitePhase.CREATING, SitePhase.CREATED))
    assert decide(ready, NOW_MS + 10_000) == []
    (end,) = decide(ready, NOW_MS + 10_001)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED
    assert end.reason == Reason(
        code="PartyUnreachable", message="host 10000 did not accept the job within 10 seconds"
    )


def test_a_refusal_ends_the_job_with_the_sites_own_sentence() -> None:
    reason = Reason(code="TableNotFound", message="No table a.b", site=HOST)
    refused = replace(site(HOST, SitePhase.REFUSED), reason=reason)
    ready = view(JobStatus.READY, sites=(site(GUEST, SitePhase.CREATED), refused))
    assert decide(ready, NOW_MS) == [EndJob(status=JobStatus.FAILED, reason=reason)]


# --- cores ----------------------------------------------------------------------------------------


def test_cores_are_asked_for_by_party_number_then_role() -> None:
    phase = {GUEST: SitePhase.CREATED, HOST: SitePhase.CREATED, ARBITER: SitePhase.CREATED}
    asked = []
    for _ in range(3):
        waiting = view(JobStatus.WAITING, sites=tuple(site(s, p) for s, p in phase.items()))
        (action,) = decide(waiting, NOW_MS)
        assert isinstance(action, ApplyAt)
        asked.append(action.site)
        phase[action.site] = SitePhase.GRANTED
    assert asked == [GUEST, ARBITER, HOST]  # 9999 is before 10000, though not as text
    waiting = view(JobStatus.WAITING, sites=tuple(site(s, p) for s, p in phase.items()))
    assert decide(waiting, NOW_MS) == [StartJob()]


def test_the_next_site_is_asked_only_after_the_answer_of_the_one_before() -> None:
    asking = phases(SitePhase.CREATED, SitePhase.APPLYING)
    assert decide(view(JobStatus.WAITING, sites=asking), NOW_MS) == []


def test_a_denial_gives_back_what_was_taken_and_waits_for_its_time() -> None:
    denied = site(HOST, SitePhase.DENIED, retry_ms=NOW_MS + 100)
    waiting = view(JobStatus.WAITING, sites=(site(GUEST), denied))
    assert decide(waiting, NOW_MS) == [ReleaseAt(sites=(GUEST,))]
    released = view(JobStatus.WAITING, sites=(site(GUEST, SitePhase.CREATED), denied))
    assert decide(released, NOW_MS + 99) == []
    assert decide(released, NOW_MS + 100) == [ApplyAt(site=GUEST)]


def test_a_job_whose_turn_it_is_not_asks_for_no_cores_but_goes_on_if_it_has_some() -> None:
    created = view(
        JobStatus.WAITING, sites=phases(SitePhase.CREATED, SitePhase.CREATED), may_request=False
    )
    assert decide(created, NOW_MS) == []
    halfway = phases(SitePhase.CREATED, SitePhase.GRANTED)
    assert decide(replace(created, sites=halfway), NOW_MS) == [ApplyAt(site=HOST)]


# --- run ------------------------------------------------------------------------------------------


def test_a_task_starts_once_its_inputs_are_there() -> None:
    assert decide(view(), NOW_MS) == [StartTask(component="a", version=0)]
    assert decide(view(tasks={"a": task(R, S)}), NOW_MS) == []
    done = view(tasks={"a": task(S, P)})
    assert decide(done, NOW_MS) == [
        SettleTask(component="a", version=0, status=S, reason=None),
        StartTask(component="b", version=0),
    ]


def test_a_task_is_settled_and_started_with_its_own_version() -> None:
    again = view(tasks={"a": task(S, S, version=2), "b": task(W, W, status=W, version=3)})
    settle, start = decide(again, NOW_MS)
    assert isinstance(settle, SettleTask)
    assert isinstance(start, StartTask)
    assert (settle.version, start.version) == (2, 3)


@pytest.mark.parametrize(("parallelism", "started"), [(1, "a"), (2, "ab"), (9, "abcd")])
def test_no_more_tasks_run_at_once_than_allowed(parallelism: int, started: str) -> None:
    actions = decide(view(dag=FAN, parallelism=parallelism), NOW_MS)
    assert actions == [StartTask(component=c, version=0) for c in started]


def test_running_tasks_take_places() -> None:
    running = view(dag=FAN, tasks={"b": task(R, R)}, parallelism=2)
    assert decide(running, NOW_MS) == [StartTask(component="a", version=0)]
    assert decide(replace(running, parallelism=1), NOW_MS) == []


def test_after_a_failure_nothing_new_starts_and_what_runs_may_end() -> None:
    failed = view(dag=FAN, tasks={"a": task(F, R), "b": task(R, R)}, parallelism=3)
    assert decide(failed, NOW_MS) == [
        SettleTask(component="a", version=0, status=F, reason=why(F, GUEST))
    ]
    settled = view(
        dag=FAN, tasks={"a": task(F, C, status=F), "b": task(R, R, status=R)}, parallelism=3
    )
    assert decide(settled, NOW_MS) == []


def test_the_job_ends_with_the_failed_tasks_reason_and_its_place() -> None:
    failed = view(tasks={"a": task(R, F)})
    settle, end = decide(failed, NOW_MS)
    assert isinstance(settle, SettleTask)
    assert end == EndJob(
        status=JobStatus.FAILED,
        reason=Reason(code="BadData", message="a at host 10000: failed there", site=HOST),
    )


def test_a_failure_without_a_reason_still_names_the_component() -> None:
    silent = TaskView(version=0, status=F, parties={GUEST: PartyTaskView(status=F)})
    (end,) = decide(view(tasks={"a": silent}), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.reason == Reason(code="ComponentFailed", message="a did not succeed")


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((S, S, S, S), JobStatus.SUCCESS),
        ((S, P, S, P), JobStatus.SUCCESS),
        ((C, T, F, S), JobStatus.FAILED),
        ((C, T, S, S), JobStatus.TIMEOUT),
        ((S, S, C, W), JobStatus.CANCELED),
    ],
)
def test_the_worst_task_names_the_end_of_the_job(
    ends: tuple[TaskStatus, ...], expected: JobStatus
) -> None:
    tasks = {name: task(end, end, status=end) for name, end in zip("abcd", ends)}
    (end,) = decide(view(dag=FAN, tasks=tasks), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.status is expected
    assert (end.reason is None) == (expected is JobStatus.SUCCESS)


# --- ends from outside ----------------------------------------------------------------------------

OPEN = [s for s in JobStatus if s not in JOB_FINAL]


@pytest.mark.parametrize("status", sorted(JOB_FINAL))
def test_an_ended_job_needs_nothing_whatever_happens(status: JobStatus) -> None:
    stop = StopRequest(status=JobStatus.CANCELED, reason=Reason(code="Stopped", message="by me"))
    gone = phases(SitePhase.GONE, SitePhase.REFUSED)
    assert decide(view(status, sites=gone, stop=stop), NOW_MS + 10**9) == []


@pytest.mark.parametrize("status", OPEN)
def test_a_stop_wins_over_everything_else(status: JobStatus) -> None:
    stop = StopRequest(status=JobStatus.CANCELED, reason=Reason(code="Stopped", message="by me"))
    gone = view(status, sites=phases(SitePhase.GONE, SitePhase.REFUSED), stop=stop)
    assert decide(gone, NOW_MS + 10**9) == [EndJob(status=stop.status, reason=stop.reason)]


@pytest.mark.parametrize("status", OPEN)
@pytest.mark.parametrize("phase", [SitePhase.GONE, SitePhase.REFUSED])
def test_a_site_that_is_gone_ends_the_job(status: JobStatus, phase: SitePhase) -> None:
    (end,) = decide(view(status, sites=phases(phase, SitePhase.GRANTED)), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED
    assert end.reason is not None
    assert end.reason.site == HOST


@pytest.mark.parametrize("status", OPEN)
def test_a_site_that_is_silent_for_longer_than_its_lease_ends_the_job(status: JobStatus) -> None:
    quiet = replace(site(HOST), heard_ms=NOW_MS - 60_001)
    (end,) = decide(view(status, sites=(site(GUEST), quiet)), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED
    assert end.reason == Reason(
        code="PartyUnreachable", message="host 10000 has not answered for 60 seconds", site=HOST
    )
    just = replace(site(HOST), heard_ms=NOW_MS - 60_000)
    actions = decide(view(status, sites=(site(GUEST), just)), NOW_MS)
    assert not [a for a in actions if isinstance(a, EndJob)]


def test_a_site_that_was_never_heard_from_is_judged_by_the_time_to_create() -> None:
    creating = replace(site(HOST, SitePhase.CREATING), heard_ms=0)
    ready = view(JobStatus.READY, sites=(site(GUEST, SitePhase.CREATED), creating))
    assert decide(ready, NOW_MS) == []


@pytest.mark.parametrize("status", OPEN)
def test_a_job_that_takes_too_long_times_out(status: JobStatus) -> None:
    late = NOW_MS + 3_600_001
    sites = tuple(replace(site(s, SitePhase.CREATED), heard_ms=late) for s in (GUEST, HOST))
    (end,) = decide(view(status, sites=sites), late)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.TIMEOUT
    assert end.reason is not None
    assert end.reason.code == "JobTimedOut"
    assert status.value in end.reason.message
    assert "3600 seconds" in end.reason.message


# --- reasons --------------------------------------------------------------------------------------


def share(code: str | None, since_ms: int) -> PartyTaskView:
    reason = Reason(code=code, message="m") if code else None
    return PartyTaskView(status=F, reason=reason, since_ms=since_ms)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((share("BadData", 5), share("ExecutorDied", 3)), "ExecutorDied"),
        ((share("PeerFailed", 1), share("ExecutorDied", 3)), "ExecutorDied"),
        ((share("PeerFailed", 1), share("ValueTooLate", 3), share("BadData", 9)), "BadData"),
        ((share("ValueTooLate", 3), share("PeerFailed", 1)), "PeerFailed"),
        ((share(None, 0), share("BadData", 9)), "BadData"),
    ],
)
def test_the_first_reason_is_the_earliest_that_no_other_site_caused(
    shares: tuple[PartyTaskView, ...], expected: str
) -> None:
    for given in (shares, shares[::-1]):
        found = first_reason(zip((GUEST, HOST, ARBITER), given))
        assert found is not None
        assert found.code == expected


def test_without_any_reason_there_is_no_first_one() -> None:
    assert first_reason([(GUEST, share(None, 1))]) is None
    assert first_reason([]) is None


def test_errors_that_follow_others_are_named_as_their_classes() -> None:
    assert {kind.__name__ for kind in all_errors()} >= FOLLOW_ON


# --- retries and reruns ---------------------------------------------------------------------------


def failed(code: str = "ExecutorDied", *, settled: bool = True, **more: object) -> TaskView:
    """Return a failed attempt with two retries left."""
    reason = Reason(code=code, message="gone", site=HOST)
    parties = {
        GUEST: PartyTaskView(status=C, since_ms=NOW_MS),
        HOST: PartyTaskView(status=F, reason=reason, since_ms=NOW_MS),
    }
    base = TaskView(
        version=1, status=F if settled else R, parties=parties, ended_ms=NOW_MS, retries_left=2
    )
    return replace(base, **more)  # type: ignore[arg-type]


def test_a_failed_task_is_settled_before_it_is_tried_again() -> None:
    actions = decide(view(tasks={"a": failed(settled=False)}), NOW_MS)
    assert [type(a) for a in actions] == [SettleTask]


def test_a_retry_waits_for_its_delay_and_the_job_waits_with_it() -> None:
    waiting = view(tasks={"a": failed(rule=Rule(retry_delay_ms=3_000))})
    assert decide(waiting, NOW_MS + 2_999) == []
    assert decide(waiting, NOW_MS + 3_000) == [RetryTask(component="a", version=1)]


def test_others_start_while_a_task_waits_for_its_retry() -> None:
    late = failed(rule=Rule(retry_delay_ms=3_000))
    waiting = view(dag=FAN, tasks={"a": late}, parallelism=3)
    assert [a.component for a in decide(waiting, NOW_MS) if isinstance(a, StartTask)] == [
        "b", "c", "d",
    ]  # fmt: skip


def test_without_retries_left_the_job_fails() -> None:
    actions = decide(view(tasks={"a": failed(retries_left=0)}), NOW_MS)
    assert [a.status for a in actions if isinstance(a, EndJob)] == [JobStatus.FAILED]


@pytest.mark.parametrize("code", sorted(PERMANENT))
def test_an_error_that_cannot_change_is_not_tried_again(code: str) -> None:
    actions = decide(view(tasks={"a": failed(code)}), NOW_MS)
    assert [type(a) for a in actions] == [EndJob]


def test_a_canceled_task_is_not_tried_again() -> None:
    ended = replace(task(C, S, status=C), retries_left=2, ended_ms=NOW_MS)
    assert [type(a) for a in decide(view(tasks={"a": ended}), NOW_MS)] == [EndJob]


def test_a_task_that_timed_out_is_tried_again() -> None:
    reason = Reason(code="TaskTimedOut", message="too long")
    ended = replace(task(R, S, status=T), retries_left=2, ended_ms=NOW_MS, reason=reason)
    assert decide(view(tasks={"a": ended}), NOW_MS) == [RetryTask(component="a", version=0)]


def test_another_failure_ends_the_job_without_the_retry() -> None:
    tasks = {"a": failed(), "b": task(F, S, status=F)}
    actions = decide(view(dag=FAN, tasks=tasks), NOW_MS)
    assert [type(a) for a in actions] == [EndJob]


def test_a_failure_that_a_rerun_left_alone_stops_nothing_but_counts_at_the_end() -> None:
    tasks = {"a": failed(kept=True), "b": task(W, W, status=W)}
    dag = Dag(names=("a", "b"), edges=())
    starts = decide(view(dag=dag, tasks=tasks), NOW_MS)
    assert starts == [StartTask(component="b", version=0)]
    done = {**tasks, "b": task(S, S, status=S)}
    ends = decide(view(dag=dag, tasks=done), NOW_MS)
    assert [(type(a), a.status) for a in ends if isinstance(a, EndJob)] == [
        (EndJob, JobStatus.FAILED)
    ]


# --- policies -------------------------------------------------------------------------------------

FORK = Dag(names=("a", "b", "c", "d"), edges=(("a", "b"), ("b", "c"), ("a", "d")))


def with_policy(policy: Policy, base: TaskView | None = None) -> TaskView:
    return replace(base or task(W, W, status=W), rule=Rule(policy=policy))


def broken(name: str = "a") -> dict[str, TaskView]:
    return {name: task(F, S, status=F)}


def test_a_component_that_can_live_with_failures_runs_and_the_rest_is_skipped() -> None:
    tasks = {**broken(), "d": with_policy(Policy.ALL_DONE)}
    skips = [
        SkipTask(component=c, version=0, reason=Reason(code="Skipped", message=m))
        for c, m in (
            ("b", "skipped by its policy all_success, because a is failed"),
            ("c", "skipped by its policy all_success, because b was skipped"),
        )
    ]
    assert decide(view(dag=FORK, tasks=tasks), NOW_MS) == [
        *skips,
        StartTask(component="d", version=0),
    ]


def skipped(**more: object) -> TaskView:
    reason = Reason(code="Skipped", message="m")
    base = replace(task(C, C, status=C), reason=reason)
    return replace(base, **more)  # type: ignore[arg-type]


def ends_of(dag: Dag, tasks: Mapping[str, TaskView], **more: object) -> EndJob:
    actions = decide(view(dag=dag, tasks=tasks, **more), NOW_MS)
    assert isinstance(actions[-1], EndJob)
    return actions[-1]


def test_a_failure_does_not_count_if_everything_behind_it_ran_all_the_same() -> None:
    cleaned = with_policy(Policy.ALL_DONE, task(S, S, status=S))
    assert ends_of(CHAIN, {**broken(), "b": cleaned, "c": task(S, S, status=S)}).status is (
        JobStatus.SUCCESS
    )
    end = ends_of(CHAIN, {**broken(), "b": cleaned, "c": task(T, S, status=T)})
    assert end.status is JobStatus.TIMEOUT


def test_a_failure_counts_if_something_behind_it_was_skipped() -> None:
    cleaned = with_policy(Policy.ALL_DONE, task(S, S, status=S))
    end = ends_of(FORK, {**broken(), "b": skipped(), "c": cleaned, "d": cleaned})
    assert end.status is JobStatus.FAILED
    assert end.reason is not None
    assert end.reason.message.startswith("a at guest 9999")


def test_a_component_that_was_skipped_last_cancels_the_job() -> None:
    both = Dag(names=("a", "b", "c"), edges=(("a", "b"), ("a", "c")))
    tasks = {
        "a": task(S, S, status=S),
        "b": with_policy(Policy.ALL_DONE, task(S, S, status=S)),
        "c": skipped(),
    }
    assert ends_of(both, tasks).status is JobStatus.CANCELED


def test_a_failure_that_will_be_tried_again_skips_nothing() -> None:
    tasks = {
        "a": failed(rule=Rule(retry_delay_ms=3_000)),
        "b": with_policy(Policy.ONE_SUCCESS),
    }
    assert decide(view(tasks=tasks), NOW_MS) == []


def test_without_such_a_policy_the_first_failure_ends_the_job_and_skips_nothing() -> None:
    assert [type(a) for a in decide(view(tasks=broken()), NOW_MS)] == [EndJob]


# --- run_to, step, pause --------------------------------------------------------------------------


def test_only_what_was_selected_runs_and_the_job_succeeds_without_the_rest() -> None:
    chosen = frozenset({"a", "b"})
    assert decide(view(selected=chosen), NOW_MS) == [StartTask(component="a", version=0)]
    done = {"a": task(S, S, status=S), "b": task(S, S, status=S)}
    skip, end = decide(view(tasks=done, selected=chosen), NOW_MS)
    assert isinstance(skip, SkipTask)
    assert (skip.component, skip.reason.code) == ("c", "NotSelected")
    assert end == EndJob(status=JobStatus.SUCCESS, reason=None)


def test_what_an_earlier_epoch_left_out_does_not_count_later() -> None:
    left_out = Reason(code="NotSelected", message="m")
    kept = replace(task(C, C, status=C), kept=True, reason=left_out)
    tasks = {"a": task(S, S, status=S), "b": task(S, S, status=S), "c": kept}
    assert ends_of(CHAIN, tasks).status is JobStatus.SUCCESS


PAUSED_BY = Reason(code="Paused", message="paused by guest 9999", site=GUEST)


def test_a_paused_job_lets_its_tasks_end_and_is_held_then() -> None:
    running = view(dag=FAN, tasks={"a": task(R, R)}, parallelism=2, paused=PAUSED_BY)
    assert decide(running, NOW_MS) == []
    settle, hold = decide(replace(running, tasks={**running.tasks, "a": task(S, S)}), NOW_MS)
    assert isinstance(settle, SettleTask)
    assert hold == HoldJob(reason=PAUSED_BY)


def test_a_paused_job_with_nothing_left_to_do_ends() -> None:
    done = {name: task(S, S, status=S) for name in "abc"}
    assert ends_of(CHAIN, done, paused=PAUSED_BY).status is JobStatus.SUCCESS


def test_a_job_without_a_step_left_is_held_before_the_next_component() -> None:
    stepping = view(dag=FAN, parallelism=3, steps_left=1)
    assert decide(stepping, NOW_MS) == [StartTask(component="a", version=0)]
    after = replace(stepping, tasks={**stepping.tasks, "a": task(S, S, status=S)}, steps_left=0)
    (hold,) = decide(after, NOW_MS)
    assert isinstance(hold, HoldJob)
    assert hold.reason.code == "AwaitsStep"


def test_a_retry_needs_no_step_of_its_own() -> None:
    again = replace(task(W, W, status=W, version=1), begun=True)
    stepping = view(tasks={"a": again}, steps_left=0)
    assert decide(stepping, NOW_MS) == [StartTask(component="a", version=1)]


def test_a_held_job_gives_back_cores_that_come_late_and_asks_for_none() -> None:
    held = view(JobStatus.WAITING, paused=PAUSED_BY)
    assert decide(held, NOW_MS) == [HoldJob(reason=PAUSED_BY)]
    known = replace(held, held_ms=NOW_MS)
    assert decide(known, NOW_MS) == [ReleaseAt(sites=(GUEST, HOST))]
    created = phases(SitePhase.CREATED, SitePhase.APPLYING)
    assert decide(replace(known, sites=created), NOW_MS) == []


def heard_at(now_ms: int) -> tuple[SiteView, ...]:
    return tuple(replace(site(s, SitePhase.CREATED), heard_ms=now_ms) for s in (GUEST, HOST))


def test_the_timeout_stands_still_while_a_job_is_held() -> None:
    late = NOW_MS + 3_600_001
    held = view(JobStatus.WAITING, sites=heard_at(late), paused=PAUSED_BY, held_ms=NOW_MS + 5)
    assert decide(held, late) == []
    rested = view(JobStatus.WAITING, sites=heard_at(late), rested_ms=1_000)
    assert not [a for a in decide(rested, late) if isinstance(a, EndJob)]
    assert [type(a) for a in decide(rested, late + 1_000)] == [EndJob]


def test_a_job_that_is_held_for_too_long_times_out() -> None:
    late = NOW_MS + 7 * 86_400_000
    held = view(JobStatus.WAITING, sites=heard_at(late), paused=PAUSED_BY, held_ms=NOW_MS)
    assert decide(held, late) == []
    (end,) = decide(held, late + 1)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.TIMEOUT
    assert end.reason is not None
    assert (end.reason.code, "168 hours" in end.reason.message) == ("HeldTooLong", True)


# --- timeouts, retries and shares of single components --------------------------------------------


def test_a_task_is_settled_everywhere_when_its_time_is_up() -> None:
    rule = Rule(timeout_ms=5_000)
    slow = replace(task(R, S), started_ms=NOW_MS, rule=rule)
    assert decide(view(tasks={"a": slow}), NOW_MS + 5_000) == []
    settle, end = decide(view(tasks={"a": slow}), NOW_MS + 6_001)
    assert isinstance(settle, SettleTask)
    assert (settle.status, settle.reason) == (
        T,
        Reason(
            code="TaskTimedOut", message="a has run for 6 seconds, and its timeout is 5 seconds"
        ),
    )
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.TIMEOUT


def test_a_task_that_ended_in_time_is_not_timed_out_later() -> None:
    ended = replace(task(S, S), started_ms=NOW_MS, rule=Rule(timeout_ms=5_000))
    (settle, _) = decide(view(tasks={"a": ended}), NOW_MS + 60_000)
    assert isinstance(settle, SettleTask)
    assert settle.status is S


@pytest.mark.parametrize(
    ("retry_on", "code", "again"),
    [
        (None, "ExecutorDied", True),
        (None, "BadData", False),
        ({"BadData"}, "BadData", True),
        ({"BadData"}, "ExecutorDied", False),
        (set(), "ExecutorDied", False),
    ],
)
def test_the_errors_that_are_tried_again_can_be_named(
    retry_on: set[str] | None, code: str, again: bool
) -> None:
    rule = Rule(retry_on=None if retry_on is None else frozenset(retry_on))
    (action,) = decide(view(tasks={"a": failed(code, rule=rule)}), NOW_MS)
    assert isinstance(action, RetryTask if again else EndJob)


@pytest.mark.parametrize("code", ["ServerRestarted", "ServerLost", "PeerFailed", "SparkLost"])
def test_a_failure_of_a_server_is_tried_again_at_no_cost(code: str) -> None:
    lost = failed(code, retries_left=0, infrastructure_left=1)
    assert decide(view(tasks={"a": lost}), NOW_MS) == [
        RetryTask(component="a", version=1, infrastructure=True)
    ]
    spent = replace(lost, infrastructure_left=0)
    assert [type(a) for a in decide(view(tasks={"a": spent}), NOW_MS)] == [EndJob]
    paid = replace(spent, retries_left=1)
    assert decide(view(tasks={"a": paid}), NOW_MS) == [RetryTask(component="a", version=1)]


def test_a_real_error_beside_a_lost_peer_is_no_failure_of_a_server() -> None:
    parties = {
        GUEST: PartyTaskView(status=F, reason=Reason(code="PeerFailed", message="m"), since_ms=1),
        HOST: PartyTaskView(status=F, reason=Reason(code="BadData", message="m"), since_ms=2),
    }
    both = TaskView(version=0, status=F, parties=parties, infrastructure_left=3)
    assert [type(a) for a in decide(view(tasks={"a": both}), NOW_MS)] == [EndJob]


def test_tasks_run_together_only_if_they_fit_into_the_jobs_share_at_all_their_sites() -> None:
    share = {GUEST: ComputeResources(cores=4), HOST: ComputeResources(cores=4, memory=100)}

    def takes(cores: int, memory: int = 0) -> TaskView:
        amounts = {
            GUEST: ComputeResources(cores=1),
            HOST: ComputeResources(cores=cores, memory=memory),
        }
        return replace(task(W, W, status=W), rule=Rule(takes=amounts))

    tasks = {"a": takes(3), "b": takes(2), "c": takes(1, 100), "d": takes(0, 1)}
    starting = view(dag=FAN, tasks=tasks, parallelism=4, shares=share)
    assert [a.component for a in decide(starting, NOW_MS) if isinstance(a, StartTask)] == ["a", "c"]


def test_a_task_that_is_too_big_runs_alone_rather_than_never() -> None:
    big = replace(task(W, W, status=W), rule=Rule(takes={GUEST: ComputeResources(cores=9)}))
    starting = view(
        dag=FAN, tasks={"a": big}, shares={GUEST: ComputeResources(cores=4)}, parallelism=4
    )
    starts = [a.component for a in decide(starting, NOW_MS) if isinstance(a, StartTask)]
    assert starts == ["a", "b", "c", "d"]  # the others take nothing


# --- components of other sites --------------------------------------------------------------------


def test_a_component_that_runs_at_other_parties_only_is_started_and_settled_like_any_other() -> (
    None
):
    remote = TaskView(version=0, status=W, parties={HOST: PartyTaskView(status=W)})
    first = view(tasks={"a": remote})
    assert decide(first, NOW_MS) == [StartTask(component="a", version=0)]
    done = replace(remote, status=R, parties={HOST: PartyTaskView(status=S)})
    assert decide(view(tasks={"a": done}), NOW_MS) == [
        SettleTask(component="a", version=0, status=S, reason=None),
        StartTask(component="b", version=0),
    ]


# --- when to look again ---------------------------------------------------------------------------


def test_the_next_look_is_when_the_first_of_all_times_is_up() -> None:
    assert next_look_ms(view(), NOW_MS) == NOW_MS + 3_600_001
    slow = replace(task(R, R), started_ms=NOW_MS, rule=Rule(timeout_ms=5_000))
    retry = failed(rule=Rule(retry_delay_ms=3_000))
    assert next_look_ms(view(tasks={"a": slow}), NOW_MS) == NOW_MS + 5_001
    assert next_look_ms(view(dag=FAN, tasks={"a": slow, "b": retry}), NOW_MS) == NOW_MS + 3_000
    assert next_look_ms(view(dag=FAN, tasks={"b": retry}), NOW_MS + 3_000) == NOW_MS + 3_600_001
    denied = site(HOST, SitePhase.DENIED, retry_ms=NOW_MS + 70)
    waiting = view(JobStatus.WAITING, sites=(site(GUEST, SitePhase.CREATED), denied))
    assert next_look_ms(waiting, NOW_MS) == NOW_MS + 70
    held = view(JobStatus.WAITING, paused=PAUSED_BY, held_ms=NOW_MS, hold_limit_ms=50)
    assert next_look_ms(held, NOW_MS) == NOW_MS + 51
    assert next_look_ms(view(JobStatus.READY), NOW_MS) == NOW_MS + 10_001
    assert next_look_ms(view(JobStatus.FAILED), NOW_MS) is None
