"""Views of metrics that are kept for the next look, and how often those of a running task are made
anew: it costs time to read many points, and many people may look.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from fedflow.base.clock import Clock, SystemClock
from fedflow.domain.records import Metric, TaskKey, TaskRecord
from fedflow.domain.states import TaskStatus
from fedflow.web.board.shapes.charts import Group

CHEAP: Final = 2_000  #: views of at most so many points are made anew for every new point
POINTS_PER_S: Final = 1_000  #: others are shown a second for so many points that they have

_KEPT: Final = 8
_NOTED: Final = 256

_K = TypeVar("_K")
_V = TypeVar("_V")
_Name = tuple[TaskKey, TaskStatus, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Made:
    """When the views of an attempt were made, of how many points, and of which mark."""

    at_s: float
    points: int
    status: TaskStatus
    mark: int


class KeptViews:
    """Views of the attempts that were looked at last. Safe for threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Name, tuple[Group, ...]] = OrderedDict()
        self._made: OrderedDict[TaskKey, _Made] = OrderedDict()

    def patient(self, task: TaskRecord, newest: int) -> int:
        """Return the mark that is to be shown: the newest, or that of views of many points that
        are new enough.
        """
        with self._lock:
            made = self._made.get(task.key)
        if made is None or made.points <= CHEAP or made.status != task.party_status:
            return newest
        is_new = self._clock.monotonic_s() - made.at_s < made.points / POINTS_PER_S
        return made.mark if is_new else newest

    def get(
        self, task: TaskRecord, mark: int, language: str, read: Callable[[], list[Metric]],
        shape: Callable[[list[Metric]], tuple[Group, ...]],
    ) -> tuple[Group, ...]:  # fmt: skip
        """Return the views of a mark in a language; if they are not kept, what `shape` makes of
        the metrics that `read` gives.
        """
        name = (task.key, task.party_status, mark, language)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        metrics = read()
        views = shape(metrics)
        made = _Made(
            at_s=self._clock.monotonic_s(), points=sum(len(m.points) for m in metrics),
            status=task.party_status, mark=mark,
        )  # fmt: skip
        with self._lock:
            _put(self._kept, name, views, _KEPT)
            _put(self._made, task.key, made, _NOTED)
        return views


def _put(kept: OrderedDict[_K, _V], key: _K, value: _V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
