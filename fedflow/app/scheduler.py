"""The scheduler's pass: look at a job, decide, apply, until nothing is left to do.

The thread that calls `tick` lives in `server/threads.py`; tests and simulations call it themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from fedflow.app.apply import Applier
from fedflow.app.hearing import Hearing
from fedflow.app.outgoing import Outgoing
from fedflow.app.ports import PartyClient, Store, Tx, Wakeup
from fedflow.app.snapshot import view_of
from fedflow.app.specs import Specs, cores_at
from fedflow.app.timing import Timing
from fedflow.base.clock import Clock
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import ScheduledJob, WaitingJob
from fedflow.domain.schedule import (
    JobView,
    Reason,
    SitePhase,
    decide,
    may_retry,
    retry_at_ms,
)
from fedflow.domain.states import JobStatus

logger = logging.getLogger(__name__)

_ROUNDS = 16  #: decisions about one job in one pass; what is left comes with the next


class Scheduler:
    """Moves the jobs that this server initiated."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        outgoing: Outgoing,
        hearing: Hearing,
        parties: PartyClient,
        wakeup: Wakeup,
        clock: Clock,
        timing: Timing,
        engine: str,
    ) -> None:
        self._store = store
        self._specs = specs
        self._outgoing = outgoing
        self._hearing = hearing
        self._parties = parties
        self._wakeup = wakeup
        self._clock = clock
        self._timing = timing
        self._engine = engine
        self._retry_ms: int | None = None
        self._retries: dict[str, int] = {}  #: when a failed task of a job is to be tried again

    def next_retry_ms(self) -> int | None:
        """Return when to look at the queue again: cores were denied, or a task is tried again."""
        due = [*self._retries.values(), *([] if self._retry_ms is None else [self._retry_ms])]
        return min(due, default=None)

    def tick(self) -> None:
        """Look at every job that has not ended, and at the queue: the repair pass."""
        with self._store.read() as tx:
            active = tx.schedules.active()
        self.look_at(active)
        self.look_at_queue()

    def look_at(self, job_ids: Iterable[str]) -> None:
        """Look at some jobs; a job that cannot be handled is logged and stops no other."""
        for job_id in job_ids:
            try:
                self._advance(job_id, may_apply=False)
            except Exception:  # one bad job must not stop the others
                logger.exception("Job %s could not be scheduled", job_id, extra={"job_id": job_id})

    def look_at_queue(self) -> None:
        """Let waiting jobs ask for cores: in order, every one that fits into what is free here.

        Before that, look at jobs with a task whose retry is due.
        """
        now_ms = self._clock.now_ms()
        due = [job_id for job_id, at_ms in self._retries.items() if at_ms <= now_ms]
        for job_id in due:
            del self._retries[job_id]
        self.look_at(due)
        with self._store.read() as tx:
            waiting = tx.schedules.waiting()
            engine = tx.engines.get(self._engine)
        self._retry_ms = None
        free = engine.remaining_cores if engine else 0
        total = engine.cores if engine else 0
        for job in waiting:
            try:
                need = self._need_here(job.job_id)
                if need <= free:
                    free -= need
                    self._advance(job.job_id, may_apply=True)
                else:
                    self._explain(job, need=need, free=free, total=total)
            except Exception:  # one bad job must not stop the others
                logger.exception(
                    "Job %s could not be queued", job.job_id, extra={"job_id": job.job_id}
                )

    def _advance(self, job_id: str, *, may_apply: bool) -> None:
        for _ in range(_ROUNDS):
            now_ms = self._clock.now_ms()
            with self._store.read() as tx:
                job = tx.schedules.get(job_id)
                if job is None:
                    return
                spec = self._specs.get(job.job_id, job.dsl, job.conf)
                heard = {
                    s.site.party_id: self._hearing.party_ms(tx, s.site.party_id) for s in job.sites
                }
            view = view_of(job, spec, timing=self._timing, heard_ms=heard, may_apply=may_apply)
            actions = decide(view, now_ms)
            if not actions:
                self._note_retries(view, now_ms)
                return
            with self._store.transaction() as tx:
                applier = Applier(tx, job, spec, outgoing=self._outgoing, now_ms=now_ms)
                applier.apply_all(actions)
            self._tell(job, applier)

    def _note_retries(self, view: JobView, now_ms: int) -> None:
        """Remember when to look again; what is due already waits for an answer, not for time."""
        self._retries.pop(view.job_id, None)
        if view.status is JobStatus.RUNNING:
            tries = [retry_at_ms(view, t) for t in view.tasks.values() if may_retry(t, t.status)]
            later = [at_ms for at_ms in tries if at_ms > now_ms]
            if later:
                self._retries[view.job_id] = min(later)
        denied = (s.retry_ms for s in view.sites if s.phase is SitePhase.DENIED)
        due = [retry_ms for retry_ms in denied if retry_ms > now_ms]
        if due and view.status is JobStatus.WAITING:
            self._retry_ms = min([*due, self._retry_ms] if self._retry_ms is not None else due)

    def _tell(self, job: ScheduledJob, applier: Applier) -> None:
        if applier.commands:
            self._wakeup.outbox(sorted({c.destination.party_id for c in applier.commands}))
        if applier.changed:
            self._wakeup.job_changed(job.job_id)
            if job.status is JobStatus.READY:
                self._wakeup.queue()

    def _need_here(self, job_id: str) -> int:
        """Return how many cores the job takes of this server's own engine."""
        spec = self._specs.kept(job_id)
        if spec is None:
            with self._store.read() as tx:
                spec = self._spec(tx, job_id)
        return sum(
            cores_at(spec, site) for site in spec.sites if self._parties.is_local(site.party_id)
        )

    def _spec(self, tx: Tx, job_id: str) -> JobSpec:
        job = tx.schedules.get(job_id)
        if job is None:
            raise LookupError(job_id)
        return self._specs.get(job_id, job.dsl, job.conf)

    def _explain(self, job: WaitingJob, *, need: int, free: int, total: int) -> None:
        """Store why a job waits, once; the numbers of that moment are good enough."""
        if job.reason is not None and job.reason.code == "NotEnoughResources":
            return
        message = f"waits for {need} cores at {job.initiator}: {free} of {total} free"
        reason = Reason(code="NotEnoughResources", message=message, site=job.initiator)
        with self._store.transaction() as tx:
            tx.schedules.set_reason(job.job_id, reason, now_ms=self._clock.now_ms())
