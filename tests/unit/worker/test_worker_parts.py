"""The worker's parts without a process: exit codes, spec, tracker, catalog, logs."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.logs.records import start_of
from fedflow.base.errors.data import BoundTableRefused, TableExists
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import LaunchRefused, ServerRefused
from fedflow.base.errors.start import ServerNotReachable
from fedflow.domain.records import TableRecord
from fedflow.tables.catalog import TableOrigin
from fedflow.wire.envelope import failure
from fedflow.wire.paths import WORKER_NAMES
from fedflow.wire.task_report import MetricBatch, RunningReport, member_values
from fedflow.wire.worker_commands import WorkerCommand
from fedflow.worker.catalog import WorkerCatalog
from fedflow.worker.exit_codes import ExitCode, explain
from fedflow.worker.logs import LevelFiles, mask, traceback_of
from fedflow.worker.spec import SpecError, read_spec
from fedflow.worker.tracker import ServerTracker
from tests.support.executors import wait_until, write_launch


class ManualClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now_ms(self) -> int:
        return int(1000 * self.now_s)

    def monotonic_s(self) -> float:
        return self.now_s


class RecordingLink:
    """Stands for the way to the server."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.error: FedflowError | None = None
        self.data: Any = None

    def report(self, report: RunningReport, *, patience_s: float = 60.0) -> None:
        self._send("task_report", report)

    def call(self, command: WorkerCommand[Any], *, patience_s: float = 60.0) -> Any:
        self._send(WORKER_NAMES[type(command)], command)
        return self.data

    def _send(self, command: str, body: Any) -> None:
        self.calls.append((command, json.loads(json.dumps(body, default=member_values))))
        if self.error is not None:
            raise self.error


@pytest.fixture
def link() -> RecordingLink:
    return RecordingLink()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tracker(link: RecordingLink, clock: ManualClock) -> Iterator[ServerTracker]:
    tracker = ServerTracker(link, clock=clock)  # type: ignore[arg-type]
    yield tracker
    tracker.rest()


@pytest.fixture
def catalog(link: RecordingLink) -> WorkerCatalog:
    return WorkerCatalog(link, output_namespace="out")  # type: ignore[arg-type]


def entry(namespace: str, name: str, **changes: Any) -> TableRecord:
    members: dict[str, Any] = {
        "namespace": namespace,
        "name": name,
        "address": "0" * 32,
        "schema": {"kind": "raw", "id": "id", "columns": ["x"]},
        "count": 1,
        "partitions": 1,
        "id_delimiter": ",",
        "have_head": True,
        "extend_sid": False,
        "origin": TableOrigin.OUTPUT,
        "preview": (("a", "1"),),
        "created_ms": 5,
    }
    return TableRecord(**{**members, **changes})


# --- exit codes ----------------------------------------------------------------------------------


def test_every_exit_code_has_a_meaning_and_is_no_code_of_python_or_the_shell() -> None:
    assert len({explain(code) for code in ExitCode}) == len(ExitCode)
    for code in ExitCode:
        assert code == 0 or 3 <= code < 126
    assert "exit status 77" in explain(77)


# --- spec ----------------------------------------------------------------------------------------


def test_a_spec_names_its_task_and_output_namespace(tmp_path: Path) -> None:
    launch = write_launch(tmp_path, launch_id="a", module="m", server_socket=tmp_path / "s")
    content = json.loads(launch.spec_path.read_bytes())
    launch.spec_path.write_text(json.dumps({**content, "future_member": 1}))
    spec = read_spec(launch.spec_path)
    assert spec.key == launch.task
    assert spec.output_namespace == "output_data_202611200000000000000_step_0_0"


def test_a_missing_spec_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nothing\.json: No such file"):
        read_spec(tmp_path / "nothing.json")


# --- tracker -------------------------------------------------------------------------------------


def test_a_short_run_sends_its_metrics_with_its_end_only(
    tracker: ServerTracker, link: RecordingLink
) -> None:
    tracker.metric("train", "loss", metric_type="LOSS", points=[(0, 1.0)], meta={"unit": "iters"})
    tracker.metric("train", "loss", metric_type="LOSS", points=[(1, 0.5)])
    tracker.progress(0.5)
    assert not link.calls
    assert tracker.rest() == [
        MetricBatch(
            namespace="train",
            name="loss",
            start=0,
            points=[(0, 1.0), (1, 0.5)],
            meta={"name": "loss", "metric_type": "LOSS", "unit": "iters"},
        )
    ]
    assert tracker.rest() == []


