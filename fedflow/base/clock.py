"""The only place that reads a clock or sleeps."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from math import inf
from typing import Final, Protocol

from fedflow.base.values import dataclass


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


HOLD_S: Final = 5.0  #: a server whose clock thread is silent for longer stands still
_RATE: Final = 0.25  #: how much faster or slower than real time a steady clock may run


@dataclass(frozen=True, slots=True)
class ClockState:
    """What a heartbeat of a `SteadyClock` found."""

    still_s: float  #: seconds that do not count, as the server stood still
    behind_ms: int  #: how far the steady time is behind the wall clock; negative: ahead


@dataclass(frozen=True, slots=True)
class LivedTime:
    """A steady time and the wall clock's at the same moment, ms: kept for the next server."""

    steady_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class _Since:
    """The steady time at a moment, and how it goes on from there."""

    source_s: float  #: monotonic
    now_ms: float
    rate: float  #: how much faster than real time it runs
    hold_s: float = HOLD_S  #: it stands still after this time


class SteadyClock:
    """Time as a server lived through it: the wall clock without steps and without standstills.

    Something calls `tick` about every second, as long as the server works. The time goes on for
    `HOLD_S` seconds after the last beat and then waits for the next: a server that was stopped, or
    whose database hung, takes none of that for the silence of others, and no deadline passes
    meanwhile. A step of the wall clock has no effect at once either. Both are made up for by
    running at most a quarter faster or slower than real time, until wall and steady time agree.
    `now_ms` never goes back. Until the first beat it is the source's, unless it was resumed;
    `monotonic_s` always is.
    """

    def __init__(self, source: Clock) -> None:
        self._source = source
        self._since: _Since | None = None

    def now_ms(self) -> int:
        since = self._since
        if since is None:
            return self._source.now_ms()
        return int(_at(since, self._source.monotonic_s()))

    def monotonic_s(self) -> float:
        return self._source.monotonic_s()

    def tick(self) -> ClockState:
        """Let time go on. One thread calls it."""
        since, source_s = self._since, self._source.monotonic_s()
        if since is None:
            self._since = _Since(source_s, self._source.now_ms(), 0.0)
            return ClockState(0.0, 0)
        now_ms = _at(since, source_s)
        behind_ms = self._source.now_ms() - now_ms
        rate = max(-_RATE, min(_RATE, behind_ms / 1000))
        self._since = _Since(source_s, now_ms, rate)
        return ClockState(max(0.0, source_s - since.source_s - since.hold_s), int(behind_ms))

    def resume(self, lived: LivedTime) -> None:
        """Go on from the time of an earlier server, before the first beat. What passed on the wall
        clock since then counts; if that was put back meanwhile, nothing passed.
        """
        passed_ms = max(0, self._source.now_ms() - lived.wall_ms)
        now_ms = lived.steady_ms + passed_ms
        self._since = _Since(self._source.monotonic_s(), now_ms, 0.0, hold_s=inf)

    def lived(self) -> LivedTime:
        """Return this time and the wall clock's, as they are now."""
        return LivedTime(self.now_ms(), self._source.now_ms())

    def run_freely(self) -> None:
        """Let time go on without beats: the server ends."""
        if self._since is not None:
            self._since = replace(self._since, hold_s=inf)


def _at(since: _Since, source_s: float) -> float:
    return since.now_ms + min(source_s - since.source_s, since.hold_s) * 1000 * (1 + since.rate)


def is_older(since_ms: int, limit_ms: int, now_ms: int) -> bool:
    """Tell whether more than `limit_ms` milliseconds passed between `since_ms` and `now_ms`."""
    return now_ms - since_ms > limit_ms


def pause(seconds: float, stop: threading.Event) -> bool:
    """Wait `seconds`, or less if `stop` is set meanwhile; tell whether it was set."""
    return stop.wait(seconds)
