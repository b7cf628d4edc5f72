"""Finds what died, expired or got lost, and what an interrupted server left unfinished.

`tick` repairs the party half of this server. It checks running party jobs each time, those that
wait some at a time, in turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from fedflow.app.participant.launcher import Launcher
from fedflow.app.participant.party_jobs import PartyJobs
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.executors import Execution
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.clock import is_older
from fedflow.base.errors.executors import ServerLost
from fedflow.base.errors.jobs import InitiatorLost
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import Message
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey, JobRecord, TaskRecord
from fedflow.domain.scheduling.circuit import without
from fedflow.domain.scheduling.history import process_note
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, TASK_SUCCEEDED, JobStatus, TaskStatus

logger = logging.getLogger(__name__)

_PRUNE_MS = 600_000  #: pause between two sweeps of old replies
_WAITING = 256  #: waiting party jobs that one pass looks at
_ASKED = 32  #: jobs that one pass asks their initiators for


class Detector(UseCase):
    """The repair passes of one server."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        execution: Execution,
        jobs: PartyJobs,
        tasks: PartyTasks,
        workers: Workers,
        launcher: Launcher,
    ) -> None:
        super().__init__(kernel)
        self._leading = kernel.servers.guarded(kernel.store)
        self._host = execution.host
        self._jobs = jobs
        self._tasks = tasks
        self._workers = workers
        self._launcher = launcher
        self._executor = execution.executor
        self._processes = execution.processes
        self._applications = execution.applications
        self._prune_ms = 0
        self._after = ""  #: the waiting job that was looked at last
        self._asked: dict[JobKey, int] = {}  #: when initiators were asked for their jobs

    def tick(self) -> None:
        """Look at everything of this party that has not ended; one that does not lead its party's
        servers looks at its own processes only.
        """
        leads = self._servers.leads
        with self._store.read() as tx:
            shares = self._shares(tx) if leads else []
            silent = {s.key.job_id: self._silent_ms(tx, s) for s in shares if self._is_others(s)}
            jobs = [share for share in shares if self._is_suspect(tx, share, silent)]
            unnamed = self._unnamed(shares, silent)
            tasks = tx.tasks.live()
        for task in tasks:
            if self._servers.is_local(task.instance_id):
                self._guard(task.key.job_id, lambda task=task: self._check_task(task))  # type: ignore[misc]
            elif leads:
                self._guard(task.key.job_id, lambda task=task: self._check_elsewhere(task))  # type: ignore[misc]
        self._end_applications(tasks, leads=leads)
        if not leads:
            return
        for job in jobs:
            self._guard(job.key.job_id, lambda job=job: self._check_job(job))  # type: ignore[misc]
        for job in unnamed:
            self._guard(job.key.job_id, lambda job=job: self._ask_initiator(job))  # type: ignore[misc]
        self._prune()

    def _shares(self, tx: Tx) -> list[JobRecord]:
        """Return the party jobs that this pass looks at; to look needs no transaction."""
        waiting = tx.queue.waiting_shares(after=self._after, limit=_WAITING)
        ids = list(dict.fromkeys(share.key.job_id for share in waiting))
        if len(waiting) < _WAITING:
            self._after = ""
        else:  # some party jobs of the last job may be missing
            self._after = ids[-2] if len(ids) > 1 else ids[-1]
        return [*tx.queue.moving_shares(), *waiting]

    def _is_others(self, share: JobRecord) -> bool:
        """Tell whether another server initiated a job that goes on here."""
        here = self._parties.is_local(share.initiator.party_id)
        return share.status not in JOB_FINAL and not here

    def _is_suspect(self, tx: Tx, share: JobRecord, silent: Mapping[str, int]) -> bool:
        if share.status in JOB_FINAL:
            return True
        if not self._is_others(share):
            return tx.schedules.status(share.key.job_id) in JOB_FINAL
        return self._is_too_silent(tx, share, silent[share.key.job_id])

    def _unnamed(self, shares: Sequence[JobRecord], silent: Mapping[str, int]) -> list[JobRecord]:
        """Return some of the jobs that their initiators, which can be called, have not named for
        half a lease, and were not asked for in that time.
        """
        now_ms, limit_ms = self._clock.now_ms(), self._timing.lease_ms // 2
        self._asked = {k: at for k, at in self._asked.items() if not is_older(at, limit_ms, now_ms)}
        found = (
            share
            for share in shares
            if self._is_others(share)
            and silent[share.key.job_id] > limit_ms
            and share.key not in self._asked
            and self._circuit_breakers.is_closed(share.initiator.party_id)
        )
        return list(islice(found, _ASKED))

    def _ask_initiator(self, share: JobRecord) -> None:
        """Repeat a report of a task: if the initiator has lost the job, it answers that it knows
        no such job (`PartyJobs.give_up`).
        """
        key, initiator = share.key, share.initiator
        self._asked[key] = self._clock.now_ms()
        with self._leading.transaction() as tx:
            if tx.outbox.of_job(key.job_id, [initiator.party_id]):
                return  # the answer to that says so too
            self._tasks.repeat_report(tx, share)
        self._wakeup.outbox([initiator.party_id])

    def _prune(self) -> None:
        """Forget old replies, once in a while."""
        now_ms = self._clock.now_ms()
        if now_ms < self._prune_ms:
            return
        self._prune_ms = now_ms + _PRUNE_MS
        with self._leading.transaction() as tx:
            tx.reply_cache.prune(now_ms - self._timing.received_keep_ms)
            tx.submits.prune(now_ms - self._timing.submit_key_keep_ms)

    def _end_applications(self, tasks: Sequence[TaskRecord], *, leads: bool) -> None:
        """End the Spark applications here of party jobs that hold nothing any more.

        One that does not lead starts no tasks, so it keeps those only whose tasks run here.
        """
        applications = self._applications
        if applications is None:
            return
        here = {t.key.job for t in tasks if self._servers.is_local(t.instance_id)}

        def check(key: JobKey) -> None:
            with self._store.read() as tx:
                job = tx.jobs.get(key)
            if job is None or not job.in_use or not (leads or key in here):
                applications.end(key)

        for key in applications.running():
            self._guard(key.job_id, lambda key=key: check(key))  # type: ignore[misc]

    def stop_ended(self) -> None:
        """Stop the processes here whose party jobs another server of this party has ended."""
        with self._store.read() as tx:
            tasks = tx.tasks.live()
        for task in tasks:
            ended = task.party_status in TASK_FINAL and task.party_status not in TASK_SUCCEEDED
            if ended and task.handle is not None and self._servers.is_local(task.instance_id):
                self._tasks.fail_session(task)
                self._tasks.kill(task.handle)

    def recover(self) -> None:
        """Take over the processes that an earlier server of this home started.

        Call it before the doors open: an executor that comes back must find its data-plane session.
        """
        with self._store.read() as tx:
            tasks = tx.tasks.live()
        for task in tasks:
            if self._servers.is_local(task.instance_id):
                self._guard(task.key.job_id, lambda task=task: self._recover(task))  # type: ignore[misc]

    def _guard(self, job_id: str, check: Callable[[], None]) -> None:
        try:
            check()
        except NotLeading as exc:
            logger.info("Job %s is another server's now: %s", job_id, exc.message)
        except StoreUnavailable as exc:
            logger.warning("Job %s could not be checked: %s", job_id, exc.message)
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
            return
        why = Message(
            "its server was restarted and goes on with its process {pid}", task.handle.pid
        )
        with self._store.transaction() as tx:
            note = process_note(task.key, "ProcessAdopted", why, at_ms=self._clock.now_ms())
            tx.events.add(note)

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
            effects = AfterCommit()
            with self._store.transaction() as tx:
                current = tx.tasks.get(task.key)
                if current is None or current.launch_id != task.launch_id:
                    return
                if current.handle is not None or current.party_status in TASK_FINAL:
                    return  # it has begun or ended since this pass looked
                if self._tasks.request_launch(tx, current, effects):
                    why = Message("its process had not begun in time, and another one is started")
                    tx.events.add(process_note(task.key, "LaunchRepeated", why, at_ms=now_ms))
            effects.run()

    def _check_elsewhere(self, task: TaskRecord) -> None:
        """End a party task whose server is lost, and its process if that is on this machine."""
        lost_s = self._servers.lost_for_s(task.instance_id)
        if lost_s is None or task.launch_id is None:
            return
        if task.handle is not None and task.handle.host == self._host:
            self._executor.stop(task.handle, grace_s=0.0)
        key, effects = task.key, AfterCommit()
        reason = Message(
            "server {server} was last heard of {seconds} s ago", task.instance_id, lost_s
        )
        error = ServerLost(task=str(key), reason=reason)
        with self._leading.transaction() as tx:
            current = tx.tasks.get(key)
            if current is None or current.launch_id != task.launch_id:
                return
            tx.tasks.clear_handle(key, task.launch_id)
            if current.party_status not in TASK_FINAL:
                why = Reason(code=error.name, message=error.message, site=key.site)
                self._tasks.finish(tx, current, TaskStatus.FAILED, effects, reason=why)
            self._jobs.return_if_still(tx, key.job, effects)
        effects.run()

    def _check_job(self, job: JobRecord) -> None:
        """End a job whose initiator is silent for too long; return what an ended one holds."""
        effects = AfterCommit()
        with self._leading.transaction() as tx:
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

    def _check_lease(self, tx: Tx, job: JobRecord, effects: AfterCommit) -> None:
        silent_ms = self._silent_ms(tx, job)
        if self._is_too_silent(tx, job, silent_ms):
            site, seconds = job.initiator, silent_ms // 1000
            lost = InitiatorLost(site=site, seconds=seconds)
            lack = self._circuit_breakers.lack_of(site.party_id)
            message = without(lack, site, seconds) if lack else lost.message
            heard_ms = self._party_leases.initiators_ms(tx, site.party_id)
            if self._clock.now_ms() - heard_ms < silent_ms - self._timing.lease_ms // 2:
                message = Message(
                    "{site} sends heartbeats, but named this job {seconds} seconds ago for the last"
                    " time",
                    site,
                    seconds,
                )
            reason = Reason(code=lost.name, message=message, site=site)
            self._jobs.end_here(tx, job, JobStatus.FAILED, reason, effects)

    def _silent_ms(self, tx: Tx, job: JobRecord) -> int:
        """Return for how long the initiator has said nothing of a job."""
        return self._clock.now_ms() - self._party_leases.initiator_ms(tx, job.key.job_id)

    def _is_too_silent(self, tx: Tx, job: JobRecord, silent_ms: int) -> bool:
        """Tell whether a party job ends because its initiator has said nothing of it for so long.

        A waiting party job lives as long as its initiator's server, but not beyond its own timeout
        if it is not named any more: nobody may know of it.
        """
        now_ms, lease_ms = self._clock.now_ms(), self._timing.lease_ms
        if silent_ms <= lease_ms:
            return False
        if job.status is JobStatus.WAITING and not job.in_use:
            timeout_ms = int(job.parameters.get("timeout", 0)) * 1000
            heard_ms = self._party_leases.initiators_ms(tx, job.initiator.party_id)
            lives = now_ms - heard_ms <= lease_ms
            return not lives or is_older(job.queued_ms, timeout_ms + lease_ms, now_ms)
        return True