def test_a_long_run_sends_at_most_one_batch_a_second(
    tracker: ServerTracker, link: RecordingLink, clock: ManualClock
) -> None:
    for i in range(31):
        tracker.metric("train", "loss", metric_type="LOSS", points=[(i, i)])
        clock.now_s += 0.1
    sent = [body["metrics"][0]["points"] for _, body in link.calls]
    assert len(sent) in {2, 3}
    rest = [list(p) for metric in tracker.rest() for p in metric.points]
    assert [p for batch in sent for p in batch] + rest == [[i, i] for i in range(31)]


@pytest.mark.parametrize(
    "error",
    [
        ServerNotReachable(address="s", reason="restarts"),
        ServerRefused(command="metric_save", retcode=100, reason="no"),
    ],
)
def test_points_that_the_server_did_not_take_are_sent_again(
    tracker: ServerTracker, link: RecordingLink, clock: ManualClock, error: FedflowError
) -> None:
    tracker.metric("train", "loss", metric_type="LOSS", points=[(0, 1.0)])
    link.error = error
    clock.now_s += 2
    tracker.metric("train", "loss", metric_type="LOSS", points=[(1, 0.5)])
    assert tracker.rest()[0].points == [(0, 1.0), (1, 0.5)]


def test_a_replaced_process_learns_it_from_the_tracker(
    tracker: ServerTracker, link: RecordingLink, clock: ManualClock
) -> None:
    link.error = LaunchRefused(launch_id="a", task="b")
    tracker.progress(0.1)
    clock.now_s += 1
    with pytest.raises(LaunchRefused):
        tracker.progress(0.2)


def test_progress_is_told_twice_a_second_at_most(
    tracker: ServerTracker, link: RecordingLink, clock: ManualClock
) -> None:
    for i in range(21):
        tracker.progress(i / 20)
        clock.now_s += 0.125
    assert 4 <= len(link.calls) <= 5
    assert link.calls[0][1] == {"launch_id": "", "party_status": "running", "progress": 0.4}


def test_the_first_progress_of_a_long_run_is_sent_with_the_points_of_its_iteration(
    tracker: ServerTracker, link: RecordingLink, clock: ManualClock
) -> None:
    clock.now_s += 60
    tracker.metric("train", "loss", metric_type="LOSS", points=[(0, 0.7)])
    assert not link.calls
    tracker.progress(0.5)
    (_, report), (command, batch) = link.calls
    assert report["progress"] == 0.5
    assert (command, batch["metrics"][0]["points"]) == ("metric_save", [[0, 0.7]])


def test_progress_that_came_early_is_sent_later_even_if_no_more_comes(link: RecordingLink) -> None:
    tracker = ServerTracker(link)  # type: ignore[arg-type]
    tracker.progress(0.1)
    tracker.progress(0.25)
    assert not link.calls
    wait_until(lambda: len(link.calls) == 1)
    assert link.calls[0][1]["progress"] == 0.25
    link.error = LaunchRefused(launch_id="a", task="b")
    tracker.progress(0.5)
    wait_until(lambda: len(link.calls) == 2)
    wait_until(lambda: "progress" not in {t.name for t in threading.enumerate()})
    with pytest.raises(LaunchRefused):
        tracker.progress(0.75)
    tracker.rest()


def test_a_short_run_leaves_neither_a_report_nor_a_thread(link: RecordingLink) -> None:
    tracker = ServerTracker(link)  # type: ignore[arg-type]
    tracker.progress(1.0)
    assert "progress" not in {t.name for t in threading.enumerate()}
    tracker.progress(0.5)
    tracker.rest()
    assert "progress" not in {t.name for t in threading.enumerate()}
    assert not link.calls


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, b"x"])
def test_a_metric_that_is_no_plain_json_is_refused_at_once(
    tracker: ServerTracker, value: object
) -> None:
    with pytest.raises((TypeError, ValueError)):
        tracker.metric("train", "loss", metric_type="LOSS", points=[(0, value)])
    assert tracker.rest() == []


