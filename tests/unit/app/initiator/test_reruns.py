"""Running a job again: epochs, new attempts, retries, and who may ask."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from fedflow.base.errors.data import TableNotFound
from fedflow.base.errors.jobs import (
    JobNotFound,
    OutputGone,
    ParametersRefused,
    RerunRefused,
    StaleCommand,
    StillEnding,
    WrongSite,
)
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import JobKey, OutputTable, Reply, TaskFilter, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_FINAL, JobStatus, TaskStatus
from tests.unit.app.fakes import CORES, GUEST, HOST, OneServer, conf, dsl, incoming

KEY = JobKey(job_id="1", site=HOST)


def submit(server: OneServer, **job_parameters: object) -> str:
    document = conf()
    document["job_parameters"]["common"].update(job_parameters)
    server.live()
    return server.core.submissions.submit(dsl(), document).job_id


def run(server: OneServer, status: str = "success", *, code: str = "ComponentFailed") -> list[str]:
    """Let every process that there is now end; return what they ran as `component/version`."""
    launched = [launch.task for launch in server.executor.started]
    running = [key for key in launched if server.task(key).party_status not in TASK_FINAL]
    for key in running:
        if server.task(key).party_status not in TASK_FINAL:  # else another one's failure ended it
            server.report(key, "running")
            server.report(key, status, error={"code": code, "message": "by the test"})
    server.work()
    return sorted({f"{key.component}/{key.version}" for key in running})


def attempts(server: OneServer, job_id: str, component: str, site: Site = GUEST) -> list[int]:
    which = TaskFilter(
        job_id=job_id, component=component, roles=(site.role,), party_id=site.party_id,
        all_versions=True,
    )  # fmt: skip
    with server.store.read() as tx:
        return [t.key.version for t in tx.tasks.find(which)]


# --- a whole rerun --------------------------------------------------------------------------------


def test_a_failed_job_goes_on_where_it_failed(alone: OneServer) -> None:
    job_id = submit(alone)
    assert run(alone) == ["a/0"]
    assert run(alone, "failed") == ["b/0"]
    assert alone.job(job_id, GUEST).status is JobStatus.FAILED
    alone.core.reruns.rerun(job_id)
    job = alone.job(job_id, GUEST)
    assert (job.status, job.epoch, job.progress, job.ended_ms) == (JobStatus.RUNNING, 1, 50, None)
    assert job.reason is None
    assert run(alone) == ["b/1"]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS
    assert [alone.job(job_id, s).status for s in (GUEST, HOST)] == [JobStatus.SUCCESS] * 2
    assert attempts(alone, job_id, "a") == [0]
    assert attempts(alone, job_id, "b") == attempts(alone, job_id, "b", HOST) == [0, 1]
    assert alone.free_cores() == CORES


def test_the_first_attempt_keeps_its_row_and_its_reason(alone: OneServer) -> None:
    job_id = submit(alone)
    run(alone, "failed")
    alone.core.reruns.rerun(job_id)
    first = alone.task(TaskKey(job_id=job_id, component="a", version=0, site=HOST))
    assert first.party_status is TaskStatus.FAILED
    assert first.reason is not None
    assert first.reason.message == "by the test"


def test_force_runs_everything_again_and_cores_are_taken_again(alone: OneServer) -> None:
    job_id = submit(alone)
    run(alone)
    run(alone)
    free = alone.free_cores()
    with pytest.raises(RerunRefused, match="force"):
        alone.core.reruns.rerun(job_id)
    alone.core.reruns.rerun(job_id, force=True)
    assert alone.free_cores() == free - 4
    assert run(alone) == ["a/1"]
    assert run(alone) == ["b/1"]
    assert alone.free_cores() == free
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS


def test_a_job_can_be_run_again_any_number_of_times(alone: OneServer) -> None:
    job_id = submit(alone)
    run(alone, "failed")
    for epoch in (1, 2, 3):
        alone.core.reruns.rerun(job_id)
        assert run(alone, "failed") == [f"a/{epoch}"]
        assert alone.scheduled(job_id).epoch == epoch
        assert alone.job(job_id, HOST).status is JobStatus.FAILED


def test_a_canceled_job_can_be_run_again(alone: OneServer) -> None:
    job_id = submit(alone)
    alone.core.jobs.stop(job_id)
    alone.core.reruns.rerun(job_id)
    assert alone.scheduled(job_id).stop is None
    assert run(alone) == ["a/1"]
    assert run(alone) == ["b/1"]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS


def test_a_rerun_counts_its_timeout_from_its_own_beginning(alone: OneServer) -> None:
    job_id = submit(alone, timeout=100)
    run(alone, "failed")
    alone.clock.ms += 1_000_000
    alone.core.reruns.rerun(job_id)
    alone.clock.ms += 99_000
    alone.work()
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    alone.clock.ms += 2_000
    alone.work()
    assert alone.scheduled(job_id).status is JobStatus.TIMEOUT


# --- what is refused ------------------------------------------------------------------------------


def test_a_running_job_is_not_run_again(alone: OneServer) -> None:
    job_id = submit(alone)
    with pytest.raises(RerunRefused, match="it is running"):
        alone.core.reruns.rerun(job_id)


def test_an_unknown_component_is_named_and_nothing_changes(alone: OneServer) -> None:
    job_id = submit(alone)
    run(alone, "failed")
    with pytest.raises(RerunRefused, match="no component 'zzz'"):
        alone.core.reruns.rerun(job_id, components=["zzz"])
    assert alone.scheduled(job_id).epoch == 0


def test_an_unknown_job_is_not_found(alone: OneServer) -> None:
    with pytest.raises(JobNotFound):
        alone.core.reruns.rerun("nope")


def test_a_job_that_a_site_refused_is_not_run_again(guest: OneServer) -> None:
    guest.parties.answer = lambda path, body: Reply(retcode=103, retmsg="no", error="X")
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    guest.work()
    assert guest.scheduled(job_id).status is JobStatus.FAILED
    with pytest.raises(RerunRefused, match="not all its sites had accepted it"):
        guest.core.reruns.rerun(job_id)


def test_a_job_stays_as_it_is_while_a_party_of_it_cannot_be_reached(guest: OneServer) -> None:
    def is_down(path: str, body: object) -> Reply:
        raise PartyUnreachable(party_id="10000", address="h:1", reason="connection refused")

    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.core.jobs.stop(job_id)
    assert guest.scheduled(job_id).status is JobStatus.CANCELED
    guest.parties.answer = is_down
    with pytest.raises(RerunRefused, match="connection refused; nothing was changed"):
        guest.core.reruns.rerun(job_id)
    after = guest.scheduled(job_id)
    assert (after.status, after.epoch) == (JobStatus.CANCELED, 0)
    with pytest.raises(RerunRefused, match="no component"):  # told without any call
        guest.core.reruns.rerun(job_id, components=["zzz"])


def test_a_site_that_refuses_a_rerun_ends_it_with_its_sentence(alone: OneServer) -> None:
    job_id = submit(alone)
    run(alone, "failed")
    key = TaskKey(job_id=job_id, component="a", version=7, site=HOST)
    with alone.store.transaction() as tx:  # the host is ahead: it knows a later attempt
        old = tx.tasks.get(TaskKey(job_id=job_id, component="a", version=0, site=HOST))
        assert old is not None
        tx.tasks.add([replace(old, key=key)])
    with pytest.raises(RerunRefused, match="host 10000"):
        alone.core.reruns.rerun(job_id)
    assert alone.scheduled(job_id).status is JobStatus.FAILED
    assert alone.job(job_id, HOST).status is JobStatus.FAILED
    assert alone.job(job_id, HOST).epoch == alone.scheduled(job_id).epoch == 1


# --- from another party ---------------------------------------------------------------------------


def test_another_party_asks_the_initiator(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed")
    host.parties.answer = lambda path, body: Reply(retcode=0)
    host.core.reruns.begin("1", components=["a"], force=True)
    destination, path, body = host.parties.calls[-1]
    assert (destination, path) == ("9999", "/initiator/1/host/10000/rerun")
    nothing = {"failed_only": False, "job_parameters": {}, "component_parameters": {}}
    assert body == {"component_name": ["a"], "force": True, **nothing}
    host.parties.answer = lambda path, body: Reply(retcode=103, retmsg="It runs.")
    with pytest.raises(RerunRefused, match="guest 9999: It runs"):
        host.core.reruns.begin("1")


def test_another_party_learns_no_address_of_who_cannot_be_reached(guest: OneServer) -> None:
    def is_down(path: str, body: object) -> Reply:
        raise PartyUnreachable(party_id="10000", address="h.inside:1", reason="no certificate")

    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.core.jobs.stop(job_id)
    guest.parties.answer = is_down
    ask = incoming("initiator_rerun", JobKey(job_id=job_id, site=HOST), body={}, source="10000")
    said = guest.core.commands.answer(ask).retmsg
    assert said.endswith("9999 cannot reach 10000 at …; nothing was changed.")


def test_the_initiator_takes_the_wish_of_its_own_sites_only(alone: OneServer) -> None:
    job_id = submit(alone)
    run(alone, "failed")
    stranger = JobKey(job_id=job_id, site=Site.from_key("host-77"))
    with pytest.raises(WrongSite):
        alone.ask("initiator_rerun", stranger, body={}, source="77")
    with pytest.raises(WrongSite):
        alone.ask("initiator_rerun", JobKey(job_id=job_id, site=HOST), body={}, source="77")
    reply = alone.ask(
        "initiator_rerun", JobKey(job_id=job_id, site=HOST), body={"component_name": "a"},
        source="10000",
    )  # fmt: skip
    assert reply.retcode == 0
    alone.work()
    assert alone.scheduled(job_id).epoch == 1


# --- at a participant -----------------------------------------------------------------------------


def rerun_body(epoch: int = 1, **tasks: int) -> dict[str, object]:
    return {"epoch": epoch, "runtime_conf": conf(), "tasks": tasks or {"a": epoch, "b": epoch}}


def ended(host: OneServer, status: str = "failed") -> None:
    host.create()
    host.ask("job_stop", KEY, status=status)


def test_a_participant_opens_an_ended_job_and_old_commands_are_stale(host: OneServer) -> None:
    ended(host)
    assert host.ask("job_rerun", KEY, body=rerun_body()).retcode == 0
    job = host.job("1")
    assert (job.status, job.epoch, job.reason, job.tag) == (JobStatus.WAITING, 1, None, "")
    with pytest.raises(StaleCommand):
        host.ask("job_apply", KEY, body={"epoch": 0})
    with pytest.raises(StaleCommand):
        host.ask("job_stop", KEY, body={"epoch": 0}, status="failed")
    with pytest.raises(StaleCommand):
        host.ask("job_rerun", KEY, body=rerun_body())
    assert host.ask("job_apply", KEY, body={"epoch": 1}).retcode == 0


def test_nobody_but_the_initiator_opens_a_job(host: OneServer) -> None:
    ended(host)
    with pytest.raises(WrongSite):
        host.ask("job_rerun", KEY, body=rerun_body(), source="10001")
    assert host.job("1").status is JobStatus.FAILED


def test_a_job_whose_process_still_ends_is_opened_a_little_later(host: OneServer) -> None:
    host.create()
    host.ask("job_apply", KEY)
    task = host.run_task(pid=55)
    host.ask("job_stop", KEY, status="failed")
    with pytest.raises(StillEnding):
        host.ask("job_rerun", KEY, body=rerun_body())
    assert StillEnding.retcode == 106  # the sender tries again
    host.processes.exited(str(host.task(task).launch_id), 0, None)
    assert host.ask("job_rerun", KEY, body=rerun_body()).retcode == 0


def test_the_end_of_a_rerun_that_never_arrived_counts(host: OneServer) -> None:
    ended(host, "success")
    host.ask("job_stop", KEY, body={"epoch": 2}, status="canceled")
    assert (host.job("1").status, host.job("1").epoch) == (JobStatus.CANCELED, 2)
    with pytest.raises(StaleCommand):  # and the rerun comes too late
        host.ask("job_rerun", KEY, body=rerun_body(2, a=2))


def test_a_heartbeat_of_an_old_epoch_changes_nothing_and_the_answer_tells_the_epoch(
    host: OneServer,
) -> None:
    ended(host)
    host.ask("job_rerun", KEY, body=rerun_body())
    told = {"jobs": {"1": {"epoch": 0, "sites": {HOST.key: "granted"}, "progress": 80}}}
    answer = host.ask("heartbeat", body=told).data["jobs"]["1"][HOST.key]
    assert (answer["status"], answer["epoch"]) == ("waiting", 1)
    assert host.job("1").progress == 0


def test_an_output_that_is_gone_must_be_made_again(host: OneServer) -> None:
    host.create()
    task = host.run_task()
    host.report(task, "running")
    host.report(task, "success")
    output = OutputTable(key=task, data_name="data", position=0, namespace="n", name="gone")
    with host.store.transaction() as tx:
        tx.tracking.put_output(output, now_ms=1)
    host.ask("job_stop", KEY, status="failed")
    with pytest.raises(OutputGone) as caught:
        host.ask("job_rerun", KEY, body=rerun_body(1, b=1))
    assert caught.value.fields["component"] == "a"
    assert host.ask("job_rerun", KEY, body=rerun_body(1, a=1, b=1)).retcode == 0


def test_an_input_is_what_the_latest_attempt_wrote_not_an_older_one(host: OneServer) -> None:
    host.create()
    old = host.run_task()
    host.report(old, "running")
    host.report(old, "success")
    host.put_table("n", "old")
    with host.store.transaction() as tx:
        output = OutputTable(key=old, data_name="data", position=0, namespace="n", name="old")
        tx.tracking.put_output(output, now_ms=1)
    host.ask("job_stop", KEY, status="failed")
    host.ask("job_rerun", KEY, body=rerun_body(1, a=1, b=1))
    again = TaskKey(job_id="1", component="a", version=1, site=HOST)
    host.ask("task_start", again, body={"epoch": 1})
    host.report(again, "running")
    host.report(again, "success")  # without a table this time
    host.ask("task_start", TaskKey(job_id="1", component="b", version=1, site=HOST),
             body={"epoch": 1})  # fmt: skip
    spec = msgspec.json.decode(host.executor.started[-1].spec_path.read_bytes())
    assert spec["inputs"]["data"] == {"data": [["a", None]]}


# --- retries --------------------------------------------------------------------------------------


def test_a_failed_task_is_tried_again_at_all_its_sites_after_the_delay(alone: OneServer) -> None:
    job_id = submit(alone, auto_retries=2, auto_retry_delay=5)
    assert run(alone, "failed") == ["a/0"]
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    assert attempts(alone, job_id, "a") == [0]
    due_ms = alone.core.scheduler.next_retry_ms()
    assert due_ms is not None
    assert due_ms - alone.clock.ms == 5_000
    alone.clock.ms = due_ms
    alone.core.scheduler.look_at_queue()
    alone.work()
    assert attempts(alone, job_id, "a") == attempts(alone, job_id, "a", HOST) == [0, 1]
    second = alone.task(TaskKey(job_id=job_id, component="a", version=1, site=HOST))
    assert (second.auto_retries, second.auto_retry_delay_s) == (1, 5)
    assert run(alone) == ["a/1"]
    assert run(alone) == ["b/0"]
    assert alone.scheduled(job_id).status is JobStatus.SUCCESS
    assert alone.core.scheduler.next_retry_ms() is None


def test_a_task_is_tried_at_most_so_many_times(alone: OneServer) -> None:
    job_id = submit(alone, auto_retries=2, auto_retry_delay=0)
    assert run(alone, "failed") == ["a/0"]
    assert run(alone, "failed") == ["a/1"]
    assert run(alone, "failed") == ["a/2"]
    assert alone.scheduled(job_id).status is JobStatus.FAILED
    alone.core.reruns.rerun(job_id)  # a rerun counts anew
    assert run(alone, "failed") == ["a/3"]
    assert run(alone) == ["a/4"]


def test_an_error_that_stays_the_same_is_not_tried_again(alone: OneServer) -> None:
    job_id = submit(alone, auto_retries=2, auto_retry_delay=0)
    run(alone, "failed", code="BadParameter")
    assert alone.scheduled(job_id).status is JobStatus.FAILED


def test_a_job_can_be_stopped_while_a_task_waits_for_its_retry(alone: OneServer) -> None:
    job_id = submit(alone, auto_retries=1, auto_retry_delay=60)
    run(alone, "failed")
    alone.core.jobs.stop(job_id)
    assert alone.scheduled(job_id).status is JobStatus.CANCELED
    assert attempts(alone, job_id, "a") == [0]


def test_a_participant_makes_an_attempt_only_after_the_former_one_is_gone(host: OneServer) -> None:
    host.create(job_id="1")
    first = host.run_task(pid=77)
    host.report(first, "running")
    again = TaskKey(job_id="1", component="a", version=1, site=HOST)
    host.report(first, "failed")
    with pytest.raises(StillEnding):
        host.ask("task_create", again, body={"epoch": 0, "auto_retries": 1})
    host.processes.exited(str(host.task(first).launch_id), 1, None)
    with pytest.raises(StaleCommand):
        host.ask("task_create", again, body={"epoch": 1, "auto_retries": 1})
    for _ in range(2):  # a repeat has no second effect
        assert host.ask("task_create", again, body={"epoch": 0, "auto_retries": 1}).retcode == 0
    assert host.task(again).auto_retries == 1
    with pytest.raises(StaleCommand):
        host.ask("task_create", first, body={"epoch": 0})


# --- what a site checks again ---------------------------------------------------------------------


READER = {"module": "Reader", "output": {"data": ["data"]}}
USES = {"module": "Step", "input": {"data": {"data": ["r.data"]}}}


def reader_job(server: OneServer) -> dict[str, object]:
    """Create and end a job of a reader and a step at the host; return its conf."""
    server.put_table("n", "t")
    table = {"role": {"host": {"0": {"r": {"table": {"namespace": "n", "name": "t"}}}}}}
    guest = {"guest": {"0": {"r": {"table": {"namespace": "n", "name": "g"}}}}}
    document = conf(parameters={"role": {**table["role"], **guest}})
    server.create(dsl_=dsl(r=READER, s=USES), conf_=document)
    server.ask("job_stop", KEY, status="failed")
    with server.store.transaction() as tx:
        tx.tables.drop("n", "t")
    return document


def test_a_table_that_is_gone_matters_only_if_its_reader_runs_again(host: OneServer) -> None:
    document = reader_job(host)
    body = {"epoch": 1, "runtime_conf": document, "tasks": {"r": 1, "s": 1}}
    with pytest.raises(TableNotFound):
        host.ask("job_rerun", KEY, body=body)
    assert host.job("1").status is JobStatus.FAILED
    assert host.ask("job_rerun", KEY, body={**body, "tasks": {"s": 1}}).retcode == 0


def test_new_parameters_cannot_point_a_reader_to_an_absent_table(host: OneServer) -> None:
    document = reader_job(host)
    body = {"epoch": 0, "runtime_conf": document}
    with pytest.raises(TableNotFound):
        host.ask("job_parameters", KEY, body=body)
    with pytest.raises(WrongSite):
        host.ask("job_parameters", KEY, body=body, source="10001")


def test_parameters_of_a_job_that_runs_or_of_another_epoch_are_not_changed(
    host: OneServer,
) -> None:
    host.create()
    body = {"epoch": 0, "runtime_conf": conf()}
    with pytest.raises(ParametersRefused):
        host.ask("job_parameters", KEY, body=body)
    host.ask("job_stop", KEY, status="failed")
    with pytest.raises(StaleCommand):
        host.ask("job_parameters", KEY, body={**body, "epoch": 3})
    with pytest.raises(BadRequest):
        host.ask(
            "job_parameters", KEY, body={**body, "runtime_conf": conf(guest=[9999], host=[10005])}
        )


@pytest.mark.parametrize(
    "body",
    [
        {**rerun_body(), "epoch": 10**12},
        {**rerun_body(), "epoch": -1},
        {**rerun_body(), "epoch": "1"},
        rerun_body(1, a=10**12),
        {**rerun_body(), "tasks": ["a"]},
        {**rerun_body(), "tasks": {"a": True}},
        {**rerun_body(), "tasks": {"zzz": 1}},
    ],
)
def test_a_malformed_rerun_is_refused_and_changes_nothing(
    host: OneServer, body: dict[str, object]
) -> None:
    ended(host)
    with pytest.raises(BadRequest):
        host.ask("job_rerun", KEY, body=body)
    assert (host.job("1").status, host.job("1").epoch) == (JobStatus.FAILED, 0)
