"""A participant's party tasks: start, stop, and what becomes of their processes.

The site is the authority over its party status. Its end is stored together with the report to the
initiator, so the report can be late but not lost.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from fedflow.app.participant.job_quotas import JobQuotas
from fedflow.app.participant.launcher import Launcher
from fedflow.app.ports.executors import Execution
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Incoming, TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.party_commands import reason_from_wire, reason_to_wire
from fedflow.app.protocol.piggyback import apply_statuses
from fedflow.base.errors.executors import ServerLost
from fedflow.base.errors.jobs import (
    JobEnded,
    JobNotFound,
    QuotaReached,
    StaleCommand,
    StillEnding,
    TaskNotFound,
    WrongSite,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_token
from fedflow.base.messages import Message
from fedflow.domain.job.ledger import PeerLedger, both_launches
from fedflow.domain.outside import is_kept_back, outside_reason
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Handle,
    JobKey,
    JobRecord,
    Moved,
    Reply,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.scheduling.decide import named_reason
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_END_EVENT,
    TASK_FINAL,
    TASK_STATUS_OF_JOB_END,
    TASK_SUCCEEDED,
    JobEvent,
    JobStatus,
    TaskEvent,
    TaskStatus,
)
from fedflow.wire.commands import (
    CreateTask,
    OutputTable,
    SettleTask,
    StartTask,
    TaskAnswer,
    TaskCollected,
    plain,
)

logger = logging.getLogger(__name__)


class PartyTasks(UseCase):
    """The party tasks of this server."""

    def __init__(
        self, kernel: Kernel, *, execution: Execution, launcher: Launcher, quotas: JobQuotas
    ) -> None:
        super().__init__(kernel)
        self._quotas = quotas
        self._launcher = launcher
        self._executor = execution.executor
        self._sessions = execution.sessions

    # --- commands of the initiator --------------------------------------------------------------

    def start(self, tx: Tx, incoming: TypedCommand[StartTask], effects: AfterCommit) -> Reply:
        """Start this site's party task. A repeat has no second effect."""
        task = self._known(tx, incoming)
        job = tx.jobs.get(incoming.job)
        if job is None or job.status in JOB_FINAL:
            status = job.status.value if job else "unknown"
            raise JobEnded(job_id=incoming.job_id, status=status)
        epoch = incoming.body.epoch
        if epoch not in (None, job.epoch):
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        self._party_leases.heard_initiator(tx, incoming.job_id)
        apply_statuses(tx, job.key, incoming.body, now_ms=self._clock.now_ms())
        if incoming.body.launch > task.launch:
            task = self._launched_again(tx, task, incoming.body.launch)
        if task.party_status in TASK_FINAL:
            return Reply(retcode=10, retmsg="the task has ended here", data=plain(_told(task)))
        if not job.in_use and not tx.jobs.take_cores(job.key, now_ms=self._clock.now_ms()):
            why = self._queue.missing(tx, job)  # this database was put back to before it held them
            return Reply(retcode=103, retmsg=why.message, error=why.code)
        if job.status is JobStatus.WAITING:
            tx.jobs.move(job.key, JobEvent.STARTED, seen=job.status, now_ms=self._clock.now_ms())
        if task.requested_ms is None:
            if incoming.body.absent:
                tx.tasks.set_absent(task.key, incoming.body.absent)
            if (other := self._runs_at(tx, task)) is not None:
                self._split(tx, task, other, effects)
            else:
                self.request_launch(tx, task, effects)
        return Reply(retcode=0)

    def _launched_again(self, tx: Tx, task: TaskRecord, launch: int) -> TaskRecord:
        """Return a party task of an elastic job as it waits for its start once more; one that has
        succeeded stays so, and is told as the launch that was asked for.

        Raises: StillEnding: the process of the former launch is left.
        """
        if task.party_status is TaskStatus.SUCCESS:
            return replace(task, launch=launch)
        now_ms, seen = self._clock.now_ms(), task.party_status
        if seen is TaskStatus.WAITING and task.requested_ms is None:  # no launch ever came here
            tx.tasks.move_party(task.key, TaskEvent.EXCUSED, seen=seen, now_ms=now_ms)
            seen = TaskStatus.PASS
        if seen not in TASK_FINAL or task.handle is not None:
            raise StillEnding(job_id=task.key.job_id, site=task.key.site)
        tx.tasks.relaunch(task.key, launch, seen=seen, now_ms=now_ms)
        key = task.key
        tx.tracking.drop_metrics(key.job_id, key.component, key.site)  # it tells its own again
        return tx.tasks.get(key) or task

    def excuse(self, tx: Tx, task: TaskRecord, reason: Reason | None, effects: AfterCommit) -> None:
        """Let a party task of an elastic job pass, as its host is absent, and stop its process."""
        if task.party_status in TASK_SUCCEEDED:
            return
        began, key, now_ms = task.requested_ms is not None, task.key, self._clock.now_ms()
        tx.tasks.move_party(
            key, TaskEvent.EXCUSED, seen=task.party_status, now_ms=now_ms, reason=reason,
            ledger=self._ledger(tx, task),
        )  # fmt: skip
        if began and task.party_status not in TASK_FINAL:
            message = _told_to_peers(key, TaskStatus.PASS, reason)
            effects.add(
                lambda: self._sessions.fail_site(
                    key.session, key.site, message, incarnation=task.launch
                )
            )
        handle = task.handle
        if handle is not None:
            effects.add(lambda: self._kill_where_it_is(task, handle))

    def excuse_all(self, tx: Tx, key: JobKey, effects: AfterCommit, *, reason: Reason) -> None:
        """Let all pass that a host has not done of what the others of an elastic job have."""
        for task in self._latest(tx, key):
            if task.status in TASK_SUCCEEDED:
                self.excuse(tx, task, reason, effects)

    def rejoin(self, tx: Tx, key: JobKey, effects: AfterCommit, *, reason: Reason) -> None:
        """Let a host take part in an elastic job once more: stop what runs, for it is launched
        again, and let those wait that an end has canceled before they began.
        """
        for task in self._latest(tx, key):
            status, began = task.party_status, task.requested_ms is not None
            if status not in TASK_FINAL and began:
                self.excuse(tx, task, reason, effects)
            elif status is TaskStatus.CANCELED and not began:
                now_ms = self._clock.now_ms()
                tx.tasks.relaunch(task.key, task.launch, seen=status, now_ms=now_ms)

    def _latest(self, tx: Tx, key: JobKey) -> list[TaskRecord]:
        site = key.site
        which = TaskFilter(job_id=key.job_id, roles=(site.role,), party_id=site.party_id)
        return tx.tasks.find(which)

    def _runs_at(self, tx: Tx, task: TaskRecord) -> str | None:
        """Return the other server of this party that runs party tasks of an attempt, if any."""
        if not self._servers.has_others:
            return None
        shares = tx.tasks.find(
            TaskFilter(job_id=task.key.job_id, component=task.key.component, all_versions=True)
        )
        found = (s.instance_id for s in shares if s.key.version == task.key.version)
        return next((i for i in found if not self._servers.is_local(i)), None)

    def _split(self, tx: Tx, task: TaskRecord, other: str, effects: AfterCommit) -> None:
        """End an attempt whose party tasks would be at two servers of this party: values between
        them stay within one server. It is tried again.
        """
        reason = Message(
            "other shares of the task were started at server {server}, which leads no more", other
        )
        lost = ServerLost(task=str(task.key), reason=reason)
        why = Reason(code=lost.name, message=lost.message, site=task.key.site)
        tx.tasks.set_status(task.key, TaskStatus.RUNNING, now_ms=self._clock.now_ms())
        self.finish(tx, task, TaskStatus.FAILED, effects, reason=why)

    def create(self, tx: Tx, incoming: TypedCommand[CreateTask], effects: AfterCommit) -> Reply:
        """Make a further attempt of a task that failed; it waits for its start. A repeat has no
        second effect.

        Raises: StillEnding: the former attempt's process is left. StaleCommand. TaskNotFound.
            QuotaReached.
        """
        key = incoming.task
        job = tx.jobs.get(incoming.job)
        if job is None or job.status in JOB_FINAL:
            raise JobEnded(job_id=key.job_id, status=job.status.value if job else "unknown")
        if incoming.source_party is not None and incoming.source_party != job.initiator.party_id:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)
        epoch = incoming.body.epoch
        if epoch != job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        self._party_leases.heard_initiator(tx, key.job_id)
        attempts = _attempts(tx, key)
        if not attempts:
            raise TaskNotFound(task=str(key))
        last = attempts[-1]
        if key.version == last.key.version:
            return Reply(retcode=0)
        if key.version < last.key.version:
            raise StaleCommand(given=str(key), current=f"attempt {last.key.version}")
        if any(t.handle is not None for t in attempts):
            raise StillEnding(job_id=key.job_id, site=key.site)
        left, now_ms = incoming.body.auto_retries, self._clock.now_ms()
        attempt = fresh_attempt(last, key.version, left, now_ms=now_ms)
        self._quotas.admit_attempts(tx, job, [attempt])
        tx.tasks.add([attempt])
        return Reply(retcode=0)

    def add_missed(self, tx: Tx, job: JobRecord, missed: Mapping[str, range]) -> None:
        """Add the attempts of an ended job that never arrived here, so that all sites have them.

        Those of a party whose jobs take too much already are left out.
        """
        key, site, now_ms = job.key, job.key.site, self._clock.now_ms()
        which = TaskFilter(job_id=key.job_id, roles=(site.role,), party_id=site.party_id)
        attempts = [
            fresh_attempt(task, version, 0, now_ms=now_ms)
            for task in tx.tasks.find(which)
            for version in missed.get(task.key.component, ())
        ]
        with suppress(QuotaReached):
            self._quotas.admit_attempts(tx, job, attempts)
            tx.tasks.add(attempts)

    def request_launch(self, tx: Tx, task: TaskRecord, effects: AfterCommit) -> bool:
        """Name a new process for the attempt, and start it after the commit.

        False, and nothing happens, if the one that `task` names has begun or was replaced.
        """
        launch_id, token = new_token(), new_token()
        now_ms = self._clock.now_ms()
        if not tx.tasks.set_launch(
            task.key,
            launch_id,
            token,
            seen=task.launch_id,
            now_ms=now_ms,
            instance_id=self._servers.own_id,
        ):
            return False
        effects.add(lambda: self._launcher.launch(task.key))
        return True

    def collect(self, tx: Tx, incoming: Incoming, effects: AfterCommit) -> Reply:
        """Tell how this site's party task stands."""
        task = self._known(tx, incoming)
        return Reply(
            retcode=0,
            data=plain(
                TaskCollected(
                    job_id=task.key.job_id,
                    task_id=task.key.task_id,
                    task_version=task.key.version,
                    role=task.key.site.role.value,
                    party_id=task.key.site.party_id,
                    status=task.status.value,
                    **structs.asdict(_told(task)),
                )
            ),
        )

    def output_tables(self, tx: Tx, incoming: Incoming, effects: AfterCommit) -> Reply:
        """Tell the parties of the job the names of the tables that a component produced here."""
        job = tx.jobs.get(incoming.job)
        if job is None:
            raise JobNotFound(job_id=incoming.job_id)
        parties = {party for ids in job.roles.values() for party in ids}
        if incoming.source_party is not None and incoming.source_party not in parties:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)
        found = tx.tracking.outputs(incoming.job_id, incoming.component, incoming.job.site)
        rows = [
            plain(
                OutputTable(table_name=o.name, table_namespace=o.namespace, data_name=o.data_name)
            )
            for o in found
        ]
        return Reply(retcode=0, data=rows)

    def settle(self, tx: Tx, incoming: TypedCommand[SettleTask], effects: AfterCommit) -> Reply:
        """The task ended elsewhere with a status: stop this party task if it still runs."""
        status = _task_end(incoming.status)
        task = self._known(tx, incoming)
        if (launch := incoming.body.absent_launch) is not None:
            if launch == task.launch:
                self.excuse(tx, task, reason_from_wire(incoming.body.reason), effects)
            return Reply(retcode=0)
        tx.tasks.set_status(task.key, status, now_ms=self._clock.now_ms())
        if status not in TASK_SUCCEEDED:
            self._stop(tx, task, status, reason_from_wire(incoming.body.reason), effects)
        return Reply(retcode=0)

    def told(self, tx: Tx, key: JobKey) -> dict[str, Any]:
        """Return how all tasks of one site stand, as a heartbeat's answer."""
        tasks = tx.tasks.find(
            TaskFilter(job_id=key.job_id, roles=(key.site.role,), party_id=key.site.party_id)
        )
        return {
            t.key.component: plain(structs.replace(_told(t), version=t.key.version)) for t in tasks
        }

    def known_here(self, tx: Tx, key: JobKey, reason: Reason | None) -> Reason | None:
        """Return the reason of a job's end; of a failure at this site all that is known here."""
        if reason is None or reason.site != key.site or not is_kept_back(reason.message):
            return reason
        tasks = tx.tasks.find(
            TaskFilter(job_id=key.job_id, roles=(key.site.role,), party_id=key.site.party_id)
        )
        own = ((t.key.component, t.reason) for t in tasks if t.party_status is TaskStatus.FAILED)
        found = [(c, r) for c, r in own if r is not None and r.code == reason.code]
        return named_reason(*found[0]) if found else reason

    def _known(self, tx: Tx, incoming: Incoming) -> TaskRecord:
        task = tx.tasks.get(incoming.task)
        if task is None:
            raise TaskNotFound(task=str(incoming.task))
        if incoming.source_party is not None and incoming.source_party != task.initiator.party_id:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)
        return task

    # --- ends -----------------------------------------------------------------------------------

    def stop_all(
        self, tx: Tx, key: JobKey, status: JobStatus, reason: Reason | None, effects: AfterCommit
    ) -> None:
        """End every party task of a job at one site that has not ended."""
        end = TASK_STATUS_OF_JOB_END[status]
        tasks = tx.tasks.find(
            TaskFilter(
                job_id=key.job_id,
                roles=(key.site.role,),
                party_id=key.site.party_id,
                all_versions=True,
            )
        )
        for task in tasks:
            never_ran = task.party_status is TaskStatus.WAITING and task.requested_ms is None
            self._stop(tx, task, TaskStatus.CANCELED if never_ran else end, reason, effects)

    def finish(
        self,
        tx: Tx,
        task: TaskRecord,
        status: TaskStatus,
        effects: AfterCommit,
        *,
        reason: Reason | None = None,
        traceback: str = "",
    ) -> bool:
        """Store the end of this party task and its report to the initiator, unless the initiator
        collects it; False if it had ended.
        """
        now_ms = self._clock.now_ms()
        moved = tx.tasks.move_party(
            task.key,
            TASK_END_EVENT[status],
            seen=task.party_status,
            now_ms=now_ms,
            reason=reason,
            traceback=traceback,
            ledger=self._ledger(tx, task),
        )
        if not isinstance(moved, Moved):
            return False
        if not self._status_pull.is_pulled(tx, task.key.job, task.initiator):
            report = self._party_commands.report_task(
                task.key,
                task.initiator,
                status,
                reason=reason,
                started_ms=task.started_ms,
                ended_ms=now_ms,
                launch=task.launch,
            )
            tx.outbox.put([report])
        effects.add(lambda: self._after_end(task, status, reason))
        logger.info(
            "%s ended: %s%s",
            task.key,
            status.value,
            f" ({reason.message})" if reason else "",
            extra={"action": "end_party_task", "job_id": task.key.job_id},
        )
        return True

    def repeat_report(self, tx: Tx, job: JobRecord) -> None:
        """Report one task of a job to its initiator as it stands, which changes nothing there,
        unless the initiator collects reports.
        """
        key, site = job.key, job.key.site
        if self._status_pull.is_pulled(tx, key, job.initiator):
            return
        which = TaskFilter(job_id=key.job_id, roles=(site.role,), party_id=site.party_id, limit=1)
        for task in tx.tasks.find(which):
            report = self._party_commands.report_task(
                task.key,
                job.initiator,
                task.party_status,
                reason=task.reason,
                started_ms=task.started_ms,
                ended_ms=task.ended_ms,
                launch=task.launch,
            )
            tx.outbox.put([report])

    def _ledger(self, tx: Tx, task: TaskRecord) -> tuple[PeerLedger, ...]:
        """Return what an attempt that ends exchanged, in its earlier launches too."""
        key = task.key
        found = self._sessions.ledger_of(key.session, key.site, incarnation=task.launch)
        if not task.launch or not found:
            return found
        return both_launches(tx.tasks.ledgers(key.job_id).get(key, ()), found)

    def _after_end(self, task: TaskRecord, status: TaskStatus, reason: Reason | None) -> None:
        key = task.key
        if status in TASK_SUCCEEDED:
            self._sessions.close_session(key.session, key.site, incarnation=task.launch)
        else:
            self._sessions.fail_site(
                key.session, key.site, _told_to_peers(key, status, reason), incarnation=task.launch
            )
        self._wakeup.outbox([task.initiator.party_id])
        self._wakeup.job_changed(key.job_id)

    def _stop(
        self,
        tx: Tx,
        task: TaskRecord,
        status: TaskStatus,
        reason: Reason | None,
        effects: AfterCommit,
    ) -> None:
        """End a party task without a report (the initiator ordered it) and stop its process.

        The process of a party task that succeeded ends by itself, or else the detector sees it.
        """
        if task.party_status not in TASK_FINAL:
            tx.tasks.move_party(
                task.key,
                TASK_END_EVENT[status],
                seen=task.party_status,
                now_ms=self._clock.now_ms(),
                reason=reason,
                ledger=self._ledger(tx, task),
            )
            key, message = task.key, _told_to_peers(task.key, status, reason)
            effects.add(
                lambda: self._sessions.fail_site(
                    key.session, key.site, message, incarnation=task.launch
                )
            )
        handle = task.handle
        if handle is not None and task.party_status not in TASK_SUCCEEDED:
            effects.add(lambda: self._kill_where_it_is(task, handle))

    def _kill_where_it_is(self, task: TaskRecord, handle: Handle) -> None:
        if self._servers.is_local(task.instance_id):
            self.kill(handle)
        else:
            self._servers.scan_now(task.instance_id)

    def fail_session(self, task: TaskRecord) -> None:
        """End the data-plane session of a party task that another server of the party has ended."""
        key = task.key
        message = _told_to_peers(key, task.party_status, task.reason)
        self._sessions.fail_site(key.session, key.site, message, incarnation=task.launch)

    def kill(self, handle: Handle) -> None:
        """Stop a process: SIGTERM, grace, SIGKILL."""
        self._executor.stop(handle, grace_s=self._timing.stop_grace_s)