def test_a_metric_keeps_its_type(tracker: ServerTracker) -> None:
    tracker.metric("train", "loss", metric_type="LOSS")
    with pytest.raises(ValueError, match="is LOSS, not ROC"):
        tracker.metric("train", "loss", metric_type="ROC")
    with pytest.raises(ValueError, match="within 0 to 1"):
        tracker.progress(1.5)


# --- catalog -------------------------------------------------------------------------------------


def test_tables_of_the_attempt_stay_here(catalog: WorkerCatalog, link: RecordingLink) -> None:
    own = entry("out", "a")
    catalog.register(own)
    assert catalog.find("out", "a") == own
    assert catalog.find("out", "b") is None
    with pytest.raises(TableExists):
        catalog.register(own)
    assert catalog.own() == [own]
    assert catalog.drop("out", "a") == own
    assert catalog.own() == []
    assert not link.calls


def test_other_tables_are_asked_for_and_registered_at_the_server(
    catalog: WorkerCatalog, link: RecordingLink
) -> None:
    link.error = ServerRefused(command="table_get", retcode=101, reason="no such table")
    assert catalog.find("n", "a") is None
    link.error = None
    catalog.register(entry("n", "a"))
    command, body = link.calls[-1]
    assert command == "table_create"
    assert body["drop"] is False
    assert catalog.find("n", "a") == entry("n", "a")


def test_a_name_that_the_server_has_is_taken_unless_it_is_replaced(
    catalog: WorkerCatalog, link: RecordingLink
) -> None:
    link.data = entry("n", "a")
    with pytest.raises(TableExists):
        catalog.register(entry("n", "a"))
    assert catalog.drop("n", "a") is None, "the server deletes its files when nobody uses them"
    catalog.register(entry("n", "a", count=2))
    assert link.calls[-1][1]["drop"] is True
    found = catalog.find("n", "a")
    assert found is not None
    assert found.count == 2


def test_a_failing_server_is_not_taken_for_a_missing_table(
    catalog: WorkerCatalog, link: RecordingLink
) -> None:
    link.error = ServerRefused(command="table_get", retcode=109, reason="who are you")
    with pytest.raises(ServerRefused):
        catalog.find("n", "a")


def test_what_the_server_says_of_a_storage_arrives_as_its_own_error(
    catalog: WorkerCatalog, link: RecordingLink
) -> None:
    told = BoundTableRefused(namespace="n", name="a", reason="its files are not there")
    refused = failure(told)
    link.error = ServerRefused(
        command="table_connection", retcode=101, reason=refused["retmsg"], error=refused["error"]
    )
    with pytest.raises(BoundTableRefused) as info:
        catalog.connection(entry("n", "a"))
    assert (info.value.message, info.value.hint) == (told.message, told.hint)
    assert pickle.loads(pickle.dumps(info.value)).message == told.message
    with pytest.raises(BoundTableRefused):
        catalog.target()
    for error in ({}, {"name": "Unheard"}, {"name": "InvalidJobSpec"}, {"name": ["x"]}):
        link.error = ServerRefused(command="c", retcode=100, reason="no", error=error)
        with pytest.raises(ServerRefused, match="no"):
            catalog.target()


# --- logs ----------------------------------------------------------------------------------------


def test_a_record_goes_to_its_level_and_all_below(tmp_path: Path) -> None:
    handler = LevelFiles(tmp_path, level=logging.INFO)
    log = logging.Logger("x")
    log.addHandler(handler)
    log.debug("one")
    log.info("two \ud800 %s", "ü")
    log.error("three")
    log.critical("four")
    handler.close()
    texts = {p.stem: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()}
    assert sorted(texts) == ["ERROR", "INFO", "WARNING"]
    assert [w in texts["INFO"] for w in ("one", "two", "three", "four")] == [
        False,
        True,
        True,
        True,
    ]
    assert [w in texts["ERROR"] for w in ("two", "three", "four")] == [False, True, True]


