"""The state machines of jobs and tasks: one table each, and one reader.

A *job* is known at every site; only the initiator decides its status, the others follow. A *task*
has a federated status (the initiator computes it from the parties) and at each site a party status
(the site is its authority); both obey the same table. Names are FATE's
(`docs/reference/jobs.md#states`); the moves from waiting to an interrupted status are ours, so that
a task that never ran can end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from fedflow.base.errors.jobs import IllegalMove


class JobStatus(StrEnum):
    """Where a job stands."""

    READY = "ready"  #: is being created at its sites
    WAITING = "waiting"  #: accepted everywhere, waits for resources
    RUNNING = "running"  #: holds resources at every site
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    FAILED = "failed"
    SUCCESS = "success"


class JobEvent(StrEnum):
    """What moves a job."""

    QUEUED = "queued"
    STARTED = "started"
    HELD = "held"  #: nothing of it runs and nothing may start: it gave its cores back
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"
    OVERRULED_SUCCESS = (
        "overruled_success"  #: the initiator returned after this site had given it up
    )
    OVERRULED_CANCELED = "overruled_canceled"
    OVERRULED_TIMEOUT = "overruled_timeout"
    RERUN = "rerun"  #: the initiator begins a new epoch of an ended job
    REOPENED = "reopened"  #: one site takes part in that new epoch


class TaskStatus(StrEnum):
    """The status of a task, or of one party task."""

    WAITING = "waiting"
    RUNNING = "running"
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    FAILED = "failed"
    PASS = "pass"  # noqa: S105  #: the component skipped its work
    SUCCESS = "success"


class TaskEvent(StrEnum):
    """What moves a task."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    PASSED = "passed"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"
    EXCUSED = "excused"  #: an elastic job goes on without this party
    RELAUNCHED = "relaunched"  #: ... and starts it again in the same attempt


JOB_FINAL: Final = frozenset(
    {JobStatus.CANCELED, JobStatus.TIMEOUT, JobStatus.FAILED, JobStatus.SUCCESS}
)
JOB_INTERRUPTED: Final = JOB_FINAL - {JobStatus.SUCCESS}
TASK_FINAL: Final = frozenset(
    {
        TaskStatus.CANCELED,
        TaskStatus.TIMEOUT,
        TaskStatus.FAILED,
        TaskStatus.PASS,
        TaskStatus.SUCCESS,
    }
)
TASK_SUCCEEDED: Final = frozenset({TaskStatus.PASS, TaskStatus.SUCCESS})
TASK_SEVERITY: Final = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED)
"""Interrupted statuses, the worst first: the worst one of the parties names the task's end."""

_JOB_ENDS: Final[Mapping[JobEvent, JobStatus]] = {
    JobEvent.SUCCEEDED: JobStatus.SUCCESS,
    JobEvent.FAILED: JobStatus.FAILED,
    JobEvent.CANCELED: JobStatus.CANCELED,
    JobEvent.TIMED_OUT: JobStatus.TIMEOUT,
}
_TASK_ENDS: Final[Mapping[TaskEvent, TaskStatus]] = {
    TaskEvent.SUCCEEDED: TaskStatus.SUCCESS,
    TaskEvent.PASSED: TaskStatus.PASS,
    TaskEvent.FAILED: TaskStatus.FAILED,
    TaskEvent.CANCELED: TaskStatus.CANCELED,
    TaskEvent.TIMED_OUT: TaskStatus.TIMEOUT,
}

JOB_MOVES: Final[Mapping[tuple[JobStatus, JobEvent], JobStatus]] = {
    (JobStatus.READY, JobEvent.QUEUED): JobStatus.WAITING,
    (JobStatus.READY, JobEvent.FAILED): JobStatus.FAILED,
    (JobStatus.READY, JobEvent.CANCELED): JobStatus.CANCELED,
    (JobStatus.READY, JobEvent.TIMED_OUT): JobStatus.TIMEOUT,
    (JobStatus.WAITING, JobEvent.STARTED): JobStatus.RUNNING,
    (JobStatus.RUNNING, JobEvent.HELD): JobStatus.WAITING,
    **{(JobStatus.WAITING, event): end for event, end in _JOB_ENDS.items()},
    **{(JobStatus.RUNNING, event): end for event, end in _JOB_ENDS.items()},
    (JobStatus.FAILED, JobEvent.OVERRULED_SUCCESS): JobStatus.SUCCESS,
    (JobStatus.FAILED, JobEvent.OVERRULED_CANCELED): JobStatus.CANCELED,
    (JobStatus.FAILED, JobEvent.OVERRULED_TIMEOUT): JobStatus.TIMEOUT,
    **{(status, JobEvent.RERUN): JobStatus.READY for status in sorted(JOB_FINAL)},
    **{(status, JobEvent.REOPENED): JobStatus.WAITING for status in sorted(JOB_FINAL)},
}

