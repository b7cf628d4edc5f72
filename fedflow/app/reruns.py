"""Running an ended job again: from the initiator, or asked by another of its parties.

A rerun is a new *epoch* of the job: the initiator stores it together with one command per site, in
one transaction. New attempts are new rows beside the old ones. Commands and answers of an earlier
epoch are void from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from fedflow.app.commands import Incoming
from fedflow.app.effects import Effects
from fedflow.app.neighbours import reach
from fedflow.app.outgoing import Outgoing
from fedflow.app.ports import PartyClient, Store, Tx, Wakeup
from fedflow.app.specs import Specs
from fedflow.app.timing import Timing
from fedflow.app.waiting import Changes, await_sites
from fedflow.base.clock import Clock
from fedflow.base.errors import (
    BadRequest,
    JobNotFound,
    NoRoute,
    PartyUnreachable,
    RerunRefused,
    WrongSite,
)
from fedflow.domain.records import (
    SUBMIT_FAILED,
    JobFilter,
    JobRecord,
    Moved,
    Reply,
    ScheduledJob,
    ScheduledSite,
)
from fedflow.domain.rerun import choose, next_attempt
from fedflow.domain.schedule import SitePhase
from fedflow.domain.states import JOB_FINAL, JobStatus
from fedflow.wire import paths

logger = logging.getLogger(__name__)

_NEVER_CREATED = frozenset({SitePhase.CREATING, SitePhase.REFUSED})


class Reruns:
    """The use case of the rerun route, and its command from other parties."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        outgoing: Outgoing,
        parties: PartyClient,
        wakeup: Wakeup,
        changes: Changes,
        clock: Clock,
        timing: Timing,
        new_request_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._specs = specs
        self._outgoing = outgoing
        self._parties = parties
        self._wakeup = wakeup
        self._changes = changes
        self._clock = clock
        self._timing = timing
        self._new_request_id = new_request_id

    def rerun(
        self, job_id: str, *, components: Sequence[str] | None = None, force: bool = False
    ) -> None:
        """Run components of an ended job again; returns once the sites have agreed.

        See `domain.rerun.choose` for which ones. Raises: JobNotFound, RerunRefused,
        PartyUnreachable, NoRoute.
        """
        self._check_reachable(job_id, components, force=force)
        asked = self.begin(job_id, components=components, force=force)
        if asked is None:
            self._await_sites(job_id)
        else:
            self._await_reopening(asked)

    def begin(
        self, job_id: str, *, components: Sequence[str] | None = None, force: bool = False
    ) -> JobRecord | None:
        """Begin a rerun, or ask the initiator to; return the share here if it was asked.

        Raises: as `rerun`.
        """
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            own = tx.jobs.find(JobFilter(job_id=job_id))
        if scheduled is None and not own:
            raise JobNotFound(job_id=job_id)
        if scheduled is None:
            self._ask_initiator(own[0], components, force=force)
            return own[0]
        effects = Effects()
        with self._store.transaction() as tx:
            self._begin(tx, job_id, components, force=force, effects=effects)
        effects.run()
        return None

    def asked(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """Another site of the job asks for a rerun. Raises: JobNotFound, WrongSite,
        RerunRefused.
        """
        key = incoming.job
        job = tx.schedules.get(key.job_id)
        if job is None:
            raise JobNotFound(job_id=key.job_id)
        known = any(s.site == key.site for s in job.sites)
        if not known or incoming.source_party not in (None, key.site.party_id):
            raise WrongSite(site=str(key.site), job_id=key.job_id)
        components, force = incoming.member("component_name"), incoming.member("force")
        names = [components] if isinstance(components, str) else components
        if names is not None and not (
            isinstance(names, list) and all(isinstance(n, str) for n in names)
        ):
            raise BadRequest(reason="`component_name` must be a name or a list of names")
        self._begin(tx, key.job_id, names, force=bool(force), effects=effects)
        return Reply(retcode=0)

    def _begin(
        self, tx: Tx, job_id: str, components: Sequence[str] | None, *, force: bool,
        effects: Effects,
    ) -> None:  # fmt: skip
        """Store the new epoch, its attempts, and the commands to all sites."""
        job = tx.schedules.get(job_id)
        if job is None:
            raise JobNotFound(job_id=job_id)
        chosen = self._chosen(job, components, force=force)
        now_ms, epoch = self._clock.now_ms(), job.epoch + 1
        moved = tx.schedules.rerun(job_id, seen=job.status, epoch=epoch, now_ms=now_ms)
        if not isinstance(moved, Moved):
            raise RerunRefused(job_id=job_id, reason="it has just changed")
        spec = self._specs.get(job_id, job.dsl, job.conf)
        versions: dict[str, int] = {}
        for task in job.tasks:
            if task.component in chosen:
                attempt = next_attempt(task, spec.sites_of(task.component), epoch=epoch)
                tx.schedules.add_attempt(job_id, attempt)
                versions[task.component] = attempt.version
        for site in job.sites:
            creating = ScheduledSite(site=site.site, phase=SitePhase.CREATING)
            tx.schedules.set_site(job_id, creating, seen=site.phase)
        again = tx.schedules.get(job_id) or job
        tx.outbox.put([self._outgoing.rerun_job(again, s.site, versions) for s in again.sites])
        parties = sorted({s.site.party_id for s in again.sites})
        effects.add(lambda: self._wakeup.outbox(parties))
        effects.add(lambda: self._wakeup.schedule(job_id))
        logger.info(
            "Job %s runs again, epoch %s: %s",
            job_id,
            epoch,
            ", ".join(chosen),
            extra={"action": "rerun", "job_id": job_id},
        )

    def _chosen(
        self, job: ScheduledJob, components: Sequence[str] | None, *, force: bool
    ) -> tuple[str, ...]:
        """Return the components that run again. Raises: RerunRefused."""
        if job.status not in JOB_FINAL:
            shown = JobStatus.WAITING if job.status is JobStatus.READY else job.status
            raise RerunRefused(job_id=job.job_id, reason=f"it is {shown.value}; stop it first")
        if job.epoch == 0 and any(s.phase in _NEVER_CREATED for s in job.sites):
            raise RerunRefused(
                job_id=job.job_id, reason="not all its sites had accepted it; submit it again"
            )
        spec = self._specs.get(job.job_id, job.dsl, job.conf)
        try:
            chosen = choose(
                spec.dag,
                {t.component: t.status for t in job.tasks},
                components=components,
                force=force,
            )
        except KeyError as exc:
            known = ", ".join(spec.dag.order)
            reason = f"it has no component {str(exc.args[0])[:100]!r}, but {known}"
            raise RerunRefused(job_id=job.job_id, reason=reason) from None
        if not chosen:
            reason = "all that would run again has succeeded; with force it runs nevertheless"
            raise RerunRefused(job_id=job.job_id, reason=reason)
        return chosen

    def _check_reachable(
        self, job_id: str, components: Sequence[str] | None, *, force: bool
    ) -> None:
        """See that all parties can be called, before a job that has ended well is opened again.

        Raises: RerunRefused: one cannot be reached, or as `begin`.
        """
        with self._store.read() as tx:
            job = tx.schedules.get(job_id)
        if job is None:  # another party's: its initiator sees to it
            return
        self._chosen(job, components, force=force)  # what is wrong anyway needs no call
        for party_id in sorted({s.site.party_id for s in job.sites}):
            if self._parties.is_local(party_id):
                continue
            try:
                reach(self._parties, party_id, timeout_s=self._timing.call_timeout_s)
            except (PartyUnreachable, NoRoute) as exc:
                reason = f"{exc.message.removesuffix('.')}; nothing was changed"
                raise RerunRefused(job_id=job_id, reason=reason) from exc

    def _await_sites(self, job_id: str) -> None:
        """Wait until every site has opened the job again. Raises: RerunRefused: one did not."""
        objection = await_sites(
            job_id, store=self._store, changes=self._changes, timing=self._timing
        )
        if objection is not None:
            raise RerunRefused(job_id=job_id, reason=objection)

    def _ask_initiator(
        self, own: JobRecord, components: Sequence[str] | None, *, force: bool
    ) -> None:
        """Let the initiator begin the rerun. Raises: RerunRefused: with its own sentence."""
        if own.tag == SUBMIT_FAILED:
            raise RerunRefused(job_id=own.key.job_id, reason="not all its sites had accepted it")
        body = {"component_name": list(components) if components else None, "force": force}
        reply = self._parties.call(
            own.key.site,
            own.initiator.party_id,
            paths.job_path("initiator_rerun", own.key),
            body,
            request_id=self._new_request_id(),
            job_id=own.key.job_id,
            deadline_s=self._timing.call_timeout_s,
        )
        if reply.retcode != 0:
            reason = f"{own.initiator}: {reply.retmsg.removesuffix('.')}"
            raise RerunRefused(job_id=own.key.job_id, reason=reason)

    def _await_reopening(self, own: JobRecord) -> None:
        """Wait until a rerun that the initiator began has arrived here, or for a while."""

        def reopened() -> bool:
            with self._store.read() as tx:
                job = tx.jobs.get(own.key)
            return job is None or job.epoch > own.epoch

        self._changes.wait_until(
            reopened, job_id=own.key.job_id, timeout_s=self._timing.stop_wait_s
        )
