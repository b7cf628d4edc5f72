"""Lets a request wait until a job changed: whoever waits is told of its own job only, and the
predicate is the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fedflow.base.clock import Clock
from fedflow.base.errors import StoreUnavailable

_LOOK_S = 0.5  #: a change that nobody told of is seen after this time


class Changes:
    """Tells waiting requests that their job changed; what changed, they look up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, list[threading.Event]] = {}

    def notify(self, job_id: str) -> None:
        """Wake everybody who waits for this job."""
        with self._lock:
            for changed in self._waiting.get(job_id, ()):
                changed.set()

    def wait_until(self, reached: Callable[[], bool], *, job_id: str, timeout_s: float) -> bool:
        """Return True as soon as `reached()` holds for a job, False after `timeout_s`.

        Raises: StoreUnavailable: `reached` still raises it at the end; before, it is asked again.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        changed = threading.Event()
        with self._lock:
            self._waiting.setdefault(job_id, []).append(changed)
        try:
            while True:
                left_s = deadline_s - self._clock.monotonic_s()
                try:
                    if reached():
                        return True
                except StoreUnavailable:  # a lost connection says nothing about the job
                    if left_s <= 0:
                        raise
                if left_s <= 0:
                    return False
                changed.wait(min(left_s, _LOOK_S))
                changed.clear()
        finally:
            with self._lock:
                self._waiting[job_id].remove(changed)
                if not self._waiting[job_id]:
                    del self._waiting[job_id]
