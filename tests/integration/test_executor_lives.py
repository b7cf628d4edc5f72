"""Kills and restarts: what becomes of processes when the zygote, a child or the server goes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import Handle
from fedflow.executor.limits import ExecutorLimits, child_environment
from fedflow.executor.processes import (
    group_is_alive,
    handle_of,
    is_running,
    signal_group,
    start_time_of,
)
from fedflow.executor.termination import Termination
from fedflow.executor.watch import ProcessWatch
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

CLOCK = SystemClock()


class House:
    """Makes executors and launches, and leaves no process behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = WorkerServer(folder / "server.sock").start()
        self.env = offer_faults(folder / "provider")
        self._executors: list[ZygoteExecutor] = []
        self._events: list[RecordingEvents] = []
        self._numbers = itertools.count()

    def executor(self, **limits: float) -> tuple[ZygoteExecutor, RecordingEvents]:
        events = RecordingEvents()
        executor = ZygoteExecutor(
            events=events,
            python=sys.executable,
            preload=(),
            env=self.env,
            limits=ExecutorLimits(**limits),  # type: ignore[arg-type]
        )
        executor.open()
        self._executors.append(executor)
        self._events.append(events)
        return executor, events

    def launch(self, module: str = "sleeps", **parameters: Any) -> TestLaunch:
        return write_launch(
            self.folder,
            launch_id=f"launch{next(self._numbers)}",
            module=module,
            server_socket=self.server.path,
            parameters=parameters,
        )

    def sleeper(
        self, executor: ZygoteExecutor, events: RecordingEvents, **parameters: Any
    ) -> tuple[TestLaunch, Handle]:
        """Start a run that waits, and return when it does."""
        launch = self.launch(**parameters)
        executor.start(launch)
        handle = events.handle(launch.launch_id)
        wait_until((launch.work_dir / "ready").exists)
        return launch, handle

    def leave(self) -> None:
        for executor in self._executors:
            executor.close(0.2, kill=True)
        for events in self._events:
            for handle in events.handles.values():
                signal_group(handle, signal.SIGKILL)
        self.server.stop()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    before = set(os.listdir("/proc/self/fd"))
    threads = {t.name for t in threading.enumerate()}
    house = House(tmp_path)
    yield house
    house.leave()
    wait_until(
        lambda: {t.name for t in threading.enumerate() if "Thread-" not in t.name} <= threads
    )
    wait_until(lambda: set(os.listdir("/proc/self/fd")) <= before)


def kill_zygote(executor: ZygoteExecutor) -> int:
    assert executor.wait_ready(60)
    pid = executor.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_a_killed_child_is_noticed_at_once(house: House) -> None:
    executor, events = house.executor()
    launch, handle = house.sleeper(executor, events)
    os.kill(handle.pid, signal.SIGKILL)
    assert events.end(launch.launch_id) == (None, signal.SIGKILL)


def test_an_end_that_cannot_be_stored_is_one_line_of_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    executor, events = house.executor()
    launch, handle = house.sleeper(executor, events)
    ends = events.exited

    def exited(*end: Any) -> None:
        ends(*end)
        raise StoreUnavailable(reason="the disk is full")

    events.exited = exited  # type: ignore[method-assign]
    os.kill(handle.pid, signal.SIGKILL)
    events.end(launch.launch_id)
    wait_until(lambda: "The store was away" in caplog.text)
    (record,) = [r for r in caplog.records if "The store was away" in r.getMessage()]
    assert record.exc_info is None
    assert "the disk is full" in record.getMessage()


def test_a_stopped_run_ends_by_itself_and_reports_no_end(house: House) -> None:
    executor, events = house.executor()
    launch, handle = house.sleeper(executor, events)
    executor.stop(handle, grace_s=30.0)
    assert events.end(launch.launch_id) == (ExitCode.STOPPED, None)
    assert {r.body["party_status"] for r in house.server.requests} == {"running"}


def test_a_run_and_its_child_that_mind_no_sigterm_are_killed_after_the_grace(
    house: House,
) -> None:
    executor, events = house.executor()
    launch, handle = house.sleeper(executor, events, how="deaf")
    pids = [int(line) for line in (launch.work_dir / "ready").read_text().split()]
    assert len(pids) == 2
    began_s = CLOCK.monotonic_s()
    executor.stop(handle, grace_s=0.4)
    assert events.end(launch.launch_id) == (None, signal.SIGKILL)
    assert CLOCK.monotonic_s() - began_s > 0.35
    wait_until(lambda: not group_is_alive(handle))
    assert all(handle_of(pid) is None or not is_running(handle_of(pid)) for pid in pids)  # type: ignore[arg-type]


def test_a_suspended_run_can_be_stopped(house: House) -> None:
    executor, events = house.executor()
    launch, handle = house.sleeper(executor, events)
    os.kill(handle.pid, signal.SIGSTOP)
    executor.stop(handle, grace_s=30.0)
    assert events.end(launch.launch_id) == (ExitCode.STOPPED, None)


