"""A participant's share of a job: what is accepted, its cores, its end, and heartbeats."""

from __future__ import annotations

import pytest

from fedflow.app.participant.party_heartbeats import UNUSED_MS
from fedflow.base.errors.components import ProviderRefused
from fedflow.base.errors.data import TableNotFound
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import (
    JobEnded,
    JobNotFound,
    NotEnoughResources,
    StaleCommand,
    SubmitRefused,
    TaskNotFound,
    WrongSite,
)
from fedflow.base.errors.parties import NoRoute
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.records import JobKey, TaskFilter, TaskKey
from fedflow.domain.scheduling.queue import CLAIM_MS
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.unit.app.fakes import CORES, GUEST, HOST, OneServer, conf, create_body, dsl

KEY = JobKey(job_id="1", site=HOST)
READER = {"reader_0": {"table": {"namespace": "n", "name": "t"}}}


# --- create ---------------------------------------------------------------------------------------


def test_a_created_job_waits_and_its_answer_names_what_runs_here(host: OneServer) -> None:
    body = create_body(dsl_=dsl(a="Step", k="Keys"))
    reply = host.ask("job_create", KEY, body=body)
    assert reply.data == {"components": {"a": {"need_run": True}, "k": {"need_run": True}}}
    job = host.job("1")
    assert (job.status, job.initiator, job.cores, job.in_use) == (
        JobStatus.WAITING,
        GUEST,
        2,
        False,
    )
    task = host.task(TaskKey(job_id="1", component="a", version=0, site=HOST))
    assert (task.status, task.party_status, task.requested_ms) == (
        TaskStatus.WAITING,
        TaskStatus.WAITING,
        None,
    )


def test_a_job_that_would_be_accepted_is_not_stored_when_it_is_only_checked(
    host: OneServer,
) -> None:
    assert host.ask("job_check", KEY, body=create_body()).retcode == 0
    with host.store.read() as tx:
        assert tx.jobs.get(KEY) is None
    assert host.ask("job_create", KEY, body=create_body()).retcode == 0


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (create_body(dsl_={"components": {"a": {"module": "Nope"}}}), InvalidJobSpec),
        (create_body(parameters={"common": {"a": {"bad": 1}}}), Exception),
        (create_body(initiator_party_id="10001"), NoRoute),
        (create_body(guest=[9999], host=[10005]), WrongSite),
        ({"dsl": dsl(), "runtime_conf": conf()}, BadRequest),
        ({**create_body(), "initiator_role": "nobody"}, BadRequest),
        ("no object", BadRequest),
        (create_body(cores=CORES + 1), NotEnoughResources),
        (create_body(dsl_=dsl(reader_0="Reader"), parameters={"common": READER}), TableNotFound),
    ],
)
def test_a_job_that_cannot_run_here_is_refused_and_leaves_nothing(
    host: OneServer, body: object, error: type[Exception]
) -> None:
    for command in ("job_check", "job_create"):
        with pytest.raises(error):
            host.ask(command, KEY, body=body, source=None)
    with host.store.read() as tx:
        assert tx.jobs.get(KEY) is None
        assert tx.tasks.live() == []


