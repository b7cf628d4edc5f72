"""Carries out what `decide` named: one small function per action, each safe to do twice.

Every function writes a compare-and-set and, only if that took place, the commands that follow from
it, in the same transaction. So a repeated or overtaken action writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.party_commands import PartyCommands
from fedflow.app.protocol.piggyback import news_of
from fedflow.base.errors.jobs import PartyAbsent
from fedflow.base.messages import Message
from fedflow.domain.job.control import held
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    SUBMIT_FAILED,
    Command,
    Moved,
    ScheduledJob,
    ScheduledSite,
    TaskKey,
)
from fedflow.domain.scheduling.actions import (
    Action,
    ApplyAt,
    EndJob,
    HoldJob,
    LaunchAgain,
    LeaveOut,
    QueueJob,
    Rejoin,
    ReleaseAt,
    RetryTask,
    SettleTask,
    SkipTask,
    StartJob,
    StartTask,
)
from fedflow.domain.scheduling.rerun import next_attempt
from fedflow.domain.site import Site
from fedflow.domain.states import (
    JOB_END_EVENT,
    TASK_FINAL,
    TASK_STATUS_OF_JOB_END,
    TASK_SUCCEEDED,
    JobEvent,
    JobStatus,
    TaskEvent,
    TaskStatus,
)

logger = logging.getLogger(__name__)


class Applier:
    """Applies the actions for one job inside one transaction; `commands` collects what to send."""

    def __init__(
        self,
        tx: Tx,
        job: ScheduledJob,
        spec: JobSpec,
        *,
        party_commands: PartyCommands,
        now_ms: int,
    ) -> None:
        self.commands: list[Command] = []
        self.changed = False  #: the job's status moved
        self.ended = False  #: ... to a final one
        self._tx = tx
        self._job = job
        self._spec = spec
        self._party_commands = party_commands
        self._now_ms = now_ms
        self._statuses = {t.component: (t.version, t.status) for t in job.tasks}
        self._absent_sites = {s.site for s in job.sites if s.phase is SitePhase.ABSENT}

    def apply_all(self, actions: Sequence[Action]) -> None:
        """Apply the actions in order and store the commands that they cause."""
        for action in actions:
            if isinstance(action, SettleTask):
                self._statuses[action.component] = (action.version, action.status)
            elif isinstance(action, SkipTask):
                self._statuses[action.component] = (action.version, TaskStatus.CANCELED)
        ends = any(isinstance(a, EndJob) for a in actions)
        for action in actions:
            if isinstance(action, SettleTask):
                self._settle(action, tell=not ends and action.status not in TASK_SUCCEEDED)
            else:
                self._apply(action)
        if self.commands:
            self._tx.outbox.put(self.commands)

    @singledispatchmethod
    def _apply(self, action: Any) -> None:
        raise TypeError(f"no way to apply {action!r}")

    @_apply.register
    def _queue(self, _action: QueueJob) -> None:
        self._move(JobEvent.QUEUED)

    @_apply.register
    def _apply_at(self, action: ApplyAt) -> None:
        site = self._site(action.site)
        asked = ScheduledSite(site=site.site, phase=SitePhase.APPLYING, denials=site.denials)
        if self._tx.schedules.set_site(
            self._job.job_id, asked, seen=site.phase, now_ms=self._now_ms
        ):
            self.commands.append(self._party_commands.apply_cores(self._job, site.site))

    @_apply.register
    def _release(self, action: ReleaseAt) -> None:
        self._give_back(action.sites)

    @_apply.register
    def _hold(self, action: HoldJob) -> None:
        """Give the cores back and wait for people; the sites move with the command."""
        job_id, seen, now_ms = self._job.job_id, self._job.control, self._now_ms
        control = held(seen, now_ms=now_ms)
        if not self._tx.schedules.set_control(job_id, control, seen=seen, now_ms=now_ms):
            return
        if self._job.status is JobStatus.RUNNING:
            self._move(JobEvent.HELD, reason=action.reason)
        else:
            self._tx.schedules.set_reason(job_id, action.reason, now_ms=now_ms)
        granted = [s.site for s in self._job.sites if s.phase is SitePhase.GRANTED]
        self._give_back(granted, reason=action.reason)

    def _give_back(self, sites: Iterable[Site], *, reason: Reason | None = None) -> None:
        for key in sites:
            site = self._site(key)
            freed = ScheduledSite(site=site.site, phase=SitePhase.CREATED)
            if self._tx.schedules.set_site(
                self._job.job_id, freed, seen=SitePhase.GRANTED, now_ms=self._now_ms
            ):
                self.commands.append(
                    self._party_commands.return_cores(self._job, site.site, reason=reason)
                )

    @_apply.register
    def _start_job(self, _action: StartJob) -> None:
        if self._move(JobEvent.STARTED):
            self.commands += [
                self._party_commands.start_job(self._job, s.site)
                for s in self._job.sites
                if s.site not in self._absent_sites
            ]

    @_apply.register
    def _start_task(self, action: StartTask) -> None:
        job_id = self._job.job_id
        if not self._tx.schedules.start_task(
            job_id, action.component, action.version, now_ms=self._now_ms
        ):
            return
        logger.info(
            "Task %s of job %s starts",
            action.component,
            job_id,
            extra={"action": "start_task", "job_id": job_id},
        )
        absent = self._absent(action.component)
        for site in self._spec.sites_of(action.component):
            key = TaskKey(
                job_id=job_id, component=action.component, version=action.version, site=site
            )
            if site in action.without:
                self._excuse(key, TaskStatus.WAITING, self._site(site).reason)
                continue
            self.commands.append(
                self._party_commands.start_task(self._job, key, news=self._news(), absent=absent)
            )

    def _absent(self, component: str) -> list[str]:
        """Return the upstream components whose outputs an attempt that starts now does not have."""
        return [
            up
            for up in self._spec.dag.upstream(component)
            if self._statuses[up][1] not in TASK_SUCCEEDED
        ]

    @_apply.register
    def _skip(self, action: SkipTask) -> None:
        skipped = SettleTask(
            component=action.component,
            version=action.version,
            status=TaskStatus.CANCELED,
            reason=action.reason,
        )
        self._settle(skipped, tell=True)

    def _settle(self, action: SettleTask, *, tell: bool) -> None:
        job_id = self._job.job_id
        if not self._tx.schedules.end_task(
            job_id,
            action.component,
            action.version,
            action.status,
            reason=action.reason,
            now_ms=self._now_ms,
        ):
            return
        logger.info(
            "Task %s of job %s ended: %s",
            action.component,
            job_id,
            action.status.value,
            extra={"action": "end_task", "job_id": job_id},
        )
        if not tell:
            return
        for site in self._spec.sites_of(action.component):
            if site in self._absent_sites:
                continue
            key = TaskKey(
                job_id=job_id, component=action.component, version=action.version, site=site
            )
            self.commands.append(
                self._party_commands.settle_task(
                    self._job, key, action.status, reason=action.reason
                )
            )

    @_apply.register
    def _retry(self, action: RetryTask) -> None:
        job_id, component = self._job.job_id, action.component
        failed = next(t for t in self._job.tasks if t.component == component)
        sites = self._spec.sites_of(component)
        task = next_attempt(
            failed,
            sites,
            epoch=self._job.epoch,
            retries=failed.retries + 1,
            infrastructure_retries=failed.infrastructure_retries + action.infrastructure,
        )
        if not self._tx.schedules.add_attempt(job_id, task, now_ms=self._now_ms):
            return
        self._statuses[component] = (task.version, task.status)
        logger.info(
            "Task %s of job %s failed and is tried again (attempt %s)",
            component,
            job_id,
            task.version,
            extra={"action": "retry_task", "job_id": job_id},
        )
        left = task.retries_left(self._spec.rules.components[component].retries)
        for site in sites:
            if site in self._absent_sites:  # it is told of this attempt when it comes back
                continue
            key = TaskKey(job_id=job_id, component=component, version=task.version, site=site)
            self.commands.append(
                self._party_commands.create_task(self._job, key, retries_left=left)
            )

    @_apply.register
    def _leave_out(self, action: LeaveOut) -> None:
        """Go on without a host: what it has not done of the tasks that began counts no more."""
        job_id, site = self._job.job_id, self._site(action.site)
        denials = site.denials + (site.phase is not SitePhase.GRANTED)
        absent = ScheduledSite(
            site=site.site,
            phase=SitePhase.ABSENT,
            retry_ms=action.retry_ms,
            denials=denials,
            reason=action.reason,
        )
        if not self._tx.schedules.set_site(job_id, absent, seen=site.phase, now_ms=self._now_ms):
            return
        logger.info(
            "Job %s goes on without %s: %s",
            job_id,
            site.site,
            action.reason.message,
            extra={"action": "leave_out", "job_id": job_id},
        )
        for task in self._job.tasks:
            share = next((p for p in task.parties if p.site == site.site), None)
            if share is None or task.status is TaskStatus.WAITING:
                continue
            key = TaskKey(
                job_id=job_id, component=task.component, version=task.version, site=site.site
            )
            if share.status in TASK_SUCCEEDED:
                continue
            told = self._excuse(key, share.status, action.reason)
            self.commands.append(
                self._party_commands.settle_task(
                    self._job, key, TaskStatus.PASS, reason=told, launch=share.launch
                )
            )

        if site.phase is SitePhase.GRANTED:  # it asks for cores again when it comes back
            self.commands.append(
                self._party_commands.return_cores(self._job, site.site, reason=action.reason)
            )

    def _excuse(self, key: TaskKey, seen: TaskStatus, reason: Reason | None) -> Reason:
        """Let an absent host's part of a task pass; return the reason."""
        error = PartyAbsent(
            site=key.site, reason=reason.message if reason else Message("it lacks the inputs")
        )
        told = Reason(code=error.name, message=error.message.removesuffix("."), site=key.site)
        self._tx.schedules.move_party(
            key.job_id,
            key.component,
            key.version,
            key.site,
            TaskEvent.EXCUSED,
            seen=seen,
            reason=told,
            now_ms=self._now_ms,
        )
        return told

    @_apply.register
    def _rejoin(self, action: Rejoin) -> None:
        job_id, site = self._job.job_id, self._site(action.site)
        creating = ScheduledSite(
            site=site.site, phase=SitePhase.CREATING, denials=site.denials, reason=None
        )
        if self._tx.schedules.set_site(job_id, creating, seen=site.phase, now_ms=self._now_ms):
            self.commands.append(
                self._party_commands.create_job(self._job, site.site, rejoins=True)
            )

    @_apply.register
    def _launch_again(self, action: LaunchAgain) -> None:
        job_id, component, site = self._job.job_id, action.component, action.site
        task = next(t for t in self._job.tasks if t.component == component)
        share = next(p for p in task.parties if p.site == site)
        key = TaskKey(job_id=job_id, component=component, version=action.version, site=site)
        if not self._tx.schedules.move_party(
            job_id,
            component,
            action.version,
            site,
            TaskEvent.RELAUNCHED,
            seen=share.status,
            reason=None,
            now_ms=self._now_ms,
        ):
            return
        if action.version:  # the site may not have heard of this attempt
            left = task.retries_left(self._spec.rules.components[component].retries)
            self.commands.append(
                self._party_commands.create_task(self._job, key, retries_left=left)
            )
        self.commands.append(
            self._party_commands.start_task(
                self._job,
                key,
                news=self._news(),
                absent=self._absent(component),
                launch=share.launch + 1,
            )
        )

    @_apply.register
    def _end(self, action: EndJob) -> None:
        if not self._move(JOB_END_EVENT[action.status], reason=action.reason):
            return
        self.ended = True
        self._forgo_late_consent(action)
        self._end_joins()
        left = TASK_STATUS_OF_JOB_END[action.status]
        for component, (version, status) in self._statuses.items():
            if status not in TASK_FINAL:
                end = left if status is TaskStatus.RUNNING else TaskStatus.CANCELED
                self._tx.schedules.end_task(
                    self._job.job_id,
                    component,
                    version,
                    end,
                    reason=action.reason,
                    now_ms=self._now_ms,
                )
                self._statuses[component] = (version, end)
        first = self._job.status is JobStatus.READY and self._job.epoch == 0
        tag = SUBMIT_FAILED if first and action.status is JobStatus.FAILED else None
        self.commands += [
            self._party_commands.end_job(
                self._job,
                s.site,
                action.status,
                reason=action.reason,
                statuses=self._news(),
                tag=tag,
            )
            for s in self._job.sites
        ]

    def _end_joins(self) -> None:
        """Take no host back any more into an elastic job that ends: it counts as absent, not as one
        that was never asked.
        """
        if self._job.status is JobStatus.READY or self._spec.elastic_settings is None:
            return
        for site in self._job.sites:
            if site.phase in (SitePhase.CREATING, SitePhase.REFUSED):
                absent = replace(site, phase=SitePhase.ABSENT)
                self._tx.schedules.set_site(
                    self._job.job_id, absent, seen=site.phase, now_ms=self._now_ms
                )

    def _forgo_late_consent(self, action: EndJob) -> None:
        """Keep a submit refused that ended before all sites had accepted it, whatever they still
        answer.
        """
        if self._job.status is not JobStatus.READY or self._job.epoch > 0:
            return
        for site in self._job.sites:
            if site.phase is SitePhase.CREATING:
                refused = ScheduledSite(
                    site=site.site, phase=SitePhase.REFUSED, reason=action.reason
                )
                self._tx.schedules.set_site(
                    self._job.job_id, refused, seen=site.phase, now_ms=self._now_ms
                )

    def _move(self, event: JobEvent, **reason: Any) -> bool:
        moved = self._tx.schedules.move(
            self._job.job_id, event, seen=self._job.status, now_ms=self._now_ms, **reason
        )
        if not isinstance(moved, Moved):
            return False
        self.changed = True
        logger.info(
            "Job %s is %s",
            self._job.job_id,
            moved.status.value,
            extra={"action": "move_job", "job_id": self._job.job_id},
        )
        return True

    def _site(self, site: Site) -> ScheduledSite:
        return next(s for s in self._job.sites if s.site == site)

    def _news(self) -> dict[str, Any]:
        """Return what travels along with a command: the tasks' statuses and the job's progress."""
        return news_of(self._statuses)
