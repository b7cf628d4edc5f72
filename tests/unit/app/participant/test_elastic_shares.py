"""A host's share of an elastic job: left out, taken back, started again, and its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.jobs import JobEnded, StillEnding, SubmitRefused, WrongSite
from fedflow.domain.records import JobKey, Reply, TaskKey
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.wire.task_report import MetricBatch
from tests.unit.app.fakes import HOST, OneServer, conf, create_body, dsl

KEY = JobKey(job_id="1", site=HOST)
PID = 77


@pytest.fixture
def host(host: OneServer) -> OneServer:
    """A server of an elastic job `a`, whose rounds are at work."""
    modules = host.catalog._modules
    modules["step"] = replace(modules["step"], absence="rounds")
    host.ask("job_create", KEY, body=body())
    host.ask("job_apply", KEY, body={"epoch": 0})
    host.ask("job_start", KEY, body={"epoch": 0})
    host.run_task(pid=PID)
    return host


TASK = TaskKey(job_id="1", component="a", version=0, site=HOST)


def body(**more: Any) -> dict[str, Any]:
    elastic = conf()
    elastic["job_parameters"]["common"]["elastic"] = {"min_parties": 1}
    return {**create_body(dsl_=dsl(a="Step"), conf_=elastic), **more}


def rejoin(host: OneServer) -> Reply:
    return host.ask("job_create", KEY, body=body(rejoins=True))


def start(host: OneServer, launch: int) -> Reply:
    return host.ask("task_start", TASK, body={"epoch": 0, "launch": launch})


def leave_out(host: OneServer, launch: int = 0) -> Reply:
    told = {"absent_launch": launch, "reason": {"code": "PartyAbsent", "message": "it is late"}}
    return host.ask("task_status", TASK, body=told, status="pass")


def dies(host: OneServer) -> None:
    launch_id = str(host.task(TASK).launch_id)
    host.executor.alive.discard(PID)
    host.core.workers.exited(TASK, launch_id, None, 9)


def test_a_host_that_is_left_out_passes_and_its_process_is_stopped(host: OneServer) -> None:
    assert leave_out(host).retcode == 0
    task = host.task(TASK)
    assert (task.party_status, task.status) == (TaskStatus.PASS, TaskStatus.RUNNING)
    assert task.reason is not None
    assert task.reason.code == "PartyAbsent"
    assert [pid for pid, _ in host.executor.stopped] == [PID]
    with pytest.raises(LaunchRefused):
        host.report(TASK, "success")


def test_a_failure_of_a_host_that_is_left_out_passes(host: OneServer) -> None:
    dies(host)
    assert host.task(TASK).party_status is TaskStatus.FAILED
    leave_out(host)
    assert host.task(TASK).party_status is TaskStatus.PASS


def test_a_word_about_an_earlier_launch_changes_nothing(host: OneServer) -> None:
    dies(host)
    start(host, 1)
    leave_out(host, launch=0)
    assert host.task(TASK).party_status is TaskStatus.WAITING


def test_a_task_is_launched_again_once_its_process_is_gone_and_only_once(host: OneServer) -> None:
    leave_out(host)
    with pytest.raises(StillEnding):
        start(host, 1)
    dies(host)
    first = host.task(TASK).launch_id
    start(host, 1)
    again = host.task(TASK)
    assert (again.party_status, again.launch) == (TaskStatus.WAITING, 1)
    assert again.launch_id != first
    start(host, 1)
    assert host.task(TASK).launch_id == again.launch_id


def test_a_task_that_runs_is_not_launched_again(host: OneServer) -> None:
    with pytest.raises(StillEnding):
        start(host, 1)
    assert host.task(TASK).launch == 0


def test_a_launch_tells_its_own_metrics(host: OneServer) -> None:
    def told() -> list[Any]:
        with host.store.read() as tx:
            return [m.points for m in tx.tracking.metrics("1", "a", HOST, version=0)]

    def save(*points: tuple[int, float]) -> None:
        batch = MetricBatch(namespace="train", name="loss", start=0, points=list(points))
        host.core.workers.save_metrics(TASK, str(host.task(TASK).token), [batch])

    save((0, 0.7), (1, 0.6))
    dies(host)
    start(host, 1)
    save((5, 0.3))
    assert told() == [((5, 0.3),)]


def test_reports_name_their_launch(host: OneServer) -> None:
    dies(host)
    start(host, 1)
    host.report(TASK, "success")
    first, second = host.outbox()
    assert first.body.get("launch", 0) == 0
    assert (second.body["launch"], second.body["party_status"]) == (1, "success")


def test_a_task_that_has_succeeded_is_told_as_the_launch_that_was_asked_for(
    host: OneServer,
) -> None:
    host.report(TASK, "success")
    reply = start(host, 3)
    assert (reply.retcode, reply.data["party_status"], reply.data["launch"]) == (10, "success", 3)
    assert host.task(TASK).launch == 0


def test_an_absent_host_returns_its_cores_once_its_process_is_gone(host: OneServer) -> None:
    free = host.free_cores()
    leave_out(host)
    with pytest.raises(StillEnding):
        host.ask("job_return", KEY, body={"epoch": 0})
    dies(host)
    assert host.ask("job_return", KEY, body={"epoch": 0}).retcode == 0
    assert (host.job("1").status, host.job("1").in_use) == (JobStatus.WAITING, False)
    assert host.free_cores() > free
    rejoin(host)
    assert host.ask("job_apply", KEY, body={"epoch": 0}).retcode == 0
    start(host, 1)
    assert (host.job("1").status, host.free_cores()) == (JobStatus.RUNNING, free)


def test_a_host_that_has_the_job_still_stops_what_runs_and_keeps_its_cores(
    host: OneServer,
) -> None:
    free = host.free_cores()
    assert rejoin(host).retcode == 0
    assert host.task(TASK).party_status is TaskStatus.PASS
    assert host.job("1").status is JobStatus.RUNNING
    assert host.free_cores() == free


def test_a_host_that_had_given_the_job_up_opens_it_again(host: OneServer) -> None:
    dies(host)
    host.clock.ms += 10 * host.timing.lease_ms
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED
    assert rejoin(host).retcode == 0
    assert host.job("1").status is JobStatus.WAITING
    assert host.ask("job_apply", KEY, body={"epoch": 0}).retcode == 0
    start(host, 1)
    assert (host.job("1").status, host.task(TASK).launch) == (JobStatus.RUNNING, 1)


def test_a_host_that_never_got_the_job_gets_it(host: OneServer) -> None:
    other = JobKey(job_id="2", site=HOST)
    assert host.ask("job_create", other, body=body(rejoins=True)).retcode == 0
    assert host.job("2").status is JobStatus.WAITING


def test_nobody_comes_back_to_a_job_that_has_ended_or_to_another_one(host: OneServer) -> None:
    with pytest.raises(WrongSite):
        host.ask("job_create", KEY, body=body(rejoins=True), source="10001")
    changed = body(rejoins=True, dsl=dsl(a="Step", k="Step"))
    with pytest.raises(SubmitRefused):
        host.ask("job_create", KEY, body=changed)
    host.ask("job_stop", KEY, body={"epoch": 0}, status="canceled")
    with pytest.raises(JobEnded):
        rejoin(host)


def test_what_an_absent_host_has_not_done_passes_when_the_job_succeeds(host: OneServer) -> None:
    dies(host)
    ended = {"epoch": 0, "tasks": {"a": [0, "success"]}}
    host.ask("job_status", KEY, body=ended, status="success")
    assert host.job("1").status is JobStatus.SUCCESS
    task = host.task(TASK)
    assert (task.party_status, task.status) == (TaskStatus.PASS, TaskStatus.SUCCESS)
    assert not host.job("1").in_use


def test_explain_says_which_rounds_sites_missed(host: OneServer) -> None:
    """What the metric does not say of the guest: it was in no round of these."""
    points = [
        (0, {"counted": {"host-10000": 3}, "left_out": {}, "last": 4}),
        (5, {"counted": {"guest-9999": 2, "host-10000": 3}, "left_out": {}}),
        (6, {"counted": {"guest-9999": 2}, "left_out": {"host-10000": "too late"}, "last": 8}),
    ]
    batch = MetricBatch(
        namespace="train", name="participation", start=0, points=points,
        meta={"metric_type": "PARTICIPATION"},
    )  # fmt: skip
    host.core.workers.save_metrics(TASK, str(host.task(TASK).token), [batch])
    absences = host.core.explanations.explain("1").absences
    assert [(a.site, a.component, a.first_round, a.last_round, a.reason) for a in absences] == [
        ("guest-9999", "a", 0, 4, ""),
        ("host-10000", "a", 6, 8, "too late"),
    ]
