"""A limit of rows per second: a token bucket, which keeps two numbers and no ids."""

from __future__ import annotations

import threading

from fedflow.base.clock import Clock


class Rate:
    """Counts rows against a limit. Thread-safe.

    Up to `burst` rows pass at once, and `per_second` on average. More than `burst` at once pass
    when nothing was used lately; what is missing is then owed, so the average is kept.
    """

    def __init__(self, per_second: float, burst: float, clock: Clock) -> None:
        """`per_second` and `burst` are more than 0."""
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left = burst  #: negative: owed
        self._at_s = clock.monotonic_s()

    def take(self, number: int) -> bool:
        """Count `number` rows; False, and nothing is counted: they are too many now."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            gained = max(now_s - self._at_s, 0.0) * self._per_second
            self._left = min(self._left + gained, self._burst)
            self._at_s = now_s
            if self._left < min(number, self._burst):
                return False
            self._left -= number
            return True
