"""A tracker that remembers what a component recorded."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedflow.sdk.arguments import check_metric


@dataclass(slots=True)
class RecordedMetric:
    """All that was recorded for one (namespace, name)."""

    metric_type: str  #: how the board draws it
    points: list[tuple[Any, Any]] = field(default_factory=list)  #: in the order of the calls
    meta: dict[str, Any] = field(default_factory=dict)  #: what all calls said


class RecordingTracker:
    """Satisfies `fedflow.sdk.Tracker` and keeps everything in memory."""

    def __init__(self) -> None:
        self.metrics: dict[tuple[str, str], RecordedMetric] = {}
        self.progresses: list[float] = []
        self._lock = threading.Lock()

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Add points and meta.

        Raises: TypeError: a value is not plain JSON, or a point no pair. ValueError: a number is
            not finite, or the metric had another type before.
        """
        pairs = check_metric(f"{namespace}/{name}", points, meta)
        with self._lock:
            found = self.metrics.setdefault((namespace, name), RecordedMetric(metric_type))
            if found.metric_type != metric_type:
                raise ValueError(f"{namespace}/{name} is {found.metric_type}, not {metric_type}")
            found.points.extend(pairs)
            found.meta.update(meta or {})

    def progress(self, done: float) -> None:
        """Remember `done`. Raises: ValueError: it is not within 0 to 1."""
        if not 0.0 <= done <= 1.0:
            raise ValueError(f"progress {done} is not within 0 to 1")
        with self._lock:
            self.progresses.append(done)
