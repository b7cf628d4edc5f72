"""How long the parts of a round took at this party."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fedflow.sdk import Context
from fedflow.sdk.clock import monotonic_s

ENCRYPTION: Final = "encryption"
SUMS: Final = "sums"
PACKING: Final = "packing"
OPENING: Final = "opening"
EXCHANGE: Final = "exchange"  #: waiting for other parties, while these compute


class PartSeconds:
    """Adds up the seconds of each part of a round; parts do not overlap."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the time of the block as that of `part`."""
        start_s = monotonic_s()
        try:
            yield
        finally:
            self._seconds[part] = self._seconds.get(part, 0.0) + monotonic_s() - start_s

    def add(self, other: PartSeconds) -> None:
        """Add those of a piece of the round."""
        for part, seconds in other._seconds.items():
            self._seconds[part] = self._seconds.get(part, 0.0) + seconds

    def record(self, ctx: Context, iteration: int, *, metric_type: str = "ROUND_SECONDS") -> None:
        """Record the parts of `iteration` (from 0), and begin the next one."""
        for part, seconds in self._seconds.items():
            name = f"{part}_seconds"
            ctx.tracker.metric(
                "train",
                name,
                metric_type=metric_type,
                points=[(iteration, round(seconds, 3))],
                meta={
                    "name": name,
                    "metric_type": metric_type,
                    "unit_name": "s",
                    "curve_name": part,
                },
            )
        self._seconds = {}
