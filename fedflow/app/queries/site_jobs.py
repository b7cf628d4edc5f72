"""A job as one of its sites may see it: what the board's page of a job shows.

The initiator sees how its job goes at all sites; another site sees its own part, also where both
are sites of one server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.snapshot import begun_in
from fedflow.app.queries.explain import Explanations
from fedflow.app.queries.jobs import Jobs, refused_share
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.values import dataclass
from fedflow.domain.job.control import is_stopped, is_told_to_hold
from fedflow.domain.reason import AWAITS_STEP, PAUSED, StopRequest
from fedflow.domain.records import JobFilter, JobRecord, ScheduledJob, TaskFilter, TaskRecord
from fedflow.domain.scheduling.history import KEEP, OWN_HALF, Event, EventFilter
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL
from fedflow.wire.api.job_history import Explanation

_SLOT_MS: Final = 10_000
"""How long what depends on the time (who is silent, the queue) may be shown as it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteJob:
    """A job as one of its sites may see it."""

    job: JobRecord  #: the party job of this site, with what the initiator knows if that is here
    site: Site
    is_accepted: bool  #: this server has a party job; else the initiator did not accept its job
    own_sites: tuple[Site, ...]  #: those of this server
    order: tuple[str, ...]  #: components, each after those that it depends on
    tasks: tuple[TaskRecord, ...]  #: latest attempts: at the initiator of all sites
    explained: Explanation
    is_stopped: bool  #: nothing of it may start until somebody continues it
    is_paused: bool
    on_hold: bool  #: people call it paused, as lists do
    stop: StopRequest | None  #: somebody wants it to end
    step: bool  #: it waits before each component

    @property
    def is_initiator(self) -> bool:
        return self.job.initiator == self.site

    @property
    def is_final(self) -> bool:
        """Tell whether nothing will change any more by itself."""
        return self.job.status in JOB_FINAL and not self.explained.waits


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteJobSummary:
    """One party job, and whose pages there are beside it on this server."""

    job: JobRecord
    is_accepted: bool
    own_sites: tuple[Site, ...]


class SiteJobs(UseCase):
    """Reads jobs for people that look at one of their sites, many of them at once."""

    def __init__(self, kernel: Kernel, *, jobs: Jobs, explanations: Explanations) -> None:
        super().__init__(kernel)
        self._jobs = jobs
        self._explanations = explanations

    def etag(self, job_id: str) -> str:
        """Return a text that is another one once something of a job's progress changed here.

        A few index look-ups; nothing is parsed. Raises: JobNotFound.
        """
        self._jobs.watch()
        with self._store.read() as tx:
            schedule, shares = tx.schedules.etag(job_id), tx.jobs.etag(job_id)
            if not schedule and not shares:
                raise JobNotFound(job_id=job_id)
            number, tasks = tx.events.last_number(job_id), tx.tasks.etag(job_id)
        slot = self._clock.now_ms() // _SLOT_MS
        return "|".join((str(number), tasks, schedule, shares, str(slot)))

    def share(self, job_id: str, site: Site) -> SiteJobSummary:
        """Return one party job. Raises: JobNotFound: it has no such site here.

        Of a job that its initiator itself did not accept, it is what the initiator knows.
        """
        with self._store.read() as tx:
            own = {job.key.site: job for job in tx.jobs.find(JobFilter(job_id=job_id))}
            scheduled = None if site in own else tx.schedules.get(job_id)
        if site in own:
            sites = tuple(sorted(own, key=lambda s: s.order))
            return SiteJobSummary(job=own[site], is_accepted=True, own_sites=sites)
        if scheduled is None or scheduled.initiator != site:
            raise JobNotFound(job_id=job_id[:100])
        return SiteJobSummary(
            job=refused_share(scheduled), is_accepted=False, own_sites=(site, *own)
        )

    def order(self, job: JobRecord) -> tuple[str, ...]:
        """Return the components of a job, each after those that it depends on; as declared if a
        module of the job is gone.
        """
        try:
            return self._specs.get(job.key.job_id, job.dsl, job.conf).dag.order
        except InvalidJobSpec:
            return tuple(job.dsl["components"])

    def at(self, job_id: str, site: Site) -> SiteJob:
        """Return a job as one of its sites sees it. Raises: JobNotFound: it has no such site
        here.
        """
        share = self.share(job_id, site)
        is_initiator = share.job.initiator == site
        job = share.job
        if share.is_accepted:
            which = JobFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id, limit=1)
            job = next(iter(self._jobs.find(which)), job)
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id) if is_initiator else None
        order = self.order(job)
        stopped, paused, step = self._control(job, scheduled)
        return SiteJob(
            job=job,
            site=site,
            is_accepted=share.is_accepted,
            own_sites=share.own_sites,
            order=order,
            tasks=tuple(self._tasks(job_id, None if is_initiator else site, order)),
            explained=self._explain(job, site),
            is_stopped=stopped,
            is_paused=paused,
            on_hold=job.status not in JOB_FINAL
            and (
                scheduled.control.on_hold
                if scheduled is not None
                else is_told_to_hold(job.status, job.reason)
            ),
            stop=scheduled.stop if scheduled is not None else None,
            step=step,
        )

    def own_tasks(self, job_id: str, site: Site) -> list[TaskRecord]:
        """Return the latest attempts of one site's own party job."""
        which = TaskFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id)
        with self._store.read() as tx:
            return tx.tasks.find(which)

    def attempts(self, job_id: str, site: Site) -> tuple[list[TaskRecord], list[Event]]:
        """Return every attempt and event of a job that a site knows of, oldest first.

        Of other sites' earlier attempts the events alone tell. Raises: JobNotFound.
        """
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            is_initiator = scheduled is not None and scheduled.initiator == site
            events = tx.events.find(
                EventFilter(
                    job_id=job_id,
                    subjects=None if is_initiator else OWN_HALF,
                    own=site,
                    unreported=frozenset({site}),
                    newest=True,
                    limit=KEEP,
                )
            )
        which = TaskFilter(job_id=job_id, all_versions=True)
        if not is_initiator:
            which = replace(which, roles=(site.role,), party_id=site.party_id)
        return self._jobs.tasks(which), events

    def _tasks(self, job_id: str, site: Site | None, order: tuple[str, ...]) -> list[TaskRecord]:
        which = TaskFilter(job_id=job_id)
        if site is not None:
            which = replace(which, roles=(site.role,), party_id=site.party_id)
        place = {name: i for i, name in enumerate(order)}
        found = self._jobs.tasks(which)
        found.sort(key=lambda t: (place.get(t.key.component, len(place)), t.key.site.order))
        return found

    def _control(self, job: JobRecord, scheduled: ScheduledJob | None) -> tuple[bool, bool, bool]:
        """Return whether a job is stopped, whether by a pause, and whether it goes in steps."""
        step = job.parameters.get("step") is True
        if job.status in JOB_FINAL:
            return False, False, step
        if scheduled is None:
            code = job.reason.code if job.reason is not None else ""
            return code in (PAUSED, AWAITS_STEP), code == PAUSED, step
        stopped = is_stopped(scheduled.control, step=step, begun=begun_in(scheduled))
        return stopped, scheduled.control.paused is not None, step

    def _explain(self, job: JobRecord, site: Site) -> Explanation:
        try:
            return self._explanations.explain(job.key.job_id, site)
        except InvalidJobSpec:
            return Explanation(
                job_id=job.key.job_id, status=job.status.value, epoch=job.epoch,
                initiator=job.initiator.key, is_initiator=job.is_initiator,
            )  # fmt: skip
