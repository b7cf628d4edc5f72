"""What the detector repairs: lost launches, dead processes, silent initiators, lost reports."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from fedflow.base.errors.jobs import JobNotFound, WrongSite
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.messages import Message
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import CommandKind, Handle, JobKey, Reply, TaskKey
from fedflow.domain.scheduling.history import EventFilter
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus
from tests.unit.app.fakes import ARBITER, CORES, HOST, OneServer, conf, create_body, dsl

KEY = JobKey(job_id="1", site=HOST)


# --- processes ------------------------------------------------------------------------------------


def test_a_launch_without_a_process_is_repeated_after_the_grace(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    first = host.task(key)
    host.clock.ms += host.timing.launch_grace_ms
    host.core.detector.tick()
    assert len(host.executor.started) == 1
    host.clock.ms += 1
    host.core.detector.tick()
    second = host.task(key)
    assert [launch.task for launch in host.executor.started] == [key, key]
    assert second.launch_id not in (None, first.launch_id)
    assert second.token != first.token
    host.core.detector.tick()
    assert len(host.executor.started) == 2


def test_a_launch_that_failed_for_want_of_disk_is_repeated(host: OneServer) -> None:
    host.create()
    host.executor.fails = OSError("disk full")
    key = host.run_task()
    host.executor.fails = None
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    assert [launch.task for launch in host.executor.started] == [key]


def test_a_launch_whose_folder_may_not_be_written_fails_the_task_with_folder_and_user(
    host: OneServer,
) -> None:
    host.create()
    host.executor.fails = PermissionError(errno.EACCES, "Permission denied", "/srv/jobs/1")
    task = host.task(host.run_task())
    assert task.party_status is TaskStatus.FAILED
    assert task.reason is not None
    assert task.reason.code == "FolderNotWritable"
    assert "may not write below /srv/jobs/1" in task.reason.message


def test_a_process_that_came_up_while_the_detector_looked_is_not_replaced(host: OneServer) -> None:
    host.create()
    watched = host.run_task(component="a", pid=7)
    starting = host.run_task(component="b")
    launch_id = str(host.task(starting).launch_id)

    def come_up(_pid: int) -> None:  # between the detector's look at the list and at this task
        host.processes.started(launch_id, Handle(pid=8, start_time=8, host="here"))

    host.executor.on_adopt = come_up
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    assert host.executor.adopted == [7]
    assert host.task(starting).launch_id == launch_id
    assert host.task(starting).handle == Handle(pid=8, start_time=8, host="here")
    assert [launch.task for launch in host.executor.started] == [watched, starting]


def test_a_task_that_ended_while_the_detector_looked_is_not_launched(host: OneServer) -> None:
    host.create()
    host.run_task(component="a", pid=7)
    waiting = host.run_task(component="b")

    def end(_pid: int) -> None:
        host.executor.on_adopt = lambda _: None
        host.ask("job_stop", KEY, status="canceled")

    host.executor.on_adopt = end
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    assert len(host.executor.started) == 2
    assert host.task(waiting).party_status is TaskStatus.CANCELED


def test_a_process_that_is_gone_without_a_word_fails_its_task(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.core.detector.tick()
    assert host.task(key).party_status is TaskStatus.WAITING
    host.executor.alive.clear()
    host.core.detector.tick()
    reason = host.task(key).reason
    assert reason is not None
    assert reason.code == "ExecutorDied"


def test_a_process_that_outlives_its_task_is_stopped_again(host: OneServer) -> None:
    host.create()
    host.run_task(pid=7)
    host.ask("job_stop", KEY, status="canceled")
    assert len(host.executor.stopped) == 1
    host.core.detector.tick()
    assert len(host.executor.stopped) == 1
    host.clock.ms += int(host.timing.stop_grace_s * 1000) + 1
    host.core.detector.tick()
    assert [pid for pid, _ in host.executor.stopped] == [7, 7]


def test_a_restarted_server_adopts_processes_and_opens_their_sessions(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.sessions.events.clear()
    host.boot()
    host.core.detector.recover()
    assert host.executor.adopted == [7]
    assert host.sessions.events == [("open", key.session, HOST.key)]
    host.processes.exited(str(host.task(key).launch_id), None, 9)
    assert host.task(key).party_status is TaskStatus.FAILED


def test_a_restarted_server_finds_what_died_meanwhile(host: OneServer) -> None:
    host.create()
    host.ask("job_apply", KEY)
    key = host.run_task(pid=7)
    host.ask("job_stop", KEY, status="canceled")
    host.executor.alive.clear()
    host.boot()
    host.core.detector.recover()
    assert host.task(key).party_status is TaskStatus.CANCELED
    assert host.free_cores() == CORES


def test_one_bad_job_does_not_keep_the_others_from_being_checked(
    host: OneServer, caplog: pytest.LogCaptureFixture
) -> None:
    host.create()
    host.run_task(component="a", pid=7)
    key = host.run_task(component="b")

    def fail(_pid: int) -> None:
        raise RuntimeError("a defect")

    host.executor.on_adopt = fail
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    assert host.executor.started[-1].task == key
    assert len(host.executor.started) == 3
    assert "could not be checked" in caplog.text


# --- leases ---------------------------------------------------------------------------------------


def test_a_silent_initiator_ends_the_job_here_and_its_cores_come_back(host: OneServer) -> None:
    host.create()
    host.ask("job_apply", KEY)
    key = host.run_task(pid=7)
    launch_id = str(host.task(key).launch_id)
    host.clock.ms += host.timing.lease_ms
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.RUNNING
    host.clock.ms += 1
    host.core.detector.tick()
    job = host.job("1")
    assert job.reason is not None
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "InitiatorLost")
    assert "60 seconds" in job.reason.message
    assert [pid for pid, _ in host.executor.stopped] == [7]
    host.processes.exited(launch_id, None, 15)
    assert host.free_cores() == CORES


def test_an_initiator_that_calls_but_names_the_job_no_more_is_not_called_silent(
    host: OneServer,
) -> None:
    """Its database was put back to before the job."""
    host.create()
    host.ask("job_apply", KEY)
    host.run_task(pid=7)
    for _ in range(9):
        host.clock.ms += host.timing.lease_ms // 8
        host.ask("heartbeat", body={"jobs": {"2": {"epoch": 0, "sites": {}}}}, source="9999")
    host.core.detector.tick()
    reason = host.job("1").reason
    assert reason is not None
    assert (reason.code, str(reason.message)) == (
        "InitiatorLost",
        "guest 9999 sends heartbeats, but named this job 67 seconds ago for the last time",
    )


def knows_no_job(path: str, _body: Any) -> Reply:
    """Answer as an initiator does whose database was put back to before the job."""
    assert path.startswith("/initiator/1/")
    error = JobNotFound(job_id="1")
    return Reply(retcode=error.retcode, retmsg=error.message, error=error.name)


def test_an_initiator_that_names_a_job_no_more_is_asked_and_the_job_ends_if_it_is_lost(
    host: OneServer,
) -> None:
    host.create()
    host.ask("job_apply", KEY)
    host.run_task(pid=7)
    host.parties.answer = knows_no_job
    host.clock.ms += host.timing.lease_ms // 2
    host.core.detector.tick()
    assert host.outbox() == []
    host.clock.ms += 1
    host.core.detector.tick()
    host.work()
    job = host.job("1")
    assert job.reason is not None
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "InitiatorLost")
    assert str(job.reason.message) == "guest 9999 has lost the job"
    assert [pid for pid, _ in host.executor.stopped] == [7]
    with host.store.read() as tx:
        assert tx.leases.get("initiator/1") is None
        events = tx.events.find(EventFilter(job_id="1", newest=True))
    assert job.reason in [event.reason for event in events if event.new == "failed"]
    end = host.core.explanations.explain("1").end
    assert end is not None
    assert end.message == job.reason.message


def test_a_waiting_job_that_its_initiator_lost_ends_though_others_are_named(
    host: OneServer,
) -> None:
    host.create()
    host.parties.answer = knows_no_job
    host.clock.ms += host.timing.lease_ms // 2 + 1
    host.ask("heartbeat", body={"jobs": {}, "initiator_party_id": "9999"})
    host.core.detector.tick()
    host.work()
    assert host.job("1").status is JobStatus.FAILED


def test_an_initiator_that_knows_the_job_is_asked_once_in_half_a_lease(host: OneServer) -> None:
    host.create()
    host.parties.answer = lambda _path, _body: Reply(retcode=10)
    for _ in range(10):
        host.clock.ms += host.timing.lease_ms // 8
        host.ask("heartbeat", body={"jobs": {}, "initiator_party_id": "9999"})
        host.core.detector.tick()
        host.work()
    assert host.job("1").status is JobStatus.WAITING
    assert len(host.parties.calls) == 2  # 5 and 10 eighths after it was created
    host.clock.ms += host.timing.lease_ms
    named = {"1": {"epoch": 0, "sites": {"host-10000": "created"}}}
    host.ask("heartbeat", body={"jobs": named, "initiator_party_id": "9999"})
    host.core.detector.tick()
    host.work()
    assert len(host.parties.calls) == 2


def test_an_initiator_that_cannot_be_reached_is_not_asked(host: OneServer) -> None:
    host.create()
    for _ in range(3):
        host.core.circuit_breakers.failed("9999", Message("connection refused"))
    host.clock.ms += host.timing.lease_ms // 2 + 1
    host.core.detector.tick()
    assert host.outbox() == []


def test_a_report_that_meets_no_job_ends_it_at_once(host: OneServer) -> None:
    host.create()
    key = host.run_task(pid=7)
    host.parties.answer = knows_no_job
    host.report(key, "success")
    host.work()
    assert host.job("1").status is JobStatus.FAILED


def test_the_end_of_one_share_does_not_end_the_lease_of_another_one_here(host: OneServer) -> None:
    host.clock.ms += host.timing.lease_ms * 2
    roles = {"guest": [9999], "host": [10000], "arbiter": [10000]}
    for site in (HOST, ARBITER):
        body = create_body(dsl_=dsl(k="Keys"), conf_=conf(**roles))
        host.ask("job_create", JobKey(job_id="1", site=site), body=body)
    host.ask("job_stop", JobKey(job_id="1", site=HOST), status="failed")
    host.core.detector.tick()
    assert host.job("1", ARBITER).status is JobStatus.WAITING


def test_a_server_that_was_away_gives_the_initiator_a_full_lease(host: OneServer) -> None:
    host.create()
    host.clock.ms += 10 * host.timing.lease_ms
    host.boot()
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.WAITING


def test_a_share_that_missed_the_end_of_its_own_servers_job_is_ended(alone: OneServer) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf())[0]
    alone.work()
    seen = alone.scheduled(job_id).status
    with alone.store.transaction() as tx:
        tx.schedules.move(job_id, JobEvent.CANCELED, seen=seen, now_ms=alone.clock.ms)
    alone.core.detector.tick()
    assert alone.job(job_id, HOST).status is JobStatus.CANCELED


def test_old_replies_are_forgotten_once_in_a_while(host: OneServer) -> None:
    host.create()
    host.core.detector.tick()
    with host.store.read() as tx:
        assert tx.reply_cache.get("1/9999/create-1") is not None
    host.clock.ms += host.timing.received_keep_ms + 1
    host.core.detector.tick()
    with host.store.read() as tx:
        assert tx.reply_cache.get("1/9999/create-1") is None


# --- heartbeats -----------------------------------------------------------------------------------


@pytest.fixture
def job_id(guest: OneServer) -> str:
    """A job that runs its first task at both sites, as far as the initiator knows."""
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    return job_id


def answer(job_id: str, **told: Any) -> Any:
    data = {"jobs": {job_id: {"host-10000": told}}}
    return lambda _path, _body: Reply(retcode=0, data=data)


def site(guest: OneServer, job_id: str) -> Any:
    return next(s for s in guest.scheduled(job_id).sites if s.site == HOST)


def test_heartbeats_go_to_other_parties_with_jobs_under_way(guest: OneServer, job_id: str) -> None:
    assert guest.core.heartbeats.remote_parties() == ["10000"]
    guest.parties.calls.clear()
    assert guest.core.heartbeats.send("10000")
    (call,) = guest.parties.calls
    assert call[:2] == ("10000", "/party/heartbeat")
    told = call[2]["jobs"][job_id]
    assert told == {"epoch": 0, "sites": {"host-10000": "granted"}, "tasks": {}, "progress": 0}
    guest.core.jobs.stop(job_id)
    assert guest.core.heartbeats.remote_parties() == ["10000"]  # once more, about its end
    assert guest.core.heartbeats.send("10000")
    told = guest.parties.calls[-1][2]["jobs"][job_id]
    assert told == {"epoch": 0, "status": "canceled", "sites": {"host-10000": "gone"}}
    calls = len(guest.parties.calls)
    assert guest.core.heartbeats.send("10000")
    assert guest.core.heartbeats.remote_parties() == []
    assert len(guest.parties.calls) == calls
    guest.parties.calls.clear()
    assert guest.core.heartbeats.send("10000")
    assert guest.parties.calls == []


def test_a_lost_report_is_repaired_by_the_answer_of_a_heartbeat(
    guest: OneServer, job_id: str
) -> None:
    reason = {"code": "BadData", "message": "no label", "site": "host-10000"}
    share = {"version": 0, "party_status": "failed", "reason": reason}
    guest.parties.answer = answer(job_id, status="running", tasks={"a": share})
    guest.core.heartbeats.send("10000")
    guest.work()
    job = guest.scheduled(job_id)
    assert job.status is JobStatus.FAILED
    assert job.reason is not None
    assert job.reason.message == "a at host 10000: no label"


@pytest.mark.parametrize(
    "share",
    [
        {"version": 1, "party_status": "failed"},
        {"version": 0, "party_status": "waiting"},
        {"version": 0, "party_status": "nonsense"},
        "failed",
        None,
    ],
)
def test_news_of_another_attempt_or_of_no_use_change_nothing(
    guest: OneServer, job_id: str, share: Any
) -> None:
    before = guest.scheduled(job_id)
    guest.parties.answer = answer(job_id, status="running", tasks={"a": share, "zzz": share})
    guest.core.heartbeats.send("10000")
    assert guest.scheduled(job_id) == before


def test_a_site_that_ended_well_tells_again_what_was_lost_here(
    guest: OneServer, job_id: str
) -> None:
    """This database was put back: the job ran on meanwhile, and ended."""
    share = {"version": 0, "party_status": "success"}
    guest.parties.answer = answer(job_id, status="success", tasks={"a": share})
    guest.core.heartbeats.send("10000")
    assert site(guest, job_id).phase is not SitePhase.GONE
    told = next(p for p in guest.scheduled(job_id).tasks[0].parties if p.site == HOST)
    assert told.status is TaskStatus.SUCCESS


def test_a_site_that_ended_well_without_the_attempt_that_runs_here_is_gone(
    guest: OneServer, job_id: str
) -> None:
    share = {"version": 3, "party_status": "success"}
    guest.parties.answer = answer(job_id, status="success", tasks={"a": share})
    guest.core.heartbeats.send("10000")
    assert site(guest, job_id).phase is SitePhase.GONE


def test_a_start_that_a_site_has_forgotten_is_sent_again(guest: OneServer, job_id: str) -> None:
    share = {"version": 0, "party_status": "waiting", "requested": False}
    guest.parties.answer = answer(job_id, status="running", tasks={"a": share})
    guest.core.heartbeats.send("10000")
    assert [c.kind for c in guest.outbox("10000")] == [CommandKind.START_TASK]
    guest.core.heartbeats.send("10000")  # it is on its way
    assert len(guest.outbox("10000")) == 1


@pytest.mark.parametrize("status", ["waiting", "failed", "canceled"])
def test_an_attempt_that_a_site_has_forgotten_is_sent_again(guest: OneServer, status: str) -> None:
    guest.live()
    asks = conf()
    asks["job_parameters"]["common"] |= {"auto_retries": 2, "auto_retry_delay": 0}
    job_id = guest.core.submissions.submit(dsl(), asks).job_id
    guest.work()
    failed = {"version": 0, "party_status": "failed"}
    guest.parties.answer = answer(job_id, status="running", tasks={"a": failed})
    guest.core.heartbeats.send("10000")
    guest.parties.answer = lambda _path, _body: Reply(retcode=0)
    guest.work()
    task = guest.scheduled(job_id).tasks[0]
    assert (task.version, task.status) == (1, TaskStatus.RUNNING)
    for other in ({"party_status": "running"}, {"party_status": ["failed"]}, {"version": "0"}):
        told = {"version": 0, "party_status": "failed", **other}
        guest.parties.answer = answer(job_id, status="running", tasks={"a": told})
        guest.core.heartbeats.send("10000")
        assert guest.outbox("10000") == []
    lost = {"version": 0, "party_status": status, "requested": False}
    guest.parties.answer = answer(job_id, status="running", tasks={"a": lost})
    guest.wakeup.then = lambda: None
    guest.core.heartbeats.send("10000")
    again = guest.outbox("10000")
    assert [c.kind for c in again] == [CommandKind.CREATE_TASK, CommandKind.START_TASK]
    assert again[0].body["auto_retries"] == 1


@pytest.mark.parametrize("epoch", [1, 7])
def test_a_site_in_another_run_of_the_job_is_gone(
    guest: OneServer, job_id: str, epoch: int
) -> None:
    guest.parties.answer = answer(job_id, status="running", epoch=epoch, tasks={})
    guest.core.heartbeats.send("10000")
    assert site(guest, job_id).phase is SitePhase.GONE


def test_a_site_that_gave_the_job_up_says_why(guest: OneServer, job_id: str) -> None:
    why = {"code": "InitiatorLost", "message": "guest 9999 was not heard from for 18 seconds"}
    guest.parties.answer = answer(job_id, status="failed", reason=why)
    guest.core.heartbeats.send("10000")
    guest.work()
    reason = guest.scheduled(job_id).reason
    assert reason is not None
    assert "given the job up: guest 9999 was not heard from" in reason.message


@pytest.mark.parametrize(
    ("status", "words"), [(None, "has lost the job"), ("failed", "has given the job up (failed)")]
)
def test_a_site_that_does_not_have_the_job_any_more_ends_it(
    guest: OneServer, job_id: str, status: str | None, words: str
) -> None:
    guest.parties.answer = answer(job_id, status=status)
    guest.core.heartbeats.send("10000")
    assert site(guest, job_id).phase is SitePhase.GONE
    guest.work()
    job = guest.scheduled(job_id)
    assert job.status is JobStatus.FAILED
    assert job.reason is not None
    assert words in job.reason.message


def test_an_answer_from_before_the_job_was_created_there_is_no_loss(guest: OneServer) -> None:
    job_id = guest.core.submissions.begin(dsl(), conf())[0]
    guest.parties.answer = answer(job_id, status=None)
    guest.core.heartbeats.send("10000")
    assert site(guest, job_id).phase is SitePhase.CREATING


@pytest.mark.parametrize("data", [None, [], {"jobs": []}, {"jobs": {}}])
def test_an_answer_in_another_shape_changes_nothing(
    guest: OneServer, job_id: str, data: Any
) -> None:
    before = guest.scheduled(job_id)
    guest.parties.answer = lambda _path, _body: Reply(retcode=0, data=data)
    assert guest.core.heartbeats.send("10000")
    assert guest.scheduled(job_id) == before


@pytest.mark.parametrize(
    "error",
    [
        PartyUnreachable(party_id="10000", address="a:1", reason="lost"),
        WrongSite(site="party 9999", job_id="1"),
    ],
)
def test_a_heartbeat_without_an_answer_is_no_sign_of_life(
    guest: OneServer, job_id: str, error: Exception
) -> None:
    def fail(_path: str, _body: Any) -> Reply:
        raise error

    guest.parties.answer = fail
    guest.clock.ms += 30_000
    assert not guest.core.heartbeats.send("10000")
    guest.clock.ms += 30_001
    guest.core.scheduler.tick()
    job = guest.scheduled(job_id)
    assert job.status is JobStatus.FAILED
    assert job.reason is not None
    assert job.reason.code == "PartyUnreachable"


def test_a_heartbeat_keeps_all_waiting_jobs_of_its_party_alive(host: OneServer) -> None:
    waiting, running = host.create("1"), host.create("2")
    host.ask("job_start", running)
    host.clock.ms += host.timing.lease_ms + 1
    host.ask("heartbeat", body={"jobs": {}, "initiator_party_id": "9999"})
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.WAITING
    assert host.job("2").status is JobStatus.FAILED  # a job that runs must be named
    host.clock.ms += host.timing.lease_ms + 1
    host.core.detector.tick()
    assert host.job(waiting.job_id).status is JobStatus.FAILED


def test_a_waiting_job_that_nobody_names_ends_by_its_own_timeout(host: OneServer) -> None:
    asks = conf()
    asks["job_parameters"]["common"]["timeout"] = 600
    host.create("1", conf_=asks)
    host.create("2", conf_=asks)
    named = {"2": {"epoch": 0, "sites": {"host-10000": "created"}}}
    host.clock.ms += 600_000 + host.timing.lease_ms
    host.ask("heartbeat", body={"jobs": named, "initiator_party_id": "9999"})
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.WAITING
    host.clock.ms += 1
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED
    assert host.job("2").status is JobStatus.WAITING


def test_a_heartbeat_names_a_part_of_the_waiting_jobs_in_turn(guest: OneServer) -> None:
    guest.live()
    running = guest.core.submissions.begin(dsl(), conf(cores=CORES))[0]
    guest.work()
    waiting = []
    for _ in range(40):
        guest.clock.ms += 1
        waiting.append(guest.core.submissions.begin(dsl(), conf(cores=CORES))[0])
    guest.work()
    seen = []
    for _ in range(2):
        guest.parties.calls.clear()
        guest.core.heartbeats.send("10000")
        ((_, _, body),) = guest.parties.calls
        assert running in body["jobs"]
        assert len(body["jobs"]) < 40
        seen += body["jobs"]
    assert set(seen) == {running, *waiting}


def test_a_participant_runs_only_what_it_was_told(host: OneServer) -> None:
    host.create()
    host.core.detector.tick()
    never = TaskKey(job_id="1", component="a", version=0, site=HOST)
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    assert host.executor.started == []
    assert host.task(never).launch_id is None
