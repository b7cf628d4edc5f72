"""What lists of jobs show, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from fedflow.domain.job_lines import (
    EndedJob,
    EndedJobs,
    JobLine,
    StatusCount,
    Strip,
    strip_status,
)
from fedflow.domain.lists import whatever_status
from fedflow.domain.records import (
    SUBMIT_FAILED,
    JobFilter,
    JobKey,
    JobRecord,
    ScheduledJob,
    TaskFilter,
    percent,
)
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.store.memory.job_tags import MemoryJobTags
from fedflow.store.memory.jobs import MemoryJobs
from fedflow.store.memory.schedules import MemorySchedules
from fedflow.store.memory.tasks import MemoryTasks


class MemoryJobLists:
    """See `app.ports.jobs.JobListStore`."""

    def __init__(
        self, jobs: MemoryJobs, schedules: MemorySchedules, tags: MemoryJobTags, tasks: MemoryTasks
    ) -> None:
        self._jobs = jobs
        self._schedules = schedules
        self._tags = tags
        self._tasks = tasks

    def page(self, which: JobFilter) -> list[JobLine]:
        return [self._line(job) for job in self._jobs.find(which)]

    def counted(self, which: JobFilter) -> list[StatusCount]:
        found = self._jobs.find(replace(whatever_status(which), limit=2**53, offset=0))
        counts = Counter((job.status, job.tag == SUBMIT_FAILED) for job in found)
        return [
            StatusCount(status=status, count=count, refused=refused)
            for (status, refused), count in sorted(counts.items())
        ]

    def strips(self, job_ids: Collection[str]) -> dict[JobKey, Strip]:
        strips: dict[JobKey, dict[str, TaskStatus]] = {}
        for job_id in job_ids:
            for task in self._tasks.find(TaskFilter(job_id=job_id, all_versions=True)):
                strip = strips.setdefault(JobKey(job_id=job_id, site=task.key.site), {})
                strip[task.key.component] = strip_status(task.status, task.party_status)
        return strips

    def of(self, job_ids: Collection[str]) -> list[JobLine]:
        return [self._line(job) for job_id in job_ids for job in self._jobs.shares(job_id)]

    def _line(self, job: JobRecord) -> JobLine:
        return JobLine(
            key=job.key,
            initiator=job.initiator,
            status=job.status,
            epoch=job.epoch,
            roles=job.roles,
            created_ms=job.created_ms,
            updated_ms=job.updated_ms,
            started_ms=job.started_ms,
            ended_ms=job.ended_ms,
            progress=job.progress,
            reason=job.reason,
            name=job.name,
            figures=job.figures,
            description=job.description,
            user=job.user,
            refused=job.tag == SUBMIT_FAILED,
            tags=self._tags.names(job.key.job_id),
        )

    def progress(self, job_ids: Collection[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for job_id in job_ids:
            job = self._schedules.get(job_id)
            if job is not None and job.tasks:
                found[job_id] = percent([task.done for task in job.tasks])
        return found

    def on_hold(self, job_ids: Collection[str]) -> set[str]:
        found = (self._schedules.get(job_id) for job_id in job_ids)
        return {job.job_id for job in found if job is not None and job.control.on_hold}

    def counts(self, since_ms: int) -> list[StatusCount]:
        jobs: dict[JobStatus, set[str]] = {}
        for job in self._jobs.created_since(since_ms):
            if job.tag != SUBMIT_FAILED:
                jobs.setdefault(job.status, set()).add(job.key.job_id)
        return [
            StatusCount(status=status, count=len(jobs[status]))
            for status in sorted(jobs, key=lambda s: s.value)
        ]

    def ended(
        self, which: EndedJobs, *, after: EndedJob | None = None, limit: int
    ) -> list[EndedJob]:
        shares = self._jobs.created_since(0)
        shared = {share.key.job_id for share in shares}
        jobs: list[tuple[str, JobRecord | ScheduledJob]] = [(s.key.job_id, s) for s in shares]
        jobs += [(job.job_id, job) for job in self._schedules.all() if job.job_id not in shared]
        found = {
            (job.created_ms, job_id)
            for job_id, job in jobs
            if job.status in which.statuses and (job.ended_ms or job.created_ms) < which.before_ms
        }
        begins = (after.created_ms, after.job_id) if after else (-1, "")
        return [
            EndedJob(created_ms=ms, job_id=job_id)
            for ms, job_id in sorted(found)
            if (ms, job_id) > begins
        ][:limit]
