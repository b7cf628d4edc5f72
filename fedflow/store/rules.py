"""Rules that both implementations of the store share."""

from __future__ import annotations

from typing import Final

from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.phases import SitePhase
from fedflow.domain.states import TASK_END_EVENT, TASK_MOVES, TaskEvent, TaskStatus

_NOT_AGREED: Final = frozenset({SitePhase.CREATING, SitePhase.REFUSED})
_EVENTS: Final = {TaskStatus.RUNNING: TaskEvent.STARTED, **TASK_END_EVENT}


def moves(current: TaskStatus, told: TaskStatus) -> bool:
    """Return whether a party task moves from `current` to `told`; late reports do not move it."""
    event = _EVENTS.get(told)
    return event is not None and TASK_MOVES.get((current, event)) is told


def advances(
    current: TaskStatus, told: TaskStatus, *, stored: float, progress: float | None
) -> bool:
    """Tell whether a report about a running party task brings nothing but greater progress."""
    return (
        current is told
        and told is TaskStatus.RUNNING
        and progress is not None
        and progress > stored
    )


def may_lack_job(epoch: int, phase: SitePhase) -> bool:
    """Tell whether a site may have a job or not: in the first run it did not answer, or refused, or
    an elastic job went on without it.
    """
    return phase is SitePhase.ABSENT or (epoch == 0 and phase in _NOT_AGREED)


def answered_twice(request_id: str) -> StoreUnavailable:
    """Return the error that undoes the second of two servers that carry out one request."""
    return StoreUnavailable(
        reason=f"request {request_id} has just been answered elsewhere; ask again"
    )
