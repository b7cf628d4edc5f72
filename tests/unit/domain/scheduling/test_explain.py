"""What a job waits for, one kind of waiting after the other, and why it ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.task_rule import Rule
from fedflow.domain.phases import SitePhase
from fedflow.domain.policies import Policy
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    Command,
    CommandKind,
    Handle,
    JobKey,
    JobRecord,
    PartyTaskView,
    TaskKey,
)
from fedflow.domain.records import TaskRecord as Task
from fedflow.domain.scheduling.explain import (
    JobEnd,
    QueueContext,
    QueuePosition,
    Wait,
    deadline_ms,
    end_of,
    hint_of,
    waits_of,
    waits_of_share,
)
from fedflow.domain.scheduling.views import ElasticView, JobView, SiteView, TaskView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, JobStatus, TaskStatus

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
NOW = 1_000_000
BEGAN = 900_000
END = BEGAN + 500_000
DAG = Dag(names=("a", "b"), edges=(("a", "b"),))


def task(status: TaskStatus = TaskStatus.WAITING, **more: Any) -> TaskView:
    parties = {s: PartyTaskView(status=status) for s in (GUEST, HOST)}
    return TaskView(**{"version": 0, "status": status, "parties": parties, **more})


def view(status: JobStatus, *, phase: SitePhase = SitePhase.CREATED, **more: Any) -> JobView:
    sites = tuple(SiteView(site=s, phase=phase, heard_ms=NOW) for s in (GUEST, HOST))
    values: dict[str, Any] = {
        "job_id": "j1", "status": status, "dag": DAG, "sites": sites,
        "tasks": {"a": task(), "b": task()}, "parallelism": 1, "created_ms": BEGAN,
        "timeout_ms": 500_000, "create_timeout_ms": 10_000, "lease_ms": 60_000,
    }  # fmt: skip
    return JobView(**{**values, **more})


def running(**more: Any) -> JobView:
    return view(JobStatus.RUNNING, phase=SitePhase.GRANTED, **more)


def at_host(shown: JobView, phase: SitePhase, **more: Any) -> JobView:
    sites = tuple(replace(s, phase=phase, **more) if s.site == HOST else s for s in shown.sites)
    return replace(shown, sites=sites)


def only(waits: list[Wait]) -> Wait:
    (wait,) = waits
    assert wait.remedy
    return wait


def test_a_site_that_has_not_accepted_is_waited_for_until_the_create_timeout() -> None:
    wait = only(waits_of(at_host(view(JobStatus.READY), SitePhase.CREATING), NOW))
    assert (wait.code, wait.site, wait.since_ms, wait.deadline_ms) == (
        "Creating", HOST, BEGAN, BEGAN + 10_000
    )  # fmt: skip


LACK = Reason(
    code="NotEnoughResources", message="waits for 4 cores at guest 9999: 2 of 8 free", site=GUEST
)


def test_a_queued_job_says_what_it_needs_what_there_is_and_who_goes_first() -> None:
    place = QueuePosition(reason=LACK, position=3, waiting=7, ahead=("j7", "j8"))
    wait = only(waits_of(view(JobStatus.WAITING), NOW, QueueContext(place=place)))
    assert wait.code == "NotEnoughResources"
    assert wait.message == (
        "waits for 4 cores at guest 9999: 2 of 8 free; it is number 3 of 7 in the queue, "
        "right behind j7, j8"
    )
    assert (wait.site, wait.since_ms, wait.deadline_ms) == (GUEST, BEGAN, END)


def test_a_queued_job_whose_place_nobody_looked_for_says_why_it_waits() -> None:
    wait = only(
        waits_of(view(JobStatus.WAITING), NOW, QueueContext(place=QueuePosition(reason=LACK)))
    )
    assert (wait.code, wait.message) == (LACK.code, LACK.message)
    assert only(waits_of(view(JobStatus.WAITING), NOW)).code == "Queued"


@pytest.mark.parametrize("code", ["NotEnoughResources", "Reserved"])
def test_a_denial_says_where_why_and_when_it_is_asked_again(code: str) -> None:
    reason = Reason(code=code, message="waits for 4 cores at host 10000", site=HOST)
    shown = at_host(view(JobStatus.WAITING), SitePhase.DENIED, retry_ms=NOW + 50, reason=reason)
    wait = only(waits_of(shown, NOW, QueueContext(denied_ms={HOST: NOW - 70})))
    assert (wait.code, wait.message, wait.site) == (code, reason.message, HOST)
    assert (wait.since_ms, wait.next_ms, wait.deadline_ms) == (NOW - 70, NOW + 50, END)
    assert "host 10000" in wait.remedy


def test_a_site_that_was_asked_for_cores_and_has_not_answered_is_named() -> None:
    shown = at_host(view(JobStatus.WAITING, phase=SitePhase.GRANTED), SitePhase.APPLYING)
    wait = only(waits_of(shown, NOW, QueueContext(applied_ms={HOST: NOW - 5})))
    assert (wait.code, wait.site, wait.since_ms) == ("Applying", HOST, NOW - 5)


def test_a_job_with_all_its_cores_is_about_to_run() -> None:
    assert only(waits_of(view(JobStatus.WAITING, phase=SitePhase.GRANTED), NOW)).code == "Starting"


def test_a_paused_job_says_who_paused_it_and_how_it_goes_on() -> None:
    paused = Reason(code="Paused", message="paused by a user at host 10000", site=HOST)
    shown = view(JobStatus.WAITING, paused=paused, held_ms=NOW - 9, hold_limit_ms=100)
    wait = only(waits_of(shown, NOW))
    assert (wait.code, wait.site, wait.since_ms, wait.deadline_ms) == (
        "Paused", HOST, NOW - 9, NOW + 91
    )  # fmt: skip
    assert "fedflow job continue -j j1" in wait.remedy
    assert deadline_ms(shown) == NOW + 91


def test_a_job_that_runs_step_by_step_says_how_the_next_step_is_allowed() -> None:
    wait = only(waits_of(view(JobStatus.WAITING, steps_left=0, held_ms=NOW - 9), NOW))
    assert wait.code == "AwaitsStep"
    assert "fedflow job continue -j j1" in wait.remedy


def test_a_pause_while_tasks_run_says_so_and_names_the_tasks() -> None:
    paused = Reason(code="Paused", message="paused by a user")
    tasks = {"a": task(TaskStatus.RUNNING, started_ms=NOW - 5), "b": task()}
    waits = waits_of(running(paused=paused, tasks=tasks), NOW)
    assert [w.code for w in waits] == ["Paused", "Running", "Running", "Upstream"]
    assert waits[0].message == "paused by a user; what runs goes on"


def test_a_running_task_names_the_sites_that_have_not_reported() -> None:
    parties = {
        GUEST: PartyTaskView(status=TaskStatus.SUCCESS),
        HOST: PartyTaskView(status=TaskStatus.RUNNING, since_ms=NOW - 40),
    }
    rule = Rule(timeout_ms=600)
    one = task(TaskStatus.RUNNING, parties=parties, started_ms=NOW - 50, rule=rule)
    shown = at_host(running(tasks={"a": one, "b": task()}), SitePhase.GRANTED, heard_ms=NOW - 7)
    first, second = waits_of(shown, NOW)
    assert (first.code, first.component, first.site) == ("Running", "a", HOST)
    assert (first.since_ms, first.heard_ms, first.deadline_ms) == (NOW - 40, NOW - 7, NOW + 550)
    assert (second.code, second.component, second.message) == (
        "Upstream", "b", "b waits for a (running)"
    )  # fmt: skip


def test_a_task_that_has_what_it_needs_says_who_takes_its_cores() -> None:
    side_by_side = Dag(names=("a", "b"), edges=())
    tasks = {"a": task(TaskStatus.RUNNING, started_ms=NOW - 5), "b": task()}
    wait = waits_of(running(dag=side_by_side, tasks=tasks), NOW)[-1]
    assert (wait.code, wait.component) == ("TaskParallelism", "b")
    assert "but a takes the job's share" in wait.message
    assert "task_parallelism" in wait.remedy


def test_a_retry_says_what_failed_and_when_it_is_tried_again() -> None:
    reason = Reason(code="ExecutorDied", message="killed by signal 9.", site=HOST)
    failed = task(
        TaskStatus.FAILED, ended_ms=NOW - 10, retries_left=2, reason=reason,
        rule=Rule(retries=3, retry_delay_ms=5_000),
    )  # fmt: skip
    wait, behind = waits_of(running(tasks={"a": failed, "b": task()}), NOW)
    assert (wait.code, wait.component, wait.site) == ("Retry", "a", HOST)
    assert (wait.since_ms, wait.next_ms) == (NOW - 10, NOW + 4_990)
    assert "ExecutorDied: killed by signal 9" in wait.message
    assert "retries that are left: 2" in wait.remedy
    assert behind.code == "Upstream"


def test_a_failure_that_ends_the_job_keeps_all_others_from_starting() -> None:
    dag = Dag(names=("a", "b", "c", "d"), edges=(("a", "b"),))
    tasks = {
        "a": task(TaskStatus.FAILED, ended_ms=NOW - 5), "b": task(),
        "c": task(TaskStatus.RUNNING, started_ms=1), "d": task(),
    }  # fmt: skip
    waits = {w.component: w for w in waits_of(running(dag=dag, tasks=tasks), NOW)}
    assert (waits["b"].code, waits["d"].code) == ("WillNotStart", "WillNotStart")
    assert waits["d"].message == "d will not start, because a is failed"
    assert waits["c"].code == "Running"


def test_with_a_policy_that_lives_with_failures_a_task_waits_for_the_others() -> None:
    dag = Dag(names=("a", "b", "c"), edges=(("a", "c"), ("b", "c")))
    rule = Rule(policy=Policy.ALL_DONE)
    tasks = {
        "a": task(TaskStatus.FAILED, ended_ms=NOW - 5),
        "b": task(TaskStatus.RUNNING, started_ms=1), "c": task(rule=rule),
    }  # fmt: skip
    wait = waits_of(running(dag=dag, tasks=tasks), NOW)[-1]
    assert (wait.code, wait.message) == ("Upstream", "c waits for b (running)")


def test_a_task_that_was_skipped_or_timed_out_explains_the_end() -> None:
    late = Reason(code="TaskTimedOut", message="a ran for 9 seconds, its limit is 5")
    skipped = Reason(code="Skipped", message="skipped by its policy")
    tasks = [("b", 0, TaskStatus.CANCELED, skipped), ("a", 0, TaskStatus.TIMEOUT, late)]
    reason = replace(late, message=f"a: {late.message}")
    end = end_of("j1", JobStatus.TIMEOUT, reason, tasks)
    assert (end.code, end.component) == ("TaskTimedOut", "a")
    assert hint_of("TaskTimedOut") in end.remedy
    assert (
        hint_of("HeldTooLong")
        in end_of(
            "j1", JobStatus.TIMEOUT, Reason(code="HeldTooLong", message="held for 168 hours"), tasks
        ).remedy
    )


def test_the_end_of_a_process_names_the_command_that_shows_what_it_printed() -> None:
    died = Reason(code="ExecutorDied", message="a died: signal 11", site=HOST)
    reason = replace(died, message=f"a: {died.message}")
    end = end_of("j1", JobStatus.FAILED, reason, [("a", 0, TaskStatus.FAILED, died)])
    where = f"-r host -p {HOST.party_id} --level stdout"
    assert f"At the server of party {HOST.party_id}: `fedflow job log -j j1 -c a {where}`." in (
        end.remedy
    )


def test_a_component_that_was_not_selected_waits_for_nothing() -> None:
    tasks = {"a": task(TaskStatus.RUNNING, started_ms=1), "b": task()}
    waits = waits_of(running(selected=frozenset({"a"}), tasks=tasks), NOW)
    assert {w.component for w in waits} == {"a"}


def test_a_silent_party_is_named_once_with_its_lease() -> None:
    shown = running(tasks={"a": task(TaskStatus.RUNNING, started_ms=1), "b": task()})
    wait = waits_of(at_host(shown, SitePhase.GRANTED, heard_ms=NOW - 20_000), NOW)[-1]
    assert (wait.code, wait.site) == ("Silent", HOST)
    assert (wait.heard_ms, wait.deadline_ms) == (NOW - 20_000, NOW + 40_000)


def command(**more: Any) -> Command:
    values: dict[str, Any] = {
        "kind": CommandKind.START_TASK, "job_id": "j1", "source": GUEST, "destination": HOST,
        "path": "/x", "body": {}, "request_id": "r", "created_ms": NOW - 90, "attempts": 3,
        "deadline_ms": NOW + 900, "due_ms": NOW + 30, "error": "connection refused",
    }  # fmt: skip
    return Command(**{**values, **more})


def test_a_command_that_does_not_arrive_says_how_often_it_was_tried_and_why_not() -> None:
    around = QueueContext(undelivered=[command(), command(attempts=0)])
    wait = waits_of(running(), NOW, around)[-1]
    assert (wait.code, wait.site, wait.since_ms, wait.next_ms, wait.deadline_ms) == (
        "Undelivered", HOST, NOW - 90, NOW + 30, NOW + 900
    )  # fmt: skip
    assert wait.message == (
        "the start of a task could not be sent to host 10000 in 3 tries: connection refused"
    )
    assert [w.code for w in waits_of(running(), NOW, around)].count("Undelivered") == 1


def test_a_job_that_is_being_stopped_says_who_wants_it() -> None:
    stop = StopRequest(
        status=JobStatus.CANCELED, reason=Reason(code="Stopped", message="by a user", site=HOST)
    )
    wait = waits_of(running(stop=stop), NOW)[0]
    assert (wait.code, wait.site) == ("Stopping", HOST)
    assert "by a user" in wait.message


@pytest.mark.parametrize("status", sorted(JOB_FINAL))
def test_an_ended_job_waits_for_nothing(status: JobStatus) -> None:
    assert waits_of(view(status), NOW) == []
    assert deadline_ms(view(status)) is None


def test_an_ended_job_names_what_a_party_has_not_got_yet() -> None:
    around = QueueContext(undelivered=[command(kind=CommandKind.END_JOB)])
    wait = only(waits_of(view(JobStatus.CANCELED), NOW, around))
    assert wait.code == "Undelivered"
    assert wait.message.startswith("the end of the job could not be sent to")


def test_every_deadline_counts_from_the_epoch_without_the_time_of_rest() -> None:
    assert deadline_ms(view(JobStatus.READY)) == BEGAN + 10_000
    assert deadline_ms(running(rested_ms=7)) == END + 7


# --- another site ---------------------------------------------------------------------------------


def share(status: JobStatus, **more: Any) -> JobRecord:
    return JobRecord(
        key=JobKey(job_id="j1", site=HOST), initiator=GUEST, status=status, epoch=0, dsl={},
        conf={}, roles={}, cores=1, created_ms=BEGAN, updated_ms=BEGAN, **more,
    )  # fmt: skip


def own_task(status: TaskStatus, **more: Any) -> Task:
    return Task(
        key=TaskKey(job_id="j1", component="a", version=0, site=HOST), module="Empty",
        initiator=GUEST, status=status, party_status=status, parameters={}, created_ms=BEGAN,
        updated_ms=BEGAN, **more,
    )  # fmt: skip


def test_a_share_waits_for_its_initiator_until_the_lease_ends() -> None:
    wait = only(waits_of_share(share(JobStatus.WAITING), [], heard_ms=NOW - 3_000, lease_ms=60_000))
    assert (wait.code, wait.site, wait.message) == (
        "Initiator", GUEST, "guest 9999 has not started the job"
    )  # fmt: skip
    assert (wait.heard_ms, wait.deadline_ms) == (NOW - 3_000, NOW + 57_000)


@pytest.mark.parametrize("code", ["Paused", "AwaitsStep"])
def test_a_share_that_is_held_says_why_and_how_it_goes_on(code: str) -> None:
    held = share(JobStatus.WAITING, reason=Reason(code=code, message="paused by host 10000"))
    wait = only(waits_of_share(held, [], heard_ms=NOW, lease_ms=1))
    assert wait.message == "guest 9999 held the job (paused by host 10000) and has not let it go on"
    assert wait.remedy.startswith("`fedflow job continue -j j1` lets it go on; ")


def test_a_share_names_its_own_processes() -> None:
    handle = Handle(pid=1, start_time=2, host="h")
    tasks = [
        own_task(TaskStatus.RUNNING, requested_ms=5, started_ms=6, handle=handle),
        own_task(TaskStatus.WAITING, requested_ms=7),
        own_task(TaskStatus.WAITING),
        own_task(TaskStatus.SUCCESS, requested_ms=1),
    ]
    waits = waits_of_share(share(JobStatus.RUNNING), tasks, heard_ms=NOW, lease_ms=1)
    assert [(w.code, w.since_ms) for w in waits[:-1]] == [("Running", 6), ("Launching", 7)]
    assert waits[-1].message == "guest 9999 decides what follows"


def test_an_ended_share_waits_only_for_what_it_could_not_tell() -> None:
    waits = waits_of_share(
        share(JobStatus.FAILED), [], heard_ms=1, lease_ms=1,
        undelivered=[command(kind=CommandKind.REPORT_TASK, destination=GUEST)],
    )  # fmt: skip
    assert [w.code for w in waits] == ["Undelivered"]


# --- ended jobs -----------------------------------------------------------------------------------

BAD = Reason(code="TableNotFound", message="There is no table demo.x.", site=HOST)


def test_an_ended_job_names_the_component_that_failed_first_with_the_hint_of_its_error() -> None:
    reason = Reason(code=BAD.code, message=f"a at {HOST}: {BAD.message}", site=HOST)
    tasks = [("a", 1, TaskStatus.FAILED, BAD), ("b", 0, TaskStatus.CANCELED, reason)]
    end = end_of("j1", JobStatus.FAILED, reason, tasks)
    assert (end.code, end.site, end.component, end.version) == ("TableNotFound", HOST, "a", 1)
    assert end.message == reason.message
    assert hint_of("TableNotFound") in end.remedy
    assert "fedflow job rerun -j j1" in end.remedy


def test_the_end_of_a_stopped_job_is_no_components_fault() -> None:
    reason = Reason(code="Stopped", message="stopped by a user at host 10000", site=HOST)
    tasks = [("a", 0, TaskStatus.CANCELED, reason), ("b", 0, TaskStatus.CANCELED, reason)]
    end = end_of("j1", JobStatus.CANCELED, reason, tasks)
    assert (end.code, end.component, end.message) == ("Stopped", "", reason.message)


def test_a_success_says_what_was_left_out() -> None:
    left = Reason(code="NotSelected", message="left out")
    tasks = [("a", 0, TaskStatus.SUCCESS, None), ("b", 0, TaskStatus.CANCELED, left)]
    end = end_of("j1", JobStatus.SUCCESS, None, tasks)
    assert end.message == "everything that was to run succeeded; b were not asked for"


def test_a_success_does_not_hide_a_failure_that_does_not_count() -> None:
    tasks = [("a", 0, TaskStatus.FAILED, BAD), ("b", 0, TaskStatus.SUCCESS, None)]
    end = end_of("j1", JobStatus.SUCCESS, None, tasks)
    assert end.message == "everything that counts succeeded; a did not, and does not count"


def test_an_end_without_any_reason_is_still_explained() -> None:
    end = end_of("j1", JobStatus.FAILED, None, [])
    assert end == JobEnd(
        status=JobStatus.FAILED, code="", message="the job is failed",
        remedy="`fedflow job rerun -j j1` runs again what did not succeed.",
    )  # fmt: skip


def test_an_absent_host_of_an_elastic_job_is_named_with_since_when_and_why() -> None:
    rule = ElasticView(
        min_parties=1, rejoin=True, round_deadline_ms=1, arbiter_wait_ms=1, rounds=frozenset({"a"})
    )
    reason = Reason(code="ExecutorDied", message="killed by signal 9.")
    shown = at_host(
        running(elastic=rule), SitePhase.ABSENT, reason=reason, retry_ms=NOW + 9, heard_ms=NOW - 1
    )
    waits = waits_of(shown, NOW, QueueContext(absent_ms={HOST: NOW - 70}))
    absent = next(w for w in waits if w.code == "PartyAbsent")
    assert absent.message == (
        "host 10000 is absent, and the job goes on without it: killed by signal 9"
    )
    assert (absent.site, absent.since_ms, absent.next_ms) == (HOST, NOW - 70, NOW + 9)
    stays = waits_of(replace(shown, elastic=replace(rule, rejoin=False)), NOW)
    assert next(w for w in stays if w.code == "PartyAbsent").next_ms is None


def test_what_keeps_an_absent_host_away_for_good_is_said() -> None:
    rule = ElasticView(
        min_parties=1, rejoin=True, round_deadline_ms=1, arbiter_wait_ms=1, rounds=frozenset({"a"})
    )
    ended = {"a": task(TaskStatus.SUCCESS), "b": task()}
    shown = at_host(running(elastic=rule, tasks=ended), SitePhase.ABSENT, retry_ms=NOW + 9)
    absent = next(w for w in waits_of(shown, NOW) if w.code == "PartyAbsent")
    assert absent.remedy == (
        "nothing: it does not come back to this job, as no rounds are left that it can join"
    )
    assert absent.next_ms is None


def test_an_absent_arbiter_is_waited_for_until_its_limit() -> None:
    arbiter = Site(Role.ARBITER, PartyId("20000"))
    rule = ElasticView(
        min_parties=1, rejoin=False, round_deadline_ms=1, arbiter_wait_ms=7_000,
        rounds=frozenset({"a"}),
    )  # fmt: skip
    shown = running(elastic=rule)
    away = SiteView(site=arbiter, phase=SitePhase.ABSENT, heard_ms=NOW - 5, retry_ms=NOW + 9)
    waits = waits_of(replace(shown, sites=(*shown.sites, away)), NOW)
    absent = next(w for w in waits if w.code == "PartyAbsent")
    assert absent.message.startswith("arbiter 20000 is absent, and what needs it waits: ")
    assert (absent.next_ms, absent.deadline_ms) == (NOW + 9, NOW - 5 + 60_000 + 7_000)
