"""The time of a simulated world, and a clock per server that is never quite right."""

from __future__ import annotations

from dataclasses import dataclass, field

BEGIN_MS = 1_800_000_000_000  #: the wall clock at time 0 of a world


@dataclass
class Time:
    """What time it really is: milliseconds since the world began."""

    ms: int = 0


@dataclass
class FakeClock:
    """The clock port of one server."""

    time: Time = field(default_factory=Time)
    offset_ms: int = 0  #: how far its wall clock is ahead; changes when it is set

    def now_ms(self) -> int:
        return BEGIN_MS + self.time.ms + self.offset_ms

    def monotonic_s(self) -> float:
        return self.time.ms / 1000
