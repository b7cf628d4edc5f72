"""The history that writes leave behind: which event each causes, and which of them are written.

Both implementations of the store collect the events of a transaction and write them at its end.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fedflow.base.messages import Message
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    JobKey,
    JobRecord,
    ScheduledJob,
    ScheduledSite,
    ScheduledTask,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.scheduling.history import Event, Subject, job_note
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus

REPEAT_MS: Final = 600_000  #: a repeated denial is written so often
TRIM_EVERY: Final = 1_000  #: written events of a job after which its oldest ones are dropped
_JOBS: Final = 768  #: jobs whose last events are remembered: a burst of 500 that wait, and others
_REPEATING: Final = frozenset({Subject.SITE, Subject.CORES})
_STATUS_OF_JOB: Final = frozenset({Subject.JOB, Subject.SHARE})
_Key = tuple[Subject, Site | None, str, str, str]


@dataclass(slots=True)
class _Written:
    """What was written about one job: when each repeating move was, and how many events."""

    moves: dict[_Key, int] = field(default_factory=dict)
    count: int = 0


class Recent:
    """The last events of the jobs that moved last, in memory of one store.

    A waiting job requests cores again and again: such a move is not written until its status
    moves, or `REPEAT_MS` have passed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, _Written] = OrderedDict()

    def news(self, events: Iterable[Event]) -> list[Event]:
        """Return the events of a transaction that are to be written."""
        with self._lock:
            return [e for e in events if not self._is_repeat(e)]

    def wrote(self, events: Iterable[Event]) -> None:
        """Remember events that were committed."""
        with self._lock:
            for event in events:
                job = self._jobs.get(event.job_id)
                if job is None:
                    job = self._jobs[event.job_id] = _Written()
                self._jobs.move_to_end(event.job_id)
                job.count += 1
                if event.subject in _STATUS_OF_JOB and event.new:
                    job.moves.clear()
                elif event.subject in _REPEATING:
                    job.moves[_key(event)] = event.at_ms
            while len(self._jobs) > _JOBS:
                self._jobs.popitem(last=False)

    def long(self, events: Iterable[Event]) -> list[str]:
        """Return those jobs of some events whose oldest ones may be too many now."""
        with self._lock:
            ids = dict.fromkeys(e.job_id for e in events)
            found = [i for i in ids if i in self._jobs and self._jobs[i].count >= TRIM_EVERY]
            for job_id in found:
                self._jobs[job_id].count = 0
        return found

    def _is_repeat(self, event: Event) -> bool:
        if event.subject not in _REPEATING or not event.new:
            return False
        job = self._jobs.get(event.job_id)
        last_ms = job.moves.get(_key(event)) if job is not None else None
        return last_ms is not None and event.at_ms - last_ms < REPEAT_MS


def _key(event: Event) -> _Key:
    code = event.reason.code if event.reason else ""
    return event.subject, event.site, event.old, event.new, code


# --- the schedule half ----------------------------------------------------------------------------


def schedule_added(job: ScheduledJob) -> list[Event]:
    """Return what a new job begins with; tasks that wait like it get no event of their own."""
    made = Event(
        job_id=job.job_id, subject=Subject.JOB, new=job.status.value, at_ms=job.created_ms,
        epoch=job.epoch, reason=job.reason,
    )  # fmt: skip
    ahead = [t for t in job.tasks if t.status is not TaskStatus.WAITING]
    return [made, *(attempt_added(job.job_id, task, now_ms=job.created_ms) for task in ahead)]


def schedule_moved(
    job_id: str, old: JobStatus, new: JobStatus, *, reason: Reason | None, now_ms: int,
    epoch: int | None = None,
) -> Event:  # fmt: skip
    return Event(
        job_id=job_id, subject=Subject.JOB, old=old.value, new=new.value, at_ms=now_ms,
        epoch=epoch, reason=reason,
    )  # fmt: skip


def stop_asked(job_id: str, stop: StopRequest, *, now_ms: int) -> Event:
    return job_note(job_id, stop.reason, at_ms=now_ms)