_NOT_DONE: Final = frozenset(TaskStatus) - TASK_SUCCEEDED

TASK_MOVES: Final[Mapping[tuple[TaskStatus, TaskEvent], TaskStatus]] = {
    (TaskStatus.WAITING, TaskEvent.STARTED): TaskStatus.RUNNING,
    **{(TaskStatus.WAITING, event): end for event, end in _TASK_ENDS.items()},
    **{(TaskStatus.RUNNING, event): end for event, end in _TASK_ENDS.items()},
    **{(status, TaskEvent.EXCUSED): TaskStatus.PASS for status in sorted(_NOT_DONE)},
    **{
        (status, TaskEvent.RELAUNCHED): TaskStatus.WAITING
        for status in sorted(TASK_FINAL - {TaskStatus.SUCCESS})
    },
}

JOB_LATE: Final = frozenset(
    {
        (status, event)
        for status in JOB_FINAL
        for event in (JobEvent.QUEUED, JobEvent.STARTED, JobEvent.HELD, *_JOB_ENDS)
    }
    | {(JobStatus.RUNNING, JobEvent.STARTED), (JobStatus.RUNNING, JobEvent.QUEUED)}
    | {(JobStatus.WAITING, JobEvent.QUEUED), (JobStatus.WAITING, JobEvent.HELD)}
    | {
        (status, event)
        for status in JobStatus
        if status not in JOB_FINAL
        for event in (JobEvent.RERUN, JobEvent.REOPENED)
    }
)
"""Moves that a repeated or late message asks for: normal, and without effect."""

TASK_LATE: Final = frozenset(
    {
        (status, event)
        for status in TASK_FINAL
        for event in TaskEvent
        if (status, event) not in TASK_MOVES
    }
    | {(TaskStatus.RUNNING, TaskEvent.STARTED)}
    | {(status, TaskEvent.RELAUNCHED) for status in (TaskStatus.WAITING, TaskStatus.RUNNING)}
)

JOB_END_EVENT: Final[Mapping[JobStatus, JobEvent]] = {s: e for e, s in _JOB_ENDS.items()}
TASK_END_EVENT: Final[Mapping[TaskStatus, TaskEvent]] = {s: e for e, s in _TASK_ENDS.items()}
OVERRULE_EVENT: Final[Mapping[JobStatus, JobEvent]] = {
    JobStatus.SUCCESS: JobEvent.OVERRULED_SUCCESS,
    JobStatus.CANCELED: JobEvent.OVERRULED_CANCELED,
    JobStatus.TIMEOUT: JobEvent.OVERRULED_TIMEOUT,
}
TASK_STATUS_OF_JOB_END: Final[Mapping[JobStatus, TaskStatus]] = {
    JobStatus.CANCELED: TaskStatus.CANCELED,
    JobStatus.TIMEOUT: TaskStatus.TIMEOUT,
    JobStatus.FAILED: TaskStatus.FAILED,
    JobStatus.SUCCESS: TaskStatus.CANCELED,
}
"""The status of a task that was under way when its job ended."""


def next_job_status(status: JobStatus, event: JobEvent) -> JobStatus:
    """Return where `event` moves a job. Raises: IllegalMove: the table has no such move."""
    try:
        return JOB_MOVES[status, event]
    except KeyError:
        raise IllegalMove(machine="A job", status=status.value, event=event.value) from None


def next_task_status(status: TaskStatus, event: TaskEvent) -> TaskStatus:
    """Return where `event` moves a task. Raises: IllegalMove: the table has no such move."""
    try:
        return TASK_MOVES[status, event]
    except KeyError:
        raise IllegalMove(machine="A task", status=status.value, event=event.value) from None


def federated_status(party_statuses: Iterable[TaskStatus]) -> TaskStatus:
    """Return a task's status from those of its parties; `pass` counts as success.

    Source: `docs/reference/jobs.md#task-status`. Raises: ValueError: there is no party.
    """
    seen = {TaskStatus.SUCCESS if s is TaskStatus.PASS else s for s in party_statuses}
    if not seen:
        raise ValueError("a task without parties has no status")
    if len(seen) == 1:
        return seen.pop()
    for status in TASK_SEVERITY:
        if status in seen:
            return status
    return TaskStatus.RUNNING