def fresh_attempt(task: TaskRecord, version: int, auto_retries: int, *, now_ms: int) -> TaskRecord:
    """Return a further attempt of a task with the same parameters, which has not begun."""
    return TaskRecord(
        key=replace(task.key, version=version),
        module=task.module,
        initiator=task.initiator,
        status=TaskStatus.WAITING,
        party_status=TaskStatus.WAITING,
        parameters=task.parameters,
        created_ms=now_ms,
        updated_ms=now_ms,
        auto_retries=auto_retries,
        auto_retry_delay_s=task.auto_retry_delay_s,
    )


def _attempts(tx: Tx, key: TaskKey) -> list[TaskRecord]:
    """Return all attempts of a task at its site, oldest first."""
    found = tx.tasks.find(
        TaskFilter(
            job_id=key.job_id,
            component=key.component,
            roles=(key.site.role,),
            party_id=key.site.party_id,
            all_versions=True,
        )
    )
    return sorted(found, key=lambda t: t.key.version)


def _task_end(text: str | None) -> TaskStatus:
    try:
        status = TaskStatus(text or "")
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a task status") from exc
    if status not in TASK_FINAL:
        raise BadRequest(reason=f"{text!r} does not end a task")
    return status


def _told_to_peers(key: TaskKey, status: TaskStatus, reason: Reason | None) -> str:
    """Return why a site takes no part any more, as all of its peers may know it."""
    if reason is None:
        return f"the task is {status.value}"
    return outside_reason(reason, key.site).message.removesuffix(".")


def _told(task: TaskRecord) -> TaskAnswer:
    return TaskAnswer(
        party_status=task.party_status.value,
        progress=task.progress,
        reason=reason_to_wire(task.reason, task.key.site, to=task.initiator),
        start_time=task.started_ms,
        end_time=task.ended_ms,
        requested=task.requested_ms is not None,
        launch=task.launch,
    )