def site_moved(job_id: str, site: ScheduledSite, *, seen: SitePhase, now_ms: int) -> Event:
    return Event(
        job_id=job_id, subject=Subject.SITE, site=site.site, old=seen.value, new=site.phase.value,
        at_ms=now_ms, reason=site.reason,
    )  # fmt: skip


def attempt_added(job_id: str, task: ScheduledTask, *, now_ms: int) -> Event:
    return Event(
        job_id=job_id, subject=Subject.TASK, component=task.component, version=task.version,
        new=task.status.value, at_ms=now_ms, reason=task.reason,
    )  # fmt: skip


def task_moved(
    job_id: str, component: str, version: int, old: TaskStatus, new: TaskStatus, *,
    reason: Reason | None = None, now_ms: int,
) -> Event:  # fmt: skip
    return Event(
        job_id=job_id, subject=Subject.TASK, component=component, version=version, old=old.value,
        new=new.value, at_ms=now_ms, reason=reason,
    )  # fmt: skip


def share_reported(
    job_id: str, component: str, version: int, site: Site, old: TaskStatus, new: TaskStatus, *,
    reason: Reason | None, now_ms: int,
) -> Event:  # fmt: skip
    return Event(
        job_id=job_id, subject=Subject.REPORT, component=component, version=version, site=site,
        old=old.value, new=new.value, at_ms=now_ms, reason=reason,
    )  # fmt: skip


# --- the party half -------------------------------------------------------------------------------


def job_added(record: JobRecord) -> Event:
    return Event(
        job_id=record.key.job_id, subject=Subject.SHARE, site=record.key.site,
        new=record.status.value, at_ms=record.created_ms, epoch=record.epoch, reason=record.reason,
    )  # fmt: skip


def job_moved(
    key: JobKey, old: JobStatus, new: JobStatus, *, reason: Reason | None = None, now_ms: int,
    epoch: int | None = None,
) -> Event:  # fmt: skip
    return Event(
        job_id=key.job_id, subject=Subject.SHARE, site=key.site, old=old.value, new=new.value,
        at_ms=now_ms, epoch=epoch, reason=reason,
    )  # fmt: skip


def job_told(key: JobKey, reason: Reason, *, now_ms: int) -> Event:
    """Return that something was changed in a party job without moving it."""
    return Event(
        job_id=key.job_id, subject=Subject.SHARE, site=key.site, at_ms=now_ms, reason=reason
    )


def cores_moved(key: JobKey, *, held: bool, now_ms: int) -> Event:
    old, new = ("free", "held") if held else ("held", "free")
    return Event(
        job_id=key.job_id, subject=Subject.CORES, site=key.site, old=old, new=new, at_ms=now_ms
    )


def tasks_added(records: Iterable[TaskRecord]) -> list[Event]:
    """Return the further attempts and those that were taken over; first ones begin with the job."""
    return [
        _party_task(
            r.key, "", r.party_status, now_ms=r.created_ms,
            reason=_taken_over(r) if r.inherited_from else r.reason,
        )
        for r in records
        if r.key.version or r.party_status is not TaskStatus.WAITING
    ]  # fmt: skip


def party_task_moved(
    key: TaskKey, old: TaskStatus, new: TaskStatus, *, reason: Reason | None, now_ms: int
) -> Event:
    return _party_task(key, old.value, new, reason=reason, now_ms=now_ms)


def _party_task(
    key: TaskKey, old: str, new: TaskStatus, *, reason: Reason | None, now_ms: int
) -> Event:
    return Event(
        job_id=key.job_id, subject=Subject.PARTY_TASK, component=key.component,
        version=key.version, site=key.site, old=old, new=new.value, at_ms=now_ms, reason=reason,
    )  # fmt: skip


def _taken_over(record: TaskRecord) -> Reason:
    message = Message("its result was taken over from job {job_id}", record.inherited_from)
    return Reason(code="TakenOver", message=message)


PARAMETERS_CHANGED: Final = Reason(
    code="ParametersChanged", message=Message("its parameters were changed, for its next rerun")
)
