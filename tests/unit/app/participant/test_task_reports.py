"""What processes report, whom the server believes, and what it makes of their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.base.decoding import read_as
from fedflow.base.errors.data import TableExists, TableNotFound
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.jobs import TaskNotFound
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.domain.job.ledger import Messages, PeerLedger
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import Handle, JobKey, Stale, TableRecord, TaskKey
from fedflow.domain.states import TaskStatus
from fedflow.store.sql.tasks import SqlTasks
from fedflow.wire.task_report import EndReport, MetricBatch, RunningReport, read_report
from fedflow.wire.undelivered_reports import leave_report
from fedflow.worker.exit_codes import ExitCode
from tests.unit.app.fakes import CORES, GUEST, HOST, OneServer, table

KEY = JobKey(job_id="1", site=HOST)
ROW = {
    "namespace": "out",
    "name": "t",
    "address": "d1",
    "schema": {"columns": ["x"]},
    "count": 3,
    "partitions": 1,
    "origin": "output",
    "created_ms": 1,
}


@pytest.fixture
def task(host: OneServer) -> TaskKey:
    """A task that has a process with pid 7."""
    host.create()
    host.ask("job_apply", KEY)
    return host.run_task(pid=7)


def launch_of(host: OneServer, key: TaskKey) -> str:
    return str(host.task(key).launch_id)


def end_of(launch_id: str, **members: Any) -> EndReport:
    return EndReport(launch_id=launch_id, party_status=TaskStatus.SUCCESS, **members)


# --- who is believed ------------------------------------------------------------------------------


def test_a_process_is_believed_only_with_the_token_of_its_attempt(
    host: OneServer, task: TaskKey
) -> None:
    body = {"launch_id": launch_of(host, task), "party_status": "success"}
    workers = host.core.workers
    for token in ("", "x", str(host.task(task).token) + "x", "ü"):
        with pytest.raises(NotAuthenticated):
            workers.report(task, token, read_report(body))
        with pytest.raises(NotAuthenticated):
            workers.save_metrics(task, token, [])
        with pytest.raises(NotAuthenticated):
            workers.table_get(task, token, "n", "t")
        with pytest.raises(NotAuthenticated):
            workers.table_create(task, token, read_as(ROW, TableRecord), drop=True)
    assert host.task(task).party_status is TaskStatus.WAITING


def test_nobody_is_believed_about_a_task_that_was_never_started(host: OneServer) -> None:
    host.create()
    waiting = TaskKey(job_id="1", component="a", version=0, site=HOST)
    with pytest.raises(NotAuthenticated):
        host.core.workers.report(waiting, "", RunningReport())
    unknown = TaskKey(job_id="1", component="a", version=1, site=HOST)
    with pytest.raises(TaskNotFound):
        host.core.workers.report(unknown, "", RunningReport())


def test_a_process_whose_launch_was_replaced_must_go_away(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    old = host.task(key)
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    assert host.task(key).launch_id != old.launch_id
    body = {"launch_id": old.launch_id, "party_status": "running"}
    with pytest.raises(NotAuthenticated):
        host.core.workers.report(key, str(old.token), read_report(body))
    with pytest.raises(LaunchRefused):
        host.core.workers.report(key, str(host.task(key).token), read_report(body))
    assert host.task(key).party_status is TaskStatus.WAITING


def test_a_process_that_is_replaced_while_it_reports_must_go_away(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.create()
    key = host.run_task()
    monkeypatch.setattr(SqlTasks, "set_handle", lambda *_: False)
    body = {
        "launch_id": host.task(key).launch_id, "party_status": "running", "pid": 1, "start_time": 2
    }  # fmt: skip
    with pytest.raises(LaunchRefused):
        host.core.workers.report(key, str(host.task(key).token), read_report(body))
    assert host.task(key).party_status is TaskStatus.WAITING


def test_an_attempt_that_ends_while_its_process_reports_keeps_no_outputs(
    host: OneServer, task: TaskKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqlTasks, "move_party", lambda *_, **__: Stale())
    with pytest.raises(LaunchRefused):
        host.report(task, "success", summary={"a": 1})
    with host.store.read() as tx:
        assert tx.tracking.summary(task.job_id, task.component, task.site) is None


def test_a_process_of_an_ended_attempt_must_go_away(host: OneServer, task: TaskKey) -> None:
    host.report(task, "success")
    for status in ("running", "success", "failed"):
        with pytest.raises(LaunchRefused):
            host.report(task, status)
    assert host.task(task).party_status is TaskStatus.SUCCESS


def test_a_token_ends_with_its_attempt(host: OneServer, task: TaskKey) -> None:
    host.put_table("n", "t")
    token, workers = str(host.task(task).token), host.core.workers
    workers.table_get(task, token, "n", "t")
    end = end_of(launch_of(host, task))
    workers.report(task, token, end)
    with pytest.raises(LaunchRefused):  # a repeat, whose first answer was lost: it may exit
        workers.report(task, token, end)
    with pytest.raises(LaunchRefused):
        workers.table_get(task, token, "n", "t")
    with pytest.raises(LaunchRefused):
        workers.save_metrics(task, token, [])
    replaced = read_as({**ROW, "namespace": "n", "name": "t"}, TableRecord)
    with pytest.raises(LaunchRefused):
        workers.table_create(task, token, replaced, drop=True)
    with host.store.read() as tx:
        assert tx.tables.get("n", "t") != replaced


@pytest.mark.parametrize("status", ["canceled", "timeout", "waiting", "nonsense", None])
def test_a_process_cannot_end_in_any_way_it_likes(
    host: OneServer, task: TaskKey, status: Any
) -> None:
    with pytest.raises(BadRequest):
        host.report(task, status)
    assert host.task(task).party_status is TaskStatus.WAITING


# --- what it reports ------------------------------------------------------------------------------


def test_a_process_that_runs_is_noted_with_its_handle_and_progress(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    host.report(key, "running", pid=7, start_time=70, progress=0.5)
    task = host.task(key)
    assert task.party_status is TaskStatus.RUNNING
    assert task.handle == Handle(pid=7, start_time=70, host="here")
    assert (task.started_ms, task.progress) == (host.clock.ms, 0.5)
    assert host.wakeup.changed[-1] == "1"


@pytest.mark.parametrize(("told", "stored"), [(-1, 0.0), (2, 1.0), (float("nan"), 0.0), ("x", 0.0)])
def test_progress_stays_between_0_and_1(
    host: OneServer, task: TaskKey, told: Any, stored: float
) -> None:
    host.report(task, "running", progress=told)
    assert host.task(task).progress == stored


def test_success_is_stored_with_everything_produced_and_reported_to_the_initiator(
    host: OneServer, task: TaskKey
) -> None:
    host.report(
        task,
        "success",
        outputs=[{"table": ROW, "data_name": "data", "position": 1}],
        model={"alias": "m", "meta_name": "A", "param_name": "B", "meta": {"a": 1}, "param": {}},
        summary={"auc": 0.9, "iters": 3, "is_converged": True},
        metrics=[{"namespace": "train", "name": "loss", "points": [[0, 1.5]], "meta": {"k": 1}}],
    )
    stored = host.task(task)
    assert (stored.party_status, stored.progress) == (TaskStatus.SUCCESS, 1.0)
    with host.store.read() as tx:
        (output,) = tx.tracking.outputs("1", "a", HOST)
        assert (output.data_name, output.position, output.name) == ("data", 1, "t")
        assert tx.tables.get("out", "t") is not None
        model = tx.tracking.model("1", "a", HOST)
        assert model is not None
        assert (model.alias, model.meta) == ("m", {"a": 1})
        summary = tx.tracking.summary("1", "a", HOST)
        assert summary == {"auc": 0.9, "iters": 3, "is_converged": True}
        job = tx.jobs.get(task.job)
        assert job is not None
        assert [(f.component, f.name, f.value) for f in job.figures] == [
            ("a", "converged", 1.0), ("a", "iterations", 3.0),
        ]  # fmt: skip
        (metric,) = tx.tracking.metrics("1", "a", HOST)
        assert metric.points == ((0, 1.5),)
    (report,) = host.outbox("9999")
    assert report.path == "/initiator/1/a/1_a/0/host/10000/report"
    assert report.body["party_status"] == "success"
    assert ("close", task.session, HOST.key) in host.sessions.events


def test_warnings_of_a_run_are_added_to_those_of_the_job(host: OneServer, task: TaskKey) -> None:
    before = host.job(task.job_id, HOST).warnings
    odd = {"code": "OddRows", "path": "a.data", "message": "2 rows are odd", "hint": "Look."}
    host.report(task, "failed", error={"code": "BadData", "message": "x"}, warnings=[odd, odd])
    assert host.job(task.job_id, HOST).warnings == (*before, JobWarning(**odd))


def test_a_malformed_result_is_refused_as_a_whole(host: OneServer, task: TaskKey) -> None:
    with pytest.raises(BadRequest):
        host.report(task, "success", summary={"a": 1}, outputs=[{"table": {"namespace": "x"}}])
    with pytest.raises(BadRequest):
        host.report(task, "success", summary={"a": 1}, metrics=["x"])
    assert host.task(task).party_status is TaskStatus.WAITING
    with host.store.read() as tx:
        assert tx.tracking.summary("1", "a", HOST) is None


def test_a_failure_keeps_its_reason_and_the_end_of_its_traceback(
    host: OneServer, task: TaskKey
) -> None:
    host.report(
        task,
        "failed",
        error={"code": "BadData", "message": "no label"},
        traceback="x" * 30_000 + "the end",
        outputs=[{"table": ROW, "data_name": "data"}],
    )
    stored = host.task(task)
    assert stored.reason is not None
    assert (stored.reason.code, stored.reason.message, stored.reason.site) == (
        "BadData",
        "no label",
        HOST,
    )
    assert len(stored.traceback) == 20_000
    assert stored.traceback.endswith("the end")
    (report,) = host.outbox("9999")
    assert report.body["reason"] == {
        "code": "BadData",
        "message": "BadData; the details stay at host 10000",
        "said": {
            "template": "{failure}; the details stay at {site}",
            "fields": {"failure": "BadData", "site": "host 10000"},
        },
        "site": "host-10000",
    }
    with host.store.read() as tx:
        assert tx.tracking.outputs("1", "a", HOST) == []
    assert ("fail", task.session, HOST.key) in host.sessions.events
    assert host.sessions.reasons == ["BadData; the details stay at host 10000"]


@pytest.mark.parametrize("error", [None, "text", {}, {"code": 5}])
def test_a_failure_without_a_proper_error_still_has_a_reason(
    host: OneServer, task: TaskKey, error: Any
) -> None:
    host.report(task, "failed", error=error)
    reason = host.task(task).reason
    assert reason is not None
    assert reason.message == "the component failed without a message"


def test_metrics_may_come_while_the_task_runs(host: OneServer, task: TaskKey) -> None:
    token = str(host.task(task).token)
    for step in range(2):
        metric = {"namespace": "train", "name": "loss", "points": [[step, step * 2.0]]}
        host.core.workers.save_metrics(task, token, [read_as(metric, MetricBatch)])
    with host.store.read() as tx:
        (stored,) = tx.tracking.metrics("1", "a", HOST)
    assert stored.points == ((0, 0.0), (1, 2.0))


def test_a_batch_of_metrics_that_is_sent_again_adds_nothing(host: OneServer, task: TaskKey) -> None:
    token = str(host.task(task).token)
    first = {"namespace": "train", "name": "loss", "start": 0, "points": [[0, 0.5], [1, 0.4]]}
    again = {**first, "points": [*first["points"], [2, 0.3]]}  # the answer was lost, one came after
    for batch in (first, first, again, {**first, "start": 3, "points": [[3, 0.2]]}):
        host.core.workers.save_metrics(task, token, [read_as(batch, MetricBatch)])
    with host.store.read() as tx:
        (stored,) = tx.tracking.metrics("1", "a", HOST)
    assert [key for key, _ in stored.points] == [0, 1, 2, 3]


# --- tables ---------------------------------------------------------------------------------------


def test_a_task_sees_the_tables_of_its_party(host: OneServer, task: TaskKey) -> None:
    token = str(host.task(task).token)
    with pytest.raises(TableNotFound) as caught:
        host.core.workers.table_get(task, token, "n", "t")
    assert caught.value.fields["party_id"] == "10000"
    host.put_table("n", "t")
    assert host.core.workers.table_get(task, token, "n", "t") == table("n", "t")


def test_a_table_is_replaced_only_on_demand_and_then_with_its_files(
    host: OneServer, task: TaskKey, tmp_path: Path
) -> None:
    token = str(host.task(task).token)
    create = host.core.workers.table_create
    create(task, token, read_as({**ROW, "address": "old"}, TableRecord), drop=False)
    files = tmp_path / "tables" / "old"
    files.mkdir(parents=True)
    with pytest.raises(TableExists):
        create(task, token, read_as({**ROW, "address": "new"}, TableRecord), drop=False)
    assert files.exists()
    create(task, token, read_as({**ROW, "address": "new", "count": 9}, TableRecord), drop=True)
    assert not files.exists()
    assert host.core.workers.table_get(task, token, "out", "t").count == 9


# --- the end of processes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_code", "signal", "words"),
    [
        (None, 9, "killed by signal 9"),
        (3, None, "exit code 3 without a report"),
        (0, None, "exit code 0 without a report"),
        (int(ExitCode.SERVER_GONE), None, "not reach its server at run/server.sock for a minute"),
        (None, None, "could not be learnt"),
    ],
)
def test_a_process_that_ends_without_a_report_has_failed(
    host: OneServer, task: TaskKey, exit_code: int | None, signal: int | None, words: str
) -> None:
    host.report(task, "running")
    host.processes.exited(launch_of(host, task), exit_code, signal)
    stored = host.task(task)
    assert (stored.party_status, stored.handle) == (TaskStatus.FAILED, None)
    assert stored.reason is not None
    assert stored.reason.code == "ExecutorDied"
    assert words in stored.reason.message
    assert len(host.outbox("9999")) == 1


def test_the_report_that_a_process_left_counts_when_its_server_is_back(
    host: OneServer, task: TaskKey
) -> None:
    launch_id = launch_of(host, task)
    work_dir = Folders(host.home).work(task)
    work_dir.mkdir(parents=True, exist_ok=True)
    leave_report(work_dir, end_of(launch_id, summary={"auc": 0.9}))
    host.processes.exited(launch_id, None, None)
    stored = host.task(task)
    assert (stored.party_status, stored.handle) == (TaskStatus.SUCCESS, None)
    with host.store.read() as tx:
        assert tx.tracking.summary("1", "a", HOST) == {"auc": 0.9}
    assert len(host.outbox("9999")) == 1


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"party_status": "canceled"}', b"x" * 100])
def test_a_left_report_that_is_none_changes_nothing(
    host: OneServer, task: TaskKey, content: bytes
) -> None:
    launch_id = launch_of(host, task)
    work_dir = Folders(host.home).work(task)
    work_dir.mkdir(parents=True, exist_ok=True)
    leave_report(work_dir, end_of(launch_id))
    next(work_dir.glob("report-*.json")).write_bytes(content)
    host.processes.exited(launch_id, None, None)
    assert host.task(task).party_status is TaskStatus.FAILED


def test_a_process_that_ends_after_its_report_changes_nothing(
    host: OneServer, task: TaskKey
) -> None:
    host.report(task, "success")
    host.processes.exited(launch_of(host, task), 0, None)
    stored = host.task(task)
    assert (stored.party_status, stored.handle) == (TaskStatus.SUCCESS, None)
    assert len(host.outbox("9999")) == 1


def test_the_end_of_a_process_is_taken_once(host: OneServer, task: TaskKey) -> None:
    launch = launch_of(host, task)
    for _ in range(2):
        host.processes.exited(launch, None, 9)
    assert len(host.outbox("9999")) == 1


def test_the_end_of_a_replaced_process_does_not_fail_the_new_one(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    old = launch_of(host, key)
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    host.processes.exited(old, None, 9)
    assert host.task(key).party_status is TaskStatus.WAITING
    host.report(key, "running", pid=8, start_time=80)
    assert host.task(key).party_status is TaskStatus.RUNNING


def test_a_replaced_process_that_starts_late_is_stopped_at_once(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    old = launch_of(host, key)
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    host.processes.started(old, Handle(pid=7, start_time=7, host="here"))
    assert host.executor.stopped == [(7, 0.0)]
    assert host.task(key).handle is None


def test_a_process_that_cannot_be_started_fails_its_task(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    host.processes.not_started(launch_of(host, key), "no memory")
    reason = host.task(key).reason
    assert reason is not None
    assert reason.code == "ExecutorNotStarted"
    assert "no memory" in reason.message


def test_a_task_whose_job_can_be_read_no_more_fails_instead_of_being_launched_for_ever(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.create()
    host.ask("job_apply", KEY)

    def unreadable(*_: Any, **__: Any) -> Any:
        raise InvalidJobSpec([Problem("$.dsl", "of a later release", "DSL")])

    monkeypatch.setattr(ParsedJobs, "get", unreadable)
    reason = host.task(host.run_task()).reason
    assert reason is not None
    assert reason.code == "InvalidJobSpec"


def test_cores_come_back_when_the_last_process_of_an_ended_job_is_gone(
    host: OneServer, task: TaskKey
) -> None:
    other = host.run_task(component="b", pid=8)
    host.ask("job_stop", KEY, status="failed")
    host.processes.exited(launch_of(host, task), None, 15)
    assert host.free_cores() == CORES - 2
    host.processes.exited(launch_of(host, other), None, 15)
    assert host.free_cores() == CORES


def test_processes_that_nobody_knows_are_left_alone(host: OneServer) -> None:
    host.processes.started("unknown", Handle(pid=7, start_time=7, host="here"))
    host.processes.exited("unknown", 0, None)
    assert host.executor.stopped == []


# --- what was exchanged ---------------------------------------------------------------------------


def ledger_of(calls: int) -> tuple[PeerLedger, ...]:
    sent = Messages(name="w", is_sent=True, calls=calls, size_bytes=9, first_ms=1, last_ms=2)
    return (PeerLedger(peer=GUEST, receive_s=0.5, messages=(sent,)),)


@pytest.mark.parametrize("end", ["success", "failed", "stopped", "died"])
def test_what_a_task_exchanged_is_kept_however_it_ends(
    host: OneServer, task: TaskKey, end: str
) -> None:
    host.sessions.ledgers[task.session, HOST, 0] = ledger_of(3)
    if end == "died":
        host.core.workers.exited(task, launch_of(host, task), None, 9)
    elif end == "stopped":
        host.ask("job_stop", KEY, status="canceled")
    else:
        host.report(task, end)
    with host.store.read() as tx:
        assert tx.tasks.ledgers(task.job_id) == {task: ledger_of(3)}


def test_a_task_that_exchanged_nothing_keeps_nothing(host: OneServer, task: TaskKey) -> None:
    host.report(task, "success")
    with host.store.read() as tx:
        assert tx.tasks.ledgers(task.job_id) == {}
