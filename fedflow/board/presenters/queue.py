"""What the queue page shows: engines and how full they are, who holds what, who waits for what."""

from __future__ import annotations

from collections.abc import Iterable

from fedflow.app.protocol.queue import RankedJob
from fedflow.base.messages import verbatim
from fedflow.base.values import dataclass
from fedflow.domain.records import Engine, JobRecord
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL

MESSAGE = 1000  #: characters of a reason


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineLoad:
    """One engine; memory in MiB, 0: not counted."""

    name: str
    cores: int
    held: int
    free: int
    per_job: int  #: cores that one job may take
    memory: int
    memory_held: int
    memory_free: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiter:
    """A job that waits for its turn."""

    position: int
    job_id: str
    site: Site
    priority: int
    since_ms: int
    starves: bool
    needs: str
    code: str
    message: str
    at: Site | None  #: where what it waits for is missing


@dataclass(frozen=True, kw_only=True, slots=True)
class Guest:
    """A party job of another initiator that waits at this server."""

    job_id: str
    site: Site
    initiator: Site
    since_ms: int | None
    cores: int
    memory: int
    code: str
    message: str


def engine_rows(engines: Iterable[Engine]) -> list[EngineLoad]:
    """Return engines; a conf that was made smaller may leave more held than there is."""
    return [
        EngineLoad(
            name=one.name,
            cores=one.cores,
            held=one.cores - one.remaining_cores,
            free=max(0, one.remaining_cores),
            per_job=one.capacity.cores_per_job,
            memory=one.memory,
            memory_held=one.memory - one.remaining_memory if one.memory else 0,
            memory_free=max(0, one.remaining_memory),
        )
        for one in engines
    ]


def holders(jobs: Iterable[JobRecord]) -> list[tuple[JobRecord, bool]]:
    """Return who holds cores, the oldest first, and whether the job has ended."""
    found = sorted(jobs, key=lambda j: (j.applied_ms or 0, j.key.job_id, j.key.site.order))
    return [(job, job.status in JOB_FINAL) for job in found]


def waiters(places: Iterable[RankedJob]) -> list[Waiter]:
    """Return who waits, in the given order."""
    return [
        Waiter(
            position=place.position,
            job_id=place.job.job_id,
            site=place.job.initiator,
            priority=place.job.priority,
            since_ms=place.job.queued_ms,
            starves=place.starves,
            needs=str(place.job.need),
            code=place.reason.code,
            message=verbatim(place.reason.message, MESSAGE),
            at=place.reason.site,
        )
        for place in places
    ]


def guests(jobs: Iterable[JobRecord]) -> list[Guest]:
    """Return the waiting party jobs of other initiators."""
    return [
        Guest(
            job_id=job.key.job_id,
            site=job.key.site,
            initiator=job.initiator,
            since_ms=job.queued_ms or job.created_ms,
            cores=job.cores,
            memory=job.memory,
            code=job.reason.code if job.reason else "",
            message=verbatim(job.reason.message, MESSAGE) if job.reason else "",
        )
        for job in jobs
    ]
