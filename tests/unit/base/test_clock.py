"""Time: the clock of the machine, ages, and pauses that end when they are told to."""

from __future__ import annotations

import threading
import time

import pytest

from fedflow.base.clock import SystemClock, is_older, pause


def test_the_system_clock_tells_milliseconds_and_monotonic_seconds() -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 1_000
    first = clock.monotonic_s()
    assert isinstance(clock.now_ms(), int)
    assert clock.monotonic_s() >= first


@pytest.mark.parametrize(
    ("now_ms", "expected"), [(1_000, False), (1_500, False), (1_501, True), (500, False)]
)
def test_something_is_older_only_once_the_limit_has_passed(now_ms: int, expected: bool) -> None:
    assert is_older(1_000, 500, now_ms) is expected


def test_a_pause_ends_at_once_if_it_is_told_to_stop() -> None:
    stop = threading.Event()
    assert pause(0.001, stop) is False
    stop.set()
    started = time.monotonic()
    assert pause(600.0, stop) is True
    assert time.monotonic() - started < 60.0
