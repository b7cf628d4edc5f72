"""Waiting in real time, for a resource outside that cannot notify, and how long work took."""

from fedflow.base.clock import SystemClock, pause

__all__ = ["monotonic_s", "pause"]


def monotonic_s() -> float:
    """Return seconds of a clock that never goes back; only differences mean anything."""
    return SystemClock().monotonic_s()
