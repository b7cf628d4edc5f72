"""What users do with jobs: what a submit refuses, what a stop ends, what can be seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import JobNotFound, SubmitRefused
from fedflow.base.errors.parties import NoRoute
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import JobFilter, Order, Reply, TaskFilter, TaskKey
from fedflow.domain.site import Role
from fedflow.domain.states import TASK_FINAL, JobStatus, TaskEvent, TaskStatus
from fedflow.wire.api.job_lists import JobQueryRow
from fedflow.wire.api.jobs import Reason
from fedflow.wire.fields import job_row
from tests.unit.app.fakes import ARBITER, CORES, GUEST, HOST, OneServer, conf, dsl


def nothing_is_stored(server: OneServer) -> bool:
    with server.store.read() as tx:
        jobs = tx.jobs.find(JobFilter(refused=False))  # a refused one leaves a note of itself
        return not tx.schedules.active() and not tx.outbox.size() and not jobs


def finish(server: OneServer, job_id: str, component: str, status: str = "success") -> None:
    """Let the processes of a component run to their end at every site that is here."""
    for launch in list(server.executor.started):
        key = launch.task
        task = server.task(key)
        if key.component == component and task.party_status not in TASK_FINAL:
            server.report(key, "running")
            server.report(key, status, error={"code": "BadData", "message": "no label"})
            server.processes.exited(str(task.launch_id), 0, None)
    server.work()


# --- submit ---------------------------------------------------------------------------------------


def test_a_submitted_job_is_queued_everywhere_when_submit_returns(alone: OneServer) -> None:
    alone.live()
    submitted = alone.core.submissions.submit(dsl(), conf())
    assert submitted.model_version == submitted.job_id
    assert submitted.model_id == "guest-9999#host-10000#model"
    assert submitted.logs_directory.endswith(f"logs/{submitted.job_id}")
    for site in (GUEST, HOST):
        assert alone.job(submitted.job_id, site).status in (JobStatus.WAITING, JobStatus.RUNNING)


def test_all_mistakes_of_a_document_are_told_at_once_and_nothing_is_kept(alone: OneServer) -> None:
    components = dsl(a="Step", b="Nope", c={"module": "Step", "input": {"data": {"data": ["x.y"]}}})
    document = conf()
    document["job_parameters"]["common"]["run_to"] = "zzz"
    with pytest.raises(InvalidJobSpec) as caught:
        alone.core.submissions.submit(components, document)
    paths = {p.path for p in caught.value.problems}
    assert len(paths) == 3
    assert any("components.b" in p for p in paths)
    assert any("components.c" in p for p in paths)
    assert "$.conf.job_parameters.common.run_to" in paths
    assert nothing_is_stored(alone)


def test_all_wrong_parameters_of_all_sites_are_told_at_once(alone: OneServer) -> None:
    parameters = {
        "common": {"a": {"bad": 1}},
        "role": {"host": {"0": {"b": {"bad": 2}}}},
    }
    with pytest.raises(InvalidJobSpec) as caught:
        alone.core.submissions.submit(dsl(), conf(parameters=parameters))
    problems = {p.path: p.message for p in caught.value.problems}
    assert problems == {
        "$.conf.component_parameters.common.a.bad": "is bad (at guest 9999, host 10000)",
        '$.conf.component_parameters.role.host["0"].b.bad': "is bad (at host 10000)",
    }
    assert nothing_is_stored(alone)


def test_every_site_is_asked_whether_its_run_can_be_as_planned(alone: OneServer) -> None:
    alone.core.submissions.begin(dsl(), conf(host=[10000, 10001], guest=[9999]))
    planned = [run for run in alone.catalog.planned if run.site.party_id == "10001"]
    assert [run.data_ports for run in planned] == [(), ("data",)]
    assert all(len(run.sites) == 3 for run in planned)


def test_a_run_that_cannot_be_as_planned_is_told_at_the_place_of_the_fault(
    alone: OneServer,
) -> None:
    alone.catalog.objection = "role: one host only"
    with pytest.raises(InvalidJobSpec) as caught:
        alone.core.submissions.submit(dsl(), conf())
    assert {p.path for p in caught.value.problems} == {"$.conf.role"}
    alone.catalog.objection = "input.data: needs train_data"
    with pytest.raises(InvalidJobSpec) as caught:
        alone.core.submissions.submit(dsl(), conf())
    assert "$.dsl.components.b.input.data" in {p.path for p in caught.value.problems}
    assert nothing_is_stored(alone)


@pytest.mark.parametrize("value", [None, [], "x", 7])
def test_what_is_no_document_is_refused(alone: OneServer, value: Any) -> None:
    with pytest.raises(InvalidJobSpec):
        alone.core.submissions.submit(dsl(), value)
    with pytest.raises(InvalidJobSpec):
        alone.core.submissions.submit(value, conf())


def test_a_party_without_a_route_is_named(guest: OneServer) -> None:
    with pytest.raises(NoRoute) as caught:
        guest.core.submissions.submit(dsl(), conf(guest=[9999], host=[10000, 10777]))
    assert caught.value.fields["party_id"] == "10777"
    assert nothing_is_stored(guest)


def test_a_server_submits_only_for_its_own_party(guest: OneServer) -> None:
    document = conf()
    document["initiator"] = {"role": "host", "party_id": 10000}
    with pytest.raises(SubmitRefused, match="does not host the initiator, party 10000"):
        guest.core.submissions.submit(dsl(), document)
    assert nothing_is_stored(guest)


def test_a_users_document_may_not_name_the_upload(alone: OneServer) -> None:
    document = conf(local=[0], guest=[9999])
    with pytest.raises(InvalidJobSpec, match="fedflow data upload"):
        alone.core.submissions.submit(dsl(upload_0="Upload"), document)


def test_the_sentence_of_the_site_that_refuses_is_told(alone: OneServer) -> None:
    alone.live()
    reader = {"table": {"namespace": "n", "name": "t"}}
    with pytest.raises(SubmitRefused) as caught:
        alone.core.submissions.submit(
            dsl(reader_0="Reader"), conf(parameters={"common": {"reader_0": reader}})
        )
    reason = caught.value.fields["reason"]
    assert "No table n.t at party" in reason
    assert reason.startswith(("guest 9999: ", "host 10000: "))
    assert not reason.endswith(".")
    assert alone.free_cores() == CORES


def test_the_refusal_of_another_party_is_told_with_its_name(guest: OneServer) -> None:
    refusal = Reply(retcode=103, retmsg="we do not know you", error="SubmitRefused")
    guest.parties.answer = lambda path, _body: (
        refusal if path.endswith("/create") else Reply(retcode=0)
    )
    guest.live()
    with pytest.raises(SubmitRefused, match="host 10000: we do not know you"):
        guest.core.submissions.submit(dsl(), conf())
    with guest.store.read() as tx:
        (share,) = tx.jobs.find(JobFilter())
    assert share.status is JobStatus.FAILED


# --- a whole job ----------------------------------------------------------------------------------


def test_a_job_runs_to_its_end_and_gives_its_cores_back(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    alone.work()
    assert {launch.task.component for launch in alone.executor.started} == {"a"}
    assert alone.free_cores() == CORES - 4
    finish(alone, job_id, "a")
    finish(alone, job_id, "b")
    for site in (GUEST, HOST):
        job = alone.job(job_id, site)
        assert (job.status, job.progress) == (JobStatus.SUCCESS, 100)
    assert alone.free_cores() == CORES
    assert alone.waiting() == []


def test_a_failure_ends_the_job_everywhere_with_its_reason(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    alone.work()
    finish(alone, job_id, "a", status="failed")
    for site in (GUEST, HOST):
        job = alone.job(job_id, site)
        assert job.status is JobStatus.FAILED
        assert job.reason is not None
        told = "no label" if site == HOST else "BadData; the details stay at host 10000"
        assert job.reason.message == f"a at host 10000: {told}"
        never = alone.task(TaskKey(job_id=job_id, component="b", version=0, site=site))
        assert never.party_status is TaskStatus.CANCELED


# --- stop -----------------------------------------------------------------------------------------


def test_a_stop_ends_a_running_job_and_its_processes(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    alone.work()
    assert alone.core.jobs.stop(job_id).status == "canceled"
    assert {alone.job(job_id, s).status for s in (GUEST, HOST)} == {JobStatus.CANCELED}
    reason = alone.job(job_id, HOST).reason
    assert reason is not None
    assert reason.code == "Stopped"
    assert alone.core.jobs.stop(job_id, "failed").status == "canceled"  # twice changes nothing


def test_a_stop_before_the_job_was_created_waits_for_its_end(alone: OneServer) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf())[0]
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 2:  # the stop has begun to wait
            alone.work()

    alone.clock.looked = look
    assert alone.core.jobs.stop(job_id).status == "canceled"
    assert alone.scheduled(job_id).status is JobStatus.CANCELED


def test_a_stop_that_takes_long_is_answered_with_how_the_job_stands(alone: OneServer) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf())[0]

    def look() -> None:
        alone.clock.ms += 3_000

    alone.clock.looked = look
    assert alone.core.jobs.stop(job_id).status == "waiting"


def test_a_participant_stops_its_own_processes_at_once_and_asks_the_initiator(
    host: OneServer,
) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.core.jobs.request_stop("1")
    assert host.task(key).party_status is TaskStatus.CANCELED
    assert [pid for pid, _ in host.executor.stopped] == [7]
    assert [c.path for c in host.outbox("9999")] == ["/initiator/1/host/10000/stop/canceled"]
    assert host.job("1").status is JobStatus.RUNNING  # only the initiator ends a job


def test_a_stop_names_the_initiator_where_it_is_at_the_server_that_was_asked(
    alone: OneServer, host: OneServer
) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    alone.core.jobs.stop(job_id)
    reason = alone.scheduled(job_id).reason
    assert reason is not None
    assert (reason.site, str(reason.message)) == (GUEST, "stopped by a user at guest 9999")
    task = host.run_task(host.create().job_id)
    host.core.jobs.request_stop("1")
    reason = host.task(task).reason  # the initiator is elsewhere
    assert reason is not None
    assert reason.site == HOST


def test_what_cannot_be_stopped_is_refused(alone: OneServer) -> None:
    with pytest.raises(JobNotFound):
        alone.core.jobs.stop("unknown")
    job_id = alone.core.submissions.begin(dsl(), conf())[0]
    for status in ("success", "running", "nonsense", ""):
        with pytest.raises(BadRequest):
            alone.core.jobs.stop(job_id, status)


# --- look -----------------------------------------------------------------------------------------


def test_the_initiator_shows_the_tasks_of_all_sites(guest: OneServer) -> None:
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    key = TaskKey(job_id=job_id, component="a", version=0, site=HOST)
    reason = {"code": "BadData", "message": "no label", "site": "host-10000"}
    guest.ask(
        "initiator_report", key, source="10000", body={"party_status": "failed", "reason": reason}
    )
    tasks = guest.core.jobs.tasks(TaskFilter(job_id=job_id))
    assert {(t.key.component, t.key.site) for t in tasks} == {
        (c, s) for c in "ab" for s in (GUEST, HOST)
    }
    (remote,) = guest.core.jobs.tasks(
        TaskFilter(job_id=job_id, component="a", roles=(Role.HOST,), party_id="10000")
    )
    assert remote.party_status is TaskStatus.FAILED
    assert remote.reason is not None
    assert remote.reason.message == "no label"


def test_pages_of_the_tasks_of_a_job_are_cut_from_those_of_all_sites(guest: OneServer) -> None:
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    jobs, which = guest.core.jobs, TaskFilter(job_id=job_id, order=Order(), limit=3)
    first, count = jobs.task_page(which)
    rest, again = jobs.task_page(replace(which, offset=3))
    assert (len(first), len(rest), count, again) == (3, 1, 4, 4)
    shown = [(t.key.component, t.key.site) for t in first + rest]
    assert set(shown) == {(c, s) for c in "ab" for s in (GUEST, HOST)}
    assert jobs.task_page(replace(which, roles=(Role.HOST,), component="a"))[1] == 1
    own, count = jobs.task_page(TaskFilter(order=Order(), limit=1))
    assert (len(own), count) == (1, 2)


def test_a_page_of_jobs_tells_how_many_there_are(alone: OneServer) -> None:
    for _ in range(3):
        alone.core.submissions.begin(dsl(), conf())
    alone.work()
    jobs, which = alone.core.jobs, JobFilter(limit=2)
    every, count = jobs.page(JobFilter())
    assert count == len(every) >= 3
    for offset in range(0, count + 2):
        found, counted = jobs.page(replace(which, offset=offset))
        assert found == every[offset : offset + 2]
        assert counted == count


def test_a_view_of_a_job_says_where_each_task_stands(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(
        dsl(k="Keys"), conf(guest=[9999], host=[10000], arbiter=[10000])
    ).job_id
    alone.work()
    shown = alone.core.jobs.status_view(job_id)
    assert shown.status == "running"
    assert shown.components == ("k",)
    assert [t.site for t in shown.tasks] == [GUEST.key, ARBITER.key, HOST.key]


def test_a_share_that_ended_elsewhere_has_its_time_before_the_others_end(
    guest: OneServer,
) -> None:
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    guest.clock.ms += 7_000
    key = TaskKey(job_id=job_id, component="a", version=0, site=HOST)
    guest.ask("initiator_report", key, source="10000", body={"party_status": "success"})
    guest.clock.ms += 1_000
    tasks = {(t.component, t.site): t for t in guest.core.jobs.status_view(job_id).tasks}
    ended, waits = tasks["a", HOST.key], tasks["b", HOST.key]
    assert ended.started_ms is not None
    assert ended.elapsed_s == pytest.approx(7.0, abs=0.5)
    assert (ended.running_ms, waits.running_ms) == (None, None)


def test_a_running_share_says_for_how_long(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    alone.work()
    key = TaskKey(job_id=job_id, component="a", version=0, site=GUEST)
    with alone.store.transaction() as tx:
        tx.tasks.move_party(
            key, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=alone.clock.now_ms()
        )
    alone.clock.ms += 6_000
    shown = {(t.component, t.site): t for t in alone.core.jobs.status_view(job_id).tasks}
    running = shown["a", GUEST.key]
    assert running.running_ms == 6_000
    assert running.elapsed_s is None


def test_a_job_that_is_still_being_created_is_shown_as_waiting(alone: OneServer) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf())[0]
    assert alone.core.jobs.status_view(job_id).status == "waiting"


def test_a_waiting_job_says_what_it_waits_for(alone: OneServer) -> None:
    alone.live()
    first = alone.core.submissions.submit(dsl(), conf(cores=3)).job_id
    second = alone.core.submissions.submit(dsl(), conf(cores=2)).job_id
    alone.work()
    assert alone.scheduled(first).status is JobStatus.RUNNING
    assert alone.core.jobs.status_view(second).reason == Reason(
        code="NotEnoughResources",
        message="waits for 4 cores at guest 9999: 2 of 8 free",
        site="guest-9999",
    )


def test_looking_at_a_job_makes_it_watched_for_five_seconds(alone: OneServer) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf())[0]
    assert not alone.core.jobs.is_watched()
    alone.core.jobs.status_view(job_id)
    alone.clock.ms += 4_999
    assert alone.core.jobs.is_watched()
    alone.clock.ms += 1
    assert not alone.core.jobs.is_watched()


def test_looking_for_what_is_not_here_says_so(alone: OneServer) -> None:
    jobs = alone.core.jobs
    for look in (jobs.job, jobs.status_view, jobs.log_dir):
        with pytest.raises(JobNotFound):
            look("unknown")
    assert jobs.find(JobFilter(job_id="unknown")) == []
    assert jobs.tasks(TaskFilter(job_id="unknown")) == []
    with pytest.raises(BadRequest):
        jobs.set_notes("unknown", "nobody", "1", notes="x")
    with pytest.raises(JobNotFound):
        jobs.set_notes("unknown", "guest", "1", notes="x")


def test_notes_of_people_are_kept(host: OneServer) -> None:
    host.create()
    host.core.jobs.set_notes("1", "host", "10000", notes="for the paper")
    assert host.core.jobs.job("1").description == "for the paper"


def test_people_give_a_job_another_name(host: OneServer) -> None:
    host.create()
    jobs = host.core.jobs
    jobs.set_notes("1", "host", "10000", name="for the paper")
    found = jobs.job("1")
    assert (found.name, found.description) == ("for the paper", "")
    assert jobs.status_view("1").name == "for the paper"
    with pytest.raises(BadRequest, match="a name neither begins"):
        jobs.set_notes("1", "host", "10000", name=" x", notes="not kept")
    assert jobs.job("1").description == ""


def test_a_job_that_is_asked_for_by_its_id_says_why_since_when_and_until_when(
    alone: OneServer,
) -> None:
    alone.live()
    alone.core.submissions.submit(dsl(), conf(cores=3))
    job_id = alone.core.submissions.submit(dsl(), conf(cores=2)).job_id
    alone.work()
    shares = alone.core.jobs.find(JobFilter(job_id=job_id))
    own = next(j for j in shares if j.is_initiator)
    assert own.reason is not None
    assert own.reason.code == "NotEnoughResources"
    row = job_row(own, JobQueryRow)
    assert row.deadline == own.created_ms + 259_200_000
    assert row.since >= own.created_ms
    running = next(j for j in alone.core.jobs.find(JobFilter()) if j.status is JobStatus.RUNNING)
    assert job_row(running, JobQueryRow).since == running.started_ms
