"""The threads of a server and what wakes them. They own no logic: they call use cases until asked
to stop.

| thread | calls | woken by |
|---|---|---|
| `scheduler` | `Scheduler.look_at`, `look_at_queue`, `tick` | events, and a slow tick for what an
event missed |
| `detector` | `Detector.tick` | a slow tick |
| `clock` | `SteadyClock.tick`, if the store answers | every second |
| `outbox-sender-<party>-<n>` | `Delivery.take`, `deliver`, `settle` | new commands, due retries |
| `heartbeat-<party>` | `Heartbeats.send` | its interval |
| `retention` | `Retention.look`, if the conf asks for it | a slow tick |
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from fedflow.app.core import Core
from fedflow.app.initiator.heartbeats import Heartbeats
from fedflow.app.initiator.scheduler import Scheduler
from fedflow.app.participant.detector import Detector
from fedflow.app.ports.store import Store
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.timing import Timing
from fedflow.app.queries.jobs import Jobs
from fedflow.base.clock import HOLD_S, Clock, SteadyClock
from fedflow.base.values import dataclass
from fedflow.server.loops import BUSY_S, Loop, faults_of
from fedflow.server.outbox_senders import OutboxSenders

logger = logging.getLogger(__name__)

_LOOK_S = 1.0


class NotifyLeader(Protocol):
    """Tells the server that leads what was stored here."""

    def __call__(
        self, *, jobs: Sequence[str] = (), queue: bool = False, destinations: Sequence[str] = ()
    ) -> None: ...


class Wakeups:
    """The `Wakeup` port of the use cases: passes events on to the threads.

    They run in the one server that leads; the other servers of the party notify it.
    """

    def __init__(self, changes: JobNotifier) -> None:
        self._changes = changes
        self._scheduler: SchedulerThread | None = None
        self._outbox_senders: OutboxSenders | None = None
        self.tell_leader: NotifyLeader | None = None

    def connect(self, *, scheduler: SchedulerThread, outbox_senders: OutboxSenders) -> None:
        """Name the threads; before that, events are left to the first tick."""
        self._scheduler = scheduler
        self._outbox_senders = outbox_senders

    def disconnect(self) -> None:
        """The threads are ending: this server does not lead any more."""
        self._scheduler = self._outbox_senders = None

    def schedule(self, job_id: str) -> None:
        if (scheduler := self._scheduler) is not None:
            scheduler.wake(job_id)
        elif self.tell_leader is not None:
            self.tell_leader(jobs=[job_id])

    def queue(self) -> None:
        if (scheduler := self._scheduler) is not None:
            scheduler.wake(None)
        elif self.tell_leader is not None:
            self.tell_leader(queue=True)

    def outbox(self, destinations: Sequence[str]) -> None:
        if (outbox_senders := self._outbox_senders) is not None:
            for party_id in destinations:
                outbox_senders.wake(party_id)
        elif self.tell_leader is not None:
            self.tell_leader(destinations=destinations)

    def job_changed(self, job_id: str) -> None:
        self._changes.notify(job_id)


class SchedulerThread(Loop):
    """Looks at jobs that something happened to, and at all of them every `interval_s`."""

    def __init__(self, scheduler: Scheduler, *, interval_s: float, clock: Clock) -> None:
        super().__init__("scheduler", longest_s=interval_s + BUSY_S)
        self._scheduler = scheduler
        self._interval_s = interval_s
        self._clock = clock
        self._condition = threading.Condition()
        self._jobs: dict[str, None] = {}
        self._queue = False
        self._next_tick_s = 0.0

    def wake(self, job_id: str | None) -> None:
        """Look soon at a job, or at the queue if None."""
        with self._condition:
            if job_id is None:
                self._queue = True
            else:
                self._jobs[job_id] = None
            self._condition.notify()

    def stop(self) -> None:
        super().stop()
        with self._condition:
            self._condition.notify()

    def _body(self) -> None:
        with self._condition:
            wait_s = self._next_tick_s - self._clock.monotonic_s()
            retry_ms = self._scheduler.next_retry_ms()
            if retry_ms is not None:
                wait_s = min(wait_s, (retry_ms - self._clock.now_ms()) / 1000)
            if not self._jobs and not self._queue and wait_s > 0 and not self._stop.is_set():
                self._condition.wait(wait_s)
            jobs, self._jobs = list(self._jobs), {}
            queue, self._queue = self._queue, False
        if retry_ms is not None and self._clock.now_ms() >= retry_ms:
            queue = True
        if self._stop.is_set():
            return
        if self._clock.monotonic_s() >= self._next_tick_s:
            self._next_tick_s = self._clock.monotonic_s() + self._interval_s
            self._scheduler.tick()
            return
        self._scheduler.look_at(jobs)
        if queue:
            self._scheduler.look_at_queue()


class DetectorThread(Loop):
    """Repairs what no event tells of; `on_look` is called every second."""

    def __init__(
        self, detector: Detector, *, interval_s: float, on_look: Callable[[], None]
    ) -> None:
        super().__init__("detector", longest_s=_LOOK_S + BUSY_S)
        self._detector = detector
        self._interval_s = interval_s
        self._on_look = on_look
        self._slept_s = 0.0

    def _body(self) -> None:
        if self._stop.wait(_LOOK_S):
            return
        self._on_look()
        self._slept_s += _LOOK_S
        if self._slept_s >= self._interval_s:
            self._slept_s = 0.0
            self._detector.tick()


class ClockThread(Loop):
    """Lets the time of the server go on as long as the process runs and its store answers."""

    def __init__(
        self, clock: SteadyClock, *, store: Store, keep: Callable[[], None] = lambda: None
    ) -> None:
        """`keep` is called after each beat, to store the time for the next server."""
        super().__init__("clock", longest_s=_LOOK_S + BUSY_S)
        self._clock = clock
        self._store = store
        self._keep = keep
        lived = clock.lived()
        self._behind_ms = lived.wall_ms - lived.steady_ms

    def stop(self) -> None:
        super().stop()
        self._clock.run_freely()

    def _body(self) -> None:
        with self._store.read() as tx:
            tx.leases.get("clock")
        reading = self._clock.tick()
        if reading.still_s > 0:
            logger.warning(
                "This server, or its store, stood still for %.0f s: that time does not count",
                reading.still_s + HOLD_S,
                extra={"action": "stood_still"},
            )
        step_ms = reading.behind_ms - self._behind_ms - reading.still_s * 1000
        if abs(step_ms) > HOLD_S * 1000:
            logger.warning(
                "The clock of this machine was put %s by %.0f s: this server comes after it slowly,"
                " so that nothing expires at once",
                "forward" if step_ms > 0 else "back",
                abs(step_ms) / 1000,
                extra={"action": "clock_stepped"},
            )
        self._behind_ms = reading.behind_ms
        self._keep()
        self._stop.wait(_LOOK_S)


class RetentionThread(Loop):
    """Deletes old jobs, some at a time."""

    def __init__(self, look: Callable[[], bool], *, interval_s: float) -> None:
        """`look` tells whether there may be more; else the next round begins after `interval_s`."""
        super().__init__("retention")
        self._look = look
        self._interval_s = interval_s

    def _body(self) -> None:
        self._stop.wait(_LOOK_S if self._look() else self._interval_s)


class HeartbeatThread(Loop):
    """Sends heartbeats to one party while jobs are shared with it, or while it is not known how it
    stands.
    """

    def __init__(
        self, party_id: str, *, heartbeats: Heartbeats, jobs: Jobs, timing: Timing
    ) -> None:
        super().__init__(f"heartbeat-{party_id}")
        self._party_id = party_id
        self._heartbeats = heartbeats
        self._jobs = jobs
        self._timing = timing

    def _body(self) -> None:
        self._heartbeats.send(self._party_id)
        if self._heartbeats.collects(self._party_id):
            self._stop.wait(self._timing.collect_ms / 1000)
            return
        watched = self._jobs.is_watched()
        pause_ms = self._timing.watched_heartbeat_ms if watched else self._timing.heartbeat_ms
        rounds = max(1, pause_ms // self._timing.watched_heartbeat_ms)
        for _ in range(rounds):
            if self._stop.wait(self._timing.watched_heartbeat_ms / 1000):
                return
            if self._jobs.is_watched() or self._heartbeats.collects(self._party_id):
                return


class HeartbeatThreads:
    """One heartbeat thread per party that jobs are shared with, or that a call is to tell of."""

    def __init__(self, *, heartbeats: Heartbeats, jobs: Jobs, timing: Timing) -> None:
        self._heartbeats = heartbeats
        self._jobs = jobs
        self._timing = timing
        self._threads: dict[str, HeartbeatThread] = {}

    def look(self) -> None:
        """Have a running heartbeat thread for every party that needs one, stop the others."""
        wanted = {*self._heartbeats.remote_parties(), *self._heartbeats.unsure_parties()}
        for party_id in wanted - self._threads.keys():
            self._threads[party_id] = HeartbeatThread(
                party_id, heartbeats=self._heartbeats, jobs=self._jobs, timing=self._timing
            )
        for thread in self._threads.values():
            thread.start()
        for party_id in self._threads.keys() - wanted:
            self._threads.pop(party_id).stop()

    def faults(self) -> list[str]:
        """Return which heartbeat threads do not run."""
        return faults_of([*self._threads.values()])

    def stop(self) -> None:
        """End all heartbeat threads."""
        for thread in self._threads.values():
            thread.stop()
        for thread in self._threads.values():
            thread.join()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Running:
    scheduler: SchedulerThread
    outbox_senders: OutboxSenders
    heartbeat_threads: HeartbeatThreads
    retention: RetentionThread | None


class LeaderThreads:
    """What runs only in the server that leads its party's servers."""

    def __init__(
        self, core: Core, *, interval_s: float, wakeups: Wakeups,
        retention: Callable[[], RetentionThread] | None = None,
    ) -> None:  # fmt: skip
        """`retention` makes the thread that deletes old jobs; None: they stay."""
        self._core = core
        self._retention = retention
        self._interval_s = interval_s
        self._wakeups = wakeups
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def start(self) -> None:
        """Start all of them; they look at everything that an earlier leader left.

        What the system has no thread for now is started by `look`. Raises: StoreUnavailable: then
        `look` goes on, too.
        """
        with self._lock:
            if self._running is None:
                self._running = self._made()
        self.look()

    def _made(self) -> _Running:
        core, kernel = self._core, self._core.kernel
        running = _Running(
            scheduler=SchedulerThread(
                core.scheduler, interval_s=self._interval_s, clock=kernel.clock
            ),
            outbox_senders=OutboxSenders(
                delivery=core.delivery, store=kernel.store, clock=kernel.clock
            ),
            heartbeat_threads=HeartbeatThreads(
                heartbeats=core.heartbeats, jobs=core.jobs, timing=kernel.timing
            ),
            retention=self._retention() if self._retention is not None else None,
        )
        self._wakeups.connect(scheduler=running.scheduler, outbox_senders=running.outbox_senders)
        return running

    def look(self) -> None:
        """Start and wake what jobs and commands need, in case an event was missed or a thread is
        gone.
        """
        with self._lock:
            running = self._running
            if running is not None:
                running.scheduler.start()
                if running.retention is not None:
                    running.retention.start()
                running.heartbeat_threads.look()
                running.outbox_senders.look()

    def faults(self) -> list[str]:
        """Return which of them do not do their work; a server that follows has none."""
        running = self._running
        if running is None:
            return []
        loops = [running.scheduler, *((running.retention,) if running.retention else ())]
        own = [*running.outbox_senders.faults(), *running.heartbeat_threads.faults()]
        return [*faults_of(loops), *own]

    def stop(self) -> None:
        """End all of them, after the calls that are under way."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        self._wakeups.disconnect()
        if running.retention is not None:
            running.retention.stop()
            running.retention.join()
        running.scheduler.stop()
        running.scheduler.join()
        running.heartbeat_threads.stop()
        running.outbox_senders.stop()
