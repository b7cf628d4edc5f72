"""How often the views of a running task's metrics are made anew: it costs time to read many points,
and many people may look.
"""

from __future__ import annotations

from typing import Final

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.values import dataclass
from fedflow.board.recent import RecentValues
from fedflow.domain.records import TaskKey, TaskRecord
from fedflow.domain.states import TaskStatus

CHEAP: Final = 2_000  #: views of at most so many points are made anew for every new point
POINTS_PER_S: Final = 1_000  #: others are shown a second for so many points that they have

_NOTED: Final = 256  #: attempts


class MetricPace:
    """Knows when the views of attempts were made, and of what. Safe for threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._notes: RecentValues[TaskKey, _Note] = RecentValues(_NOTED)

    def mark_shown(self, task: TaskRecord, newest: int) -> int:
        """Return the mark that is to be shown: the newest, or that of views of many points that
        are new enough.
        """
        made = self._notes.get(task.key, _Note).made
        if made is None or made.points <= CHEAP or made.status != task.party_status:
            return newest
        is_new = self._clock.monotonic_s() - made.at_s < made.points / POINTS_PER_S
        return made.mark if is_new else newest

    def note(self, task: TaskRecord, mark: int, *, points: int) -> None:
        """Note that the views of a mark were made, of so many points."""
        self._notes.get(task.key, _Note).made = _Made(
            at_s=self._clock.monotonic_s(), points=points, status=task.party_status, mark=mark
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Made:
    at_s: float
    points: int
    status: TaskStatus
    mark: int


@dataclass(slots=True)
class _Note:
    made: _Made | None = None  #: the views of an attempt that were made last
