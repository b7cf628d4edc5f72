"""The cores and the memory of this server's engines: who holds them, and giving them back."""

from __future__ import annotations

from typing import Final

from fedflow.app.participant.party_jobs import has_process
from fedflow.app.ports.scheduling import Wakeup
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import OwnEngines
from fedflow.domain.records import Engine, JobFilter, JobRecord
from fedflow.domain.states import JOB_FINAL

_SHOWN: Final = 1_000  #: waiting party jobs that are shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """What became of the cores of one party job."""

    job: JobRecord  #: as it was before
    returned: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceUse:
    """The engines of a server, and who holds their cores."""

    engine: Engine  #: the one that was asked for
    engines: tuple[Engine, ...]  #: all
    jobs: tuple[JobRecord, ...]


class ResourceQueries:
    """The use cases of the resource routes."""

    def __init__(self, *, store: Store, wakeup: Wakeup, clock: Clock, engines: OwnEngines) -> None:
        self._store = store
        self._wakeup = wakeup
        self._clock = clock
        self._engines = engines

    def query(self, *, in_use: bool = True, engine_name: str | None = None) -> ResourceUse:
        """Return the computing engines, and the jobs that hold cores of one of them, by default of
        all; or unended ones that hold none, as far as they can be shown.

        Raises: BadRequest: there is no such engine.
        """
        name = self._engines.default if engine_name is None else engine_name.upper()
        with self._store.read() as tx:
            known = [tx.engines.get(one) for one in self._engines.names]
            if in_use:
                jobs = [share for share in tx.queue.moving_shares() if share.in_use]
            else:
                idle = [share for share in tx.queue.moving_shares() if not share.in_use]
                jobs = [*idle, *tx.queue.waiting_shares(after="", limit=_SHOWN)]
        every = tuple(engine for engine in known if engine is not None)
        asked = next((engine for engine in every if engine.name == name), None)
        if asked is None:
            names = " and ".join(self._engines.names)
            raise BadRequest(reason=f"there is no engine {name[:100]!r}, but {names}")
        if engine_name is not None:
            jobs = [share for share in jobs if share.engine == name]
        return ResourceUse(engine=asked, engines=every, jobs=tuple(jobs))

    def asked_for(self, *, limit: int) -> list[JobRecord]:
        """Return waiting party jobs that no site of this server initiated, as far as they can
        be shown.
        """
        with self._store.read() as tx:
            idle = tx.queue.waiting_shares(after="", limit=_SHOWN)
        own = {share.key.job_id for share in idle if share.is_initiator}
        return [share for share in idle if share.key.job_id not in own][:limit]

    def give_back(self, job_id: str) -> list[Returned]:
        """Return the cores of an ended job that none of its processes uses any more.

        A job that runs keeps them. Raises: JobNotFound.
        """
        found: list[Returned] = []
        with self._store.transaction() as tx:
            for job in tx.jobs.find(JobFilter(job_id=job_id)):
                idle = job.status in JOB_FINAL and not has_process(tx, job.key)
                returned = idle and tx.jobs.return_cores(job.key, now_ms=self._clock.now_ms())
                found.append(Returned(job=job, returned=returned))
        if not found:
            raise JobNotFound(job_id=job_id)
        if any(r.returned for r in found):
            self._wakeup.queue()
        return found