def test_children_of_a_killed_zygote_live_on_and_are_watched(house: House) -> None:
    executor, events = house.executor()
    launch, handle = house.sleeper(executor, events)
    other, _ = house.sleeper(executor, events)
    old = kill_zygote(executor)
    wait_until(lambda: executor.ready() and executor.pid != old)
    assert executor.fault() == ""
    assert is_running(handle)
    assert not events.ends

    os.kill(handle.pid, signal.SIGKILL)
    assert events.end(launch.launch_id) == (None, None)
    assert other.launch_id not in events.ends

    third, _ = house.sleeper(executor, events, seconds=0.0)
    assert events.end(third.launch_id) == (ExitCode.SUCCESS, None)


def test_launches_on_their_way_when_the_zygote_dies_are_started_by_the_next(house: House) -> None:
    executor, events = house.executor()
    assert executor.wait_ready(60)
    pid = executor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # requests stay unread in its socket
    launches = [house.launch("wellbehaved") for _ in range(3)]
    for launch in launches:
        executor.start(launch)
    os.kill(pid, signal.SIGKILL)
    for launch in launches:
        assert events.end(launch.launch_id) == (ExitCode.SUCCESS, None)
    ends = [r for r in house.server.requests if r.body["party_status"] == "success"]
    assert sorted(r.body["launch_id"] for r in ends) == [x.launch_id for x in launches]


def test_a_question_to_a_dying_zygote_is_answered_by_the_next(house: House) -> None:
    executor, _ = house.executor()
    assert executor.wait_ready(60)
    pid = executor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(0.1, os.kill, (pid, signal.SIGKILL))
    timer.start()
    assert "Sleeps" in {d["module"] for d in executor.describe()}
    timer.join()


def test_a_zygote_that_hangs_is_replaced(house: House) -> None:
    executor, events = house.executor(start_timeout_s=4.0)
    assert executor.wait_ready(60)
    pid = executor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    lost = house.launch("wellbehaved")
    executor.start(lost)
    assert "no process after 4.0 seconds" in events.failure(lost.launch_id)
    wait_until(lambda: executor.ready() and executor.pid != pid)
    later = house.launch("wellbehaved")
    executor.start(later)
    assert events.end(later.launch_id) == (ExitCode.SUCCESS, None)


def test_without_a_working_interpreter_launches_fail_and_nothing_hangs(house: House) -> None:
    events = RecordingEvents()
    executor = ZygoteExecutor(
        events=events,
        python="/nonexistent/python",
        limits=ExecutorLimits(start_timeout_s=0.3, restart_cap_s=0.05),
    )
    assert executor.fault() == "it is starting"
    executor.open()
    launch = house.launch("wellbehaved")
    executor.start(launch)
    assert "no process" in events.failure(launch.launch_id)
    assert not executor.ready()
    assert executor.fault() == "it cannot start processes now"
    executor.close(1.0, kill=True)


def test_runs_survive_a_server_and_the_next_one_adopts_them(house: House) -> None:
    first, events = house.executor()
    launch, handle = house.sleeper(first, events)
    quick, gone = house.sleeper(first, events, seconds=0.0)
    events.end(quick.launch_id)
    zygote = first.pid
    assert zygote is not None
    first.close(1.0)
    assert start_time_of(zygote) is None
    assert is_running(handle)
    assert launch.launch_id not in events.ends

    second, told = house.executor()
    assert second.adopt(launch.launch_id, handle)
    assert second.adopt(launch.launch_id, handle)
    assert not second.adopt(quick.launch_id, gone)
    impostor = Handle(pid=handle.pid, start_time=handle.start_time + 1, host=handle.host)
    assert not second.adopt("impostor", impostor)
    elsewhere = Handle(pid=handle.pid, start_time=handle.start_time, host="elsewhere")
    assert not second.adopt("elsewhere", elsewhere)

    second.stop(impostor, grace_s=0.0)
    second.stop(elsewhere, grace_s=0.0)
    assert is_running(handle)
    second.stop(handle, grace_s=10.0)
    assert told.end(launch.launch_id) == (None, None)
    assert launch.launch_id not in events.ends
    assert told.ends == {launch.launch_id: [(None, None)]}


def test_closing_with_kill_leaves_no_process(house: House) -> None:
    executor, events = house.executor()
    runs = [house.sleeper(executor, events, how=how) for how in ("", "deaf")]
    executor.close(0.3, kill=True)
    for launch, handle in runs:
        assert len(events.ends[launch.launch_id]) == 1
        assert not group_is_alive(handle)


def test_a_run_that_prints_without_end_does_not_fill_the_disk(house: House) -> None:
    executor, events = house.executor(output_bytes=1 << 20)
    assert executor.wait_ready(60)
    launch = house.launch("fails", how="floods", seconds=20)
    output = launch.log_dir / "stdout.log"
    executor.start(launch)
    wait_until(lambda: output.exists() and output.stat().st_size > 20 << 20)
    wait_until(lambda: output.stat().st_size <= 1 << 20)
    executor.stop(events.handle(launch.launch_id), grace_s=5)
    events.end(launch.launch_id)


