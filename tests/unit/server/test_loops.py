"""Threads of a server in a moment without threads or memory: what is missing is started later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import SystemClock, pause
from fedflow.server.loops import Loop
from fedflow.server.outbox_senders import OUTBOX_SENDERS, OutboxSenders
from fedflow.server.threads import HeartbeatThreads
from tests.memory_store import MemoryStore
from tests.unit.server.test_outbox_senders import CountingDelivery

DEADLINE_S = 60.0


def wait_for(reached: Callable[[], bool]) -> None:
    deadline_s = SystemClock().monotonic_s() + DEADLINE_S
    while not reached():
        assert SystemClock().monotonic_s() < deadline_s, "it did not happen"
        pause(0.005, threading.Event())


class Scarce:
    """The system's threads: `left` more can be started, then none; None: as many as one likes."""

    def __init__(self, start: Callable[[threading.Thread], None]) -> None:
        self._start = start
        self.left: int | None = None
        self.error: Exception = RuntimeError("can't start new thread")

    def start(self, thread: threading.Thread) -> None:
        if self.left is not None:
            if self.left == 0:
                raise self.error
            self.left -= 1
        self._start(thread)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Scarce:
    scarce = Scarce(threading.Thread.start)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: Scarce.start(scarce, thread))
    return scarce


class Beats(Loop):
    """Counts its passes; `error` ends one."""

    def __init__(self, name: str = "beats") -> None:
        super().__init__(name)
        self.passes = 0
        self.error: BaseException | None = None

    def _body(self) -> None:
        self.passes += 1
        if self.error is not None:
            raise self.error
        self._stop.wait(0.005)


@pytest.fixture
def loop() -> Iterator[Beats]:
    beats = Beats()
    yield beats
    beats.stop()
    beats.join()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_loop_without_a_thread_says_so_and_can_be_started_again(
    system: Scarce, loop: Beats, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    system.left, system.error = 0, error
    assert not loop.start()
    assert loop.fault() == "its thread does not run"
    system.left = None
    assert loop.start()
    assert loop.start()  # it is left alone
    wait_for(lambda: loop.passes > 1)
    assert loop.fault() == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_started_anew_by_the_one_that_looks_after_it(loop: Beats) -> None:
    keeper = Beats("keeper")
    keeper.look_after(loop)
    loop.error = SystemExit()
    loop.start()
    wait_for(lambda: loop.fault() == "its thread does not run")
    loop.error = None
    before = loop.passes
    keeper.start()
    wait_for(lambda: loop.passes > before)
    keeper.stop()
    keeper.join()


def test_a_pass_that_does_not_end_is_noticed(loop: Beats) -> None:
    held = threading.Event()
    loop._body = held.wait  # type: ignore[assignment,method-assign]
    loop.start()
    wait_for(lambda: loop._began_s is not None)
    assert loop.fault() == ""
    loop._longest_s = 0.0
    wait_for(lambda: loop.fault() == "it has done nothing for 0 s")
    loop.stop()
    held.set()


@pytest.mark.parametrize("left", [0, 1])
def test_commands_flow_again_after_a_moment_without_threads(system: Scarce, left: int) -> None:
    delivery = CountingDelivery()
    delivery.gate.set()
    store = MemoryStore()
    senders = OutboxSenders(delivery=cast(Any, delivery), store=store, clock=SystemClock())
    system.left = left
    delivery.put(1, 2, 3)
    senders.wake("10000")
    assert (not senders.faults()) is (left > 0)
    system.left = None
    senders.wake("10000")
    delivery.wait(lambda: len(delivery.delivered) == 3)
    assert not senders.faults()
    names = {t.name for t in threading.enumerate() if t.name.startswith("outbox-sender-10000")}
    assert len(names) == OUTBOX_SENDERS
    senders.stop()
    store.close()


class OneParty:
    """Satisfies `Heartbeats` and `Jobs` for a thread that sends to one party."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.send = self.sent.append

    def remote_parties(self) -> list[str]:
        return ["10000"]

    def unsure_parties(self) -> list[str]:
        return []

    def collects(self, _party_id: str) -> bool:
        return False

    def is_watched(self) -> bool:
        return False


def test_heartbeats_are_sent_again_after_a_moment_without_threads(system: Scarce) -> None:
    party = cast(Any, OneParty())
    threads = HeartbeatThreads(heartbeats=party, jobs=party, timing=Timing())
    system.left = 0
    threads.look()
    assert threads.faults() == ["heartbeat-10000: its thread does not run"]
    system.left = None
    threads.look()
    wait_for(lambda: party.sent == ["10000"])
    assert threads.faults() == []
    threads.stop()
