"""The schedule half, in memory. Thousands of schedules are cheap: what `get` composed is kept."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field, replace
from typing import TypeVar

from fedflow.base.errors.jobs import IllegalMove
from fedflow.base.values import dataclass
from fedflow.domain.job.control import FREE, Control
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    Json,
    Moved,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
    Stale,
    WaitingJob,
)
from fedflow.domain.scheduling.history import job_note
from fedflow.domain.site import Site
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_FINAL,
    JobEvent,
    JobStatus,
    TaskEvent,
    TaskStatus,
    next_job_status,
    next_task_status,
)
from fedflow.store import recording
from fedflow.store.codec import plain
from fedflow.store.memory.jobs import after_move
from fedflow.store.memory.journal import Journal
from fedflow.store.recording import PARAMETERS_CHANGED
from fedflow.store.rules import advances, moves

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _Parts:
    """The changing parts of one schedule; tasks and party jobs are kept without each other."""

    sites: dict[Site, ScheduledSite] = field(default_factory=dict)
    tasks: dict[tuple[str, int], ScheduledTask] = field(default_factory=dict)
    shares: dict[tuple[str, int], dict[Site, ScheduledPartyTask]] = field(default_factory=dict)


class MemorySchedules:
    """See `app.ports.scheduling.ScheduleStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._jobs: dict[str, ScheduledJob] = {}  #: without sites and tasks
        self._parts: dict[str, _Parts] = {}
        self._active: dict[str, None] = {}
        self._composed: dict[str, ScheduledJob] = {}
        self.when_dropped: list[Callable[[str], None]] = []
        journal.after_undo(self._composed.clear)

    def add(self, job: ScheduledJob) -> None:
        if job.job_id in self._jobs:
            return
        parts = _Parts()
        for site in job.sites:
            parts.sites.setdefault(site.site, site)
        for task in job.tasks:
            attempt = (task.component, task.version)
            parts.tasks.setdefault(attempt, replace(task, parties=()))
            shares = parts.shares.setdefault(attempt, {})
            for share in task.parties:
                shares.setdefault(share.site, share)
        self._journal.put(self._parts, job.job_id, parts)
        self._journal.tell(*recording.schedule_added(job))
        self._put(replace(job, dsl=plain(job.dsl), conf=plain(job.conf), sites=(), tasks=()))

    def all(self) -> list[ScheduledJob]:
        """Return all jobs without sites and tasks, for `MemoryJobLists`."""
        return list(self._jobs.values())

    def get(self, job_id: str) -> ScheduledJob | None:
        known = self._composed.get(job_id)
        if known is not None:
            return known
        job = self._jobs.get(job_id)
        if job is None:
            return None
        sites = tuple(self._parts[job_id].sites.values())
        composed = replace(job, sites=sites, tasks=self._tasks(job_id))
        self._composed[job_id] = composed
        return composed

    def epoch(self, job_id: str) -> int | None:
        job = self._jobs.get(job_id)
        return None if job is None else job.epoch

    def status(self, job_id: str) -> JobStatus | None:
        job = self._jobs.get(job_id)
        return None if job is None else job.status

    def etag(self, job_id: str) -> str:
        job = self._jobs.get(job_id)
        if job is None:
            return ""
        shares = self._parts[job_id].shares.values()
        progress = sum(share.progress for sites in shares for share in sites.values())
        return f"{job.updated_ms}-{job.status}-{job.reason}-{job.control}-{progress}"

    def unended(self) -> list[ScheduledJob]:
        """Return the jobs that have not ended, with their sites but without tasks."""
        return [self._with_sites(job_id) for job_id in self._active]

    def ended(self) -> list[ScheduledJob]:
        """Return the jobs that have ended, with their sites but without tasks."""
        return [self._with_sites(job_id) for job_id in self._jobs if job_id not in self._active]

    def _with_sites(self, job_id: str) -> ScheduledJob:
        return replace(self._jobs[job_id], sites=tuple(self._parts[job_id].sites.values()))

    def active(self) -> list[str]:
        return sorted(self._active, key=lambda j: (self._jobs[j].created_ms, j))

    def waiting(self) -> list[WaitingJob]:
        """Return waiting jobs, for `MemoryQueue`: by priority, then age, then id."""
        jobs = (self._jobs[job_id] for job_id in self._active)
        found = [
            WaitingJob(
                job_id=job.job_id,
                priority=job.priority,
                created_ms=job.created_ms,
                initiator=job.initiator,
                reason=job.reason,
            )
            for job in jobs
            if job.status is JobStatus.WAITING and job.control.held_ms is None
        ]
        return sorted(found, key=lambda w: (-w.priority, w.created_ms, w.job_id))

    def move(
        self, job_id: str, event: JobEvent, *, seen: JobStatus, now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale:  # fmt: skip
        status = next_job_status(seen, event)
        job = self._jobs.get(job_id)
        if job is None or job.status is not seen:
            return Stale()
        self._put(after_move(job, status, reason=reason, now_ms=now_ms))
        self._journal.tell(
            recording.schedule_moved(job_id, seen, status, reason=reason, now_ms=now_ms)
        )
        return Moved(status)

    def set_reason(self, job_id: str, reason: Reason | None, *, now_ms: int) -> None:
        job = self._jobs.get(job_id)
        if job is not None and job.status not in JOB_FINAL:
            self._put(replace(job, reason=reason, updated_ms=now_ms))

    def rerun(self, job_id: str, *, seen: JobStatus, epoch: int, now_ms: int) -> Moved | Stale:
        status = next_job_status(seen, JobEvent.RERUN)
        job = self._jobs.get(job_id)
        if job is None or job.status is not seen or job.epoch >= epoch:
            return Stale()
        self._put(
            replace(
                job,
                status=status,
                epoch=epoch,
                stop=None,
                reason=None,
                started_ms=None,
                ended_ms=None,
                rerun_ms=now_ms,
                control=FREE,
                updated_ms=now_ms,
            )
        )
        self._journal.tell(
            recording.schedule_moved(job_id, seen, status, reason=None, now_ms=now_ms, epoch=epoch)
        )
        return Moved(status)

    def set_conf(self, job_id: str, conf: Json, *, now_ms: int) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            self._put(replace(job, conf=plain(conf), updated_ms=now_ms))
            told = job_note(job_id, PARAMETERS_CHANGED, at_ms=now_ms)
            self._journal.tell(told)

    def add_attempt(self, job_id: str, task: ScheduledTask, *, now_ms: int) -> bool:
        parts = self._parts.get(job_id)
        attempt = (task.component, task.version)
        if parts is None or attempt in parts.tasks:
            return False
        if all(component != task.component for component, _ in parts.tasks):
            return False
        shares: dict[Site, ScheduledPartyTask] = {}
        for share in task.parties:
            shares.setdefault(share.site, share)
        self._change(job_id, parts.shares, attempt, shares)
        self._change(job_id, parts.tasks, attempt, replace(task, parties=()))
        self._journal.tell(recording.attempt_added(job_id, task, now_ms=now_ms))
        return True

    def set_site(self, job_id: str, site: ScheduledSite, *, seen: SitePhase, now_ms: int) -> bool:
        parts = self._parts.get(job_id)
        known = parts.sites.get(site.site) if parts else None
        if parts is None or known is None or known.phase is not seen:
            return False
        self._change(job_id, parts.sites, site.site, site)
        self._journal.tell(recording.site_moved(job_id, site, seen=seen, now_ms=now_ms))
        return True

    def request_stop(self, job_id: str, stop: StopRequest, *, now_ms: int) -> bool:
        job = self._jobs.get(job_id)
        if job is None or job.stop is not None or job.status in JOB_FINAL:
            return False
        self._put(replace(job, stop=stop, updated_ms=now_ms))
        self._journal.tell(recording.stop_asked(job_id, stop, now_ms=now_ms))
        return True

    def set_control(
        self, job_id: str, control: Control, *, seen: Control, now_ms: int,
        told: Reason | None = None,
    ) -> bool:  # fmt: skip
        job = self._jobs.get(job_id)
        if job is None or job.control != seen or job.status in JOB_FINAL:
            return False
        self._put(replace(job, control=control, updated_ms=now_ms))
        if told is not None:
            self._journal.tell(job_note(job_id, told, at_ms=now_ms))
        return True

    def start_task(self, job_id: str, component: str, version: int, *, now_ms: int) -> bool:
        parts = self._parts.get(job_id)
        task = parts.tasks.get((component, version)) if parts else None
        if parts is None or task is None or task.status is not TaskStatus.WAITING:
            return False
        running = replace(task, status=TaskStatus.RUNNING, started_ms=now_ms)
        self._change(job_id, parts.tasks, (component, version), running)
        self._journal.tell(
            recording.task_moved(
                job_id, component, version, task.status, running.status, now_ms=now_ms
            )
        )
        return True

    def end_task(
        self, job_id: str, component: str, version: int, status: TaskStatus, *,
        reason: Reason | None, now_ms: int,
    ) -> bool:  # fmt: skip
        if status not in TASK_FINAL:
            raise IllegalMove(machine="A task", status="any", event=f"end as {status.value}")
        parts = self._parts.get(job_id)
        task = parts.tasks.get((component, version)) if parts else None
        if parts is None or task is None or task.status in TASK_FINAL:
            return False
        ended = replace(task, status=status, reason=reason, ended_ms=now_ms)
        self._change(job_id, parts.tasks, (component, version), ended)
        self._journal.tell(
            recording.task_moved(
                job_id, component, version, task.status, status, reason=reason, now_ms=now_ms
            )
        )
        return True

    def report(
        self, job_id: str, component: str, version: int, site: Site, status: TaskStatus, *,
        reason: Reason | None, progress: float | None, now_ms: int, launch: int = 0,
    ) -> Moved | Stale:  # fmt: skip
        parts = self._parts.get(job_id)
        shares = parts.shares.get((component, version)) if parts else None
        share = shares.get(site) if shares else None
        if parts is None or shares is None or share is None:
            return Stale()
        if version != _latest(parts)[component] or launch != share.launch:
            return Stale()
        if moves(share.status, status):
            new = ScheduledPartyTask(
                site=site,
                status=status,
                reason=reason,
                since_ms=now_ms,
                progress=share.progress if progress is None else progress,
                launch=launch,
            )
        elif advances(share.status, status, stored=share.progress, progress=progress):
            new = replace(share, progress=progress or 0.0)
        else:
            return Stale()
        self._change(job_id, shares, site, new)
        if status is not share.status:
            self._journal.tell(
                recording.share_reported(
                    job_id, component, version, site, share.status, status, reason=reason,
                    now_ms=now_ms,
                )
            )  # fmt: skip
        return Moved(status)

    def move_party(
        self, job_id: str, component: str, version: int, site: Site, event: TaskEvent, *,
        seen: TaskStatus, reason: Reason | None, now_ms: int,
    ) -> bool:  # fmt: skip
        new = next_task_status(seen, event)
        parts = self._parts.get(job_id)
        shares = parts.shares.get((component, version)) if parts else None
        share = shares.get(site) if shares else None
        if shares is None or share is None or share.status is not seen:
            return False
        launch = share.launch + (event is TaskEvent.RELAUNCHED)
        moved = ScheduledPartyTask(
            site=site, status=new, reason=reason, since_ms=now_ms, launch=launch
        )
        self._change(job_id, shares, site, moved)
        self._journal.tell(
            recording.share_reported(
                job_id, component, version, site, seen, new, reason=reason, now_ms=now_ms
            )
        )
        return True

    def is_open(self, job_id: str, component: str, version: int) -> bool:
        parts = self._parts.get(job_id)
        shares = parts.shares.get((component, version), {}) if parts else {}
        return any(share.status not in TASK_FINAL for share in shares.values())

    def _tasks(self, job_id: str) -> tuple[ScheduledTask, ...]:
        parts = self._parts.get(job_id)
        if parts is None:
            return ()
        return tuple(
            replace(parts.tasks[attempt], parties=tuple(parts.shares[attempt].values()))
            for attempt in _latest(parts).items()  # in the order of the first attempts
        )

    def reusable(self, cache_keys: Collection[str], *, limit: int) -> list[tuple[str, str, str]]:
        wanted = frozenset(cache_keys)
        found = [
            (job_id, task.component, task.cache_key)
            for job_id in sorted(self._jobs, reverse=True)
            for task in sorted(self._tasks(job_id), key=lambda t: t.component)
            if task.cache_key in wanted and task.status is TaskStatus.SUCCESS
        ]
        return [(job, component, key) for job, component, key in found if key is not None][:limit]

    def drop(self, job_id: str) -> bool:
        known = job_id in self._jobs
        self._composed.pop(job_id, None)
        self._journal.drop(self._jobs, job_id)
        self._journal.drop(self._parts, job_id)
        self._journal.drop(self._active, job_id)
        for forget in self.when_dropped:
            forget(job_id)
        return known

    def _put(self, job: ScheduledJob) -> None:
        self._change(job.job_id, self._jobs, job.job_id, job)
        self._journal.keep(self._active, job.job_id, when=job.status not in JOB_FINAL)

    def _change(self, job_id: str, table: dict[_K, _V], key: _K, value: _V) -> None:
        self._journal.put(table, key, value)
        self._composed.pop(job_id, None)


def _latest(parts: _Parts) -> dict[str, int]:
    """Return the newest version of each component."""
    latest: dict[str, int] = {}
    for component, version in parts.tasks:
        latest[component] = max(version, latest.get(component, version))
    return latest
