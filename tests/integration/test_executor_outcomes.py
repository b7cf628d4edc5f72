"""How runs end: a real zygote, real children, and a server that listens on a unix socket."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.components import BadParameter, UnknownComponent
from fedflow.domain.job.warning import HINTS
from fedflow.executor.plain import PlainExecutor
from fedflow.executor.processes import is_running
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.testing.faults import offer_faults
from fedflow.worker.exit_codes import ExitCode
from tests.support.executors import (
    RecordingEvents,
    TestLaunch,
    WorkerServer,
    wait_until,
    write_launch,
)

TABLE = {
    "namespace": "experiment",
    "name": "given",
    "address": "0" * 32,
    "schema": {"kind": "instances", "id": "id", "columns": ["x"]},
    "count": 5,
    "partitions": 1,
    "origin": "upload",
    "created_ms": 1,
    "preview": [],
    "id_delimiter": ",",
    "have_head": True,
    "extend_sid": False,
    "engine": "STANDALONE",
    "source": None,
    "storage": None,
    "extra": None,
    "disabled": False,
}


class World:
    """One executor with its server."""

    def __init__(self, folder: Path, executor: ZygoteExecutor, events: RecordingEvents) -> None:
        self.folder = folder
        self.executor = executor
        self.events = events
        self.server = WorkerServer(folder / "server.sock")
        self._numbers = itertools.count()

    def launch(self, module: str, **members: Any) -> TestLaunch:
        """Start a run."""
        launch = write_launch(
            self.folder,
            launch_id=f"launch{next(self._numbers)}",
            module=module,
            **{"server_socket": self.server.path, **members},
        )
        self.executor.start(launch)
        return launch

    def run(self, module: str, **members: Any) -> tuple[TestLaunch, tuple[int | None, int | None]]:
        """Start a run and wait for its end."""
        launch = self.launch(module, **members)
        return launch, self.events.end(launch.launch_id)

    def reports(self, launch: TestLaunch) -> list[dict[str, Any]]:
        token = f"secret-of-{launch.launch_id}"
        return [r.body for r in self.server.requests if r.token == token and r.command == "report"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("x")
    events = RecordingEvents()
    executor = ZygoteExecutor(
        events=events, python=sys.executable, env=offer_faults(folder / "provider")
    )
    executor.open()
    assert executor.wait_ready(30)
    yield World(folder, executor, events)
    executor.close(1.0, kill=True)


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    with shared.server as server:
        server.answers = type(server.answers)()
        yield shared


def test_a_run_reports_its_start_and_everything_of_its_end(world: World) -> None:
    launch, end = world.run("wellBEHAVED", parameters={"text": "ü \u2028"})

    assert end == (ExitCode.SUCCESS, None)
    first, last = world.reports(launch)
    handle = world.events.handles[launch.launch_id]
    assert first == {
        "launch_id": launch.launch_id,
        "party_status": "running",
        "pid": handle.pid,
        "start_time": handle.start_time,
    }
    assert last["party_status"] == "success"
    assert [(o["data_name"], o["position"]) for o in last["outputs"]] == [("data", 0)]
    assert last["model"]["alias"] == "model"
    assert last["metrics"][0]["points"] == [[0, 1.5], [1, 0.5]]
    assert last["metrics"][0]["meta"] == {"name": "loss", "metric_type": "LOSS"}
    assert last["summary"]["text"] == "ü \u2028"
    assert last["summary"]["cwd"] == str(launch.work_dir)
    assert last["summary"]["group"] == handle.pid


def test_only_the_declared_output_table_is_left_on_disk(world: World) -> None:
    launch, _ = world.run("wellbehaved")
    kept = world.reports(launch)[-1]["outputs"][0]["table"]["address"]
    folders = sorted((world.folder / "tables").iterdir(), key=lambda p: p.stat().st_mtime)
    # One table per run: `scratch` of this run is gone.
    assert kept in {p.name for p in folders}
    for other in folders:
        assert len(list(other.glob("*.arrow"))) == 1
    known = {
        o["table"]["address"] for r in world.server.requests for o in r.body.get("outputs", ())
    }
    assert {p.name for p in folders} == known


def test_log_files_are_named_by_level_and_hold_the_levels_above(world: World) -> None:
    launch, _ = world.run("wellbehaved")
    info = (launch.log_dir / "INFO.log").read_text()
    assert "hello from guest 9999" in info
    assert "careful" in info
    assert "hello" not in (launch.log_dir / "WARNING.log").read_text()
    assert not (launch.log_dir / "DEBUG.log").exists()
    everything = "".join(p.read_text() for p in launch.log_dir.iterdir())
    assert "secret-of" not in everything


def test_a_child_holds_no_descriptor_of_the_zygote_or_of_another_child(world: World) -> None:
    sleeper = world.launch("sleeps")
    world.events.handle(sleeper.launch_id)
    launch, _ = world.run("wellbehaved")
    fds = world.reports(launch)[-1]["summary"]["fds"]
    assert all(fd.startswith(("socket:", str(launch.log_dir))) for fd in fds), fds
    assert sum(fd.startswith("socket:") for fd in fds) == 1  # to the server
    world.executor.stop(world.events.handle(sleeper.launch_id), grace_s=5)
    assert world.events.end(sleeper.launch_id) in {(ExitCode.STOPPED, None), (None, signal.SIGTERM)}


def test_executors_may_use_select_whatever_the_server_may_open(world: World) -> None:
    limits = Path(f"/proc/{world.executor.pid}/limits").read_text().splitlines()
    (files,) = [line for line in limits if line.startswith("Max open files")]
    assert int(files.split()[3]) <= 1024


def test_an_error_of_fedflow_keeps_its_name_message_and_hint(world: World) -> None:
    launch, end = world.run("fails", parameters={"how": "fedflow_error"})
    assert end == (ExitCode.FAILED, None)
    report = world.reports(launch)[-1]
    assert report["party_status"] == "failed"
    assert report["error"]["code"] == "BadData"
    assert report["error"]["message"] == "table x.y: row 3 has no label."
    assert report["error"]["hint"]
    assert "BadData" in report["traceback"]
    assert "row 3 has no label" in (launch.log_dir / "ERROR.log").read_text()


def test_a_warning_is_reported_with_the_end_and_fails_a_strict_run(world: World) -> None:
    launch, end = world.run("fails", parameters={"how": "doubtful"})
    assert end == (ExitCode.SUCCESS, None)
    (warning,) = world.reports(launch)[-1]["warnings"]
    assert warning == {
        "code": "OddRows", "path": "step_0.data", "hint": "Look.",
        "message": "2 rows are odd; they are used",
    }  # fmt: skip
    logged = (launch.log_dir / "WARNING.log").read_text()
    assert "step_0.data: 2 rows are odd; they are used (OddRows)" in logged
    assert "step_0.how: is doubtful" in logged
    launch, end = world.run("fails", parameters={"how": "doubtful"}, strict=True)
    assert end == (ExitCode.FAILED, None)
    assert world.reports(launch)[-1]["error"]["code"] == "RefusedAsStrict"


def test_any_other_exception_is_reported_with_a_traceback_without_local_paths(
    world: World,
) -> None:
    launch, end = world.run("fails", parameters={"how": "raise"})
    assert end == (ExitCode.FAILED, None)
    report = world.reports(launch)[-1]
    assert report["error"]["code"] == "ComponentFailed"
    assert "RuntimeError" in report["error"]["message"]
    assert "failed in" not in report["error"]["message"]  # other parties read it
    lines = (launch.log_dir / "ERROR.log").read_text().splitlines()
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1].startswith("RuntimeError: failed in")
    assert "<fedflow>" in report["traceback"]
    assert str(Path.home()) + "/" not in report["traceback"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("sys_exit", "sys.exit(0)"),
        ("not_json", "its summary is not plain JSON: x is a set"),
        ("not_outputs", "returned a NoneType"),
    ],
)
def test_a_component_that_breaks_its_contract_fails(world: World, how: str, words: str) -> None:
    launch, end = world.run("fails", parameters={"how": how})
    assert end == (ExitCode.FAILED, None)
    assert words in world.reports(launch)[-1]["error"]["message"]
    log = (launch.log_dir / "ERROR.log").read_text(encoding="utf-8")
    assert log.count(" failed: ") == 1
    assert "`fedflow job log`" not in log


def test_running_out_of_memory_is_reported_as_such(world: World) -> None:
    launch, end = world.run("fails", parameters={"how": "memory"}, memory_bytes=256 * 2**20)
    assert end == (ExitCode.FAILED, None)
    assert world.reports(launch)[-1]["error"]["code"] == "OutOfMemory"
    assert "it allocated more than 256 MiB" in world.reports(launch)[-1]["error"]["message"]
    assert "`executor.memory_mib`" in world.reports(launch)[-1]["error"]["hint"]


def test_a_memory_limit_leaves_room_for_an_ordinary_run(world: World) -> None:
    _, end = world.run("wellbehaved", memory_bytes=64 * 2**20)
    assert end == (ExitCode.SUCCESS, None)


def test_a_process_that_ends_itself_reports_nothing_and_its_status_is_told(world: World) -> None:
    launch, end = world.run("fails", parameters={"how": "exit"})
    assert end == (7, None)
    assert len(world.reports(launch)) == 1


def test_a_crash_is_told_as_a_signal(world: World) -> None:
    _, end = world.run("fails", parameters={"how": "segfault"})
    assert end == (None, signal.SIGSEGV)


def test_binary_output_goes_to_the_output_file_unchanged(world: World) -> None:
    launch, end = world.run("fails", parameters={"how": "binary_output"})
    assert end == (ExitCode.SUCCESS, None)
    assert (launch.log_dir / "stdout.log").read_bytes() == bytes(range(256)) * 4 + b"\xff\xfe raw\n"


def test_a_replaced_launch_exits_without_doing_anything(world: World) -> None:
    world.server.answers.retcodes["report"] = 10
    launch, end = world.run("wellbehaved")
    assert end == (ExitCode.REFUSED, None)
    assert len(world.reports(launch)) == 1
    assert "hello" not in (launch.log_dir / "INFO.log").read_text()


def test_a_server_that_restarts_gets_the_end_report_all_the_same(world: World) -> None:
    launch = world.launch("sleeps", parameters={"seconds": 0.3})
    world.server.wait_for(lambda r: r.token == f"secret-of-{launch.launch_id}")
    world.server.stop()
    assert launch.launch_id not in world.events.ends
    world.server.start()
    world.server.answers.broken = 2
    assert world.events.end(launch.launch_id) == (ExitCode.SUCCESS, None)
    assert world.reports(launch)[-1]["party_status"] == "pass"


def test_inputs_are_found_without_asking_and_absent_ones_are_none(world: World) -> None:
    data = {"data": [["reader_0", None], ["reader_1", TABLE]]}
    launch, end = world.run("wellbehaved", inputs={"data": data, "model": {}})
    assert end == (ExitCode.SUCCESS, None)
    assert world.reports(launch)[-1]["summary"]["given"] == 5
    assert not [r for r in world.server.requests if r.command == "get"]


def test_a_reader_passes_a_table_of_the_server_on(world: World) -> None:
    world.server.answers.tables["experiment", "given"] = TABLE
    table = {"namespace": "experiment", "name": "given"}
    launch, end = world.run("reader", parameters={"table": table})
    report = world.reports(launch)[-1]
    assert end == (ExitCode.FAILED, None)  # the test's table has no file
    assert report["error"]["code"] == "BadData"
    _, end = world.run("reader", parameters={"table": {**table, "name": "other"}})
    assert end == (ExitCode.FAILED, None)


def test_an_upload_registers_its_table_with_the_server(world: World) -> None:
    source = world.folder / "data.csv"
    source.write_text("id,y,x0\na,1,2\nb,0,3\n")
    parameters = {"file": str(source), "namespace": "n", "table_name": "t", "drop": 1}
    _, end = world.run("upload", parameters=parameters, output_data=[])
    assert end == (ExitCode.SUCCESS, None)
    request = world.server.wait_for(lambda r: r.path.endswith("table_meta/create"))
    assert request.body["drop"] is True
    assert request.body["table"]["count"] == 2
    assert set(request.body["table"]) == set(TABLE)


@pytest.mark.parametrize(
    "changes",
    [
        {"component": "../../etc"},
        {"server_socket": "relative"},
        {"site": "guest-1"},
        {"site": "nobody-9999", "sites": ["nobody-9999"]},
        {"sites": "guest-9999"},
        {"cores": 0},
        {"task_version": -1},
        {"task_id": "other"},
        {"work_dir": "/a\x00b"},
        {"inputs": []},
        {"inputs": {"data": {"data": [["x"]]}}},
    ],
)
def test_a_hostile_spec_is_refused_before_anything_is_sent(
    world: World, changes: dict[str, Any]
) -> None:
    before = len(world.server.requests)
    launch, end = world.run("wellbehaved", **changes)
    assert end == (ExitCode.BAD_SPEC, None)
    assert len(world.server.requests) == before
    assert "bad spec" in (launch.log_dir / "stdout.log").read_text()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"launch_id": NaN}'])
def test_a_spec_that_is_no_json_is_refused(world: World, content: bytes) -> None:
    launch = write_launch(
        world.folder,
        launch_id=f"odd{len(content)}{content[:1].hex()}",
        module="x",
        server_socket=world.server.path,
    )
    launch.spec_path.write_bytes(content)
    world.executor.start(launch)
    assert world.events.end(launch.launch_id) == (ExitCode.BAD_SPEC, None)


def test_what_a_component_leaves_running_is_ended_with_it(world: World) -> None:
    launch, end = world.run("sleeps", parameters={"how": "leaves_child"})
    assert end == (ExitCode.SUCCESS, None)
    pid = int((launch.work_dir / "ready").read_text())
    wait_until(lambda: _is_gone(pid))


def test_what_it_leaves_in_sessions_of_their_own_is_ended_too(world: World) -> None:
    """One child in a session of its own, and one whose parent is gone besides."""
    other = world.launch("sleeps")
    busy = world.events.handle(other.launch_id)
    launch, end = world.run("sleeps", parameters={"how": "leaves_daemons"})
    assert end == (ExitCode.SUCCESS, None)
    for pid in (launch.work_dir / "ready").read_text().split():
        wait_until(lambda pid=pid: _is_gone(int(pid)))
    assert is_running(busy)
    world.executor.stop(busy, grace_s=5)
    world.events.end(other.launch_id)


@pytest.mark.parametrize("cores", [1, 2])
def test_numerical_libraries_use_as_many_threads_as_the_task_has_cores(
    world: World, cores: int
) -> None:
    launch, end = world.run("threads", cores=cores)
    assert end == (ExitCode.SUCCESS, None)
    told = world.reports(launch)[-1]["summary"]
    assert told["arrow"] == cores
    assert set(told["pools"].values()) == {cores}
    assert set(told["env"].values()) == {str(cores)}


def test_components_are_described_with_the_schema_of_their_parameters(world: World) -> None:
    described = {d["module"]: d for d in world.executor.describe()}
    assert {"Reader", "Upload", "DataTransform", "Empty", "WellBehaved"} <= set(described)
    assert described["WellBehaved"]["roles"] == ["guest", "host", "arbiter", "local"]
    assert described["WellBehaved"]["needs_input"] is False
    assert described["WellBehaved"]["package"].partition("@")[0] not in ("", "fate", "fedflow")
    assert described["Reader"]["package"] == ""
    assert "how" in json.dumps(described["WellBehaved"]["parameters"])


def test_parameters_are_checked_with_the_path_of_the_mistake(world: World) -> None:
    assert world.executor.check("fails", {"seconds": 1.5}, path="$.a") == ()
    (warning,) = world.executor.check("fails", {"how": "doubtful"}, path="$.a")
    assert (warning.path, warning.code, warning.hint) == (
        "$.a.how", "NoEffect", HINTS["NoEffect"],
    )  # fmt: skip
    with pytest.raises(BadParameter) as caught:
        world.executor.check("fails", {"seconds": "long"}, path="$.a")
    assert caught.value.fields["path"] == "$.a.seconds"
    with pytest.raises(BadParameter, match="known are how, seconds, text"):
        world.executor.check("fails", {"nonsense": 1}, path="$.a")
    with pytest.raises(UnknownComponent):
        world.executor.check("os.system", {}, path="$.a")


def test_a_check_that_ends_its_process_is_a_mistake_and_the_zygote_lives(world: World) -> None:
    zygote = world.executor.pid
    with pytest.raises(BadParameter, match="SystemExit"):
        world.executor.check("fails", {"how": "exits_in_check"}, path="$")
    assert world.executor.pid == zygote


def test_parameters_that_are_nested_too_deep_are_refused(world: World) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadParameter):
        world.executor.check("fails", {"how": deep}, path="$.a")
    almost: Any = []
    for _ in range(900):
        almost = [almost]
    with pytest.raises(BadParameter):
        world.executor.check("fails", {"how": almost}, path="$.a")
    assert world.executor.ready()


def test_the_same_launch_is_started_only_once(world: World) -> None:
    launch = world.launch("sleeps", parameters={"seconds": 0.2})
    world.executor.start(launch)
    world.events.handle(launch.launch_id)
    world.executor.start(launch)
    world.events.end(launch.launch_id)
    world.run("wellbehaved")
    assert len(world.events.ends[launch.launch_id]) == 1
    running = [r for r in world.reports(launch) if r["party_status"] == "running"]
    assert len(running) == 1


def test_many_launches_at_once_all_end_once(world: World) -> None:
    launches = [world.launch("wellbehaved") for _ in range(30)]
    for launch in launches:
        assert world.events.end(launch.launch_id) == (ExitCode.SUCCESS, None)
        assert len(world.events.ends[launch.launch_id]) == 1


def test_a_worker_can_be_started_by_hand(world: World) -> None:
    launch = write_launch(
        world.folder, launch_id="by-hand", module="empty", server_socket=world.server.path
    )
    command = [sys.executable, "-m", "fedflow.worker.run", str(launch.spec_path)]
    assert subprocess.run(command, timeout=20, check=False).returncode == ExitCode.SUCCESS
    assert world.reports(launch)[-1]["party_status"] == "success"


def test_the_plain_executor_does_the_same_with_new_interpreters(tmp_path: Path) -> None:
    events = RecordingEvents()
    env = offer_faults(tmp_path / "provider")
    executor = PlainExecutor(events=events, python=sys.executable, env=env)
    executor.open()
    try:
        world = World(tmp_path, executor, events)
        with world.server:
            launch, end = world.run("wellbehaved")
            assert end == (ExitCode.SUCCESS, None)
            summary = world.reports(launch)[-1]["summary"]
            assert summary["group"] == events.handles[launch.launch_id].pid
            sleeper = world.launch("sleeps")
            world.server.wait_for(lambda r: r.token == f"secret-of-{sleeper.launch_id}")
            executor.stop(events.handle(sleeper.launch_id), grace_s=5)
            assert events.end(sleeper.launch_id) == (ExitCode.STOPPED, None)
    finally:
        executor.close(1.0, kill=True)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "(zombie)" in Path(f"/proc/{pid}/status").read_text()
