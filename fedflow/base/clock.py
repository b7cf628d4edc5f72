"""The only place that reads a clock or sleeps."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Tells wall and monotonic time."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never goes back; only differences mean anything."""


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


def is_older(since_ms: int, limit_ms: int, now_ms: int) -> bool:
    """Tell whether more than `limit_ms` milliseconds passed between `since_ms` and `now_ms`."""
    return now_ms - since_ms > limit_ms


def pause(seconds: float, stop: threading.Event) -> bool:
    """Wait `seconds`, or less if `stop` is set meanwhile; tell whether it was set."""
    return stop.wait(seconds)
