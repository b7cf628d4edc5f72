"""Ends processes step by step: SIGTERM to the group, repeated during a grace, then SIGKILL.

SIGTERM is repeated because Python can miss one: a handler runs between two bytecodes, so a signal
that comes just before the main thread blocks in a system call is looked at when that call returns.

One thread serves all stops: it sleeps until the earliest deadline of a heap.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import signal
import threading

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.values import dataclass
from fedflow.domain.records import Handle
from fedflow.executor.processes import group_is_alive, signal_group

logger = logging.getLogger(__name__)

_REPEAT_S = 0.5  #: between two SIGTERM of one stop
_RECHECK_S = 5.0  #: after SIGKILL, seconds until a survivor is reported
_LOOK_S = 0.05  #: while closing, seconds between two looks whether all have ended


@dataclass(frozen=True, order=True, slots=True)
class _Rung:
    """The next step of one stop; `number` keeps equal deadlines in order."""

    due_s: float
    number: int
    kill_s: float  #: when SIGKILL is due
    killed: bool
    pid: int
    start_time: int
    host: str

    @property
    def handle(self) -> Handle:
        return Handle(pid=self.pid, start_time=self.start_time, host=self.host)


class Termination:
    """Stops process groups in the background."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._heap: list[_Rung] = []
        self._numbers = itertools.count()
        self._closing = False
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="executor-stops", daemon=True)
        self._thread.start()

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        """Ask a process group to end now, and end it after `grace_s` seconds. Returns at once.

        A second stop of the same process can shorten the grace, not lengthen it. A process that is
        not the one of `handle` any more is left alone.
        """
        if not signal_group(handle, signal.SIGTERM):
            return
        # A stopped (SIGSTOP, Ctrl-Z) process would not see the first signal before the last one.
        signal_group(handle, signal.SIGCONT)
        with self._changed:
            now_s = self._clock.monotonic_s()
            self._push_next(handle, now_s, kill_s=now_s + grace_s)
            self._changed.notify()

    def tick(self, now_s: float) -> float | None:
        """Take every step that is due; return when the next one is, monotonic seconds, or None."""
        while (rung := self._pop_due(now_s)) is not None:
            if rung.killed:
                if group_is_alive(rung.handle):
                    logger.error(
                        "Process %s is still there after SIGKILL; it may hang in the kernel.",
                        rung.pid,
                        extra={"action": "stop", "pid": rung.pid},
                    )
            elif not group_is_alive(rung.handle):
                continue
            elif now_s < rung.kill_s:
                signal_group(rung.handle, signal.SIGTERM)
                with self._changed:
                    self._push_next(rung.handle, now_s, kill_s=rung.kill_s)
            elif signal_group(rung.handle, signal.SIGKILL):
                logger.info(
                    "Process %s did not end in its grace; it was killed.",
                    rung.pid,
                    extra={"action": "kill", "pid": rung.pid},
                )
                with self._changed:
                    self._push(rung.handle, now_s + _RECHECK_S, kill_s=rung.kill_s, killed=True)
        with self._changed:
            return self._heap[0].due_s if self._heap else None

    def close(self, *, grace_s: float) -> None:
        """Finish the stops that are under way within `grace_s` seconds, then end the thread."""
        deadline_s = self._clock.monotonic_s() + grace_s
        with self._changed:
            waiting = [r for r in self._heap if not r.killed]
            self._heap.clear()
            for rung in waiting:
                kill_s = min(rung.kill_s, deadline_s)
                self._push(rung.handle, min(rung.due_s, kill_s), kill_s=kill_s, killed=False)
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _push_next(self, handle: Handle, now_s: float, *, kill_s: float) -> None:
        self._push(handle, min(now_s + _REPEAT_S, kill_s), kill_s=kill_s, killed=False)

    def _push(self, handle: Handle, due_s: float, *, kill_s: float, killed: bool) -> None:
        rung = _Rung(
            due_s=due_s,
            number=next(self._numbers),
            kill_s=kill_s,
            killed=killed,
            pid=handle.pid,
            start_time=handle.start_time,
            host=handle.host,
        )
        heapq.heappush(self._heap, rung)

    def _pop_due(self, now_s: float) -> _Rung | None:
        with self._changed:
            if self._heap and self._heap[0].due_s <= now_s:
                return heapq.heappop(self._heap)
            return None

    def _run(self) -> None:
        while True:
            try:
                self.tick(self._clock.monotonic_s())
            except Exception:
                logger.exception("A stop failed.", extra={"action": "stop"})
            with self._changed:
                if self._closing:
                    self._heap = [
                        r for r in self._heap if not r.killed and group_is_alive(r.handle)
                    ]
                    heapq.heapify(self._heap)
                    if not self._heap:
                        return
                self._changed.wait(self._wait_s())

    def _wait_s(self) -> float | None:
        """Return how long the thread may sleep; while closing it looks often, to end early."""
        if not self._heap:
            return None
        wait_s = max(0.0, self._heap[0].due_s - self._clock.monotonic_s())
        return min(wait_s, _LOOK_S) if self._closing else wait_s
