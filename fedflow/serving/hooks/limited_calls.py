"""Calls of one hook, each with a time limit, in a few threads of the hook's own.

Python cannot end a thread. So a call that hangs keeps its thread, and only its caller goes on.
After some calls in a row that hang, the hook is off: rows fail at once. From time to time one call
tries it, unless all its threads hang. So a hook never holds more threads than these.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from fedflow.base.clock import Clock

THREADS: Final = 4  #: of a hook
HANGS: Final = 3  #: in a row, after which a hook is off
PAUSE_S: Final = 30.0  #: until one call tries a hook that is off

T = TypeVar("T")


class HookTooSlow(Exception):
    """The time limit of a call has passed."""


class HookIsOff(Exception):
    """The hook is not called, as it hung several times in a row."""


class _Call:
    """A call that waits for a thread, or is under way."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.done = threading.Event()
        self.begun = False
        self.left = False  #: nobody waits for it
        self.result: Any = None
        self.error: BaseException | None = None


class LimitedCalls:
    """The calls of one hook. Thread-safe."""

    def __init__(self, name: str, *, limit_s: float, clock: Clock) -> None:
        self._name = name
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._threads = 0
        self._idle = 0
        self._hanging = 0  #: calls under way that nobody waits for
        self._in_a_row = 0
        self._off_until_s: float | None = None
        self._closed = False

    def call(self, work: Callable[[], T]) -> T:
        """Return what `work` returns.

        Raises: HookTooSlow, HookIsOff, RuntimeError: no thread can be started; what `work` raises.
        """
        call = _Call(work)
        with self._lock:
            self._check_on()
            self._start_thread()
            self._waiting.append(call)
            self._lock.notify()
        if not call.done.wait(self._limit_s):
            self._leave(call)
        if not call.done.is_set():
            raise HookTooSlow
        with self._lock:
            self._in_a_row, self._off_until_s = 0, None
        error, call.error = call.error, None
        if error is not None:
            raise error
        result: T = call.result
        return result

    def close(self) -> None:
        """Let the threads end once they have nothing to do; calls that still come are answered.

        So a request that began before a service changed is answered as it would have been.
        """
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def _check_on(self) -> None:
        """Raises: HookIsOff. Else, if it was off, this call is the one that tries it."""
        if self._hanging >= THREADS:
            raise HookIsOff
        if self._off_until_s is None:
            return
        now_s = self._clock.monotonic_s()
        if now_s < self._off_until_s:
            raise HookIsOff
        self._off_until_s = now_s + PAUSE_S

    def _start_thread(self) -> None:
        """Raises: RuntimeError: there is none, and none can be started."""
        if self._idle > len(self._waiting) or self._threads >= THREADS:
            return
        thread = threading.Thread(
            target=self._serve, name=f"fedflow-hook-{self._name}"[:60], daemon=True
        )
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            if self._threads <= self._hanging:
                raise RuntimeError("no thread can be started") from None
            return
        self._threads += 1

    def _leave(self, call: _Call) -> None:
        """Wait no longer for a call."""
        with self._lock:
            if call.done.is_set():
                return
            if not call.begun:
                self._waiting.remove(call)
                return
            call.left = True
            self._hanging += 1
            self._in_a_row += 1
            if self._in_a_row >= HANGS:
                self._off_until_s = self._clock.monotonic_s() + PAUSE_S

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                self._lock.wait_for(lambda: self._waiting or self._closed)
                self._idle -= 1
                if not self._waiting:
                    self._threads -= 1
                    return
                call = self._waiting.popleft()
                call.begun = True
            try:
                call.result = call.work()
            except BaseException as exc:  # noqa: BLE001  the caller gets it
                call.error = exc
            with self._lock:
                call.done.set()
                self._hanging -= call.left
            del call