def test_why_a_provider_cannot_be_asked_stays_at_its_party(
    host: OneServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def check(*_: object, **__: object) -> None:
        raise ProviderRefused(provider="lab@1", reason="it printed: a password")

    monkeypatch.setattr(host.catalog, "check", check)
    with pytest.raises(ProviderRefused) as caught:
        host.ask("job_create", KEY, body=create_body(), source=None)
    assert "lab@1" in caught.value.message
    assert "password" not in caught.value.message
    assert "password" in caplog.text


def test_a_table_that_is_there_lets_the_job_in(host: OneServer) -> None:
    host.put_table("n", "t")
    host.create(dsl_=dsl(reader_0="Reader"), parameters={"common": READER})


def test_a_job_for_a_party_that_this_server_does_not_host_is_refused(host: OneServer) -> None:
    elsewhere = JobKey(job_id="1", site=Site(HOST.role, GUEST.party_id))
    with pytest.raises(SubmitRefused, match="does not host party 9999"):
        host.ask("job_create", elsewhere, body=create_body())


def test_a_party_cannot_create_a_job_in_the_name_of_another(host: OneServer) -> None:
    with pytest.raises(WrongSite):
        host.ask("job_create", KEY, body=create_body(), source="10001")


def test_the_id_of_another_initiators_job_is_refused(host: OneServer) -> None:
    host.parties.known = frozenset({"9999", "8888"})
    host.create()
    other = create_body(
        conf_={
            **conf(guest=[8888], host=[10000]),
            "initiator": {"role": "guest", "party_id": 8888},
        },
        initiator_party_id="8888",
    )
    with pytest.raises(SubmitRefused, match="another job has the id"):
        host.ask("job_create", KEY, body=other, source="8888")


def test_other_contents_under_a_known_id_are_refused_and_do_not_reach_the_job(
    host: OneServer,
) -> None:
    host.create()
    with pytest.raises(SubmitRefused, match="another job has the id"):
        host.ask("job_create", KEY, body=create_body(dsl_=dsl(x="Step")), request_id="r2")
    with pytest.raises(TaskNotFound):
        host.run_task(component="x")
    host.run_task(component="a")
    assert len(host.executor.started) == 1


# --- cores ----------------------------------------------------------------------------------------


def test_cores_are_taken_once_and_returned_once(host: OneServer) -> None:
    host.create(cores=3)
    for _ in range(2):
        assert host.ask("job_apply", KEY).retcode == 0
        assert host.free_cores() == CORES - 3
    for _ in range(2):
        assert host.ask("job_return", KEY).retcode == 0
        assert host.free_cores() == CORES
    assert host.wakeup.queued == 1


def test_a_denial_says_how_many_cores_are_missing(host: OneServer) -> None:
    host.create("1", cores=5)
    host.create("2", cores=4)
    host.ask("job_apply", KEY)
    reply = host.ask("job_apply", JobKey(job_id="2", site=HOST))
    assert (reply.retcode, reply.error) == (103, "NotEnoughResources")
    assert reply.retmsg == "waits for 4 cores at host 10000: 3 of 8 free"


def test_memory_is_taken_and_returned_beside_cores(host: OneServer) -> None:
    with host.store.transaction() as tx:
        tx.engines.put(ENGINE, CORES, memory=100, now_ms=host.clock.ms)
    asks = conf(cores=1)
    asks["job_parameters"]["common"]["task_memory"] = 60
    first, second = (host.create(job_id, conf_=asks) for job_id in "12")
    assert host.ask("job_apply", first).retcode == 0
    reply = host.ask("job_apply", second)
    assert reply.retmsg == "waits for 60 MiB of memory at host 10000: 40 of 100 MiB free"
    host.ask("job_return", first)
    assert host.ask("job_apply", second).retcode == 0
    with host.store.read() as tx:
        engine = tx.engines.get(ENGINE)
    assert engine is not None
    assert (engine.remaining_cores, engine.remaining_memory) == (CORES - 1, 40)
    asks["job_parameters"]["common"]["task_memory"] = 101
    with pytest.raises(NotEnoughResources, match="= 101 MiB of memory; host 10000 has 100"):
        host.create("3", conf_=asks)


def test_shares_that_do_not_fit_together_are_refused(alone: OneServer) -> None:
    """One server hosts both sites: each would fit, but they would wait for each other for ever."""
    with pytest.raises(NotEnoughResources, match="guest 9999 and host 10000 has 8"):
        alone.core.submissions.begin(dsl(), conf(cores=CORES // 2 + 1))
    assert alone.waiting() == []


def starve(host: OneServer) -> JobKey:
    """Return a job that was denied its 8 cores, has waited too long and keeps asking."""
    small = host.create("small", cores=3)
    host.ask("job_apply", small)
    big = host.create("big", cores=CORES)
    host.clock.ms += host.timing.starving_after_ms + 1
    assert host.ask("job_apply", big).error == "NotEnoughResources"
    return big


def test_what_a_starving_job_waits_for_is_kept_from_others(host: OneServer) -> None:
    big = starve(host)
    late = host.create("late", cores=1)
    reply = host.ask("job_apply", late)
    assert (reply.retcode, reply.error) == (103, "Reserved")
    assert reply.retmsg == (
        "waits for 1 cores at host 10000: what is free there is kept for job big, "
        "which has waited for 300 seconds"
    )
    host.ask("job_stop", JobKey(job_id="small", site=HOST), status="canceled")
    assert host.ask("job_apply", late).error == "Reserved"
    assert host.ask("job_apply", big).retcode == 0


def test_a_reservation_lapses_when_its_job_does_not_ask_any_more(host: OneServer) -> None:
    starve(host)
    late = host.create("late", cores=1)
    host.clock.ms += CLAIM_MS
    assert host.ask("job_apply", late).error == "Reserved"
    host.clock.ms += 1
    assert host.ask("job_apply", late).retcode == 0


def test_a_job_that_ended_has_no_reservation(host: OneServer) -> None:
    big = starve(host)
    host.ask("job_stop", big, status="canceled")
    assert host.ask("job_apply", host.create("late", cores=1)).retcode == 0


@pytest.mark.parametrize("name", ["job_apply", "job_return", "job_start"])
def test_commands_for_jobs_that_are_not_current_are_refused(host: OneServer, name: str) -> None:
    with pytest.raises(JobNotFound):
        host.ask(name, KEY)
    host.create()
    with pytest.raises(StaleCommand):
        host.ask(name, KEY, body={"epoch": 1})
    with pytest.raises(BadRequest):
        host.ask(name, KEY, body={"epoch": "x"})
    host.ask("job_stop", KEY, status="canceled")
    with pytest.raises(JobEnded):
        host.ask(name, KEY)


# --- end ------------------------------------------------------------------------------------------


def test_the_end_of_a_job_stops_its_processes_and_returns_its_cores_once_they_are_gone(
    host: OneServer,
) -> None:
    host.create()
    host.ask("job_apply", KEY)
    key = host.run_task(pid=7)
    launch_id = str(host.task(key).launch_id)
    host.ask("job_stop", KEY, status="canceled")
    assert host.job("1").status is JobStatus.CANCELED
    assert host.task(key).party_status is TaskStatus.CANCELED
    assert host.executor.stopped == [(7, host.timing.stop_grace_s)]
    assert host.free_cores() == CORES - 2
    host.processes.exited(launch_id, None, 15)
    assert host.free_cores() == CORES
    assert host.outbox() == []  # the initiator ordered it: no report


def test_a_task_that_never_ran_is_canceled_however_the_job_ends(host: OneServer) -> None:
    host.create()
    key = host.run_task(component="a", pid=7)
    host.ask("job_stop", KEY, status="failed")
    assert host.task(key).party_status is TaskStatus.FAILED
    never = TaskKey(job_id="1", component="b", version=0, site=HOST)
    assert host.task(never).party_status is TaskStatus.CANCELED


def test_the_end_of_an_unknown_job_keeps_it_from_being_created_later(host: OneServer) -> None:
    key = JobKey(job_id=f"{1:024}", site=HOST)
    for request_id in ("r1", "r1", "r2", None):
        reply = host.ask("job_stop", key, status="failed", request_id=request_id)
        assert reply.retcode == 0
    with pytest.raises(JobEnded):
        host.create(key.job_id)


def test_an_end_that_comes_twice_or_late_changes_nothing(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, status="canceled")
    ended = host.job("1")
    host.clock.ms += 1000
    host.ask("job_status", KEY, status="success")
    assert host.job("1").status is ended.status
    assert host.job("1").ended_ms == ended.ended_ms


@pytest.mark.parametrize("status", ["running", "waiting", "nonsense", None])
def test_a_status_that_is_no_end_does_not_end_a_job(host: OneServer, status: str | None) -> None:
    host.create()
    with pytest.raises(BadRequest):
        host.ask("job_stop", KEY, status=status)
    assert host.job("1").status is JobStatus.WAITING


@pytest.mark.parametrize("status", [JobStatus.SUCCESS, JobStatus.CANCELED, JobStatus.TIMEOUT])
def test_a_job_that_was_given_up_takes_the_word_of_its_initiator(
    host: OneServer, status: JobStatus
) -> None:
    host.create()
    host.clock.ms += host.timing.lease_ms + 1
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED
    host.ask("job_status", KEY, status=status.value)
    assert host.job("1").status is status


@pytest.mark.parametrize(
    ("epoch", "attempt"),
    [pytest.param(1, 1, id="a rerun"), pytest.param(0, 2, id="two retries")],
)
def test_the_end_brings_the_attempts_that_never_arrived_here(
    host: OneServer, epoch: int, attempt: int
) -> None:
    host.create()
    host.clock.ms += host.timing.lease_ms + 1
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED  # it gave up before it was called again
    tasks = {"a": [attempt, "failed"], "b": [0, "canceled"]}
    host.ask("job_stop", KEY, status="failed", body={"epoch": epoch, "tasks": tasks})
    assert (host.job("1").status, host.job("1").epoch) == (JobStatus.FAILED, epoch)
    missed = [TaskKey(job_id="1", component="a", version=v + 1, site=HOST) for v in range(attempt)]
    assert [host.task(key).party_status for key in missed] == [TaskStatus.CANCELED] * attempt
    assert host.executor.started == []


@pytest.mark.parametrize("version", [10**9, -1, 101, "1", None, True])
def test_an_end_cannot_bring_any_number_of_attempts(host: OneServer, version: object) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed", body={"tasks": {"a": [version, "failed"]}})
    with host.store.read() as tx:
        found = tx.tasks.find(TaskFilter(job_id="1", component="a", all_versions=True))
    assert len(found) == 1


# --- tasks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["running", "waiting", "nonsense", None])
@pytest.mark.parametrize("name", ["task_stop", "task_status"])
def test_a_status_that_is_no_end_does_not_settle_a_task(
    host: OneServer, name: str, status: str | None
) -> None:
    host.create()
    key = host.run_task()
    with pytest.raises(BadRequest):
        host.ask(name, key, status=status)
    assert host.task(key).party_status is TaskStatus.WAITING


def test_a_task_that_failed_elsewhere_is_stopped_here(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.report(key, "running")
    reason = {"code": "BadData", "message": "no label", "site": "guest-9999"}
    host.ask("task_stop", key, status="failed", body={"epoch": 0, "reason": reason})
    task = host.task(key)
    assert (task.status, task.party_status) == (TaskStatus.FAILED, TaskStatus.FAILED)
    assert task.reason is not None
    assert (task.reason.message, task.reason.site) == ("no label", GUEST)
    assert [pid for pid, _ in host.executor.stopped] == [7]
    assert ("fail", key.session, "host-10000") in host.sessions.events


def test_a_task_that_succeeded_everywhere_is_not_stopped(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.ask("task_status", key, status="success")
    assert host.task(key).status is TaskStatus.SUCCESS
    assert host.executor.stopped == []


def test_a_start_of_a_task_that_has_ended_is_answered_with_how_it_stands(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.report(key, "success")
    reply = host.ask("task_start", key)
    assert reply.retcode == 10
    assert reply.data["party_status"] == "success"
    assert len(host.executor.started) == 1


def test_a_task_of_an_ended_job_does_not_start(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, status="canceled")
    with pytest.raises(JobEnded):
        host.run_task()
    assert host.executor.started == []


def test_parties_of_the_job_may_ask_for_the_names_of_its_tables_and_no_others(
    host: OneServer,
) -> None:
    host.create()
    key = host.run_task(pid=7)
    ask = {"component": "a"}
    made = {"table": {"namespace": "n", "name": "x", "address": "d", "schema": {}, "count": 1,
                      "partitions": 1, "origin": "output", "created_ms": 1},
            "data_name": "data"}  # fmt: skip
    host.report(key, "success", outputs=[made])
    reply = host.ask("output_table", key, body=ask)
    assert reply.data == [{"table_name": "x", "table_namespace": "n", "data_name": "data"}]
    with pytest.raises(WrongSite):
        host.ask("output_table", key, body=ask, source="10001")


# --- heartbeats -----------------------------------------------------------------------------------


def beat(job_id: str = "1", **told: object) -> dict[str, object]:
    return {"jobs": {job_id: {"epoch": 0, "sites": {"host-10000": "granted"}, **told}}}


def test_a_heartbeat_is_answered_with_how_everything_stands(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.report(key, "running", progress=0.25)
    reply = host.ask("heartbeat", body=beat(tasks={}, progress=40))
    told = reply.data["jobs"]["1"]["host-10000"]
    assert told["status"] == "running"
    assert told["tasks"]["a"]["party_status"] == "running"
    assert told["tasks"]["a"]["progress"] == 0.25
    assert told["tasks"]["b"]["party_status"] == "waiting"
    assert host.job("1").progress == 40


def ended(status: str, *, epoch: int = 0) -> dict[str, object]:
    """Return a heartbeat that says how the job ended at its initiator."""
    return {"jobs": {"1": {"epoch": epoch, "status": status, "sites": {HOST.key: "gone"}}}}


def test_an_end_that_differs_from_the_initiators_is_a_warning_until_they_agree(
    host: OneServer,
) -> None:
    host.create()
    host.ask("job_status", KEY, status="success")
    for _ in range(2):
        told = host.ask("heartbeat", body=ended("failed")).data["jobs"]["1"][HOST.key]
        assert told == {"status": "success", "epoch": 0}
    (warning,) = host.job("1").warnings
    assert (warning.code, warning.path) == ("PartiesDisagree", GUEST.key)
    assert warning.message == ("guest 9999 has this job as failed, while here it ended as success")
    host.ask("heartbeat", body=ended("success"))
    assert host.job("1").warnings == ()


def test_an_earlier_run_at_the_initiator_is_named_as_such(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed", body={"epoch": 0, "tasks": {}})
    host.ask("job_stop", KEY, status="canceled", body={"epoch": 2, "tasks": {}})
    host.ask("heartbeat", body=ended("failed"))
    (warning,) = host.job("1").warnings
    assert "guest 9999 has run 1 of this job as failed" in warning.message
    assert "its last run is 3, which ended as canceled" in warning.message


@pytest.mark.parametrize("status", ["success", "running", "nonsense", 7])
def test_an_end_that_comes_again_or_says_nothing_is_no_disagreement(
    host: OneServer, status: str
) -> None:
    host.create()
    host.ask("heartbeat", body=ended(status))  # it runs here: the end is to come
    host.clock.ms += host.timing.lease_ms + 1
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED
    host.ask("heartbeat", body=ended(status))  # it was given up: the initiator's word counts
    assert host.job("1").warnings == ()


def test_a_start_without_cores_takes_them_or_is_refused(host: OneServer) -> None:
    """The database was put back to before the job held its cores."""
    host.create()
    host.ask("task_start", TaskKey(job_id="1", component="a", version=0, site=HOST), body={})
    assert host.free_cores() == CORES - 2
    assert host.job("1").status is JobStatus.RUNNING


def test_a_job_that_is_not_here_is_answered_so(host: OneServer) -> None:
    reply = host.ask("heartbeat", body=beat("unknown"))
    assert reply.data["jobs"] == {"unknown": {"host-10000": {"status": None}}}


def test_cores_that_the_initiator_does_not_count_on_are_returned_after_ten_minutes(
    host: OneServer,
) -> None:
    host.create()
    host.ask("job_apply", KEY)

    def beat(phase: str, *, epoch: int = 0) -> int:
        sites = {"sites": {HOST.key: phase}, "epoch": epoch, "tasks": {}}
        host.ask("heartbeat", body={"jobs": {"1": sites}})
        return host.free_cores()

    held = host.free_cores()
    assert beat("denied") == held < CORES
    host.clock.ms += UNUSED_MS + 1
    assert beat("granted") == held
    assert beat("denied", epoch=1) == held
    assert beat("denied") == CORES
    assert host.wakeup.queued


def test_a_job_that_is_held_at_its_initiator_is_held_here_too_though_no_command_came(
    host: OneServer,
) -> None:
    host.create()
    host.ask("job_apply", KEY)
    host.ask("job_start", KEY)
    task = host.run_task(pid=7)

    def beat() -> tuple[JobStatus, int]:
        sites = {"sites": {HOST.key: "created"}, "epoch": 0, "tasks": {}}
        host.ask("heartbeat", body={"jobs": {"1": sites}})
        return host.job("1").status, host.free_cores()

    held = host.free_cores()
    host.clock.ms += UNUSED_MS + 1
    assert beat() == (JobStatus.RUNNING, held)  # a process is left
    host.core.workers.exited(task, str(host.task(task).launch_id), 0, None)
    assert beat() == (JobStatus.WAITING, CORES)


def test_a_start_takes_cores_that_were_returned_meanwhile_or_is_refused(host: OneServer) -> None:
    host.create()
    host.ask("job_apply", KEY)
    with host.store.transaction() as tx:
        tx.jobs.return_cores(KEY, now_ms=1)
    with host.store.transaction() as tx:
        tx.engines.put(ENGINE, 1, now_ms=1)
    refused = host.ask("job_start", KEY)
    assert (refused.retcode, host.job("1").status) == (103, JobStatus.WAITING)
    with host.store.transaction() as tx:
        tx.engines.put(ENGINE, CORES, now_ms=1)
    assert host.ask("job_start", KEY).retcode == 0
    assert (host.job("1").status, host.free_cores()) == (JobStatus.RUNNING, CORES - 2)


def test_a_heartbeat_renews_the_initiators_lease(host: OneServer) -> None:
    host.create()
    for _ in range(3):
        host.clock.ms += host.timing.lease_ms
        host.ask("heartbeat", body=beat())
        host.core.detector.tick()
    assert host.job("1").status is JobStatus.WAITING
    host.clock.ms += host.timing.lease_ms + 1
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED


@pytest.mark.parametrize(
    "body", [{}, {"jobs": []}, {"jobs": {"1": {"sites": {"nobody-1": "x"}}}}, "no object"]
)
def test_a_malformed_heartbeat_is_refused(host: OneServer, body: object) -> None:
    with pytest.raises(BadRequest):
        host.ask("heartbeat", body=body)


def test_a_job_of_another_initiator_is_none_of_who_names_it_and_stops_no_heartbeat(
    host: OneServer,
) -> None:
    """A party that took another's job id first must not end the other's jobs here."""
    host.create()
    host.ask("job_apply", KEY)
    held = host.free_cores()
    host.clock.ms += max(UNUSED_MS, host.timing.lease_ms) + 1
    lacks = {HOST.key: {"status": None}}
    for told in ({"tasks": {}, "progress": 40}, {"status": "failed"}):
        for phase in ("granted", "created", "refused"):
            named = {"epoch": 0, "sites": {HOST.key: phase}, **told}
            body = {"jobs": {"1": named, "unknown": named}}
            reply = host.ask("heartbeat", body=body, source="10001")
            assert reply.data["jobs"] == {"1": lacks, "unknown": lacks}
    job = host.job("1")
    assert (job.progress, job.warnings, host.free_cores()) == (0, (), held)
    host.core.detector.tick()  # none of it renewed the lease
    assert host.job("1").status is JobStatus.FAILED


@pytest.mark.parametrize(
    ("site", "initiator", "roles"),
    [
        ("local-0", "guest-9999", {"guest": [9999], "local": [0]}),
        ("local-10000", "guest-9999", {"guest": [9999], "local": [10000]}),
        ("local-9999", "local-9999", {"local": [9999]}),
    ],
)
def test_another_party_cannot_run_local_jobs_which_read_files_here(
    host: OneServer, site: str, initiator: str, roles: dict[str, list[int]]
) -> None:
    host.parties.local = frozenset({"0", "10000"})
    upload = {"common": {"upload_0": {"file": "/etc/passwd", "delete_file": True}}}
    role, party_id = initiator.split("-")
    document = conf(parameters=upload, **roles)
    document["initiator"] = {"role": role, "party_id": int(party_id)}
    body = create_body(dsl_=dsl(upload_0="Upload"), conf_=document)
    body["initiator_role"] = role
    with pytest.raises(SubmitRefused, match=r"own server's jobs|does not host"):
        host.ask("job_create", JobKey(job_id="1", site=Site.from_key(site)), body=body)
