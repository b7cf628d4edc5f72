"""The cores and the memory of this server: who holds them, and giving them back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fedflow.app.party.party_jobs import has_process
from fedflow.app.ports import Store, Wakeup
from fedflow.base.clock import Clock
from fedflow.base.errors import BadRequest, JobNotFound
from fedflow.domain.records import Engine, JobFilter, JobRecord
from fedflow.domain.states import JOB_FINAL

_SHOWN: Final = 1_000  #: waiting shares that are shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """What became of the cores of one share of a job."""

    job: JobRecord  #: as it was before
    returned: bool


class Resources:
    """The use cases of the resource routes."""

    def __init__(self, *, store: Store, wakeup: Wakeup, clock: Clock, engine: str) -> None:
        self._store = store
        self._wakeup = wakeup
        self._clock = clock
        self._engine = engine

    def query(
        self, *, in_use: bool = True, engine_name: str | None = None
    ) -> tuple[Engine, list[JobRecord]]:
        """Return the computing engine, and the jobs that hold cores of it; or unended ones that
        hold none, as far as they can be shown.

        Raises: BadRequest: there is no such engine.
        """
        name = self._engine if engine_name is None else engine_name.upper()
        with self._store.read() as tx:
            engine = tx.engines.get(name)
            if in_use:
                jobs = [share for share in tx.queue.moving_shares() if share.in_use]
            else:
                idle = [share for share in tx.queue.moving_shares() if not share.in_use]
                jobs = [*idle, *tx.queue.waiting_shares(after="", limit=_SHOWN)]
        if engine is None:
            raise BadRequest(reason=f"there is no engine {name[:100]!r}, but {self._engine}")
        return engine, jobs

    def give_back(self, job_id: str) -> list[Returned]:
        """Return the cores of an ended job that none of its processes uses any more.

        A job that runs keeps them. Raises: JobNotFound.
        """
        found: list[Returned] = []
        with self._store.transaction() as tx:
            for job in tx.jobs.find(JobFilter(job_id=job_id)):
                idle = job.status in JOB_FINAL and not has_process(tx, job.key)
                returned = idle and tx.jobs.return_cores(
                    job.key, self._engine, now_ms=self._clock.now_ms()
                )
                found.append(Returned(job=job, returned=returned))
        if not found:
            raise JobNotFound(job_id=job_id)
        if any(r.returned for r in found):
            self._wakeup.queue()
        return found
