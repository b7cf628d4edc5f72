"""Running an ended job again: from the initiator, or asked by another of its parties.

A rerun is a new *epoch* of the job: the initiator stores it together with one command per site, in
one transaction. New attempts are new rows beside the old ones. Commands and answers of an earlier
epoch are void from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import field, replace

from fedflow.app.initiator.parameter_updates import (
    ParameterUpdates,
    Sections,
    check_own,
    sections_of,
)
from fedflow.app.initiator.preflight import Preflight
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.initiator_calls import ASKED_CALLS, ask_initiator, asked_job
from fedflow.app.protocol.job_notifier import await_sites
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.jobs import JobNotFound, RerunRefused
from fedflow.base.errors.parties import NoRoute, PartiesNotReady
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_request_id
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import (
    SUBMIT_FAILED,
    JobFilter,
    JobRecord,
    Moved,
    Reply,
    ScheduledJob,
    ScheduledSite,
)
from fedflow.domain.scheduling.rerun import WHOLE_JOB, choose, next_attempt
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, JobStatus, TaskStatus
from fedflow.wire.commands import InitiatorRerun

logger = logging.getLogger(__name__)

_NEVER_CREATED = frozenset({SitePhase.CREATING, SitePhase.REFUSED})
_FAILED = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})


@dataclass(frozen=True, kw_only=True, slots=True)
class RerunRequest:
    """What shall run again, and with which parameters; see `domain.scheduling.rerun.choose`."""

    components: tuple[str, ...] = ()  #: none: all
    force: bool = False  #: also what succeeded
    failed_only: bool = False  #: of these only what failed or timed out, not what never ran
    sections: Sections = field(default_factory=Sections)
    requested_by: Site | None = None  #: a site other than the initiator

    def as_command(self) -> InitiatorRerun:
        """Return it as another site asks the initiator for it."""
        return InitiatorRerun(
            component_name=list(self.components) or None,
            force=self.force,
            failed_only=self.failed_only,
            job_parameters=self.sections.job_parameters,
            component_parameters=self.sections.component_parameters,
        )


class Reruns(UseCase):
    """The use case of the rerun route, and its command from other parties."""

    def __init__(
        self, kernel: Kernel, *, preflight: Preflight, parameters: ParameterUpdates
    ) -> None:
        super().__init__(kernel)
        self._preflight = preflight
        self._parameters = parameters

    def rerun(
        self, job_id: str, *, components: Sequence[str] | None = None, force: bool = False,
        failed_only: bool = False, sections: Sections | None = None,
    ) -> None:  # fmt: skip
        """Run components of an ended job again; returns once the sites have agreed.

        See `domain.scheduling.rerun.choose` for which ones; with `failed_only` not those that
        never ran. `sections` are parameters for it: all sites check them, then they change with
        the rerun or not at all. Raises: JobNotFound, RerunRefused, PartyUnreachable, NoRoute,
        PartyTooOld, InvalidJobSpec, ParametersRefused. BadRequest: `force` and `failed_only`.
        ChangeNotAllowed: a parameter that the initiator alone may change.
        """
        request = _request(components, force, failed_only, sections or Sections())
        with self._store.read() as tx:
            job = tx.schedules.get(job_id)
        if job is not None:  # else it is another party's, whose server sees to it
            self._check(job, request)
        asked = self._begin_or_ask(job_id, request)
        if asked is None:
            self._await_sites(job_id)
        else:
            self._await_reopening(asked)

    def begin(
        self, job_id: str, *, components: Sequence[str] | None = None, force: bool = False
    ) -> JobRecord | None:
        """Begin a rerun, or ask the initiator to; return the party job here if it was asked.

        Raises: as `rerun`.
        """
        return self._begin_or_ask(job_id, _request(components, force, False, Sections()))

    def _begin_or_ask(self, job_id: str, request: RerunRequest) -> JobRecord | None:
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            own = tx.jobs.find(JobFilter(job_id=job_id))
        if scheduled is None and not own:
            raise JobNotFound(job_id=job_id)
        if scheduled is None:
            spec = self._specs.get(job_id, own[0].dsl, own[0].conf)
            check_own(request.sections, spec, own[0].key.site)
            self._ask_initiator(own[0], request)
            return own[0]
        effects = AfterCommit()
        with self._store.transaction() as tx:
            self._begin(tx, job_id, request, effects=effects)
        effects.run()
        return None

    def asked(self, tx: Tx, incoming: TypedCommand[InitiatorRerun], effects: AfterCommit) -> Reply:
        """Another site of the job asks for a rerun. Raises: JobNotFound, WrongSite,
        RerunRefused.
        """
        job = asked_job(tx, incoming)
        self._begin(tx, job.job_id, _asked_request(incoming), effects=effects)
        return Reply(retcode=0)

    def check_asked(self, incoming: TypedCommand[InitiatorRerun]) -> None:
        """See what speaks against a rerun that another site asks for, before the transaction.

        Raises: as `rerun`, WrongSite.
        """
        with self._store.read() as tx:
            job = asked_job(tx, incoming)
        request = _asked_request(incoming)
        spec = self._specs.get(job.job_id, job.dsl, job.conf)
        check_own(request.sections, spec, incoming.job.site)
        self._check(job, request)

    def _begin(self, tx: Tx, job_id: str, request: RerunRequest, *, effects: AfterCommit) -> None:
        """Store the new epoch, its attempts, and the commands to all sites."""
        job = tx.schedules.get(job_id)
        if job is None:
            raise JobNotFound(job_id=job_id)
        job, chosen = self._as_changed(job, request)
        if request.sections:
            self._parameters.keep(tx, job_id, request.sections, epoch=job.epoch, effects=effects)
        now_ms, epoch = self._clock.now_ms(), job.epoch + 1
        moved = tx.schedules.rerun(job_id, seen=job.status, epoch=epoch, now_ms=now_ms)
        if not isinstance(moved, Moved):
            raise RerunRefused(job_id=job_id, reason="it has just changed")
        spec = self._specs.get(job_id, job.dsl, job.conf)
        versions: dict[str, int] = {}
        for task in job.tasks:
            if task.component in chosen:
                attempt = next_attempt(task, spec.sites_of(task.component), epoch=epoch)
                tx.schedules.add_attempt(job_id, attempt, now_ms=now_ms)
                versions[task.component] = attempt.version
        for site in job.sites:
            creating = ScheduledSite(site=site.site, phase=SitePhase.CREATING)
            tx.schedules.set_site(job_id, creating, seen=site.phase, now_ms=now_ms)
        again = tx.schedules.get(job_id) or job
        tx.outbox.put(
            [
                self._party_commands.rerun_job(
                    again, s.site, versions, requested_by=request.requested_by
                )
                for s in again.sites
            ]
        )
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

    def _as_changed(
        self, job: ScheduledJob, request: RerunRequest
    ) -> tuple[ScheduledJob, tuple[str, ...]]:
        """Return a job with the parameters of its rerun, and the components that run again.

        Raises: RerunRefused, InvalidJobSpec.
        """
        _check_may_rerun(job)
        if request.sections:
            job = replace(job, conf=self._parameters.changed(job, request.sections).conf)
        return job, self._chosen(job, request)

    def _chosen(self, job: ScheduledJob, request: RerunRequest) -> tuple[str, ...]:
        """Return the components that run again. Raises: RerunRefused."""
        spec = self._specs.get(job.job_id, job.dsl, job.conf)
        try:
            chosen = choose(
                spec.dag,
                {t.component: t.status for t in job.tasks},
                components=_wanted(job, request),
                force=request.force,
                selected=spec.rules.selected,
            )
        except KeyError as exc:
            known = ", ".join(spec.dag.order)
            reason = Message(
                "it has no component {component!r}, but {known}", str(exc.args[0])[:100], known
            )
            raise RerunRefused(job_id=job.job_id, reason=reason) from None
        if not chosen:
            reason = Message(
                "all that would run again has succeeded; with force it runs nevertheless"
                if spec.rules.selected is None
                else "all that would run again has succeeded; with force it runs nevertheless, "
                "and run_to leaves out what is not needed for {components}",
                components=_run_to(spec),
            )
            raise RerunRefused(job_id=job.job_id, reason=reason)
        return chosen

    def _check(self, job: ScheduledJob, request: RerunRequest) -> None:
        """See that all parties can be called and accept the parameters, before a job that has ended
        well is opened again.

        Raises: RerunRefused: one cannot be reached, or as `begin`. ParametersRefused.
        """
        job_id = job.job_id
        changed, chosen = self._as_changed(job, request)  # what is wrong anyway needs no call
        try:
            spec = self._specs.get(job_id, changed.dsl, changed.conf)
            self._preflight.check(spec, fresh=True)
        except (PartiesNotReady, NoRoute) as exc:
            given = exc.fields.get("reason", exc.message.removesuffix("."))
            reason = Message("{message}; nothing was changed", given)
            raise RerunRefused(job_id=job_id, reason=reason) from exc
        if request.sections:
            self._parameters.agree(
                job, request.sections, runs=chosen, requested_by=request.requested_by
            )

    def _await_sites(self, job_id: str) -> None:
        """Wait until every site has opened the job again. Raises: RerunRefused: one did not."""
        objection = await_sites(
            job_id, store=self._store, notifier=self._notifier, timing=self._timing
        )
        if objection is not None:
            raise RerunRefused(job_id=job_id, reason=objection)

    def _ask_initiator(self, own: JobRecord, request: RerunRequest) -> None:
        """Let the initiator begin the rerun. Raises: RerunRefused: with its own sentence."""
        if own.tag == SUBMIT_FAILED:
            raise RerunRefused(job_id=own.key.job_id, reason="not all its sites had accepted it")
        reply = ask_initiator(
            self._parties,
            own,
            "initiator_rerun",
            request.as_command(),
            request_id=new_request_id(),
            deadline_s=ASKED_CALLS * self._timing.call_timeout_s,
        )
        if reply.retcode != 0:
            raise RerunRefused(job_id=own.key.job_id, reason=reply.said_by(own.initiator))

    def _await_reopening(self, own: JobRecord) -> None:
        """Wait until a rerun that the initiator began has arrived here, or for a while."""

        def reopened() -> bool:
            with self._store.read() as tx:
                job = tx.jobs.get(own.key)
            return job is None or job.epoch > own.epoch

        self._notifier.wait_until(
            reopened, job_id=own.key.job_id, timeout_s=self._timing.stop_wait_s
        )


def _request(
    components: Sequence[str] | None, force: bool, failed_only: bool, sections: Sections
) -> RerunRequest:
    """Return what is asked for. Raises: BadRequest: two wishes that exclude each other."""
    if force and failed_only:
        raise BadRequest(reason="force repeats what succeeded, failed_only what failed; give one")
    return RerunRequest(
        components=tuple(components or ()), force=force, failed_only=failed_only, sections=sections
    )


def _asked_request(incoming: TypedCommand[InitiatorRerun]) -> RerunRequest:
    """Return what another site asks for. Raises: BadRequest."""
    body = incoming.body
    components = body.component_name
    names = [components] if isinstance(components, str) else components
    request = _request(names, bool(body.force), bool(body.failed_only), sections_of(body))
    return replace(request, requested_by=incoming.job.site)


def _check_may_rerun(job: ScheduledJob) -> None:
    """Raises: RerunRefused: the job has not ended, or never began at some site."""
    if job.status not in JOB_FINAL:
        shown = JobStatus.WAITING if job.status is JobStatus.READY else job.status
        reason = Message("it is {status}; stop it first", shown.value)
        raise RerunRefused(job_id=job.job_id, reason=reason)
    if job.epoch == 0 and any(s.phase in _NEVER_CREATED for s in job.sites):
        raise RerunRefused(
            job_id=job.job_id, reason="not all its sites had accepted it; submit it again"
        )


def _wanted(job: ScheduledJob, request: RerunRequest) -> list[str]:
    """Return the components that a rerun is asked for, none: all. Raises: RerunRefused."""
    named = [] if WHOLE_JOB in request.components else list(request.components)
    if not request.failed_only:
        return named
    statuses = {t.component: t.status for t in job.tasks}
    failed = [name for name, status in statuses.items() if status in _FAILED]
    wanted = [n for n in named or failed if n in failed or n not in statuses]
    if not wanted:
        raise RerunRefused(job_id=job.job_id, reason="none of these components has failed")
    return wanted


def _run_to(spec: JobSpec) -> str:
    return ", ".join(spec.job_parameters_at(spec.initiator).runs_to)
