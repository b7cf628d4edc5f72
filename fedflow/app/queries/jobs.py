"""What users do with jobs that were submitted: look, stop."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.status_pull import note_stop
from fedflow.app.queries.explain import Explanations
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.parameters import name_problem
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.lists import fits_task, main_share, task_page
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    JobFilter,
    JobKey,
    JobRecord,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledTask,
    TaskFilter,
    TaskKey,
    TaskRecord,
    percent,
)
from fedflow.domain.scheduling.explain import INITIATOR, Wait
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, JobStatus, TaskStatus
from fedflow.wire.api.jobs import ComponentReport, JobStatusView, TaskView
from fedflow.wire.api.jobs import Reason as ShownReason

logger = logging.getLogger(__name__)

_TASKS_OF_A_JOB: Final = 1_000_000  #: more than any has
_WATCHED_MS: Final = 5_000  #: a job that was looked at since then is watched


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """How a job stands after a request to stop it, and whether it had ended before."""

    status: str
    had_ended: bool


class Jobs(UseCase):
    """The use cases of the job routes."""

    def __init__(self, kernel: Kernel, *, tasks: PartyTasks, explanations: Explanations) -> None:
        super().__init__(kernel)
        self._tasks = tasks
        self._explanations = explanations
        self._watched_ms = -_WATCHED_MS  #: when somebody last looked at a job

    # --- stop -----------------------------------------------------------------------------------

    def stop(self, job_id: str, status: str = "canceled") -> Stopped:
        """End a job from any of its parties; return its status once it ended, or as it is then.

        Stopping a job that has ended changes nothing. Raises: JobNotFound, BadRequest.
        """
        ended = self.request_stop(job_id, status)
        if ended is not None:
            return Stopped(status=_shown(ended), had_ended=True)
        self._notifier.wait_until(
            lambda: self._ended(job_id), job_id=job_id, timeout_s=self._timing.stop_wait_s
        )
        return Stopped(status=_shown(self.job(job_id).status), had_ended=False)

    def request_stop(self, job_id: str, status: str = "canceled") -> JobStatus | None:
        """Ask the initiator to end a job; its own processes stop at once, whatever it answers.

        Returns how the job had ended before, None if it had not. Raises: JobNotFound, BadRequest.
        """
        end = _stop_status(status)
        effects = AfterCommit()
        with self._store.transaction() as tx:
            own = tx.jobs.find(JobFilter(job_id=job_id))
            scheduled = tx.schedules.get(job_id)
            if not own and scheduled is None:
                raise JobNotFound(job_id=job_id)
            initiator = scheduled.initiator if scheduled else own[0].initiator
            asking = next((j for j in own if j.key.site == initiator), own[0] if own else None)
            asker = asking.key if asking else JobKey(job_id=job_id, site=initiator)
            if scheduled is not None:
                if scheduled.status in JOB_FINAL:
                    return scheduled.status
            elif all(j.status in JOB_FINAL for j in own):
                return own[0].status
            reason = Reason(
                code="Stopped",
                message=Message("stopped by a user at {site}", asker.site),
                site=asker.site,
            )
            for job in own:
                self._tasks.stop_all(tx, job.key, end, reason, effects)
            if asking and self._status_pull.is_pulled(tx, asker, initiator):
                note_stop(tx, asking, end, reason, now_ms=self._clock.now_ms())
            else:
                epoch = scheduled.epoch if scheduled is not None else own[0].epoch
                asked = self._party_commands.request_stop(
                    asker, initiator, end, reason=reason, epoch=epoch
                )
                tx.outbox.put([asked])
        effects.run()
        self._wakeup.outbox([initiator.party_id])
        return None

    def _ended(self, job_id: str) -> bool:
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            own = tx.jobs.find(JobFilter(job_id=job_id))
        if scheduled is not None and scheduled.status not in JOB_FINAL:
            return False
        return all(j.status in JOB_FINAL for j in own)

    # --- look -----------------------------------------------------------------------------------

    def find(self, which: JobFilter) -> list[JobRecord]:
        """Return a page of this server's party jobs."""
        with self._store.read() as tx:
            look = which.job_id is not None
            return [self._fresh(tx, job, look=look) for job in tx.jobs.find(which)]

    def page(self, which: JobFilter) -> tuple[list[JobRecord], int]:
        """Return a page of this server's party jobs, and how many there are in all."""
        with self._store.read() as tx:
            found = [self._fresh(tx, job) for job in tx.jobs.find(which)]
            count = _count_at_end(which, len(found))
            return found, tx.jobs.count(which) if count is None else count

    def job(self, job_id: str) -> JobRecord:
        """Return the initiator's party job if it is here, else any. Raises: JobNotFound."""
        with self._store.read() as tx:
            return self._job(tx, job_id, tx.schedules.get(job_id))

    def _job(self, tx: Tx, job_id: str, scheduled: ScheduledJob | None) -> JobRecord:
        own = tx.jobs.find(JobFilter(job_id=job_id))
        if own:
            return self._newest(tx, main_share(own), scheduled)
        if scheduled is None:
            raise JobNotFound(job_id=job_id)
        return refused_share(scheduled)

    def _reason(self, tx: Tx, job: ScheduledJob, *, look: bool) -> Reason | None:
        """Return why a job waits if nothing is stored of it; only with `look`, as it takes time."""
        if not look or job.status is JobStatus.RUNNING:
            return None
        waits, _ = self._explanations.waits(tx, job, ())
        return next((w.reason for w in waits if not w.component), None)

    def _fresh(self, tx: Tx, job: JobRecord, *, look: bool = False) -> JobRecord:
        """As `_newest`, for who has not read the scheduled job."""
        if job.is_initiator and job.status not in JOB_FINAL:
            return self._newest(tx, job, tx.schedules.get(job.key.job_id), look=look)
        return job

    def _newest(
        self, tx: Tx, job: JobRecord, scheduled: ScheduledJob | None, *, look: bool = False
    ) -> JobRecord:
        """Return the party job with why it waits and its newest progress, where the initiator knows
        more.
        """
        if scheduled is None or not job.is_initiator or job.status in JOB_FINAL:
            return job
        return replace(
            job,
            progress=max(job.progress, percent([task.done for task in scheduled.tasks])),
            reason=scheduled.reason or job.reason or self._reason(tx, scheduled, look=look),
            deadline_ms=_deadline_ms(job, scheduled),
        )

    def tasks(self, which: TaskFilter) -> list[TaskRecord]:
        """Return attempts: this server's own and, at the initiator, what the other sites
        reported.
        """
        with self._store.read() as tx:
            scheduled = tx.schedules.get(which.job_id) if which.job_id is not None else None
            return _with_engines(tx, self._tasks_of(tx, which, scheduled))

    def task_page(self, which: TaskFilter) -> tuple[list[TaskRecord], int]:
        """Return a page of attempts, and how many there are in all. As in `tasks`, other sites'
        are among those of one job.
        """
        with self._store.read() as tx:
            if which.job_id is None:
                found = tx.tasks.find(which)
                count = _count_at_end(which, len(found))
                found = _with_engines(tx, found)
                return found, tx.tasks.count(which) if count is None else count
            whole = replace(which, order=None, offset=0, limit=_TASKS_OF_A_JOB)
            every = self._tasks_of(tx, whole, tx.schedules.get(which.job_id))
            every = _with_engines(tx, every)
        return task_page(every, which), len(every)

    def _tasks_of(
        self, tx: Tx, which: TaskFilter, scheduled: ScheduledJob | None
    ) -> list[TaskRecord]:
        own = tx.tasks.find(which)
        if scheduled is None:
            return own
        spec = self._specs.get(scheduled.job_id, scheduled.dsl, scheduled.conf)
        remote = _remote_tasks(scheduled, spec, without={t.key for t in own})
        return own + [t for t in remote if fits_task(which, t)]

    def set_notes(
        self, job_id: str, role: str, party_id: str, *,
        notes: str | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Store notes of people about this server's party job, or what they call it.

        Raises: JobNotFound. BadRequest: it cannot be called so.
        """
        try:
            key = JobKey(job_id=job_id, site=Site(Role(role), PartyId(party_id)))
        except ValueError as exc:
            raise BadRequest(reason=f"{role!r} is not a role") from exc
        problem = None if name is None else name_problem(name)
        if problem is not None:
            raise BadRequest(reason=problem)
        now_ms = self._clock.now_ms()
        with self._store.transaction() as tx:
            if tx.jobs.get(key) is None:
                raise JobNotFound(job_id=job_id)
            if notes is not None:
                tx.jobs.set_description(key, notes, now_ms=now_ms)
            if name is not None:
                tx.jobs.set_name(key, name, now_ms=now_ms)

    def log_dir(self, job_id: str) -> Path:
        """Return the folder with the job's logs. Raises: JobNotFound."""
        return self._folders.job_logs(self.job(job_id).key.job_id)

    def status_view(self, job_id: str) -> JobStatusView:
        """Return what a person wants to see of a job: its status, why, and every task per site.

        Raises: JobNotFound.
        """
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            job = self._job(tx, job_id, scheduled)
            tasks = self._tasks_of(tx, TaskFilter(job_id=job_id), scheduled)
            waits, deadline_ms = self._waits(tx, job, scheduled)
        self.watch()
        spec = self._specs.get(job_id, job.dsl, job.conf)
        now_ms = self._clock.now_ms()
        order = {name: i for i, name in enumerate(spec.dag.order)}
        tasks.sort(key=lambda t: (order.get(t.key.component, len(order)), t.key.site.order))
        reason = scheduled.reason if scheduled and scheduled.reason else job.reason
        own = next((w for w in waits if not w.component), None)
        of_tasks = {(w.component, w.site): w for w in reversed(waits)}
        is_told = own is not None and (job.status is not JobStatus.RUNNING or own.code != INITIATOR)
        if reason is None and own is not None and is_told:
            reason = own.reason
        return JobStatusView(
            job_id=job_id,
            name=job.name,
            figures=job.figures,
            status=_shown(job.status),
            progress=job.progress,
            reason=None if reason is None else ShownReason.of(reason),
            since_ms=_since_ms(job, own),
            deadline_ms=deadline_ms,
            initiator=job.initiator.key,
            roles={role: tuple(parties) for role, parties in job.roles.items()},
            created_ms=job.created_ms,
            started_ms=job.started_ms,
            ended_ms=job.ended_ms,
            warnings=tuple(job.warnings),
            components=tuple(spec.dag.order),
            tasks=tuple(_task_view(t, _wait_of(t, of_tasks), now_ms=now_ms) for t in tasks),
            reused=_reused(scheduled, tasks),
        )

    def _waits(
        self, tx: Tx, job: JobRecord, scheduled: ScheduledJob | None
    ) -> tuple[list[Wait], int | None]:
        """Return what a job that has not ended waits for, and when it ends by itself."""
        status = job.status if scheduled is None else scheduled.status
        if status in JOB_FINAL:
            return [], None
        return self._explanations.waits(tx, scheduled, [job])

    def report(
        self,
        job_id: str,
        *,
        role: Role | None = None,
        party_id: str | None = None,
        component: str | None = None,
    ) -> list[ComponentReport]:
        """Return how the latest attempts of a job went at one site, in topological order.

        Without a site it is the initiator's, or else any that is here. Raises: JobNotFound.
        """
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            job = self._job(tx, job_id, scheduled)
            site = job.key.site
            which = TaskFilter(
                job_id=job_id,
                component=component,
                roles=(role or site.role,),
                party_id=party_id or (site.party_id if role in (None, site.role) else None),
            )
            tasks = {t.key.component: t for t in reversed(self._tasks_of(tx, which, scheduled))}
        dag = self._specs.get(job_id, job.dsl, job.conf).dag
        return [_report(tasks[name], dag.depth(name)) for name in dag.order if name in tasks]

    def watch(self) -> None:
        """Note that somebody looks at a job now."""
        self._watched_ms = self._clock.now_ms()

    def is_watched(self) -> bool:
        """Tell whether somebody looked at a job within the last five seconds."""
        return self._clock.now_ms() - self._watched_ms < _WATCHED_MS


def _count_at_end(which: JobFilter | TaskFilter, found: int) -> int | None:
    """Return how many rows there are if the page of `found` rows shows the last one, else None."""
    is_last = found < which.limit and (found > 0 or which.offset == 0)
    return which.offset + found if is_last else None


def _stop_status(text: str) -> JobStatus:
    if text not in ("canceled", "failed", "timeout"):
        raise BadRequest(reason=f"a job cannot be stopped as {text!r}")
    return JobStatus(text)


def refused_share(job: ScheduledJob) -> JobRecord:
    """Return the party job that this site itself did not accept, from what the initiator
    knows.
    """
    roles: dict[str, list[str]] = {}
    for site in job.sites:
        roles.setdefault(site.site.role.value, []).append(site.site.party_id)
    return JobRecord(
        key=JobKey(job_id=job.job_id, site=job.initiator),
        initiator=job.initiator,
        status=job.status,
        epoch=job.epoch,
        dsl=job.dsl,
        conf=job.conf,
        roles=roles,
        cores=0,
        created_ms=job.created_ms,
        updated_ms=job.updated_ms,
        reason=job.reason,
        ended_ms=job.ended_ms,
        tag="submit_failed",
    )


def _remote_tasks(job: ScheduledJob, spec: JobSpec, *, without: set[TaskKey]) -> list[TaskRecord]:
    """Return the shares of a job's tasks that are not among those of this server."""
    keys = (
        (TaskKey(job_id=job.job_id, component=t.component, version=t.version, site=p.site), t, p)
        for t in job.tasks
        for p in t.parties
    )
    return [
        _remote_task(job, key, task, party, module=spec.modules[task.component].module)
        for key, task, party in keys
        if key not in without
    ]


def _remote_task(
    job: ScheduledJob, key: TaskKey, task: ScheduledTask, party: ScheduledPartyTask, *, module: str
) -> TaskRecord:
    """Return another site's party task; one stopped without a report ended as the task did."""
    stopped = task.status in TASK_FINAL and party.status not in TASK_FINAL
    reported_ms = party.since_ms or None if party.status in TASK_FINAL else None
    return TaskRecord(
        key=key,
        module=module,
        initiator=job.initiator,
        status=task.status,
        party_status=task.status if stopped else party.status,
        parameters={},
        created_ms=job.created_ms,
        updated_ms=party.since_ms or job.updated_ms,
        reason=task.reason if stopped else party.reason,
        progress=party.progress,
        started_ms=task.started_ms,
        ended_ms=reported_ms or task.ended_ms,
        here=False,
    )


def _deadline_ms(job: JobRecord, scheduled: ScheduledJob) -> int | None:
    """Return when a job times out, None while it is held."""
    timeout_s, control = job.parameters.get("timeout"), scheduled.control
    if not isinstance(timeout_s, int) or control.held_ms is not None:
        return None
    return scheduled.began_ms + control.rested_ms + timeout_s * 1000


def _wait_of(task: TaskRecord, waits: Mapping[tuple[str, Site | None], Wait]) -> Wait | None:
    """Return what one party task waits for, if it has not ended."""
    if task.party_status in TASK_FINAL:
        return None
    component = task.key.component
    return waits.get((component, task.key.site)) or waits.get((component, None))


def _since_ms(job: JobRecord, wait: Wait | None) -> int | None:
    """Return since when a job is as it is."""
    if job.ended_ms is not None:
        return job.ended_ms
    if wait is not None and wait.since_ms is not None:
        return wait.since_ms
    return job.started_ms if job.started_ms is not None else job.created_ms


def _task_view(task: TaskRecord, wait: Wait | None, *, now_ms: int) -> TaskView:
    reason = task.reason
    since_ms = task.started_ms if task.party_status is TaskStatus.RUNNING else None
    if reason is None and wait is not None and task.party_status is TaskStatus.WAITING:
        reason = wait.reason
    return TaskView(
        component=task.key.component,
        module=task.module,
        site=task.key.site.key,
        version=task.key.version,
        status=task.party_status.value,
        progress=round(task.progress, 4),
        started_ms=task.started_ms,
        ended_ms=task.ended_ms,
        since_ms=wait.since_ms if wait is not None else task.ended_ms,
        deadline_ms=wait.deadline_ms if wait is not None else None,
        running_ms=None if since_ms is None else max(0, now_ms - since_ms),
        here=task.here,
        reason=None if reason is None else ShownReason.of(reason),
    )


def _reused(scheduled: ScheduledJob | None, tasks: list[TaskRecord]) -> dict[str, str]:
    """Return the components whose results were taken over -> the job that made them."""
    if scheduled is not None:
        return {t.component: t.inherited_from for t in scheduled.tasks if t.inherited_from}
    return {t.key.component: t.inherited_from for t in tasks if t.inherited_from}


def _report(task: TaskRecord, depth: int) -> ComponentReport:
    started, ended = task.started_ms, task.ended_ms
    return ComponentReport(
        component_name=task.key.component,
        index=depth,
        status=task.status.value,
        start_time=started,
        end_time=ended,
        elapsed=ended - started if started is not None and ended is not None else None,
    )


def _shown(status: JobStatus) -> str:
    """Return a status as clients may see it: FATE's SDK does not know `ready`."""
    return JobStatus.WAITING.value if status is JobStatus.READY else status.value


def _with_engines(tx: Tx, tasks: Sequence[TaskRecord]) -> list[TaskRecord]:
    """Return tasks with the engines of their party jobs, as far as they are here."""
    engines = tx.jobs.engines({task.key.job_id for task in tasks}) if tasks else {}
    return [replace(task, engine=engines.get(task.key.job)) for task in tasks]
