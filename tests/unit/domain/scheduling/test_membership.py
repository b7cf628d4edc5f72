"""Who takes part in an elastic job: each rule by an example, and what must never happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.ids import PartyId
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.task_rule import Rule
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import PartyTaskView
from fedflow.domain.scheduling.actions import (
    ApplyAt,
    EndJob,
    LaunchAgain,
    LeaveOut,
    QueueJob,
    Rejoin,
    RetryTask,
    SettleTask,
    StartJob,
    StartTask,
)
from fedflow.domain.scheduling.decide import decide, next_look_ms
from fedflow.domain.scheduling.membership import (
    ABSENT,
    LOSSES,
    MOST_LAUNCHES,
    MOST_TRIES,
    hindrance,
)
from fedflow.domain.scheduling.views import ElasticView, JobView, SiteView, TaskView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, TASK_SUCCEEDED, JobStatus, TaskStatus

NOW_MS = 1_800_000_000_000
LEASE_MS = 60_000
GUEST = Site(Role.GUEST, PartyId("9999"))
HOSTS = tuple(Site(Role.HOST, PartyId(str(10_000 + i))) for i in range(3))
ARBITER = Site(Role.ARBITER, PartyId("20000"))
ALL = (GUEST, *HOSTS, ARBITER)
DAG = Dag(
    names=("reader", "train", "evaluation"), edges=(("reader", "train"), ("train", "evaluation"))
)
RULE = ElasticView(
    min_parties=3, rejoin=True, round_deadline_ms=10_000, arbiter_wait_ms=300_000,
    rounds=frozenset({"train"}),
)  # fmt: skip
W, R, S, P = TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.PASS
F, T, C = TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED


def share(
    status: TaskStatus, code: str = "", *, launch: int = 0, since_ms: int = NOW_MS
) -> PartyTaskView:
    reason = Reason(code=code, message="killed by signal 9") if code else None
    return PartyTaskView(status=status, reason=reason, launch=launch, since_ms=since_ms)


MISSED = share(P, ABSENT)


def task(status: TaskStatus, shares: TaskStatus, **hosts: PartyTaskView) -> TaskView:
    """Return a task whose sites all have the same status, but for those that are named."""
    named = {"guest": GUEST, "host": HOSTS[0], "second": HOSTS[1], "arbiter": ARBITER}
    parties = {site: share(shares) for site in ALL}
    parties |= {named[name]: one for name, one in hosts.items()}
    return TaskView(version=0, status=status, parties=parties, started_ms=NOW_MS)


def site(which: Site, phase: SitePhase = SitePhase.GRANTED, **more: object) -> SiteView:
    return replace(SiteView(site=which, phase=phase, heard_ms=NOW_MS), **more)  # type: ignore[arg-type]


def view(
    *changed: SiteView, status: JobStatus = JobStatus.RUNNING, rule: ElasticView | None = RULE,
    phase: SitePhase = SitePhase.GRANTED, tasks: Mapping[str, TaskView] | None = None,
    **more: object,
) -> JobView:  # fmt: skip
    """Return a job whose sites are all in one phase, but for the changed ones."""
    known = {s: site(s, phase) for s in ALL} | {s.site: s for s in changed}
    base = JobView(
        job_id="1", status=status, dag=DAG, sites=tuple(known.values()),
        tasks={
            "reader": task(S, S), "train": task(R, R), "evaluation": task(W, W), **(tasks or {}),
        },
        parallelism=1, created_ms=NOW_MS, timeout_ms=3_600_000, create_timeout_ms=10_000,
        lease_ms=LEASE_MS, elastic=rule,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def absent(which: Site = HOSTS[0], **more: object) -> SiteView:
    reason = Reason(code="ExecutorDied", message="killed by signal 9", site=which)
    return site(which, SitePhase.ABSENT, reason=reason, **more)


# --- leaving out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(LOSSES))
def test_a_host_that_is_lost_is_left_out_and_its_job_goes_on(code: str) -> None:
    job = view(tasks={"train": task(R, R, host=share(F, code))})
    (left,) = decide(job, NOW_MS)
    assert isinstance(left, LeaveOut)
    assert (left.site, left.reason.code, left.retry_ms) == (HOSTS[0], code, NOW_MS + 1_000)


def test_a_silent_host_is_left_out_after_its_lease() -> None:
    job = view(site(HOSTS[0], heard_ms=NOW_MS - LEASE_MS))
    assert decide(job, NOW_MS) == []
    (left,) = decide(job, NOW_MS + 1)
    assert isinstance(left, LeaveOut)
    assert left.reason.message == "host 10000 has not answered for 60 seconds"


def test_a_silent_guest_ends_the_job() -> None:
    (end,) = decide(view(site(GUEST, heard_ms=NOW_MS - LEASE_MS - 1)), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED


def test_a_host_that_gave_the_job_up_is_left_out() -> None:
    (left,) = decide(view(site(HOSTS[0], SitePhase.GONE)), NOW_MS)
    assert isinstance(left, LeaveOut)


def test_the_error_of_a_component_itself_fails_the_job() -> None:
    job = view(tasks={"train": task(R, R, host=share(F, "BadData"))})
    settle, end = decide(job, NOW_MS)
    assert isinstance(settle, SettleTask)
    assert settle.status is F
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED


def test_all_but_too_few_lost_fail_the_job_at_once_with_the_reason() -> None:
    lost = share(F, "ExecutorDied")
    job = view(tasks={"train": task(R, R, host=lost, second=lost)})
    (end,) = decide(job, NOW_MS)
    assert end == EndJob(
        status=JobStatus.FAILED,
        reason=Reason(
            code="TooFewParties",
            message="2 of 3 parties needed are left: host 10000 is lost (killed by signal 9)",
            site=HOSTS[0],
        ),
    )


def test_without_the_settings_the_same_loss_fails_the_task() -> None:
    job = view(rule=None, tasks={"train": task(R, R, host=share(F, "ExecutorDied"))})
    settle, end = decide(job, NOW_MS)
    assert isinstance(settle, SettleTask)
    assert settle.status is F
    assert isinstance(end, EndJob)


def test_a_host_that_is_left_out_is_not_left_out_again() -> None:
    job = view(absent(retry_ms=NOW_MS + 1), tasks={"train": task(R, R, host=MISSED)})
    assert decide(job, NOW_MS) == []


def test_a_task_succeeds_without_its_absent_hosts() -> None:
    job = view(absent(), tasks={"train": task(R, S, host=MISSED)})
    assert decide(job, NOW_MS)[0] == SettleTask(component="train", version=0, status=S, reason=None)


def test_an_absent_host_is_started_with_nothing_and_so_is_one_that_lacks_the_inputs() -> None:
    done = {"reader": task(S, S, host=MISSED), "train": task(S, S, host=MISSED, second=MISSED)}
    (start,) = decide(view(absent(), tasks=done), NOW_MS)
    assert start == StartTask(component="evaluation", version=0, without=(HOSTS[0], HOSTS[1]))


def test_a_host_that_ends_long_after_the_others_is_left_out() -> None:
    job = view(tasks={"train": task(R, S, host=share(R))})
    assert decide(job, NOW_MS + 10_000) == []
    assert next_look_ms(job, NOW_MS) == NOW_MS + 10_001
    (left,) = decide(job, NOW_MS + 10_001)
    assert isinstance(left, LeaveOut)
    assert left.reason.message == "10 seconds after the others it had not ended"


def test_a_task_that_times_out_at_hosts_only_leaves_them_out() -> None:
    late = replace(task(R, S, host=share(R)), rule=Rule(timeout_ms=5_000))
    (left,) = decide(view(tasks={"train": late}), NOW_MS + 5_001)
    assert isinstance(left, LeaveOut)
    assert left.reason.code == "TaskTimedOut"


def test_a_guest_that_follows_a_lost_host_is_tried_again_for_what_it_met() -> None:
    train = task(F, R, host=MISSED, guest=share(F, "PeerFailed"))
    train = replace(train, infrastructure_left=1, ended_ms=NOW_MS)
    (retry,) = decide(view(absent(retry_ms=NOW_MS + 1), tasks={"train": train}), NOW_MS)
    assert retry == RetryTask(component="train", version=0, infrastructure=True)


# --- before it runs -------------------------------------------------------------------------------


def test_a_host_that_cannot_be_reached_at_the_submit_is_left_out_if_enough_are_left() -> None:
    unreachable = Reason(code="PartyUnreachable", message="no answer", site=HOSTS[0])
    refused = site(HOSTS[0], SitePhase.REFUSED, reason=unreachable)
    job = view(refused, status=JobStatus.READY, phase=SitePhase.CREATED)
    (left,) = decide(job, NOW_MS)
    assert isinstance(left, LeaveOut)
    gone = view(absent(), status=JobStatus.READY, phase=SitePhase.CREATED)
    assert decide(gone, NOW_MS) == [QueueJob()]


def test_a_host_that_refuses_for_a_reason_of_its_own_ends_the_submit() -> None:
    reason = Reason(code="TableNotFound", message="No table", site=HOSTS[0])
    refused = site(HOSTS[0], SitePhase.REFUSED, reason=reason)
    job = view(refused, status=JobStatus.READY, phase=SitePhase.CREATED)
    assert decide(job, NOW_MS) == [EndJob(status=JobStatus.FAILED, reason=reason)]


def test_a_host_that_does_not_accept_in_time_is_left_out() -> None:
    job = view(site(HOSTS[0], SitePhase.CREATING), status=JobStatus.READY, phase=SitePhase.CREATED)
    assert decide(job, NOW_MS + 10_000) == []
    (left,) = decide(job, NOW_MS + 10_001)
    assert isinstance(left, LeaveOut)


def test_cores_are_asked_for_where_the_host_is_not_absent() -> None:
    job = view(absent(), status=JobStatus.WAITING)
    assert decide(job, NOW_MS) == [StartJob()]
    job = view(absent(), site(ARBITER, SitePhase.CREATED), status=JobStatus.WAITING)
    assert decide(job, NOW_MS) == [ApplyAt(site=ARBITER)]


# --- coming back ----------------------------------------------------------------------------------


def test_an_absent_host_that_is_heard_from_is_asked_to_come_back_after_a_pause() -> None:
    train = {"train": task(R, R, host=MISSED)}
    job = view(absent(retry_ms=NOW_MS + 5), tasks=train)
    assert decide(job, NOW_MS + 4) == []
    assert next_look_ms(job, NOW_MS) == NOW_MS + 5
    assert decide(job, NOW_MS + 5) == [Rejoin(site=HOSTS[0])]
    silent = view(absent(heard_ms=NOW_MS - LEASE_MS - 1), tasks=train)
    assert decide(silent, NOW_MS) == []


def test_without_rejoin_an_absent_host_stays_away() -> None:
    rule = replace(RULE, rejoin=False)
    assert decide(view(absent(), rule=rule, tasks={"train": task(R, R, host=MISSED)}), NOW_MS) == []


def test_a_host_does_not_come_back_to_rounds_that_have_ended() -> None:
    job = view(absent(), tasks={"train": task(R, R, host=MISSED, guest=share(S))})
    assert decide(job, NOW_MS) == []


def test_a_host_does_not_come_back_to_rounds_behind_others_that_it_missed() -> None:
    dag = Dag(names=("bins", "train"), edges=(("bins", "train"),))
    rule = replace(RULE, rounds=frozenset({"bins", "train"}))
    tasks = {"bins": task(S, S, host=MISSED), "train": task(R, R, host=MISSED)}
    job = view(absent(), dag=dag, rule=rule, tasks=tasks)
    assert decide(job, NOW_MS) == []
    assert hindrance(job, rule, HOSTS[0]) == ("it missed the rounds of bins, and train needs them")
    ended = replace(job, tasks={**tasks, "train": task(R, S, host=MISSED, second=share(R))})
    assert hindrance(ended, rule, HOSTS[0]) == "no rounds are left that it can join"


def test_a_host_comes_back_to_rounds_that_do_not_need_those_that_it_missed() -> None:
    dag = Dag(names=("bins", "train"), edges=())
    rule = replace(RULE, rounds=frozenset({"bins", "train"}))
    tasks = {"bins": task(S, S, host=MISSED), "train": task(R, R, host=MISSED)}
    job = view(absent(), dag=dag, rule=rule, tasks=tasks)
    assert decide(job, NOW_MS) == [Rejoin(site=HOSTS[0])]
    assert hindrance(job, rule, HOSTS[0]) is None


def test_a_host_that_is_back_asks_for_cores_and_runs_what_it_missed_in_order() -> None:
    tasks = {"reader": task(S, S, host=MISSED), "train": task(R, R, host=MISSED)}
    assert decide(view(site(HOSTS[0], SitePhase.CREATED), tasks=tasks), NOW_MS) == [
        ApplyAt(site=HOSTS[0])
    ]
    assert decide(view(tasks=tasks), NOW_MS) == [
        LaunchAgain(component="reader", version=0, site=HOSTS[0])
    ]
    for under_way in (W, R):
        runs = task(S, S, host=share(under_way, launch=1))
        assert decide(view(tasks={**tasks, "reader": runs}), NOW_MS) == []
    done = task(S, S, host=share(S, launch=1))
    assert decide(view(tasks={**tasks, "reader": done}), NOW_MS) == [
        LaunchAgain(component="train", version=0, site=HOSTS[0])
    ]


def test_a_failure_of_what_the_others_have_ended_leaves_the_host_out_again() -> None:
    reader = task(S, S, host=share(F, "TableNotFound", launch=1))
    tasks = {"reader": reader, "train": task(R, R, host=MISSED)}
    (left,) = decide(view(tasks=tasks), NOW_MS)
    assert isinstance(left, LeaveOut)
    assert left.retry_ms == NOW_MS + 2_000


def test_relaunches_and_requests_are_bounded() -> None:
    many = share(P, ABSENT, launch=MOST_LAUNCHES)
    assert decide(view(absent(), tasks={"train": task(R, R, host=many)}), NOW_MS) == []
    assert decide(view(tasks={"train": task(R, R, host=many)}), NOW_MS) == []
    tried = view(absent(denials=MOST_TRIES), tasks={"train": task(R, R, host=MISSED)})
    assert decide(tried, NOW_MS) == []


def test_a_paused_job_takes_nobody_back() -> None:
    paused = Reason(code="Paused", message="by a user")
    job = view(absent(), paused=paused, tasks={"train": task(R, R, host=MISSED)})
    assert decide(job, NOW_MS) == []


# --- arbiters -------------------------------------------------------------------------------------


def test_an_arbiter_whose_process_was_lost_is_started_again_after_a_pause() -> None:
    job = view(tasks={"train": task(R, R, arbiter=share(F, "ExecutorDied"))})
    assert decide(job, NOW_MS + 999) == []
    assert next_look_ms(job, NOW_MS) == NOW_MS + 1_000
    assert decide(job, NOW_MS + 1_000) == [LaunchAgain(component="train", version=0, site=ARBITER)]


def test_the_rounds_of_a_paused_job_go_on_with_their_arbiter() -> None:
    paused = Reason(code="Paused", message="by a user")
    job = view(paused=paused, tasks={"train": task(R, R, arbiter=share(F, "ExecutorDied"))})
    assert decide(job, NOW_MS + 1_000) == [LaunchAgain(component="train", version=0, site=ARBITER)]


@pytest.mark.parametrize(
    "failed",
    [share(F, "BadData"), share(F, "ExecutorDied", launch=MOST_LAUNCHES)],
    ids=["own error", "too often"],
)
def test_an_arbiter_that_failed_by_itself_or_too_often_fails_the_task(
    failed: PartyTaskView,
) -> None:
    settle, _end = decide(view(tasks={"train": task(R, R, arbiter=failed)}), NOW_MS + 30_000)
    assert isinstance(settle, SettleTask)
    assert settle.status is F


AWAY = share(P, ABSENT)


def test_an_arbiter_whose_server_is_silent_past_its_lease_is_waited_for() -> None:
    (left,) = decide(view(site(ARBITER, heard_ms=NOW_MS - LEASE_MS - 1)), NOW_MS)
    assert isinstance(left, LeaveOut)
    assert left.site == ARBITER
    silent = absent(ARBITER, heard_ms=NOW_MS - LEASE_MS - 1)
    assert decide(view(silent, tasks={"train": task(R, R, arbiter=AWAY)}), NOW_MS) == []
    assert decide(view(absent(ARBITER), tasks={"train": task(R, R, arbiter=AWAY)}), NOW_MS) == [
        Rejoin(site=ARBITER)
    ]


def test_an_arbiter_that_is_back_asks_for_cores_and_is_started_again_once_it_has_them() -> None:
    train = {"train": task(R, R, arbiter=share(P, ABSENT, since_ms=NOW_MS - 1_000))}
    created = view(site(ARBITER, SitePhase.CREATED), tasks=train)
    assert decide(created, NOW_MS) == [ApplyAt(site=ARBITER)]
    assert decide(view(tasks=train), NOW_MS) == [
        LaunchAgain(component="train", version=0, site=ARBITER)
    ]


def test_an_arbiter_comes_back_without_rejoin_and_while_the_job_is_paused() -> None:
    train = {"train": task(R, R, arbiter=AWAY)}
    paused = Reason(code="Paused", message="by a user")
    for job in (
        view(absent(ARBITER), rule=replace(RULE, rejoin=False), tasks=train),
        view(absent(ARBITER), paused=paused, tasks=train),
    ):
        assert decide(job, NOW_MS) == [Rejoin(site=ARBITER)]


def test_a_host_may_come_back_while_the_arbiter_is_away() -> None:
    train = task(R, R, arbiter=AWAY, host=MISSED)
    job = view(absent(), absent(ARBITER), tasks={"train": train})
    assert decide(job, NOW_MS) == [Rejoin(site=HOSTS[0]), Rejoin(site=ARBITER)]


def test_what_needs_an_absent_arbiter_does_not_start_without_it() -> None:
    silent = absent(ARBITER, heard_ms=NOW_MS - LEASE_MS - 1)
    assert decide(view(silent, tasks={"train": task(W, W)}), NOW_MS) == []
    (start,) = decide(view(tasks={"train": task(W, W)}), NOW_MS)
    assert isinstance(start, StartTask)


def test_what_all_others_have_ended_is_ended_without_its_arbiter() -> None:
    job = view(absent(ARBITER), tasks={"train": task(R, S, arbiter=AWAY), "evaluation": task(S, S)})
    settle, end = decide(job, NOW_MS)
    assert settle == SettleTask(component="train", version=0, status=S, reason=None)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.SUCCESS


def test_an_arbiter_that_stays_away_fails_the_job() -> None:
    train = {"train": task(R, R, arbiter=AWAY)}
    job = view(absent(ARBITER, heard_ms=NOW_MS - LEASE_MS - 300_000), tasks=train)
    assert decide(job, NOW_MS) == []
    (end,) = decide(job, NOW_MS + 1)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED
    assert end.reason is not None
    assert (end.reason.code, end.reason.site) == ("PartyUnreachable", ARBITER)
    assert end.reason.message == "arbiter 20000 has not answered for 360 seconds"


@pytest.mark.parametrize(
    ("denials", "launch"), [(MOST_TRIES, 0), (0, MOST_LAUNCHES)], ids=["asked", "started"]
)
def test_an_arbiter_that_comes_back_in_vain_too_often_fails_the_job(
    denials: int, launch: int
) -> None:
    train = {"train": task(R, R, arbiter=share(P, ABSENT, launch=launch))}
    (end,) = decide(view(absent(ARBITER, denials=denials), tasks=train), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.reason is not None
    assert end.reason.message == (
        f"arbiter 20000 was started again, or asked to come back, {denials + launch} times:"
        " killed by signal 9"
    )


def test_without_the_wait_a_silent_arbiter_ends_the_job() -> None:
    rule = replace(RULE, arbiter_wait_ms=0)
    (end,) = decide(view(site(ARBITER, heard_ms=NOW_MS - LEASE_MS - 1), rule=rule), NOW_MS)
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED


# --- what must never happen -----------------------------------------------------------------------

shares = st.builds(
    share,
    st.sampled_from(TaskStatus),
    st.sampled_from(["", "ExecutorDied", "BadData", ABSENT]),
    launch=st.integers(0, MOST_LAUNCHES),
    since_ms=st.integers(NOW_MS - 20_000, NOW_MS),
)
tasks_ = st.builds(
    lambda status, found: TaskView(
        version=0, status=status, parties=dict(zip(ALL, found)), started_ms=NOW_MS, ended_ms=NOW_MS
    ),
    st.sampled_from(TaskStatus),
    st.lists(shares, min_size=len(ALL), max_size=len(ALL)),
)
sites = st.tuples(
    *(
        st.builds(
            site,
            st.just(which),
            st.sampled_from(SitePhase),
            heard_ms=st.sampled_from([NOW_MS, NOW_MS - 2 * LEASE_MS]),
            retry_ms=st.integers(NOW_MS - 5, NOW_MS + 5),
        )
        for which in ALL
    )
)
views = st.builds(
    lambda status, found, least, rejoin, tasks: replace(
        view(status=status),
        sites=(site(GUEST), *found[1:]) if status is JobStatus.RUNNING else found,
        elastic=replace(RULE, min_parties=least, rejoin=rejoin),
        tasks=dict(zip(DAG.names, tasks)),
    ),
    st.sampled_from(sorted(set(JobStatus) - JOB_FINAL)),
    sites,
    st.integers(1, 4),
    st.booleans(),
    st.lists(tasks_, min_size=3, max_size=3),
)
quick = settings(max_examples=150, deadline=None)


@quick
@given(job=views)
def test_an_elastic_job_never_succeeds_with_fewer_than_it_needs(job: JobView) -> None:
    assert job.elastic is not None
    for action in decide(job, NOW_MS):
        if isinstance(action, EndJob) and action.status is JobStatus.SUCCESS:
            present = [
                s for s in job.sites
                if s.phase is SitePhase.GRANTED and s.site.role is not Role.ARBITER
            ]  # fmt: skip
            assert len(present) >= job.elastic.min_parties


@quick
@given(job=views)
def test_only_what_was_missed_or_lost_is_started_again(job: JobView) -> None:
    for action in decide(job, NOW_MS):
        if isinstance(action, LaunchAgain):
            found = job.tasks[action.component].parties[action.site]
            code = found.reason.code if found.reason is not None else ""
            if action.site.role is Role.HOST:
                assert (found.status, code) == (P, ABSENT)
            else:
                assert action.site == ARBITER
                assert (found.status, code) in [(F, "ExecutorDied"), (P, ABSENT)]
            assert found.launch < MOST_LAUNCHES


@quick
@given(job=views)
def test_a_host_or_arbiter_is_left_out_or_asked_back_and_never_the_guest(job: JobView) -> None:
    by_site = {s.site: s for s in job.sites}
    for action in decide(job, NOW_MS):
        if isinstance(action, LeaveOut):
            assert action.site.role is not Role.GUEST
            assert by_site[action.site].phase is not SitePhase.ABSENT
            assert action.retry_ms > NOW_MS
        elif isinstance(action, Rejoin):
            assert action.site.role is not Role.GUEST
            assert by_site[action.site].phase is SitePhase.ABSENT
        elif isinstance(action, StartTask):
            assert all(s.role is Role.HOST for s in action.without)
            arbiter = by_site[ARBITER]
            assert arbiter.phase is SitePhase.GRANTED


@quick
@given(job=views)
def test_who_succeeded_is_never_moved_by_the_absence_of_another(job: JobView) -> None:
    for action in decide(job, NOW_MS):
        if isinstance(action, SettleTask) and action.status in TASK_SUCCEEDED:
            found = job.tasks[action.component].parties.values()
            assert all(p.status in TASK_SUCCEEDED for p in found)
