"""Pausing a job and letting it go on: from the initiator, or asked by another of its parties.

Only what people want is stored here, by compare-and-set; `decide` sees to what follows: nothing new
starts, and once nothing runs the job gives its cores back (`domain/job/control.py`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.initiator_calls import ask_initiator, asked_job
from fedflow.app.protocol.kernel import UseCase
from fedflow.app.protocol.snapshot import begun_in
from fedflow.base.errors.jobs import BadSteps, ContinueRefused, JobNotFound, PauseRefused
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_request_id
from fedflow.base.messages import Message
from fedflow.domain.job.control import ALL_STEPS, MAX_STEPS, Control, continued, is_stopped
from fedflow.domain.reason import PAUSED, Reason
from fedflow.domain.records import JobFilter, JobRecord, Reply, ScheduledJob
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, JobStatus
from fedflow.wire.commands import ControlJob

logger = logging.getLogger(__name__)

_PAUSE, _CONTINUE = "pause", "continue"


class JobControl(UseCase):
    """The use cases of the routes `job/pause` and `job/continue`, and their command from other
    parties.
    """

    def pause(self, job_id: str) -> None:
        """Let nothing new of a job start; what runs goes on.

        Raises: JobNotFound. PauseRefused: it has ended, or is paused, or the initiator said so.
        """
        self._change(job_id, ControlJob(action=_PAUSE))

    def proceed(self, job_id: str, *, steps: int | None = None, all_: bool = False) -> None:
        """Let a job go on that is paused or waits for a step.

        `steps` is how many components may begin, `all_` lets all; without either a pause ends, and
        a job that waits for a step begins one component.
        Raises: JobNotFound, BadSteps. ContinueRefused: nothing holds it back, or it has ended.
        """
        if steps is not None and all_:
            raise BadSteps(given=steps, reason="all were asked for, too")
        wanted = ALL_STEPS if all_ else _checked(steps)
        self._change(job_id, ControlJob(action=_CONTINUE, steps=wanted))

    def asked(self, tx: Tx, incoming: TypedCommand[ControlJob], effects: AfterCommit) -> Reply:
        """Another site of the job asks. Raises: JobNotFound, WrongSite, BadRequest, BadSteps,
        PauseRefused, ContinueRefused.
        """
        job = asked_job(tx, incoming)
        self._store_change(tx, job, incoming.body, by=incoming.job.site, effects=effects)
        return Reply(retcode=0)

    def _change(self, job_id: str, body: ControlJob) -> None:
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            own = [] if scheduled is not None else tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if scheduled is None:
            if not own:
                raise JobNotFound(job_id=job_id)
            self._ask_initiator(own[0], body)
            return
        effects = AfterCommit()
        with self._store.transaction() as tx:
            job = tx.schedules.get(job_id)
            if job is None:
                raise JobNotFound(job_id=job_id)
            self._store_change(tx, job, body, by=job.initiator, effects=effects)
        effects.run()

    def _store_change(
        self, tx: Tx, job: ScheduledJob, body: ControlJob, *, by: Site, effects: AfterCommit
    ) -> None:
        action, now_ms = body.action, self._clock.now_ms()
        if action == _PAUSE:
            told = Reason(code=PAUSED, message=Message("paused by {site}", by), site=by)
            control = self._paused(job, told, now_ms=now_ms)
        elif action == _CONTINUE:
            told = Reason(code="Continued", message=Message("continued by {site}", by), site=by)
            control = self._continued(
                job, _checked(None if body.steps is UNSET else body.steps), now_ms=now_ms
            )
        else:
            raise BadRequest(reason="`action` must be pause or continue")
        if not tx.schedules.set_control(
            job.job_id, control, seen=job.control, now_ms=now_ms, told=told
        ):
            kind = PauseRefused if action == _PAUSE else ContinueRefused
            raise kind(job_id=job.job_id, reason="it has just changed, look at it and ask again")
        if action == _CONTINUE and job.status is JobStatus.WAITING:
            tx.schedules.set_reason(job.job_id, None, now_ms=now_ms)
        effects.add(lambda: self._wakeup.schedule(job.job_id))
        effects.add(self._wakeup.queue)
        logger.info(
            "Job %s was %s", job.job_id, told.message,
            extra={"action": f"{action}_job", "job_id": job.job_id},
        )  # fmt: skip

    def _paused(self, job: ScheduledJob, told: Reason, *, now_ms: int) -> Control:
        if job.status in JOB_FINAL:
            raise PauseRefused(job_id=job.job_id, reason=_ended(job))
        if job.control.paused is not None:
            reason = Message("it is paused already ({hold})", job.control.paused.message)
            raise PauseRefused(job_id=job.job_id, reason=reason)
        return replace(job.control, paused=told)

    def _continued(self, job: ScheduledJob, steps: int | None, *, now_ms: int) -> Control:
        if job.status in JOB_FINAL:
            raise ContinueRefused(job_id=job.job_id, reason=_ended(job))
        spec = self._specs.get(job.job_id, job.dsl, job.conf)
        step, begun = spec.job_parameters_at(job.initiator).step, begun_in(job)
        if not is_stopped(job.control, step=step, begun=begun):
            reason = "it is not paused, and waits for no step"
            raise ContinueRefused(job_id=job.job_id, reason=reason)
        return continued(job.control, steps=steps, step=step, begun=begun, now_ms=now_ms)

    def _ask_initiator(self, own: JobRecord, body: ControlJob) -> None:
        """Let the initiator store it. Raises: PauseRefused, ContinueRefused: its own sentence."""
        reply = ask_initiator(
            self._parties,
            own,
            "initiator_control",
            body,
            request_id=new_request_id(),
            deadline_s=self._timing.call_timeout_s,
        )
        if reply.retcode != 0:
            kind = PauseRefused if body.action == _PAUSE else ContinueRefused
            message = reply.retmsg.removesuffix(".")
            reason = Message("{site} says: {message}", own.initiator, message)
            raise kind(job_id=own.key.job_id, reason=reason)


def _ended(job: ScheduledJob) -> Message:
    return Message("it has ended: {status}", job.status.value)


def _checked(steps: Any) -> int | None:
    """Return a number of steps, `ALL_STEPS` for all. Raises: BadSteps."""
    if steps is None or steps == ALL_STEPS:
        return ALL_STEPS if steps is not None else None
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise BadSteps(given=repr(steps)[:100], reason="it is no whole number")
    if not 1 <= steps <= MAX_STEPS:
        reason = Message("it is not from 1 to {limit}", MAX_STEPS)
        raise BadSteps(given=steps, reason=reason)
    return int(steps)
