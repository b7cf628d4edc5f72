"""The server's threads: they wake when they are called, sleep otherwise, and end when told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from fedflow.app.initiator.delivery import Delivery
from fedflow.app.initiator.scheduler import Scheduler
from fedflow.base.clock import SystemClock
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import Command, CommandKind, Reply
from fedflow.server.outbox_senders import OUTBOX_SENDERS, OutboxSenders
from fedflow.server.threads import SchedulerThread
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import GUEST, HOST

DEADLINE_S = 60.0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.005)


class FakeScheduler(Scheduler):
    """Counts passes instead of making them."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.queue = 0
        self.ticks = 0
        self.fails = False
        self.failure: Exception = RuntimeError("a defect")

    def next_retry_ms(self) -> int | None:
        return None

    def tick(self) -> None:
        self.ticks += 1
        if self.fails:
            raise self.failure

    def look_at(self, job_ids: object) -> None:
        assert isinstance(job_ids, list)
        self.looked += job_ids

    def look_at_queue(self) -> None:
        self.queue += 1


def test_the_scheduler_looks_at_what_it_is_called_for_and_ends_at_once() -> None:
    scheduler = FakeScheduler()
    thread = SchedulerThread(scheduler, interval_s=3600, clock=SystemClock())
    thread.start()
    wait_for(lambda: scheduler.ticks == 1)
    thread.wake("job")
    wait_for(lambda: scheduler.looked == ["job"])
    thread.wake(None)
    wait_for(lambda: scheduler.queue == 1)
    assert scheduler.ticks == 1
    started = time.monotonic()
    thread.stop()
    thread.join()
    assert time.monotonic() - started < DEADLINE_S


def test_a_thread_that_is_told_to_end_before_it_waits_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop comes between the thread's look at its flag and its wait."""
    scheduler = FakeScheduler()
    thread = SchedulerThread(scheduler, interval_s=3600, clock=SystemClock())
    thread._next_tick_s = SystemClock().monotonic_s() + 3600
    monkeypatch.setattr(scheduler, "next_retry_ms", thread._stop.set)
    done = threading.Event()

    def body() -> None:
        thread._body()
        done.set()

    runner = threading.Thread(target=body, daemon=True)
    runner.start()
    assert done.wait(DEADLINE_S)
    runner.join()


def test_a_pass_that_fails_is_logged_and_the_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = FakeScheduler()
    scheduler.fails = True
    thread = SchedulerThread(scheduler, interval_s=3600, clock=SystemClock())
    thread.start()
    wait_for(lambda: scheduler.ticks == 1)
    thread.wake("job")
    wait_for(lambda: scheduler.looked == ["job"])
    thread.stop()
    thread.join()
    assert "scheduler: a pass failed" in caplog.text


def test_a_store_that_is_away_is_told_in_one_line_and_the_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = FakeScheduler()
    scheduler.failure = StoreUnavailable(reason="the connection was lost")
    scheduler.fails = True
    thread = SchedulerThread(scheduler, interval_s=3600, clock=SystemClock())
    thread.start()
    wait_for(lambda: scheduler.ticks == 1)
    thread.wake("job")
    wait_for(lambda: scheduler.looked == ["job"])
    thread.stop()
    thread.join()
    assert "scheduler: The store cannot be used: the connection was lost" in caplog.text
    assert "Traceback" not in caplog.text


class SlowDelivery(Delivery):
    """Takes commands from a list; a delivery lasts until it is released."""

    def __init__(self, commands: list[Command]) -> None:
        self.commands = commands
        self.release = threading.Event()
        self.delivering: list[str] = []
        self.settled: list[str] = []
        self.looks = 0
        self._guard = threading.Lock()

    def take(self, destination: str) -> Command | None:
        with self._guard:
            self.looks += 1
            return self.commands.pop(0) if self.commands else None

    def has_more(self, destination: str) -> bool:
        return bool(self.commands)

    def next_due_ms(self, destination: str) -> int | None:
        return None

    def deliver(self, command: Command) -> Reply:
        with self._guard:
            self.delivering.append(command.job_id)
        assert self.release.wait(DEADLINE_S)
        return Reply(retcode=0)

    def settle(self, command: Command, result: Reply | Exception) -> None:
        with self._guard:
            self.settled.append(command.job_id)


def command(job_id: str) -> Command:
    return Command(
        kind=CommandKind.CREATE_JOB,
        job_id=job_id,
        source=GUEST,
        destination=HOST,
        path="/x",
        body={},
        request_id=job_id,
        created_ms=0,
        deadline_ms=0,
    )


def test_outbox_senders_deliver_side_by_side_sleep_without_work_and_end() -> None:
    jobs = [f"j{n}" for n in range(OUTBOX_SENDERS)]
    delivery = SlowDelivery([command(job_id) for job_id in jobs])
    outbox_senders = OutboxSenders(delivery=delivery, store=MemoryStore(), clock=SystemClock())
    outbox_senders.wake("10000")
    wait_for(lambda: sorted(delivery.delivering) == jobs)
    delivery.release.set()
    wait_for(lambda: sorted(delivery.settled) == jobs)
    wait_for(lambda: delivery.looks >= 2 * OUTBOX_SENDERS)
    looks = delivery.looks
    threading.Event().wait(0.1)
    assert delivery.looks <= looks + OUTBOX_SENDERS, "outbox senders look again and again"
    delivery.commands.append(command("late"))
    outbox_senders.wake("10000")
    wait_for(lambda: "late" in delivery.settled)
    started = time.monotonic()
    outbox_senders.stop()
    assert time.monotonic() - started < DEADLINE_S
    outbox_senders.wake("10000")
    assert not [t.name for t in threading.enumerate() if t.name.startswith("outbox-sender")]