def test_a_traceback_has_lines_of_its_own_that_belong_to_their_record(tmp_path: Path) -> None:
    handler = LevelFiles(tmp_path, level=logging.INFO)
    log = logging.Logger("x")
    log.addHandler(handler)
    try:
        raise ValueError("odd\r\x1b[2J\n[INFO] [2026-11-22 06:49:10,123] forged\u2028last")
    except ValueError as exc:
        log.error("it failed:\nhere", exc_info=exc)
    log.info("next")
    handler.close()
    for name in ("ERROR", "INFO"):
        lines = (tmp_path / f"{name}.log").read_text().split("\n")
        assert lines[0].endswith(r"it failed:\nhere")
        assert lines[1] == "Traceback (most recent call last):"
        assert lines[2].startswith('  File "<fedflow>/tests/unit/worker/test_worker_parts.py"')
        assert lines[-3 if name == "INFO" else -2] == (
            r"  [INFO] [2026-11-22 06:49:10,123] forged\u2028last"
        )
        begins = [bool(start_of(line)) for line in lines]
        assert begins == [True, *[False] * (len(lines) - 3), name == "INFO", False]
        assert r"ValueError: odd\r\x1b[2J" in lines


def test_a_run_that_logs_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    handler = LevelFiles(tmp_path, level=logging.INFO, limit_bytes=1000)
    for number in range(100):
        handler.emit(logging.makeLogRecord({"msg": f"line {number}", "levelno": logging.INFO}))
    handler.close()
    lines = (tmp_path / "INFO.log").read_text().splitlines()
    assert lines[0].endswith("line 0")
    assert lines[-1].endswith("nothing more is kept")
    assert sum(map(len, lines)) < 1200


def test_workers_of_a_site_append_to_its_files_line_by_line(tmp_path: Path) -> None:
    site = tmp_path / "site"
    handlers = []
    for name in ("a", "b"):
        folder = site / name
        folder.mkdir(parents=True)
        handlers.append((name, LevelFiles(folder, level=logging.INFO, shared=site)))
    assert sorted(p.name for p in site.iterdir()) == ["ERROR.log", "INFO.log", "a", "b"]
    assert (site / "ERROR.log").read_bytes() == b""

    def write(name: str, handler: LevelFiles) -> None:
        log = logging.Logger(name)
        log.addHandler(handler)
        for number in range(200):
            log.info("%s-%d-%s-end", name, number, name * 9_000)

    threads = [threading.Thread(target=write, args=pair) for pair in handlers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for name, handler in handlers:
        handler.close()
        assert len((site / name / "INFO.log").read_text().splitlines()) == 200
    lines = (site / "INFO.log").read_text().splitlines()
    assert len(lines) == 400
    assert all(line.endswith("-end") for line in lines)


def test_tracebacks_are_bounded_and_name_no_local_folder() -> None:
    def recurse(depth: int) -> None:
        if depth == 0:
            raise ValueError("x" * 50_000)
        recurse(depth - 1)

    with pytest.raises(ValueError) as caught:
        recurse(50)
    assert len(traceback_of(caught.value)) == 20_000
    assert mask(f"{sys.prefix}/lib/a.py {Path.home()}/b") in {
        "<python>/lib/a.py ~/b",
        "<fedflow>/.venv/lib/a.py ~/b",
    }


def test_a_worker_leaves_no_core_with_what_it_was_told(tmp_path: Path) -> None:
    code = f"""
import resource, sys
from pathlib import Path
from fedflow.worker.process import become_worker
become_worker(log_dir=Path({str(tmp_path)!r}), work_dir=Path({str(tmp_path)!r}))
Path("found").write_text(str(resource.getrlimit(resource.RLIMIT_CORE)[0]))
"""
    subprocess.run([sys.executable, "-c", code], timeout=120, check=True, capture_output=True)
    assert (tmp_path / "found").read_text() == "0"


def test_arrow_has_its_threads_when_their_stacks_would_not_fit_into_the_limit() -> None:
    code = """
import io
from pyarrow import csv
from fedflow.worker.process import limit_memory
from fedflow.worker.threads import limit_threads, start_arrow_threads
limit_threads(2)
start_arrow_threads()
limit_memory(4 << 20)
with csv.open_csv(io.BytesIO(b"a,b\\n" + b"1,2\\n" * 100_000)) as reader:
    print(sum(batch.num_rows for batch in reader))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=120, check=True, capture_output=True
    )
    assert done.stdout.split() == [b"100000"]
