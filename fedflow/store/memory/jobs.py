"""The party half of jobs, and engines, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.figures import Figure, with_figures
from fedflow.domain.job.warning import JobWarning, merged
from fedflow.domain.lists import fits_job, job_page
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Engine,
    JobFilter,
    JobKey,
    JobRecord,
    Json,
    Moved,
    ScheduledJob,
    Stale,
)
from fedflow.domain.states import JOB_FINAL, JobEvent, JobStatus, next_job_status
from fedflow.store import recording
from fedflow.store.codec import plain
from fedflow.store.memory.job_tags import MemoryJobTags
from fedflow.store.memory.journal import Journal
from fedflow.store.recording import PARAMETERS_CHANGED

J = TypeVar("J", JobRecord, ScheduledJob)


class MemoryEngines:
    """See `app.ports.jobs.EngineStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._engines: dict[str, Engine] = {}

    def put(
        self, name: str, cores: int, *, now_ms: int, memory: int = 0, cores_percent: float = 1.0
    ) -> None:
        known = self._engines.get(name)
        held = ComputeResources()
        if known is not None:
            held = ComputeResources(
                cores=known.cores - known.remaining_cores,
                memory=known.memory - known.remaining_memory,
            )
        engine = Engine(
            name=name,
            cores=cores,
            remaining_cores=cores - held.cores,
            memory=memory,
            remaining_memory=memory - held.memory,
            cores_percent=cores_percent,
        )
        self._journal.put(self._engines, name, engine)

    def get(self, name: str) -> Engine | None:
        return self._engines.get(name)

    def have(self, needs: Mapping[str, ComputeResources]) -> bool:
        """Tell whether engines have free what is needed of them."""
        free = {name: engine.free for name, engine in self._engines.items()}
        return all(need.fits(free.get(name, ComputeResources())) for name, need in needs.items())

    def take(self, name: str, share: ComputeResources, *, need: ComputeResources) -> bool:
        """Take a party job; False if less than `need` is free."""
        known = self._engines.get(name)
        wanted = ComputeResources(
            cores=need.cores if share.cores else 0, memory=need.memory if share.memory else 0
        )
        if share != ComputeResources() and (known is None or not wanted.fits(known.free)):
            return False
        self.give(name, ComputeResources(cores=-share.cores, memory=-share.memory))
        return True

    def give(self, name: str, share: ComputeResources) -> None:
        """Give a party job back."""
        known = self._engines.get(name)
        if known is not None:
            engine = replace(
                known,
                remaining_cores=known.remaining_cores + share.cores,
                remaining_memory=known.remaining_memory + share.memory,
            )
            self._journal.put(self._engines, name, engine)


class MemoryJobs:
    """See `app.ports.jobs.JobStore`."""

    def __init__(
        self, journal: Journal, engines: MemoryEngines, tags: MemoryJobTags | None = None
    ) -> None:
        self._journal = journal
        self._engines = engines
        self._tags = tags or MemoryJobTags(journal)
        self._jobs: dict[JobKey, JobRecord] = {}
        self._shares: dict[str, dict[JobKey, None]] = {}  #: the keys of a job id
        self._unfinished: dict[JobKey, None] = {}
        self.denied: dict[JobKey, int] = {}  #: when a party job was last denied cores

    def add(self, record: JobRecord) -> None:
        if record.key in self._jobs:
            return
        self._put(
            replace(
                record,
                dsl=plain(record.dsl),
                conf=plain(record.conf),
                roles=plain(record.roles),
                warnings=tuple(record.warnings),
                parameters=plain(record.parameters),
            )
        )
        self._journal.put(self._shares.setdefault(record.key.job_id, {}), record.key, None)
        self._journal.tell(recording.job_added(record))

    def get(self, key: JobKey) -> JobRecord | None:
        return self._jobs.get(key)

    def find(self, which: JobFilter) -> list[JobRecord]:
        return job_page(self._matching(which), which)

    def count(self, which: JobFilter) -> int:
        return len(self._matching(which))

    def move(
        self, key: JobKey, event: JobEvent, *, seen: JobStatus, now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale:  # fmt: skip
        status = next_job_status(seen, event)
        job = self._jobs.get(key)
        if job is None or job.status is not seen:
            return Stale()
        self._put(after_move(job, status, reason=reason, now_ms=now_ms))
        self._journal.tell(recording.job_moved(key, seen, status, reason=reason, now_ms=now_ms))
        return Moved(status)

    def status(self, key: JobKey) -> JobStatus | None:
        job = self.get(key)
        return None if job is None else job.status

    def set_progress(self, key: JobKey, progress: int, *, now_ms: int) -> None:
        job = self._jobs.get(key)
        if job is not None and job.progress < progress:
            self._put(replace(job, progress=progress, updated_ms=now_ms))

    def set_description(self, key: JobKey, text: str, *, now_ms: int) -> None:
        job = self._jobs.get(key)
        if job is not None:
            self._put(replace(job, description=text, updated_ms=now_ms))

    def set_name(self, key: JobKey, name: str, *, now_ms: int) -> None:
        job = self._jobs.get(key)
        if job is not None:
            self._put(replace(job, name=name, updated_ms=now_ms))

    def set_figures(
        self, key: JobKey, component: str, figures: Sequence[Figure], *, now_ms: int
    ) -> None:
        job = self._jobs.get(key)
        if job is not None:
            changed = with_figures(job.figures, component, figures)
            self._put(replace(job, figures=changed, updated_ms=now_ms))

    def set_tag(self, key: JobKey, tag: str, *, now_ms: int) -> None:
        job = self._jobs.get(key)
        if job is not None:
            self._put(replace(job, tag=tag, updated_ms=now_ms))

    def add_warnings(self, key: JobKey, warnings: Sequence[JobWarning], *, now_ms: int) -> None:
        job = self._jobs.get(key)
        if job is not None:
            self.set_warnings(key, merged(job.warnings, warnings), now_ms=now_ms)

    def set_warnings(self, key: JobKey, warnings: Sequence[JobWarning], *, now_ms: int) -> None:
        job = self._jobs.get(key)
        if job is not None:
            self._put(replace(job, warnings=tuple(warnings), updated_ms=now_ms))

    def taken_by(self, initiator: str) -> tuple[int, int]:
        theirs = [j for j in self._jobs.values() if j.initiator.party_id == initiator]
        is_open = [j for j in theirs if j.status not in JOB_FINAL]
        return len(is_open), sum(j.size_bytes for j in theirs)

    def grow(self, key: JobKey, more_bytes: int) -> None:
        job = self._jobs.get(key)
        if job is not None:
            self._put(replace(job, size_bytes=job.size_bytes + more_bytes))

    def set_conf(
        self, key: JobKey, conf: Json, parameters: Json, *, now_ms: int, more_bytes: int = 0
    ) -> None:
        job = self._jobs.get(key)
        if job is not None:
            changed = replace(job, conf=plain(conf), parameters=plain(parameters))
            size = job.size_bytes + more_bytes
            self._put(replace(changed, size_bytes=size, updated_ms=now_ms))
            self._journal.tell(recording.job_told(key, PARAMETERS_CHANGED, now_ms=now_ms))

    def reopen(
        self, key: JobKey, *, seen: JobStatus, epoch: int, conf: Json, parameters: Json,
        cores: int, now_ms: int, memory: int = 0, engine: str | None = None, more_bytes: int = 0,
    ) -> Moved | Stale:  # fmt: skip
        status = next_job_status(seen, JobEvent.REOPENED)
        job = self._jobs.get(key)
        if job is None or job.status is not seen or job.in_use:
            return Stale()
        self._put(
            replace(
                job,
                status=status,
                epoch=epoch,
                conf=plain(conf),
                parameters=plain(parameters),
                cores=cores,
                memory=memory,
                engine=engine or job.engine,
                queued_ms=now_ms,
                progress=0,
                reason=None,
                tag="",
                started_ms=None,
                ended_ms=None,
                size_bytes=job.size_bytes + more_bytes,
                updated_ms=now_ms,
            )
        )
        self._journal.tell(recording.job_moved(key, seen, status, now_ms=now_ms, epoch=epoch))
        return Moved(status)

    def take_cores(self, key: JobKey, *, now_ms: int) -> bool:
        job = self._jobs.get(key)
        if job is None:
            return False
        if job.in_use:
            return True
        left = [
            s
            for s in self.shares(key.job_id)
            if s is job or not (s.in_use or s.status in JOB_FINAL)
        ]
        needs: dict[str, ComputeResources] = {}
        for one in left:
            needs[one.engine] = needs.get(one.engine, ComputeResources()) + one.share
        need = needs.pop(job.engine)
        if job.share != ComputeResources() and not (
            self._engines.have(needs) and self._engines.take(job.engine, job.share, need=need)
        ):
            return False
        self._journal.drop(self.denied, key)
        self._put(replace(job, in_use=True, applied_ms=now_ms, returned_ms=None, updated_ms=now_ms))
        self._journal.tell(recording.cores_moved(key, held=True, now_ms=now_ms))
        return True

    def return_cores(self, key: JobKey, *, now_ms: int) -> bool:
        job = self._jobs.get(key)
        if job is None or not job.in_use:
            return False
        self._engines.give(job.engine, job.share)
        self._put(replace(job, in_use=False, returned_ms=now_ms, updated_ms=now_ms))
        self._journal.tell(recording.cores_moved(key, held=False, now_ms=now_ms))
        return True

    def shares(self, job_id: str) -> list[JobRecord]:
        found = [self._jobs[key] for key in self._shares.get(job_id, ())]
        return sorted(found, key=_place)

    def etag(self, job_id: str) -> str:
        return ";".join(
            f"{j.key.site.key}-{j.status}-{j.epoch}-{j.progress}-{j.in_use}-{j.reason}-{j.updated_ms}"
            for j in self.shares(job_id)
        )

    def engines(self, job_ids: Collection[str]) -> dict[JobKey, str]:
        shares = (share for job_id in job_ids for share in self.shares(job_id))
        return {share.key: share.engine for share in shares}

    def created_since(self, since_ms: int) -> list[JobRecord]:
        """Return the party jobs that are not older, for `MemoryJobLists`."""
        return [job for job in self._jobs.values() if job.created_ms >= since_ms]

    def open_jobs(self) -> list[JobRecord]:
        found = [self._jobs[key] for key in self._unfinished]
        return sorted(found, key=lambda j: (j.created_ms, j.key.job_id, *_place(j)))

    def drop(self, job_id: str) -> int:
        keys = list(self._shares.get(job_id, ()))
        for key in keys:
            self._journal.drop(self._jobs, key)
            self._journal.drop(self._unfinished, key)
            self._journal.drop(self.denied, key)
        self._journal.drop(self._shares, job_id)
        return len(keys)

    def _put(self, job: JobRecord) -> None:
        self._journal.put(self._jobs, job.key, job)
        unfinished = job.status not in JOB_FINAL or job.in_use
        self._journal.keep(self._unfinished, job.key, when=unfinished)

    def _matching(self, which: JobFilter) -> list[JobRecord]:
        keys = self._jobs if which.job_id is None else self._shares.get(which.job_id, {})
        return [
            job
            for job in map(self._jobs.__getitem__, keys)
            if fits_job(which, job, self._tags.names(job.key.job_id))
        ]


def after_move(job: J, status: JobStatus, *, reason: Reason | None, now_ms: int) -> J:
    """Return a job after a move to `status`; its first start and first end count."""
    started_ms, ended_ms = job.started_ms, job.ended_ms
    if status is JobStatus.RUNNING and started_ms is None:
        started_ms = now_ms
    if status in JOB_FINAL and ended_ms is None:
        ended_ms = now_ms
    return replace(
        job,
        status=status,
        reason=reason,
        updated_ms=now_ms,
        started_ms=started_ms,
        ended_ms=ended_ms,
    )


def _place(job: JobRecord) -> tuple[str, str]:
    return job.key.site.role.value, job.key.site.party_id
