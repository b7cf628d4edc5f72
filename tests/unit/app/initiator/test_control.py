"""Pauses, steps, policies, `run_to`, timeouts and retries of components, over whole use cases."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fedflow.base.errors.jobs import (
    BadSteps,
    ContinueRefused,
    JobNotFound,
    PauseRefused,
    RerunRefused,
    WrongSite,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.records import JobKey, Reply, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.unit.app.fakes import ARBITER, CORES, GUEST, HOST, OneServer, conf, dsl
from tests.unit.app.initiator.test_reruns import run

STEP = {"module": "Step", "output": {"data": ["data"], "model": ["model"]}}


def after(*names: str) -> dict[str, Any]:
    return {**STEP, "input": {"data": {"data": [f"{n}.data" for n in names]}}}


CHAIN = {"a": STEP, "b": after("a"), "c": after("b")}


def submit(server: OneServer, components: dict[str, Any] | None = None, **common: Any) -> str:
    """Submit a job, by default a -> b -> c, and do what follows at once."""
    document = conf()
    document["job_parameters"]["common"].update(common)
    server.live()
    return server.core.submissions.submit(dsl(**(components or CHAIN)), document).job_id


def statuses(server: OneServer, job_id: str) -> dict[str, str]:
    return {t.component: t.status.value for t in server.scheduled(job_id).tasks}


def share(
    server: OneServer, job_id: str, component: str, site: Site = HOST, version: int = 0
) -> Any:
    return server.task(TaskKey(job_id=job_id, component=component, version=version, site=site))


def spec_of(server: OneServer, component: str, site: Site = HOST) -> dict[str, Any]:
    """Return what the last process of a component was told."""
    launched = [
        launch.spec_path
        for launch in server.executor.started
        if (launch.task.component, launch.task.site) == (component, site)
    ]
    content: dict[str, Any] = json.loads(launched[-1].read_bytes())
    return content


# --- pause and continue ---------------------------------------------------------------------------


def test_a_paused_job_finishes_what_runs_gives_its_cores_back_and_goes_on_later(
    alone: OneServer,
) -> None:
    job_id = submit(alone)
    alone.core.control.pause(job_id)
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    assert alone.free_cores() == CORES - 4
    assert run(alone) == ["a/0"]
    job = alone.scheduled(job_id)
    assert (job.status, job.reason.code) == (JobStatus.WAITING, "Paused")
    assert job.reason.message == "paused by guest 9999"
    assert alone.free_cores() == CORES
    for site in (GUEST, HOST):
        here = alone.job(job_id, site)
        assert (here.status, here.in_use) == (JobStatus.WAITING, False)
        assert here.reason == job.reason
    assert run(alone) == []
    alone.core.control.proceed(job_id)
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    assert alone.scheduled(job_id).reason is None
    assert alone.free_cores() == CORES - 4
    assert [run(alone), run(alone)] == [["b/0"], ["c/0"]]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS
    assert alone.free_cores() == CORES


def test_a_job_that_waits_can_be_paused_and_asks_for_no_cores(alone: OneServer) -> None:
    alone.live()
    document = conf(cores=CORES // 2)
    first = alone.core.submissions.submit(dsl(**CHAIN), document).job_id
    second = alone.core.submissions.submit(dsl(**CHAIN), document).job_id
    assert alone.scheduled(second).status is JobStatus.WAITING
    alone.core.control.pause(second)
    assert alone.scheduled(second).reason.code == "Paused"
    alone.core.jobs.stop(first)
    assert alone.scheduled(first).status is JobStatus.CANCELED
    alone.clock.ms += 10_000
    alone.work()
    assert alone.scheduled(second).status is JobStatus.WAITING
    alone.core.control.proceed(second)
    alone.work()
    assert alone.scheduled(second).status is JobStatus.RUNNING


def test_a_stop_ends_a_held_job_at_once(alone: OneServer) -> None:
    job_id = submit(alone)
    alone.core.control.pause(job_id)
    run(alone)
    alone.core.jobs.stop(job_id)
    assert {alone.job(job_id, s).status for s in (GUEST, HOST)} == {JobStatus.CANCELED}
    assert alone.free_cores() == CORES


def test_the_time_in_which_a_job_is_held_is_not_part_of_its_timeout(alone: OneServer) -> None:
    job_id = submit(alone, timeout=100)
    alone.core.control.pause(job_id)
    run(alone)
    alone.clock.ms += 1_000_000
    alone.work()
    assert alone.scheduled(job_id).status is JobStatus.WAITING
    alone.core.control.proceed(job_id)
    assert run(alone) == ["b/0"]
    alone.clock.ms += 101_000
    alone.work()
    assert alone.scheduled(job_id).reason.code == "JobTimedOut"


def test_a_job_that_goes_on_after_a_long_hold_waits_anew(alone: OneServer) -> None:
    job_id = submit(alone)
    alone.core.control.pause(job_id)
    run(alone)
    alone.clock.ms += 10 * alone.timing.starving_after_ms
    with alone.store.transaction() as tx:
        tx.engines.put(ENGINE, 1, now_ms=0)  # it has to wait
    alone.core.control.proceed(job_id)
    alone.work()
    (place,), _ = alone.core.queue.page(limit=1)
    assert (place.job.queued_ms, place.starves) == (alone.clock.ms, False)
    alone.clock.ms += alone.timing.starving_after_ms + 1
    (place,), _ = alone.core.queue.page(limit=1)
    assert place.starves


def test_a_job_that_nobody_continues_times_out_at_last(alone: OneServer) -> None:
    job_id = submit(alone)
    alone.core.control.pause(job_id)
    run(alone)
    alone.clock.ms += alone.timing.hold_limit_ms + 1
    alone.work()
    job = alone.scheduled(job_id)
    assert (job.status, job.reason.code) == (JobStatus.TIMEOUT, "HeldTooLong")
    assert alone.job(job_id, HOST).status is JobStatus.TIMEOUT


def test_what_cannot_be_paused_or_continued_is_refused_and_stays_as_it_is(
    alone: OneServer,
) -> None:
    job_id = submit(alone)
    before = alone.scheduled(job_id)
    with pytest.raises(ContinueRefused, match="not paused, and waits for no step"):
        alone.core.control.proceed(job_id)
    for steps in (0, -1, 10**6 + 1):
        with pytest.raises(BadSteps):
            alone.core.control.proceed(job_id, steps=steps)
    with pytest.raises(BadSteps, match="all were asked for"):
        alone.core.control.proceed(job_id, steps=1, all_=True)
    assert alone.scheduled(job_id) == before
    alone.core.control.pause(job_id)
    with pytest.raises(PauseRefused, match=r"paused already \(paused by guest 9999\)"):
        alone.core.control.pause(job_id)
    alone.core.jobs.stop(job_id)
    ended = alone.scheduled(job_id)
    with pytest.raises(PauseRefused, match="it has ended: canceled"):
        alone.core.control.pause(job_id)
    with pytest.raises(ContinueRefused, match="it has ended: canceled"):
        alone.core.control.proceed(job_id)
    assert alone.scheduled(job_id) == ended
    for call in (alone.core.control.pause, alone.core.control.proceed):
        with pytest.raises(JobNotFound):
            call("no")


def test_a_rerun_of_a_paused_job_is_not_paused(alone: OneServer) -> None:
    job_id = submit(alone)
    alone.core.control.pause(job_id)
    alone.core.jobs.stop(job_id)
    alone.core.reruns.rerun(job_id)
    assert alone.scheduled(job_id).status is JobStatus.RUNNING


# --- asked by another party -----------------------------------------------------------------------


def test_another_party_pauses_and_continues_by_asking_the_initiator(alone: OneServer) -> None:
    job_id = submit(alone)
    key = JobKey(job_id=job_id, site=HOST)
    alone.ask("initiator_control", key, source="10000", body={"action": "pause"})
    assert alone.scheduled(job_id).control.paused.message == "paused by host 10000"
    run(alone)
    body = {"action": "continue", "steps": 1}
    alone.ask("initiator_control", key, source="10000", body=body)
    assert run(alone) == ["b/0"]
    assert alone.scheduled(job_id).reason.code == "AwaitsStep"


def test_who_is_not_in_the_job_or_asks_nonsense_is_refused(alone: OneServer) -> None:
    job_id = submit(alone)
    before = alone.scheduled(job_id)
    key, stranger = JobKey(job_id=job_id, site=HOST), JobKey(job_id=job_id, site=ARBITER)
    pause = {"action": "pause"}
    for where, source in ((stranger, "10000"), (key, "9999")):
        with pytest.raises(WrongSite):
            alone.ask("initiator_control", where, source=source, body=pause)
    other = JobKey(job_id="2", site=HOST)
    with pytest.raises(JobNotFound):
        alone.ask("initiator_control", other, source="10000", body=pause)
    for body in ({}, [], {"action": "stop"}):
        with pytest.raises(BadRequest):
            alone.ask("initiator_control", key, source="10000", body=body)
    for steps in (0, "1", True, 2.0):
        body = {"action": "continue", "steps": steps}
        with pytest.raises(BadSteps):
            alone.ask("initiator_control", key, source="10000", body=body)
    assert alone.scheduled(job_id) == before


def test_a_participant_asks_the_initiator_and_passes_its_refusal_on(host: OneServer) -> None:
    host.create()
    host.core.control.pause("1")
    host.core.control.proceed("1", all_=True)
    assert [(to, path, body) for to, path, body in host.parties.calls] == [
        ("9999", "/initiator/1/host/10000/control", {"action": "pause"}),
        ("9999", "/initiator/1/host/10000/control", {"action": "continue", "steps": 10**9}),
    ]
    msgspec.json.encode(host.parties.calls)
    host.parties.answer = lambda _path, _body: Reply(retcode=103, retmsg="It has ended.")
    with pytest.raises(PauseRefused, match="guest 9999 says: It has ended"):
        host.core.control.pause("1")


def test_a_repeated_return_of_cores_changes_nothing(host: OneServer) -> None:
    key = host.create()
    host.ask("job_apply", key)
    host.ask("job_start", key)
    reason = {"code": "Paused", "message": "paused by guest 9999"}
    for _ in range(2):
        host.ask("job_return", key, body={"epoch": 0, "reason": reason})
        job = host.job("1")
        assert (job.status, job.in_use, job.reason.code) == (JobStatus.WAITING, False, "Paused")


# --- steps ----------------------------------------------------------------------------------------


def test_a_job_goes_step_by_step(alone: OneServer) -> None:
    job_id = submit(alone, step=True)
    job = alone.scheduled(job_id)
    assert (job.status, job.reason.code) == (JobStatus.WAITING, "AwaitsStep")
    assert alone.free_cores() == CORES
    alone.core.control.proceed(job_id)
    assert run(alone) == ["a/0"]
    assert alone.scheduled(job_id).status is JobStatus.WAITING
    assert alone.free_cores() == CORES
    alone.core.control.proceed(job_id, steps=1)
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    assert run(alone) == ["b/0"]
    alone.core.control.proceed(job_id, all_=True)
    assert run(alone) == ["c/0"]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS


def test_a_step_can_be_allowed_ahead_but_only_one(alone: OneServer) -> None:
    job_id = submit(alone, step=True)
    alone.core.control.proceed(job_id)
    alone.core.control.proceed(job_id)  # a runs; b may begin after it
    with pytest.raises(ContinueRefused):
        alone.core.control.proceed(job_id)
    assert [run(alone), run(alone)] == [["a/0"], ["b/0"]]
    assert alone.scheduled(job_id).reason.code == "AwaitsStep"


def test_a_retry_of_a_step_needs_no_further_one(alone: OneServer) -> None:
    job_id = submit(alone, step=True, auto_retries=1, auto_retry_delay=0)
    alone.core.control.proceed(job_id)
    assert run(alone, "failed", code="ExecutorDied") == ["a/0"]
    assert run(alone) == ["a/1"]
    assert alone.scheduled(job_id).reason.code == "AwaitsStep"


# --- policies -------------------------------------------------------------------------------------


def test_what_cannot_run_is_skipped_at_all_sites_and_the_rest_runs(alone: OneServer) -> None:
    components = {"a": STEP, "b": after("a"), "d": STEP, "c": after("a", "d")}
    options = {"c": {"schedule_policy": "one_success"}}
    job_id = submit(alone, components, task_conf=options, task_parallelism=2)
    run_some(alone, {"a": "failed", "d": "success"})
    assert run(alone) == ["c/0"]
    assert statuses(alone, job_id) == {
        "a": "failed", "b": "canceled", "d": "success", "c": "success",
    }  # fmt: skip
    for site in (GUEST, HOST):
        skipped = share(alone, job_id, "b", site)
        assert (skipped.party_status, skipped.reason.code) == (TaskStatus.CANCELED, "Skipped")
        assert "because a is failed" in skipped.reason.message
    assert alone.scheduled(job_id).status is JobStatus.FAILED  # b, behind a, did not run
    assert alone.free_cores() == CORES


def run_some(server: OneServer, ends: dict[str, str]) -> None:
    """Let the processes of some components end as told."""
    for launch in list(server.executor.started):
        status = ends.get(launch.task.component)
        if status and server.task(launch.task).party_status is TaskStatus.WAITING:
            server.report(launch.task, "running")
            server.report(launch.task, status, error={"code": "BadData", "message": "m"})
    server.work()


def test_outputs_that_do_not_exist_are_the_same_at_all_sites_and_over_another_launch(
    alone: OneServer,
) -> None:
    components = {"a": STEP, "d": STEP, "c": after("a", "d")}
    components["c"]["input"]["model"] = ["a.model", "d.model"]
    options = {"c": {"schedule_policy": "all_done"}}
    job_id = submit(alone, components, task_conf=options, task_parallelism=2)
    run_some(alone, {"a": "failed", "d": "success"})
    for site in (GUEST, HOST):
        assert share(alone, job_id, "c", site).absent == ("a",)
        assert spec_of(alone, "c", site)["inputs"]["data"] == {"data": [["d", None]]}
    launches = len(alone.executor.started)
    alone.clock.ms += 60_000
    alone.core.detector.tick()
    again = alone.executor.started[launches:]
    assert again
    for launch in again:
        content = json.loads(launch.spec_path.read_bytes())
        assert content["inputs"]["data"] == {"data": [["d", None]]}


def test_a_port_that_only_absent_components_feed_is_left_out(alone: OneServer) -> None:
    options = {"b": {"schedule_policy": "all_done"}}
    submit(alone, task_conf=options)
    run(alone, "failed", code="BadData")
    assert spec_of(alone, "b")["inputs"]["data"] == {}


def test_nonsense_about_absent_inputs_is_refused(host: OneServer) -> None:
    host.create()
    key = TaskKey(job_id="1", component="a", version=0, site=HOST)
    for absent in ("b", [1], {"b": 1}):
        with pytest.raises(BadRequest, match="absent"):
            host.ask("task_start", key, body={"epoch": 0, "absent": absent})
    assert host.task(key).requested_ms is None


# --- run_to ---------------------------------------------------------------------------------------


def test_a_job_runs_to_a_component_and_later_the_rest(alone: OneServer) -> None:
    job_id = submit(alone, run_to="b")
    assert [run(alone), run(alone)] == [["a/0"], ["b/0"]]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS
    assert statuses(alone, job_id)["c"] == "canceled"
    for site in (GUEST, HOST):
        assert alone.job(job_id, site).status is JobStatus.SUCCESS
        assert share(alone, job_id, "c", site).reason.code == "NotSelected"
    with pytest.raises(RerunRefused, match="run_to leaves out what is not needed for b"):
        alone.core.reruns.rerun(job_id)
    assert alone.scheduled(job_id).epoch == 0
    connect(alone)
    alone.core.parameter_updates.update(
        job_id, job_parameters={"common": {"run_to": None}}, component_parameters={}
    )
    alone.core.reruns.rerun(job_id)
    assert run(alone) == ["c/1"]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS


def connect(server: OneServer) -> None:
    from tests.unit.app.test_job_control import connect as to_itself

    to_itself(server)


def test_a_forced_rerun_of_a_part_makes_stale_results_void(alone: OneServer) -> None:
    job_id = submit(alone)
    for _ in range(3):
        run(alone)
    connect(alone)
    alone.core.parameter_updates.update(
        job_id, job_parameters={"common": {"run_to": ["b"]}}, component_parameters={}
    )
    alone.core.reruns.rerun(job_id, components=["b"], force=True)
    assert run(alone) == ["b/1"]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS
    assert statuses(alone, job_id)["c"] == "canceled"
    assert share(alone, job_id, "c", version=1).reason.code == "NotSelected"


# --- timeouts and retries of components -----------------------------------------------------------


def test_a_component_whose_time_is_up_is_stopped_everywhere_and_tried_again(
    alone: OneServer,
) -> None:
    options = {"a": {"timeout": 10, "auto_retries": 1, "auto_retry_delay": 0}}
    job_id = submit(alone, task_conf=options)
    alone.clock.ms += 10_001
    alone.work()
    for site in (GUEST, HOST):
        late = share(alone, job_id, "a", site)
        assert (late.party_status, late.reason.code) == (TaskStatus.TIMEOUT, "TaskTimedOut")
        assert late.reason.message == "a has run for 10 seconds, and its timeout is 10 seconds"
    assert share(alone, job_id, "a", version=1).requested_ms is not None
    alone.clock.ms += 10_001
    alone.work()
    assert alone.scheduled(job_id).status is JobStatus.TIMEOUT


def test_retries_are_counted_per_component_and_shown_at_each_site(alone: OneServer) -> None:
    options = {"b": {"auto_retries": 2, "auto_retry_delay": 0}}
    job_id = submit(alone, task_conf=options)
    assert share(alone, job_id, "a").auto_retries == 0
    assert share(alone, job_id, "b").auto_retries == 2
    assert run(alone) == ["a/0"]
    for version in range(3):
        assert run(alone, "failed") == [f"b/{version}"]
    assert alone.scheduled(job_id).status is JobStatus.FAILED
    assert share(alone, job_id, "b", version=1).auto_retries == 1


def test_a_restarted_server_costs_no_retry(alone: OneServer) -> None:
    job_id = submit(alone, auto_retry_delay=0, infrastructure_retries=2)
    for version in range(2):
        assert run(alone, "failed", code="ServerRestarted") == [f"a/{version}"]
    task = alone.scheduled(job_id).tasks[0]
    assert (task.version, task.retries, task.infrastructure_retries) == (2, 2, 2)
    assert run(alone, "failed", code="ServerRestarted") == ["a/2"]
    assert alone.scheduled(job_id).reason.code == "ServerRestarted"


def test_a_job_may_do_without_such_retries(alone: OneServer) -> None:
    job_id = submit(alone, infrastructure_retries=0)
    run(alone, "failed", code="ServerRestarted")
    assert alone.scheduled(job_id).status is JobStatus.FAILED


def test_a_task_gets_the_cores_of_its_own_option(alone: OneServer) -> None:
    submit(alone, task_parallelism=2, task_conf={"a": {"task_cores": 4}})
    assert spec_of(alone, "a")["cores"] == 4


# --- components of other sites --------------------------------------------------------------------


def test_a_component_that_runs_at_other_parties_only_is_scheduled_like_any_other(
    alone: OneServer,
) -> None:
    remote = {**STEP, "module": "Remote"}
    components = {"a": STEP, "r": {**after("a"), "module": "Remote"}, "c": after("r"), "r2": remote}
    job_id = submit(alone, components)
    sites = {t.component: [p.site for p in t.parties] for t in alone.scheduled(job_id).tasks}
    assert sites["r"] == sites["r2"] == [HOST]
    order = [run(alone) for _ in range(4)]
    assert order == [["a/0"], ["r/0"], ["c/0"], ["r2/0"]]
    assert {
        launch.task.site for launch in alone.executor.started if "r" in launch.task.component
    } == {HOST}
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS
