"""Who waits, and what to look at, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import NOTHING, ComputeResources
from fedflow.domain.job.control import FREE, Control
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobKey, JobRecord, ScheduledJob, WaitingJob
from fedflow.domain.scheduling.agreement import EndedSite
from fedflow.domain.states import JobStatus
from fedflow.store.memory.jobs import MemoryJobs
from fedflow.store.memory.journal import Journal
from fedflow.store.memory.schedules import MemorySchedules
from fedflow.store.rules import may_lack_job

_MOVING = (JobStatus.READY, JobStatus.RUNNING)
_ASKS = (SitePhase.APPLYING, SitePhase.GRANTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """What is stored about one waiting job."""

    queued_ms: int
    need: ComputeResources = NOTHING
    deadline_ms: int = 0
    look_ms: int = 0
    epoch: int = 0
    ask_ms: int = 0
    control: Control = FREE  #: of the job when it entered
    stopped: bool = False  #: the job had a stop request then


class MemoryQueue:
    """See `app.ports.scheduling.QueueStore`."""

    def __init__(self, journal: Journal, schedules: MemorySchedules, jobs: MemoryJobs) -> None:
        self._journal = journal
        self._schedules = schedules
        self._jobs = jobs
        self._entries: dict[str, _Entry] = {}
        schedules.when_dropped.append(lambda job_id: journal.drop(self._entries, job_id))

    # --- jobs of this initiator -------------------------------------------------------------------

    def enter(
        self, job_id: str, need: ComputeResources, *, queued_ms: int, deadline_ms: int, look_ms: int
    ) -> None:
        job = self._schedules.get(job_id)
        if job is not None:
            entry = _Entry(
                queued_ms=queued_ms,
                need=need,
                deadline_ms=deadline_ms,
                look_ms=look_ms,
                ask_ms=self._entry(job).ask_ms,
                epoch=job.epoch,
                control=job.control,
                stopped=job.stop is not None,
            )
            self._journal.put(self._entries, job_id, entry)

    def postpone_check(self, job_id: str, look_ms: int) -> None:
        job = self._schedules.get(job_id)
        if job is not None:
            entry = replace(
                self._entry(job),
                look_ms=look_ms,
                control=job.control,
                stopped=job.stop is not None,
            )
            self._journal.put(self._entries, job_id, entry)

    def postpone_request(self, job_id: str, ask_ms: int) -> None:
        job = self._schedules.get(job_id)
        if job is not None:
            self._journal.put(self._entries, job_id, replace(self._entry(job), ask_ms=ask_ms))

    def get(self, job_id: str) -> WaitingJob | None:
        return next((w for w in self._waiting() if w.job_id == job_id), None)

    def moving(self) -> list[str]:
        return sorted(
            j.job_id
            for j in self._schedules.unended()
            if j.status in _MOVING or any(s.phase is not SitePhase.CREATED for s in j.sites)
        )

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        jobs = self._schedules.unended()
        waiting = [(self._look_ms(j), j.job_id) for j in jobs if j.status is JobStatus.WAITING]
        return [job_id for _, job_id in sorted(w for w in waiting if w[0] <= now_ms)[:limit]]

    def of_lost(self, party_id: str, *, limit: int) -> list[str]:
        return self.waiting_with(party_id, after="", limit=limit)

    def oldest(self, *, limit: int) -> list[WaitingJob]:
        found = [w for w in self._waiting() if not self._is_held(w)]
        return sorted(found, key=lambda w: (w.queued_ms, w.job_id))[:limit]

    def first(
        self, free: ComputeResources, now_ms: int, *, limit: int, offset: int = 0
    ) -> list[WaitingJob]:
        found = [
            w
            for w in self._waiting()
            if w.ask_ms <= now_ms and not self._is_held(w) and w.need.fits(free)
        ]
        found.sort(key=lambda w: (-w.priority, w.queued_ms, w.job_id))
        return found[offset : offset + limit]

    def needing(self, job_ids: Collection[str], parties: Collection[str]) -> set[str]:
        jobs = (self._schedules.get(job_id) for job_id in job_ids)
        return {j.job_id for j in jobs if j and any(s.site.party_id in parties for s in j.sites)}

    def under_way(self) -> list[WaitingJob]:
        found = []
        for waiting in self._waiting():
            if any(s.phase in _ASKS for s in self._known(waiting.job_id).sites):
                shares = self._jobs.shares(waiting.job_id)
                held = sum((s.need for s in shares if s.in_use), ComputeResources())
                found.append(replace(waiting, need=waiting.need.minus(held)))
        return sorted(found, key=lambda w: (w.queued_ms, w.job_id))

    def denied(self) -> dict[str, int]:
        return dict(
            Counter(
                s.site.party_id
                for j in self._schedules.unended()
                for s in j.sites
                if s.phase is SitePhase.DENIED
            )
        )

    def page(self, *, starving_before_ms: int, limit: int, offset: int = 0) -> list[WaitingJob]:
        def key(job: WaitingJob) -> tuple[int, int, int, str]:
            starves = job.queued_ms < starving_before_ms
            return (-starves, 0 if starves else -job.priority, job.queued_ms, job.job_id)

        return sorted(self._waiting(), key=key)[offset : offset + limit]

    def unstopped(self, *, limit: int) -> list[WaitingJob]:
        found = [w for w in self._waiting() if self._known(w.job_id).stop is None]
        looks = {w.job_id: self._look_ms(self._known(w.job_id)) for w in found}
        return sorted(found, key=lambda w: (looks[w.job_id], w.job_id))[:limit]

    def count(self) -> int:
        return len(self._waiting())

    def parties(self) -> list[str]:
        return sorted({s.site.party_id for j in self._schedules.unended() for s in j.sites})

    def ended_parties(self) -> list[str]:
        return sorted({s.site.party_id for j in self._schedules.ended() for s in j.sites})

    def ended_with(self, party_id: str, *, since_ms: int, limit: int) -> list[EndedSite]:
        ended = sorted(self._schedules.ended(), key=lambda j: j.job_id, reverse=True)
        newest = [
            (j, s)
            for j in ended
            for s in sorted(j.sites, key=lambda s: s.site.role.value)
            if s.site.party_id == party_id
        ][:limit]
        return [
            EndedSite(
                job_id=j.job_id,
                initiator=j.initiator,
                site=s.site,
                status=j.status,
                epoch=j.epoch,
                may_lack=may_lack_job(j.epoch, s.phase),
            )
            for j, s in newest
            if (j.ended_ms or 0) >= since_ms
        ]

    def moving_with(self, party_id: str, now_ms: int) -> list[str]:
        return sorted(
            j.job_id
            for j in self._with(party_id)
            if j.status in _MOVING
            or (self._entry(j).deadline_ms <= now_ms)
            or any(s.phase is not SitePhase.CREATED for s in j.sites if s.site.party_id == party_id)
        )

    def waiting_with(self, party_id: str, *, after: str, limit: int) -> list[str]:
        found = sorted(j.job_id for j in self._with(party_id) if j.job_id > after)
        return found[:limit]

    # --- party jobs at this site ------------------------------------------------------------------

    def deny(self, key: JobKey, *, now_ms: int) -> None:
        if self._jobs.get(key) is not None:
            self._journal.put(self._jobs.denied, key, now_ms)

    def claims(self, *, asked_since_ms: int, queued_before_ms: int) -> list[WaitingJob]:
        asked = {
            key.job_id
            for key, at_ms in self._jobs.denied.items()
            if at_ms >= asked_since_ms and self._claims(key, queued_before_ms)
        }
        found = []
        for job_id in asked:
            shares = [s for s in self._jobs.shares(job_id) if _waits(s)]
            queued_ms = min(s.queued_ms for s in shares)
            found.append(
                WaitingJob(
                    job_id=job_id,
                    priority=0,
                    created_ms=queued_ms,
                    initiator=shares[0].initiator,
                    reason=None,
                    queued_ms=queued_ms,
                    need=sum((s.need for s in shares), ComputeResources()),
                )
            )
        return sorted(found, key=lambda w: (w.queued_ms, w.job_id))

    def moving_shares(self) -> list[JobRecord]:
        return [s for s in self._jobs.open_jobs() if not _waits(s)]

    def waiting_shares(self, *, after: str, limit: int) -> list[JobRecord]:
        found = [s for s in self._jobs.open_jobs() if _waits(s) and s.key.job_id > after]
        return sorted(found, key=_by_key)[:limit]

    def began_ms(self) -> int | None:
        return min((s.created_ms for s in self._jobs.open_jobs()), default=None)

    # --- helpers ----------------------------------------------------------------------------------

    def _entry(self, job: ScheduledJob) -> _Entry:
        entry = self._entries.get(job.job_id)
        if entry is None or entry.epoch != job.epoch:
            return _Entry(queued_ms=job.began_ms, epoch=job.epoch)
        return entry

    def _is_held(self, job: WaitingJob) -> bool:
        return self._known(job.job_id).control.held_ms is not None

    def _look_ms(self, job: ScheduledJob) -> int:
        entry = self._entry(job)
        is_same = entry.stopped == (job.stop is not None) and entry.control == job.control
        return entry.look_ms if is_same else 0

    def _known(self, job_id: str) -> ScheduledJob:
        job = self._schedules.get(job_id)
        if job is None:
            raise LookupError(job_id)
        return job

    def _with(self, party_id: str) -> Iterable[ScheduledJob]:
        for job in self._schedules.unended():
            if any(s.site.party_id == party_id for s in job.sites):
                yield job

    def _waiting(self) -> list[WaitingJob]:
        found = []
        for waiting in self._schedules.waiting():
            entry = self._entry(self._known(waiting.job_id))
            found.append(
                replace(waiting, queued_ms=entry.queued_ms, ask_ms=entry.ask_ms, need=entry.need)
            )
        return found

    def _claims(self, key: JobKey, queued_before_ms: int) -> bool:
        share = self._jobs.get(key)
        return share is not None and _waits(share) and share.queued_ms < queued_before_ms


def _waits(share: JobRecord) -> bool:
    return share.status is JobStatus.WAITING and not share.in_use


def _by_key(share: JobRecord) -> tuple[str, str, str]:
    return share.key.job_id, share.key.site.role.value, share.key.site.party_id
