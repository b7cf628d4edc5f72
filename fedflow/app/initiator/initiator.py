"""The initiator's side of commands: reports and stop requests that come in, replies that come
back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Incoming, TypedCommand
from fedflow.app.protocol.kernel import UseCase
from fedflow.app.protocol.party_commands import reason_from_wire
from fedflow.app.protocol.piggyback import news_of
from fedflow.app.protocol.status_pull import told_stop
from fedflow.base.errors.jobs import JobNotFound, WrongSite
from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import Message, verbatim
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    Command,
    CommandKind,
    Moved,
    Reply,
    ScheduledJob,
    ScheduledSite,
    ScheduledTask,
    Stale,
    TaskKey,
)
from fedflow.domain.scheduling.history import job_note
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, TASK_SUCCEEDED, JobStatus, TaskStatus
from fedflow.wire import paths
from fedflow.wire.commands import (
    InitiatorStop,
    SiteAnswer,
    TaskAnswer,
    TaskOfEpoch,
    TaskReport,
    counted,
    read_command,
)

logger = logging.getLogger(__name__)

_CREATING = frozenset({CommandKind.CREATE_JOB, CommandKind.RERUN_JOB})
"""Commands by which a site begins to take part."""
_MUST_TAKE_EFFECT = _CREATING | {CommandKind.APPLY_CORES, CommandKind.CREATE_TASK}
"""Commands whose return code 10, "stale, without effect", is no consent."""
_NOT_AT_WORK = frozenset({TaskStatus.WAITING.value, *(status.value for status in TASK_FINAL)})
_NOT_THERE = frozenset({SitePhase.CREATING, SitePhase.ABSENT})
"""Phases of a site that may know nothing of the job."""
_NOT_NOW = frozenset({"NotEnoughResources", "Reserved"})
"""Why a site denies cores that it may well grant later."""
_NEEDED = frozenset(
    {
        CommandKind.APPLY_CORES,
        CommandKind.START_JOB,
        CommandKind.CREATE_TASK,
        CommandKind.START_TASK,
    }
)
"""Commands without which the job cannot go on."""


class Initiator(UseCase):
    """What this server knows of the jobs that it initiated, kept up to date."""

    # --- commands that come in ------------------------------------------------------------------

    def report(self, tx: Tx, incoming: TypedCommand[TaskReport], effects: AfterCommit) -> Reply:
        """A site tells how its party task stands. Late and repeated reports change nothing."""
        key = incoming.task
        _check_site(incoming, key.site)
        try:
            status = TaskStatus(incoming.body.party_status)
        except ValueError as exc:
            raise BadRequest(reason="`party_status` is not a task status") from exc
        self._party_leases.heard(tx, key.site.party_id)  # first, as heartbeats do: else a deadlock
        moved = tx.schedules.report(
            key.job_id,
            key.component,
            key.version,
            key.site,
            status,
            reason=reason_from_wire(incoming.body.reason),
            progress=1.0 if status in TASK_FINAL else None,
            launch=incoming.body.launch,
            now_ms=self._clock.now_ms(),
        )
        if isinstance(moved, Stale) and tx.schedules.status(key.job_id) is None:
            raise JobNotFound(job_id=key.job_id)
        if status in TASK_FINAL:  # that it runs decides nothing
            effects.add(lambda: self._look_at(key, status))
        return Reply(retcode=0 if isinstance(moved, Moved) else 10)

    def _look_at(self, key: TaskKey, status: TaskStatus) -> None:
        """Let the scheduler look at an ended share, unless it succeeded and others of its task run.

        What is read is committed: of reports that come at once, the last one sees them all.
        """
        if status in TASK_SUCCEEDED:
            with suppress(StoreUnavailable), self._store.read() as tx:
                if tx.schedules.is_open(key.job_id, key.component, key.version):
                    return
        self._wakeup.schedule(key.job_id)

    def stop(self, tx: Tx, incoming: TypedCommand[InitiatorStop], effects: AfterCommit) -> Reply:
        """A site asks for the end of a job."""
        key = incoming.job
        job = tx.schedules.get(key.job_id)
        if job is None:
            raise JobNotFound(job_id=key.job_id)
        if all(s.site != key.site for s in job.sites):
            raise WrongSite(site=str(key.site), job_id=key.job_id)
        _check_site(incoming, key.site)
        try:
            status = JobStatus(incoming.status or "")
        except ValueError as exc:
            raise BadRequest(reason=f"{incoming.status!r} is not a job status") from exc
        if status not in (JobStatus.CANCELED, JobStatus.FAILED, JobStatus.TIMEOUT):
            raise BadRequest(reason=f"a job cannot be stopped as {status.value}")
        reason = reason_from_wire(incoming.body.reason) or Reason(
            code="Stopped", message=Message("stopped by {site}", key.site), site=key.site
        )
        if job.status in JOB_FINAL:
            return Reply(retcode=10, retmsg=f"the job has ended: {job.status.value}")
        if incoming.body.epoch not in (None, job.epoch):  # an older release gives none
            return Reply(retcode=10, retmsg="the job was run again after this was asked for")
        tx.schedules.request_stop(
            key.job_id, StopRequest(status=status, reason=reason), now_ms=self._clock.now_ms()
        )
        effects.add(lambda: self._wakeup.schedule(key.job_id))
        return Reply(retcode=0)

    # --- replies that come back -----------------------------------------------------------------

    def replied(self, tx: Tx, command: Command, reply: Reply, effects: AfterCommit) -> None:
        """Store what follows from the answer to a command."""
        if command.source.party_id != command.destination.party_id:
            self._party_leases.heard(tx, command.destination.party_id)
        if reply.retcode == 0 or (reply.retcode == 10 and command.kind not in _MUST_TAKE_EFFECT):
            self._accepted(tx, command, reply, effects)
        else:
            reason = Reason(
                code=reply.error[:100] or "PartyRefused",
                message=verbatim(reply.retmsg),
                site=command.destination,
            )
            self._refused(tx, command, reason, effects)

    def undeliverable(self, tx: Tx, command: Command, effects: AfterCommit) -> None:
        """Store what follows from a command whose deadline passed without an answer."""
        reason = Reason(
            code="PartyUnreachable",
            message=Message(
                "{site} could not be reached: {error}", command.destination, command.error
            ),
            site=command.destination,
        )
        self._refused(tx, command, reason, effects)

    def _accepted(self, tx: Tx, command: Command, reply: Reply, effects: AfterCommit) -> None:
        if command.kind in _CREATING:
            if _is_current(tx, command):
                self._set_phase(tx, command, SitePhase.CREATING, SitePhase.CREATED)
        elif command.kind is CommandKind.APPLY_CORES:
            if _is_current(tx, command):
                self._set_phase(tx, command, SitePhase.APPLYING, SitePhase.GRANTED)
        elif command.kind is CommandKind.START_TASK and reply.retcode == 10:
            component, version = _attempt(command)
            if isinstance(reply.data, dict):  # it tells of this attempt, which may not be the last
                told = {**reply.data, "version": version}
                self.take_told(tx, command.job_id, command.destination, component, told)
        else:
            return
        effects.add(lambda: self._wakeup.schedule(command.job_id))

    def _refused(self, tx: Tx, command: Command, reason: Reason, effects: AfterCommit) -> None:
        if command.kind in _CREATING | _NEEDED and not _is_current(tx, command):
            return
        if command.kind in _CREATING:
            self._set_phase(tx, command, SitePhase.CREATING, SitePhase.REFUSED, reason)
        elif command.kind is CommandKind.APPLY_CORES and reason.code in _NOT_NOW:
            self._denied(tx, command, reason)
        elif command.kind in _NEEDED:
            self._give_up(tx, command, reason)
        else:
            logger.warning(
                "%s of job %s was refused by %s: %s",
                command.kind.value,
                command.job_id,
                command.destination,
                reason.message,
                extra={"action": "refused", "job_id": command.job_id},
            )
            what = Message(
                "the command {name} was given up: {message}", command.kind.value, reason.message
            )
            note = job_note(
                command.job_id, replace(reason, message=what), at_ms=self._clock.now_ms()
            )
            tx.events.add(note)
            return
        effects.add(lambda: self._wakeup.schedule(command.job_id))

    def _set_phase(
        self,
        tx: Tx,
        command: Command,
        seen: SitePhase,
        phase: SitePhase,
        reason: Reason | None = None,
    ) -> None:
        known = self._site(tx, command) if phase is SitePhase.REFUSED else None
        site = ScheduledSite(
            site=command.destination,
            phase=phase,
            denials=known.denials if known is not None else 0,
            reason=reason,
        )
        tx.schedules.set_site(command.job_id, site, seen=seen, now_ms=self._clock.now_ms())

    def _denied(self, tx: Tx, command: Command, reason: Reason) -> None:
        """No cores now: ask again after a pause that doubles each time."""
        now_ms = self._clock.now_ms()
        site = self._site(tx, command)
        if site is None:
            return
        wait_ms = min(
            self._timing.denied_cap_ms, self._timing.denied_base_ms * 2 ** min(site.denials, 16)
        )
        denied = ScheduledSite(
            site=site.site,
            phase=SitePhase.DENIED,
            retry_ms=now_ms + wait_ms,
            denials=site.denials + 1,
            reason=reason,
        )
        if tx.schedules.set_site(command.job_id, denied, seen=SitePhase.APPLYING, now_ms=now_ms):
            tx.schedules.set_reason(command.job_id, reason, now_ms=now_ms)
            tx.queue.postpone_request(command.job_id, denied.retry_ms)

    def _give_up(self, tx: Tx, command: Command, reason: Reason) -> None:
        """The site does not take part any more: the scheduler ends the job."""
        site = self._site(tx, command)
        if site is not None and site.phase not in _NOT_THERE:
            gone = ScheduledSite(site=site.site, phase=SitePhase.GONE, reason=reason)
            tx.schedules.set_site(
                command.job_id, gone, seen=site.phase, now_ms=self._clock.now_ms()
            )

    def _site(self, tx: Tx, command: Command) -> ScheduledSite | None:
        job = tx.schedules.get(command.job_id)
        if job is None:
            return None
        return next((s for s in job.sites if s.site == command.destination), None)

    # --- heartbeat answers ----------------------------------------------------------------------

    def take_answer(self, tx: Tx, job: ScheduledJob, site: Site, answer: Any) -> bool:
        """Repair what this server knows of one site from its heartbeat answer; tell if it
        changed. `job` is as it was when the site was asked.
        """
        if any(s.site == site and s.phase is SitePhase.CREATING for s in job.sites):
            return False  # it may have come there since
        if any(s.site == site and s.phase is SitePhase.ABSENT for s in job.sites):
            return True  # it was heard from again, and may come back
        current = tx.schedules.get(job.job_id)
        if not isinstance(answer, dict) or current is None or current.status in JOB_FINAL:
            return False
        asked, job = job, current
        told = read_command(answer, SiteAnswer)
        known = next((s for s in job.sites if s.site == site), None)
        if known is None or known.phase in _NOT_THERE or asked.epoch != job.epoch:
            return False  # it was rerun here and is not there yet, or the answer is late
        if told.epoch not in (None, job.epoch):
            return self._is_gone(tx, job, known, Message("{site} has another run of the job", site))
        stop = told_stop(told.stop, site)
        if stop is not None:
            return tx.schedules.request_stop(job.job_id, stop, now_ms=self._clock.now_ms())
        status = told.status
        if status not in (None, *(s.value for s in JOB_FINAL)) or _has_all(job, site, told):
            return self._take_tasks(tx, job, site, told.tasks)
        why = reason_from_wire(told.reason)
        if status is None:
            message = Message("{site} has lost the job", site=site)
        elif why is None:
            message = Message("{site} has given the job up ({status})", site=site, status=status)
        else:
            message = Message("{site} has given the job up: {message}", site, why.message)
        return self._is_gone(tx, job, known, message)

    def _is_gone(self, tx: Tx, job: ScheduledJob, known: ScheduledSite, message: Message) -> bool:
        """Store that a site does not take part any more."""
        reason = Reason(code="PartyRefused", message=message, site=known.site)
        gone = ScheduledSite(site=known.site, phase=SitePhase.GONE, reason=reason)
        return tx.schedules.set_site(
            job.job_id, gone, seen=known.phase, now_ms=self._clock.now_ms()
        )

    def _take_tasks(
        self, tx: Tx, job: ScheduledJob, site: Site, tasks: Mapping[str, Any] | None
    ) -> bool:
        """Store what a site says of its tasks in the answer to a heartbeat; tell if that is new."""
        changed = [
            self.take_told(tx, job.job_id, site, component, tasks[component])
            for component in dict.fromkeys(t.component for t in job.tasks)  # not as many as it says
            if tasks and component in tasks
        ]
        for task in job.tasks:
            one = (tasks or {}).get(task.component)
            if task.status is TaskStatus.RUNNING and isinstance(one, dict):
                self._start_again(tx, job, task, site, read_command(one, TaskAnswer))
        return any(changed)

    def _start_again(
        self, tx: Tx, job: ScheduledJob, task: ScheduledTask, site: Site, told: TaskAnswer
    ) -> None:
        """Send the start of a task once more to a site that took it, and knows nothing of it now:
        its database was put back, maybe to before the attempt. What arrives twice has no second
        effect.
        """
        version = counted(told.version)
        waits = told.party_status == TaskStatus.WAITING.value and told.requested is False
        is_still = str(told.party_status) in _NOT_AT_WORK
        lacks = is_still and version is not None and version < task.version
        if not lacks and not (waits and version == task.version):
            return
        share = next((p for p in task.parties if p.site == site), None)
        if share is None or share.status is TaskStatus.PASS:  # the others go on without it
            return
        if tx.outbox.of_job(job.job_id, [site.party_id]):
            return  # it is on its way
        spec = self._specs.get(job.job_id, job.dsl, job.conf)
        statuses = {t.component: (t.version, t.status) for t in job.tasks}
        upstream = spec.dag.upstream(task.component)
        absent = [name for name in upstream if statuses[name][1] not in TASK_SUCCEEDED]
        key = TaskKey(job_id=job.job_id, component=task.component, version=task.version, site=site)
        commands = []
        if lacks:
            left = task.retries_left(spec.rules.components[task.component].retries)
            commands.append(self._party_commands.create_task(job, key, retries_left=left))
        news = news_of(statuses)
        commands.append(
            self._party_commands.start_task(job, key, news=news, absent=absent, launch=share.launch)
        )
        tx.outbox.put(commands)

    def take_told(self, tx: Tx, job_id: str, site: Site, component: str, told: Any) -> bool:
        """Store a site's report about one of its tasks; return whether anything changed."""
        job = tx.schedules.get(job_id)
        task = next((t for t in job.tasks if t.component == component), None) if job else None
        if task is None or not isinstance(told, dict):
            return False
        answer = read_command(told, TaskAnswer)
        version = task.version if answer.version is None else answer.version
        try:
            status = TaskStatus(str(answer.party_status))
        except ValueError:
            return False
        if version != task.version or status is TaskStatus.WAITING:
            return False
        moved = tx.schedules.report(
            job_id,
            component,
            version,
            site,
            status,
            reason=reason_from_wire(answer.reason),
            progress=None if answer.progress is None else min(1.0, max(0.0, answer.progress)),
            launch=answer.launch,
            now_ms=self._clock.now_ms(),
        )
        return isinstance(moved, Moved)


def _has_all(job: ScheduledJob, site: Site, told: SiteAnswer) -> bool:
    """Tell whether a site ended a job well that runs here, with every attempt that runs here.

    Then this server's database was put back: what the site reported is asked for again.
    """
    if told.status != JobStatus.SUCCESS.value:
        return False
    tasks = told.tasks or {}
    return all(
        isinstance(one := tasks.get(t.component), dict) and one.get("version") == t.version
        for t in job.tasks
        if t.status is TaskStatus.RUNNING and any(p.site == site for p in t.parties)
    )


def _check_site(incoming: Incoming, site: Site) -> None:
    if incoming.source_party is not None and incoming.source_party != site.party_id:
        raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)


def _is_current(tx: Tx, command: Command) -> bool:
    """Tell whether a command is of the job's current epoch; what came of older ones is void."""
    epoch = read_command(command.body, TaskOfEpoch).epoch
    return epoch is None or epoch == tx.schedules.epoch(command.job_id)


def _attempt(command: Command) -> tuple[str, int]:
    """Return the component and the attempt that a command about a task names."""
    match = paths.parse_party_path(paths.PREFIX + command.path)
    params = match.params if match else {}
    return params.get("component", ""), int(params.get("version", -1))
