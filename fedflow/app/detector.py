"""Finds what died, expired or got lost, and what an interrupted server left unfinished.

`tick` repairs the party half of this server; `beat` is the heartbeat to one party with whom jobs
are shared, which keeps that party's leases alive and repairs reports that were lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fedflow.app.effects import Effects
from fedflow.app.hearing import Hearing
from fedflow.app.initiator import Initiator
from fedflow.app.launcher import Launcher
from fedflow.app.news import news_of
from fedflow.app.party_jobs import PartyJobs
from fedflow.app.party_tasks import PartyTasks
from fedflow.app.ports import Executor, LaunchBook, PartyClient, Store, Tx, Wakeup
from fedflow.app.specs import Specs
from fedflow.app.timing import Timing
from fedflow.app.workers import Workers
from fedflow.base.clock import Clock, is_older
from fedflow.base.errors import FedflowError, InitiatorLost, PartyUnreachable
from fedflow.domain.records import JobRecord, TaskRecord
from fedflow.domain.schedule import Reason
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, JobStatus
from fedflow.wire import paths

logger = logging.getLogger(__name__)

_PRUNE_MS = 600_000  #: pause between two sweeps of old replies


class Detector:
    """The repair passes of one server."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        hearing: Hearing,
        initiator: Initiator,
        jobs: PartyJobs,
        tasks: PartyTasks,
        workers: Workers,
        launcher: Launcher,
        executor: Executor,
        processes: LaunchBook,
        parties: PartyClient,
        wakeup: Wakeup,
        clock: Clock,
        timing: Timing,
        new_request_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._specs = specs
        self._hearing = hearing
        self._initiator = initiator
        self._jobs = jobs
        self._tasks = tasks
        self._workers = workers
        self._launcher = launcher
        self._executor = executor
        self._processes = processes
        self._parties = parties
        self._wakeup = wakeup
        self._clock = clock
        self._timing = timing
        self._new_request_id = new_request_id
        self._prune_ms = 0

    def tick(self) -> None:
        """Look at everything of this party that has not ended."""
        with self._store.read() as tx:
            jobs = tx.jobs.unfinished()
            tasks = tx.tasks.live()
        for task in tasks:
            self._guard(task.key.job_id, lambda task=task: self._check_task(task))  # type: ignore[misc]
        for job in jobs:
            self._guard(job.key.job_id, lambda job=job: self._check_job(job))  # type: ignore[misc]
        self._prune()

    def _prune(self) -> None:
        """Forget old replies, once in a while."""
        now_ms = self._clock.now_ms()
        if now_ms < self._prune_ms:
            return
        self._prune_ms = now_ms + _PRUNE_MS
        with self._store.transaction() as tx:
            tx.received.prune(now_ms - self._timing.received_keep_ms)

    def recover(self) -> None:
        """Take over the processes that an earlier server of this home started.

        Call it before the doors open: an executor that comes back must find its data-plane session.
        """
        with self._store.read() as tx:
            tasks = tx.tasks.live()
        for task in tasks:
            self._guard(task.key.job_id, lambda task=task: self._recover(task))  # type: ignore[misc]

    def _guard(self, job_id: str, check: Callable[[], None]) -> None:
        try:
            check()
        except Exception:  # one bad job must not stop the others
            logger.exception("Job %s could not be checked", job_id, extra={"job_id": job_id})

    def _recover(self, task: TaskRecord) -> None:
        if task.launch_id is None:
            return
        with self._store.read() as tx:
            job = tx.jobs.get(task.key.job)
        if job is not None and task.party_status not in TASK_FINAL:
            spec = self._specs.get(task.key.job_id, job.dsl, job.conf)
            self._launcher.open_session(task, spec.sites_of(task.key.component))
        self._processes.expect(task.launch_id, task.key)
        if task.handle is None:
            return  # its process reports by itself, or its launch is repeated after the grace time
        logger.info(
            "Adopting process %s of %s",
            task.handle.pid,
            task.key,
            extra={"action": "adopt", "job_id": task.key.job_id},
        )
        if not self._executor.adopt(task.launch_id, task.handle):
            self._workers.exited(task.key, task.launch_id, None, None)

    def _check_task(self, task: TaskRecord) -> None:
        """See that a process lives, repeat a launch that got lost, stop what should have ended."""
        now_ms = self._clock.now_ms()
        if task.handle is not None and task.launch_id is not None:
            if not self._executor.adopt(task.launch_id, task.handle):
                self._workers.exited(task.key, task.launch_id, None, None)
            elif task.party_status in TASK_FINAL and is_older(
                task.updated_ms, int(self._timing.stop_grace_s * 1000), now_ms
            ):
                self._tasks.kill(task.handle)
            return
        requested_ms = task.requested_ms
        if requested_ms is None or task.party_status in TASK_FINAL:
            return
        if is_older(max(requested_ms, task.updated_ms), self._timing.launch_grace_ms, now_ms):
            logger.warning("%s has no process: launching it again", task.key)
            effects = Effects()
            with self._store.transaction() as tx:
                current = tx.tasks.get(task.key)
                if current is None or current.launch_id != task.launch_id:
                    return
                if current.handle is not None or current.party_status in TASK_FINAL:
                    return  # it has begun or ended since this pass looked
                self._tasks.request_launch(tx, current, effects)
            effects.run()

    def _check_job(self, job: JobRecord) -> None:
        """End a job whose initiator is silent for too long; return what an ended one holds."""
        effects = Effects()
        with self._store.transaction() as tx:
            current = tx.jobs.get(job.key)
            if current is None:
                return
            if current.status in JOB_FINAL:
                self._jobs.return_if_still(tx, current.key, effects)
            elif self._parties.is_local(current.initiator.party_id):
                job_ended = tx.schedules.get(current.key.job_id)
                same = job_ended is not None and job_ended.epoch == current.epoch
                if job_ended is not None and same and job_ended.status in JOB_FINAL:
                    self._jobs.end_here(tx, current, job_ended.status, job_ended.reason, effects)
            else:
                self._check_lease(tx, current, effects)
        effects.run()

    def _check_lease(self, tx: Tx, job: JobRecord, effects: Effects) -> None:
        silent_ms = self._clock.now_ms() - self._hearing.initiator_ms(tx, job.key.job_id)
        if silent_ms > self._timing.lease_ms:
            lost = InitiatorLost(site=job.initiator, seconds=silent_ms // 1000)
            reason = Reason(code=lost.name, message=lost.message, site=job.initiator)
            self._jobs.end_here(tx, job, JobStatus.FAILED, reason, effects)

    # --- heartbeats -----------------------------------------------------------------------------

    def remote_parties(self) -> list[str]:
        """Return the other parties with whom this server, as initiator, has jobs under way."""
        with self._store.read() as tx:
            sites = {site for job_id in tx.schedules.active() for site in self._sites(tx, job_id)}
        parties = {site.party_id for site in sites}
        return sorted(p for p in parties if not self._parties.is_local(p))

    def _sites(self, tx: Tx, job_id: str) -> tuple[Site, ...]:
        spec = self._specs.kept(job_id)
        if spec is not None:
            return spec.sites
        job = tx.schedules.get(job_id)
        return () if job is None else tuple(s.site for s in job.sites)

    def beat(self, party_id: str) -> bool:
        """Send one heartbeat to a party and take its answer; tell whether it answered."""
        with self._store.read() as tx:
            active = [tx.schedules.get(job_id) for job_id in tx.schedules.active()]
        shared = [j for j in active if j and any(s.site.party_id == party_id for s in j.sites)]
        if not shared:
            return True
        told = {
            job.job_id: {
                "epoch": job.epoch,
                "sites": {
                    s.site.key: s.phase.value for s in job.sites if s.site.party_id == party_id
                },
                **news_of({t.component: (t.version, t.status) for t in job.tasks}),
            }
            for job in shared
        }
        try:
            reply = self._parties.call(
                shared[0].initiator,
                party_id,
                paths.PARTY_COMMANDS["heartbeat"],
                {"jobs": told},
                request_id=self._new_request_id(),
                job_id=shared[0].job_id,
                deadline_s=self._timing.call_timeout_s,
            )
        except PartyUnreachable as exc:
            logger.info("Heartbeat to party %s: %s", party_id, exc.message)
            return False
        except FedflowError as exc:
            logger.warning("Heartbeat to party %s was not taken: %s", party_id, exc.message)
            return False
        answers = reply.data.get("jobs") if isinstance(reply.data, dict) else None
        changed: list[str] = []
        with self._store.transaction() as tx:
            self._hearing.heard(tx, party_id)
            for job in shared:
                answer = answers.get(job.job_id) if isinstance(answers, dict) else None
                for site in (s.site for s in job.sites if s.site.party_id == party_id):
                    one = answer.get(site.key) if isinstance(answer, dict) else None
                    if self._initiator.take_answer(tx, job, site, one):
                        changed.append(job.job_id)
        for job_id in changed:
            self._wakeup.schedule(job_id)
        return True
