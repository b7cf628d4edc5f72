"""Tidying up: what ended jobs left here, and jobs that still wait."""

from __future__ import annotations

from typing import Protocol

from fedflow.app.data.table_use import every_output_of
from fedflow.app.data.tables import Tables
from fedflow.app.models.models import ModelRepository
from fedflow.app.ports.scheduling import Wakeup
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock, is_older
from fedflow.base.errors.jobs import CleaningRefused, JobNotFound
from fedflow.base.messages import Message
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import JobFilter, JobRecord, OutputTable
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, JobStatus
from fedflow.wire.api.jobs import CleanedUp

_AT_ONCE = 256  #: queued jobs that one transaction takes out
_EVERY_MS = 3_600_000  #: pause between two searches for what nothing names
_UNNAMED_KEEP_MS = 86_400_000  #: contents that are older and that no model names are deleted
_UNFINISHED_KEEP_MS = 7 * 86_400_000  #: tables that were begun before and are not finished


class StagedTables(Protocol):
    """The rows of tables that were begun."""

    def sweep(self, *, older_than_ms: int) -> None:
        """Delete those of tables that were given up, or not touched since a time."""


class GarbageCollection:
    """Deletes what nothing names any more."""

    def __init__(
        self, *, models: ModelRepository, tables: Tables, unfinished: StagedTables, clock: Clock
    ) -> None:
        self._models = models
        self._tables = tables
        self._unfinished = unfinished
        self._clock = clock
        self._searched_ms = 0

    def collect(self) -> None:
        """Delete tables that were kept for jobs that have ended since; every hour also contents
        of no model, and tables that were never finished.
        """
        now_ms = self._clock.now_ms()
        if is_older(self._searched_ms, _EVERY_MS, now_ms):
            self._searched_ms = now_ms
            self._models.sweep(now_ms - _UNNAMED_KEEP_MS)
            self._unfinished.sweep(older_than_ms=now_ms - _UNFINISHED_KEEP_MS)
        self._tables.drop_kept()


class Cleaning:
    """The use cases of the clean routes."""

    def __init__(self, *, store: Store, tables: Tables, wakeup: Wakeup, clock: Clock) -> None:
        self._store = store
        self._tables = tables
        self._wakeup = wakeup
        self._clock = clock

    def clean(
        self,
        job_id: str,
        *,
        role: Role | None = None,
        party_id: str | None = None,
        component: str | None = None,
    ) -> CleanedUp:
        """Delete the output tables and metrics that an ended job left at this server, and, if
        neither a site nor a component is named, its history.

        Raises: JobNotFound. CleaningRefused: the job has not ended.
        """
        which = JobFilter(job_id=job_id, roles=(role,) if role else None, party_id=party_id)
        shares = self._ended(which, job_id)
        dropped: list[str] = []
        kept: list[str] = []
        metrics = 0
        for share in shares:
            site = share.key.site
            gone = self._tables.drop_outputs(job_id, site=site, component=component)
            dropped += [f"{t.namespace}.{t.name}" for t in gone]
            with self._store.transaction() as tx:
                metrics += tx.tracking.drop_metrics(job_id, component, site)
            kept += [f"{o.namespace}.{o.name}" for o in self._left(job_id, component, site)]
        if role is None and party_id is None and component is None:
            with self._store.transaction() as tx:
                tx.events.drop(job_id)
        return CleanedUp(tables=tuple(dropped), kept=tuple(dict.fromkeys(kept)), metrics=metrics)

    def drop_metrics(self, job_id: str) -> int:
        """Delete the metrics that an ended job left at this server; return how many.

        Raises: JobNotFound. CleaningRefused: the job has not ended.
        """
        shares = self._ended(JobFilter(job_id=job_id), job_id)
        with self._store.transaction() as tx:
            return sum(tx.tracking.drop_metrics(job_id, None, s.key.site) for s in shares)

    def _ended(self, which: JobFilter, job_id: str) -> list[JobRecord]:
        """Return the party jobs of an ended job. Raises: JobNotFound, CleaningRefused."""
        with self._store.read() as tx:
            shares = tx.jobs.find(which)
            scheduled = tx.schedules.get(job_id)
        if not shares:
            raise JobNotFound(job_id=job_id)
        for status in [*(s.status for s in shares), *([scheduled.status] if scheduled else [])]:
            if status not in JOB_FINAL:
                raise CleaningRefused(job_id=job_id, reason=f"it is {status.value}")
        return shares

    def _left(self, job_id: str, component: str | None, site: Site) -> list[OutputTable]:
        """Return the outputs of a job that are still there because other jobs use them."""
        with self._store.read() as tx:
            outputs = every_output_of(tx, job_id, sites=[site], component=component)
            tables = {o: tx.tables.get(o.namespace, o.name) for o in outputs}
            return [o for o, table in tables.items() if table is not None and o.is_of(table)]

    def clean_queue(self) -> dict[str, int]:
        """Cancel the jobs that this server initiated and that wait; return FATE's code for each: 0,
        it ends.
        """
        codes: dict[str, int] = {}
        while True:
            now_ms = self._clock.now_ms()
            with self._store.transaction() as tx:
                waiting = tx.queue.unstopped(limit=_AT_ONCE)
                for job in waiting:
                    reason = Reason(
                        code="Stopped",
                        message=Message(
                            "taken out of the queue by a user at {site}", job.initiator
                        ),
                        site=job.initiator,
                    )
                    stop = StopRequest(status=JobStatus.CANCELED, reason=reason)
                    tx.schedules.request_stop(job.job_id, stop, now_ms=now_ms)
            codes.update({job.job_id: 0 for job in waiting})
            self._wakeup.queue()
            if len(waiting) < _AT_ONCE:
                return codes
