"""What happens to a job while somebody watches, told from one look at it to the next."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.states import TaskStatus
from fedflow.wire.api.jobs import JobStatusView, Reason, TaskView

_STEP: Final = 0.05  #: progress is told when it grew by so much


class EventKind(StrEnum):
    """What an event says."""

    JOB_MOVED = "job moved"  #: another status, or another reason why it waits
    TASK_STARTED = "task started"
    TASK_PROGRESS = "task progress"
    TASK_ENDED = "task ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvent:
    """One thing that happened to a job or to one site's share of a task."""

    kind: EventKind
    job_id: str
    status: str  #: of the job or of the task
    progress: float = 0.0  #: between 0 and 1
    component: str | None = None  #: None: the event is about the job
    site: str | None = None  #: `role-party_id`
    version: int | None = None  #: of the task: counts its attempts
    at_ms: int | None = None  #: when it happened, as far as the server tells
    reason: Reason | None = None

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        if self.component is None:
            return f"job {self.job_id} {self.status}{why}"
        percent = f" {self.progress:.0%}" if self.kind is EventKind.TASK_PROGRESS else ""
        return f"{self.component} at {self.site} {self.status}{percent}{why}"

    def __repr__(self) -> str:
        return f"<{self.kind}: {self}>"


def events_between(before: JobStatusView | None, after: JobStatusView) -> Iterator[JobEvent]:
    """Yield what happened between two looks at a job; without an earlier one, all until now.

    The job's own event comes last when it ended, else first. Nothing is told twice; what began and
    ended in between is told as both.
    """
    moved = before is None or (before.status, before.reason) != (after.status, after.reason)
    own = [_job_event(after)] if moved else []
    if not after.is_final:
        yield from own
    known = {} if before is None else {(t.component, t.site): t for t in before.tasks}
    for task in after.tasks:
        yield from _task_events(after.job_id, known.get((task.component, task.site)), task)
    if after.is_final:
        yield from own


def _task_events(job_id: str, before: TaskView | None, after: TaskView) -> Iterator[JobEvent]:
    old = before if before is not None and before.version == after.version else None
    was_running = old is not None and old.started_ms is not None
    if after.started_ms is not None and not was_running:
        yield _task_event(job_id, after, EventKind.TASK_STARTED, TaskStatus.RUNNING.value)
    if after.ended_ms is not None:
        if old is None or old.ended_ms is None or old.status != after.status:
            yield _task_event(job_id, after, EventKind.TASK_ENDED, after.status)
    elif after.progress and int(after.progress / _STEP) > int(
        (old.progress if old is not None else 0.0) / _STEP
    ):
        yield _task_event(job_id, after, EventKind.TASK_PROGRESS, after.status)


def _job_event(view: JobStatusView) -> JobEvent:
    return JobEvent(
        kind=EventKind.JOB_MOVED,
        job_id=view.job_id,
        status=view.status,
        progress=view.progress / 100,
        at_ms=view.ended_ms or view.started_ms or view.created_ms,
        reason=view.reason,
    )


def _task_event(job_id: str, task: TaskView, kind: EventKind, status: str) -> JobEvent:
    ended = kind is EventKind.TASK_ENDED
    at_ms = {EventKind.TASK_STARTED: task.started_ms, EventKind.TASK_ENDED: task.ended_ms}
    return JobEvent(
        kind=kind,
        job_id=job_id,
        status=status,
        progress=task.progress,
        component=task.component,
        site=task.site,
        version=task.version,
        at_ms=at_ms.get(kind),
        reason=task.reason if ended else None,
    )