def test_a_callback_that_fails_does_not_stop_the_others(house: House) -> None:
    class Broken(RecordingEvents):
        def started(self, launch_id: str, handle: Handle) -> None:
            super().started(launch_id, handle)
            raise RuntimeError("the store is away")

    events = Broken()
    executor = ZygoteExecutor(events=events, python=sys.executable, preload=(), env=house.env)
    executor.open()
    try:
        for _ in range(2):
            launch = house.launch("wellbehaved")
            executor.start(launch)
            assert events.end(launch.launch_id) == (ExitCode.SUCCESS, None)
    finally:
        executor.close(1.0, kill=True)


def test_the_server_environment_does_not_reach_the_component(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDFLOW_DATABASE_PASSWORD", "hidden")
    env = child_environment({"A": "b"})
    assert "FEDFLOW_DATABASE_PASSWORD" not in env
    assert env["A"] == "b"
    assert env["OPENBLAS_NUM_THREADS"] == "1"
    assert "PATH" in env


@pytest.mark.parametrize("use_pidfd", [True, False])
def test_the_watch_tells_the_end_of_a_foreign_process_once(use_pidfd: bool) -> None:
    # The shell ends at once; its child is nobody's here.
    command = ["/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
    pid = int(subprocess.run(command, capture_output=True, check=True).stdout)
    handle = handle_of(pid)
    assert handle is not None
    seen: list[tuple[str, Handle]] = []
    watch = ProcessWatch(lambda launch_id, h: seen.append((launch_id, h)), use_pidfd=use_pidfd)
    watch.open()
    try:
        assert watch.add("a", handle)
        assert watch.add("a", handle)
        assert watch.handles() == {"a": handle}
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: bool(seen))
        assert not watch.handles()
        assert not watch.add("b", handle)
    finally:
        watch.close()
    assert seen == [("a", handle)]


def test_the_watch_goes_on_after_a_look_that_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = iter([MemoryError(), OSError(9, "Bad file descriptor")])
    look = ProcessWatch._look

    def fails_twice(watch: ProcessWatch, *given: Any) -> None:
        if (error := next(looks, None)) is not None:
            raise error
        look(watch, *given)

    monkeypatch.setattr(ProcessWatch, "_look", fails_twice)
    seen: list[str] = []
    watch = ProcessWatch(lambda launch_id, _: seen.append(launch_id))
    watch.open()
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        handle = handle_of(process.pid)
        assert handle is not None
        assert watch.add("a", handle)
        process.kill()
    wait_until(lambda: seen == ["a"])
    watch.close()
    assert "A look at the processes failed" in caplog.text


def test_termination_asks_again_a_process_that_missed_the_first_sigterm() -> None:
    code = (
        "import signal, sys\n"
        "seen = []\n"
        "signal.signal(15, lambda *_: seen.append(1) or len(seen) == 2 and sys.exit(3))\n"
        "print(1, flush=True)\n"
        "while True: signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        handle = handle_of(process.pid)
        assert handle is not None
        termination = Termination()
        termination.open()
        termination.stop(handle, grace_s=30.0)
        try:
            assert process.wait(60) == 3
        finally:
            termination.close(grace_s=0.0)


def test_termination_finishes_its_stops_when_it_is_closed() -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        handle = handle_of(process.pid)
        assert handle is not None
        termination = Termination()
        termination.open()
        termination.stop(handle, grace_s=600.0)
        began_s = CLOCK.monotonic_s()
        termination.close(grace_s=0.2)
        assert CLOCK.monotonic_s() - began_s < 60.0  # of the grace's 600
        assert process.wait(60) == -signal.SIGKILL


def test_termination_takes_the_steps_that_are_due_and_no_others() -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        handle = handle_of(process.pid)
        assert handle is not None
        termination = Termination()
        now_s = CLOCK.monotonic_s()
        termination.stop(handle, grace_s=100.0)
        due_s = termination.tick(now_s + 99.9)
        assert due_s is not None
        assert now_s + 100.0 <= due_s < now_s + 101.0
        assert process.poll() is None
        termination.stop(handle, grace_s=1.0)  # a second stop may shorten the grace
        termination.tick(now_s + 50.0)
        assert process.wait(5) == -signal.SIGKILL
        assert termination.tick(now_s + 1000.0) is None


def test_a_group_whose_leader_is_gone_is_still_found() -> None:
    command = ["/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!; read x"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        assert leader.stdin is not None
        leader.stdout.readline()
        handle = handle_of(leader.pid)
        assert handle is not None
        leader.stdin.close()
        leader.wait(5)
    assert not is_running(handle)
    assert group_is_alive(handle)
    assert signal_group(handle, signal.SIGKILL)
    wait_until(lambda: not group_is_alive(handle))
    wait_until(lambda: not signal_group(handle, signal.SIGKILL))
