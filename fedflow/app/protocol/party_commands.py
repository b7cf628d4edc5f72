"""Makes the commands that go to other sites: path, body, deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock
from fedflow.base.messages import beside, received
from fedflow.domain.outside import outside_reason
from fedflow.domain.reason import Reason
from fedflow.domain.records import Command, CommandKind, JobKey, ScheduledJob, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_SUCCEEDED, JobStatus, TaskStatus
from fedflow.wire import commands as wire
from fedflow.wire import paths
from fedflow.wire.commands import CommandBody, plain


class PartyCommands:
    """A maker of commands; `new_request_id` gives each its id."""

    def __init__(self, *, clock: Clock, timing: Timing, new_request_id: Callable[[], str]) -> None:
        self._clock = clock
        self._timing = timing
        self._new_request_id = new_request_id

    def create_job(self, job: ScheduledJob, site: Site, **more: Any) -> Command:
        body = wire.CreateJob(
            epoch=job.epoch,
            dsl=job.dsl,
            runtime_conf=job.conf,
            initiator_role=job.initiator.role.value,
            initiator_party_id=job.initiator.party_id,
            create_time=job.created_ms,
            **more,
        )
        return self._job(CommandKind.CREATE_JOB, "job_create", job, site, body)

    def rerun_job(
        self, job: ScheduledJob, site: Site, tasks: Mapping[str, int], *, requested_by: Site | None
    ) -> Command:
        """Return the command to open a job again; `tasks` are the new attempts' versions.

        `requested_by` is another site than the initiator that wants it.
        """
        body = wire.RerunJob(
            epoch=job.epoch,
            runtime_conf=job.conf,
            tasks=dict(tasks),
            requested_by=None if requested_by is None else requested_by.key,
        )
        return self._job(CommandKind.RERUN_JOB, "job_rerun", job, site, body)

    def create_task(self, job: ScheduledJob, key: TaskKey, *, retries_left: int) -> Command:
        return self._make(
            CommandKind.CREATE_TASK,
            job.job_id,
            job.initiator,
            key.site,
            paths.task_path("task_create", key),
            wire.CreateTask(epoch=job.epoch, auto_retries=retries_left),
            allow_ms=self._timing.lease_ms,
        )

    def apply_cores(self, job: ScheduledJob, site: Site) -> Command:
        return self._job(
            CommandKind.APPLY_CORES, "job_apply", job, site, wire.OfEpoch(epoch=job.epoch)
        )

    def return_cores(
        self, job: ScheduledJob, site: Site, *, reason: Reason | None = None
    ) -> Command:
        """Return the command to give cores back; `reason` tells why a job that ran is held."""
        told = reason_to_wire(reason, job.initiator, to=site)
        body = wire.ReturnCores(epoch=job.epoch, reason=told)
        return self._job(CommandKind.RETURN_CORES, "job_return", job, site, body)

    def start_job(self, job: ScheduledJob, site: Site) -> Command:
        return self._job(
            CommandKind.START_JOB, "job_start", job, site, wire.OfEpoch(epoch=job.epoch)
        )

    def end_job(
        self, job: ScheduledJob, site: Site, status: JobStatus, *, reason: Reason | None,
        statuses: Mapping[str, Any], tag: str | None = None,
    ) -> Command:  # fmt: skip
        name = "job_status" if status is JobStatus.SUCCESS else "job_stop"
        told = reason_to_wire(reason, job.initiator, to=site)
        body = wire.EndJob(epoch=job.epoch, reason=told, tag=tag, **statuses)
        return self._job(
            CommandKind.END_JOB,
            name,
            job,
            site,
            body,
            status=status.value,
            allow_ms=self._timing.final_deadline_ms,
        )

    def start_task(
        self, job: ScheduledJob, key: TaskKey, *, news: Any, absent: Sequence[str] = (),
        launch: int = 0,
    ) -> Command:  # fmt: skip
        """Return the command to start a task; `absent` upstream components have no outputs."""
        return self._make(
            CommandKind.START_TASK,
            job.job_id,
            job.initiator,
            key.site,
            paths.task_path("task_start", key),
            wire.StartTask(epoch=job.epoch, absent=list(absent) or None, launch=launch, **news),
            allow_ms=self._timing.lease_ms,
        )

    def settle_task(
        self, job: ScheduledJob, key: TaskKey, status: TaskStatus, *, reason: Reason | None,
        launch: int | None = None,
    ) -> Command:  # fmt: skip
        """Return the command that a task has ended elsewhere; with `launch`, that this site is
        absent, and that launch of its part passes.
        """
        name = "task_status" if status in TASK_SUCCEEDED else "task_stop"
        told = reason_to_wire(reason, job.initiator, to=key.site)
        return self._make(
            CommandKind.SETTLE_TASK,
            job.job_id,
            job.initiator,
            key.site,
            paths.task_path(name, key, status=status.value),
            wire.SettleTask(epoch=job.epoch, reason=told, absent_launch=launch),
            allow_ms=self._timing.final_deadline_ms,
        )

    def report_task(
        self,
        key: TaskKey,
        initiator: Site,
        status: TaskStatus,
        *,
        reason: Reason | None,
        started_ms: int | None,
        ended_ms: int | None,
        launch: int = 0,
    ) -> Command:
        body = wire.TaskReport(
            launch=launch,
            party_status=status.value,
            reason=reason_to_wire(reason, key.site, to=initiator),
            start_time=started_ms,
            end_time=ended_ms,
            elapsed=ended_ms - started_ms if started_ms and ended_ms else None,
        )
        return self._make(
            CommandKind.REPORT_TASK,
            key.job_id,
            key.site,
            initiator,
            paths.task_path("initiator_report", key),
            body,
            allow_ms=self._timing.final_deadline_ms,
        )

    def request_stop(
        self, key: JobKey, initiator: Site, status: JobStatus, *, reason: Reason, epoch: int
    ) -> Command:
        """Return the wish to end a job; it counts in the epoch in which it was said only."""
        told = reason_to_wire(reason, key.site, to=initiator)
        return self._make(
            CommandKind.ASK_STOP,
            key.job_id,
            key.site,
            initiator,
            paths.job_path("initiator_stop", key, status=status.value),
            wire.InitiatorStop(reason=told, epoch=epoch),
            allow_ms=self._timing.final_deadline_ms,
        )

    def change_model(
        self,
        kind: CommandKind,
        version: str,
        source: Site,
        site: Site,
        *,
        change_id: str,
        allow_ms: int,
    ) -> Command:
        """Return a command about the new version of a model; see `app/models/model_changes.py`."""
        name = "model_commit" if kind is CommandKind.COMMIT_MODEL else "model_undo"
        path = paths.job_path(name, JobKey(job_id=version, site=site))
        body = wire.ModelCommand(change=change_id)
        return self._make(kind, version, source, site, path, body, allow_ms=allow_ms)

    def _job(
        self,
        kind: CommandKind,
        name: str,
        job: ScheduledJob,
        site: Site,
        body: CommandBody,
        *,
        status: str = "",
        allow_ms: int | None = None,
    ) -> Command:
        if allow_ms is None:
            creating = kind in (CommandKind.CREATE_JOB, CommandKind.RERUN_JOB)
            allow_ms = self._timing.create_timeout_ms if creating else self._timing.lease_ms
        path = paths.job_path(name, JobKey(job_id=job.job_id, site=site), status=status)
        return self._make(
            kind,
            job.job_id,
            job.initiator,
            site,
            path,
            body,
            allow_ms=allow_ms,
        )

    def _make(
        self,
        kind: CommandKind,
        job_id: str,
        source: Site,
        destination: Site,
        path: str,
        body: CommandBody,
        *,
        allow_ms: int,
    ) -> Command:
        now_ms = self._clock.now_ms()
        return Command(
            kind=kind,
            job_id=job_id,
            source=source,
            destination=destination,
            path=path,
            body=plain(body),
            request_id=self._new_request_id(),
            created_ms=now_ms,
            deadline_ms=now_ms + allow_ms,
            due_ms=now_ms,
        )


def reason_to_wire(reason: Reason | None, source: Site, *, to: Site) -> dict[str, Any] | None:
    """Return a reason as plain JSON: code, message, what that is made of, site key.

    Another party than that of `source` gets only what may leave (`domain/outside.py`).
    """
    if reason is None:
        return None
    if source.party_id != to.party_id:
        reason = outside_reason(reason, source)
    site = {"site": reason.site.key} if reason.site else {}
    message = reason.message
    return {"code": reason.code, "message": str(message), **beside(message), **site}


def reason_from_wire(value: Any) -> Reason | None:
    """Return the reason that another server sent, cut to a sane length; None if there is none."""
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return None
    site = None
    if isinstance(value.get("site"), str):
        try:
            site = Site.from_key(value["site"])
        except ValueError:
            site = None
    return Reason(
        code=str(value.get("code", "PartyRefused"))[:100],
        message=received(value["message"], value.get("said")),
        site=site,
    )
