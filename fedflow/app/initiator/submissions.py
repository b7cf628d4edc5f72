"""Submitting a job: check it, store it, and wait until its sites accepted it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Final

from fedflow.app.inheritance import Inheritance, InheritancePlan
from fedflow.app.initiator.idempotency import claim, find_repeated, was_refused
from fedflow.app.initiator.preflight import Preflight
from fedflow.app.initiator.reuse import Reuse
from fedflow.app.initiator.submitted_files import SubmittedFiles, files_of, write_files
from fedflow.app.initiator.validation import Validation
from fedflow.app.models.model_loading import loaded_digests
from fedflow.app.models.predict import Predictions, model_of
from fedflow.app.protocol.job_notifier import await_sites
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import InheritanceRefused, PartyAbsent, SubmitRefused
from fedflow.base.ids import JobId
from fedflow.base.messages import Message, verbatim
from fedflow.base.values import dataclass
from fedflow.domain.job.formats import as_strict, read_job
from fedflow.domain.job.names import job_name
from fedflow.domain.job.parameters import OBSOLETE
from fedflow.domain.job.spec import JobSpec, model_id
from fedflow.domain.job.warning import JobWarning, merged, refuse, warning
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    SUBMIT_FAILED,
    Command,
    JobKey,
    JobRecord,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
)
from fedflow.domain.scheduling.submits import SubmitKey, chosen_key, content_digest, key_in_conf
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus

logger = logging.getLogger(__name__)

_AWAY_MS: Final = 2_000  #: a host that did not answer at the submit is not asked again for so long


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """A job that all its sites accepted."""

    job_id: str
    model_id: str
    model_version: str
    logs_directory: str
    warnings: tuple[JobWarning, ...]
    initiator: Site
    files: SubmittedFiles
    obsolete: tuple[str, ...] = ()  #: job parameters of old releases that were given
    reused: Mapping[str, str] = field(default_factory=dict)
    """Component whose results were taken over -> id of the job that made them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """What is submitted, as it was given."""

    dsl: Any
    conf: Any
    internal: bool  #: modules that touch files of the server are allowed
    warnings: tuple[JobWarning, ...] = ()  #: of the request itself


class _KeyTaken(Exception):
    """Another request with the same idempotency key has just stored its job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claim:
    """An idempotency key and what is submitted with it."""

    key: str
    digest: str


class Submissions(UseCase):
    """The use cases of the submit route, and of the routes that submit local jobs."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        preflight: Preflight,
        validation: Validation,
        predictions: Predictions,
        inheritance: Inheritance,
        reuse: Reuse,
    ) -> None:
        super().__init__(kernel)
        self._preflight = preflight
        self.validation = validation
        self._predictions = predictions
        self._inheritance = inheritance
        self._reuse = reuse

    def submit(
        self, dsl: Any, conf: Any, *, internal: bool = False, keys: Iterable[str | None] = (),
        strict: bool = False, warnings: Iterable[JobWarning] = (),
    ) -> Submitted:  # fmt: skip
        """Create a job at all its sites and queue it.

        `strict` sets the job parameter of this name. `internal` allows the modules that touch files
        of the server (`_GUARDED`): the caller has checked which ones. `keys` are what the request
        gave as idempotency key; the job parameter counts, too. A submit whose key is known gets the
        answer of the first one. `warnings` of the request become warnings of the job.

        Raises: InvalidJobSpec: every mistake that can be seen here. NoRoute. PartiesNotReady: every
        broken hop between its parties. SubmitRefused: a site
        did not accept the job, with its own sentence; nothing was started anywhere. BadRequest,
        IdempotencyKeyReused: the key. Every error has the field `job_id`, as FATE's clients expect
        the id of a refused job too.
        """
        job_id = self._new_job_id(self._clock.now_ms())
        conf = as_strict(conf) if strict else conf
        request = _Request(dsl=dsl, conf=conf, internal=internal, warnings=tuple(warnings))
        try:
            key = chosen_key([*keys, key_in_conf(conf)])
            if key is None:
                return self._submit(job_id, request, asked=None)
            asked = _Claim(key=key, digest=content_digest(dsl, conf))
            return self._repeated(asked) or self._submit(job_id, request, asked=asked)
        except FedflowError as exc:
            exc.fields.setdefault("job_id", job_id)
            raise

    def _submit(
        self, job_id: JobId, request: _Request, *, asked: _Claim | None, tries: int = 2
    ) -> Submitted:
        """Return an accepted job. One whose reused results are gone at a site is tried again."""
        try:
            spec, warnings, reused = self._begin(
                job_id, request, asked=asked, preflight=self._preflight.check
            )
        except _KeyTaken:
            shutil.rmtree(self._folders.job_files(job_id), ignore_errors=True)
            self._specs.forget(job_id)
            repeated = self._repeated(asked) if asked is not None else None
            if repeated is None:
                raise SubmitRefused(reason="a submit with the same key was refused") from None
            return repeated
        objection = await_sites(
            job_id, store=self._store, notifier=self._notifier, timing=self._timing
        )
        wants_reuse = spec.job_parameters_at(spec.initiator).inherits is None
        may_try = tries > 1 and reused and wants_reuse
        if objection is not None and may_try and self._lost_results(job_id):
            job_id = self._new_job_id(self._clock.now_ms())  # a result went since the sites said
            return self._submit(job_id, request, asked=asked, tries=tries - 1)
        if objection is not None:
            raise SubmitRefused(reason=objection)
        return self._submitted(job_id, spec, warnings=warnings, reused=reused)

    def _lost_results(self, job_id: str) -> bool:
        """Tell whether a site refused a job because results that it takes over are gone there."""
        with self._store.read() as tx:
            job = tx.schedules.get(job_id)
        reason = job.reason if job is not None and was_refused(job) else None
        return reason is not None and reason.code == InheritanceRefused.__name__

    def _repeated(self, asked: _Claim) -> Submitted | None:
        """Return the answer to the submit that had this key before, None if none had.

        Raises: IdempotencyKeyReused. SubmitRefused: while this one waited with it, it was refused.
        """
        with self._store.read() as tx:
            used = find_repeated(tx, asked.key, asked.digest)
        if used is None:
            return None
        job_id = used.job_id
        objection = await_sites(
            job_id, store=self._store, notifier=self._notifier, timing=self._timing
        )
        with self._store.read() as tx:
            job = tx.schedules.get(job_id)
        if job is None or was_refused(job):
            raise SubmitRefused(reason=objection or "its job is gone", job_id=job_id)
        spec = self._specs.get(job_id, job.dsl, job.conf)
        reused = {t.component: t.inherited_from for t in job.tasks if t.inherited_from}
        return self._submitted(job_id, spec, warnings=used.warnings, reused=reused)

    def _submitted(
        self, job_id: str, spec: JobSpec, *, warnings: tuple[JobWarning, ...],
        reused: Mapping[str, str],
    ) -> Submitted:  # fmt: skip
        named = model_of(spec, spec.initiator) if spec.mode == "predict" else None
        return Submitted(
            job_id=job_id,
            model_id=named.model_id if named else model_id(spec),
            model_version=named.model_version if named else job_id,
            logs_directory=str(self._folders.job_logs(job_id)),
            warnings=warnings,
            initiator=spec.initiator,
            files=files_of(self._folders, job_id, spec.initiator),
            obsolete=_obsolete(spec),
            reused=reused,
        )

    def begin(self, dsl: Any, conf: Any, *, internal: bool = False) -> tuple[JobId, JobSpec]:
        """Check a job, store it, and send its create commands; the rest is the scheduler's.

        Its parties are not asked before.
        """
        job_id = self._new_job_id(self._clock.now_ms())
        spec, _, _ = self._begin(
            job_id,
            _Request(dsl=dsl, conf=conf, internal=internal),
            asked=None,
            preflight=self._routes_only,
        )
        return job_id, spec

    def _routes_only(self, spec: JobSpec) -> Mapping[Site, Message]:
        self.validation.check_routes(spec)
        return {}

    def _begin(
        self,
        job_id: JobId,
        request: _Request,
        *,
        asked: _Claim | None,
        preflight: Callable[[JobSpec], Mapping[Site, Message]],
    ) -> tuple[JobSpec, tuple[JobWarning, ...], Mapping[str, str]]:
        """Return the job, what is doubtful in it, and what it takes over.

        Raises: _KeyTaken: another one was stored under the same key.
        """
        now_ms = self._clock.now_ms()
        dsl, conf = request.dsl, request.conf
        prediction = self._predictions.begin(conf)
        more: dict[str, Any] = {}
        if prediction is not None:
            dsl, conf = prediction.dsl, prediction.conf
            more["model_digest"] = prediction.digest
        of_prediction = () if prediction is None else prediction.warnings
        form = read_job(dsl, conf)
        before = (*request.warnings, *of_prediction, *form.warnings)
        spec = self._specs.get(job_id, form.dsl, form.conf, warnings=before)
        self._limits.check_size(spec.dsl, spec.conf, party_id=spec.initiator.party_id)
        try:
            warnings = self.validation.check(spec, internal=request.internal)
            is_strict = spec.job_parameters_at(spec.initiator).strict
            if is_strict:
                refuse(warnings)
            away = preflight(spec)
            absences = _absences(away)
            if is_strict:
                refuse(absences)
        except FedflowError as exc:
            self._keep_refused(job_id, spec, exc, now_ms=now_ms)
            raise
        train_conf = prediction.train_conf if prediction is not None else {}
        asked_for = (request.dsl, request.conf)
        write_files(self._folders, job_id, spec, train_conf=train_conf, given=asked_for)
        found = self._reuse.find(job_id, spec, model=more.get("model_digest"))
        plan = found.plan or self._inheritance.plan(spec)
        if plan is not None:
            more["inherited"] = plan.told
        job = _scheduled(job_id, spec, now_ms, plan, found.keys)
        if away:
            job = replace(job, sites=tuple(_left_out(s, away, now_ms) for s in job.sites))
        warnings = merged(
            (*warnings, *absences), (*found.warnings, *(() if plan is None else plan.warnings))
        )
        with self._store.transaction() as tx:
            if asked is not None and not claim(tx, _used(asked, job_id, warnings, now_ms)):
                raise _KeyTaken
            if loaded := loaded_digests(tx, spec):
                more["loaded_models"] = loaded
            tx.schedules.add(job)
            tx.outbox.put(
                [
                    self._create(job, site, warnings=warnings, **more)
                    for site in spec.sites
                    if site not in away
                ]
            )
        self._wakeup.outbox(sorted({s.party_id for s in spec.sites}))
        extra = {"action": "submit", "job_id": job_id}
        logger.info("Job %s was submitted", job_id, extra=extra)
        for one in warnings:
            logger.warning("%s %s", one, one.hint, extra=extra)
        taken = plan.tasks if plan is not None else ()
        return spec, warnings, {t.component: t.inherited_from for t in taken}

    def _create(
        self, job: ScheduledJob, site: Site, *, warnings: tuple[JobWarning, ...], **more: Any
    ) -> Command:
        """Return the command to a site; the initiator's own is told what the submit warned of."""
        if warnings and site == job.initiator:
            more["warnings"] = list(warnings)
        return self._party_commands.create_job(job, site, **more)

    def _keep_refused(
        self, job_id: JobId, spec: JobSpec, error: FedflowError, *, now_ms: int
    ) -> None:
        """Note a job that was never created anywhere, so that its id can be asked for."""
        if not self._parties.is_local(spec.initiator.party_id):
            return
        refused = JobRecord(
            key=JobKey(job_id=job_id, site=spec.initiator),
            initiator=spec.initiator,
            status=JobStatus.FAILED,
            epoch=0,
            dsl=spec.dsl,
            conf=spec.conf,
            roles={role.value: list(ids) for role, ids in spec.roles.items()},
            cores=0,
            created_ms=now_ms,
            updated_ms=now_ms,
            ended_ms=now_ms,
            reason=Reason(code=error.name, message=verbatim(error.message)),
            name=job_name(spec, spec.initiator),
            tag=SUBMIT_FAILED,
        )
        with self._store.transaction() as tx:
            tx.jobs.add(refused)


def _absences(away: Mapping[Site, Message]) -> tuple[JobWarning, ...]:
    """Return what a submit warns of if an elastic job begins without some hosts."""
    return tuple(
        warning(
            PartyAbsent.__name__,
            f"$.conf.role.{site.role.value}",
            f"the job begins without {site}: {reason}",
        )
        for site, reason in away.items()
    )


def _left_out(site: ScheduledSite, away: Mapping[Site, Message], now_ms: int) -> ScheduledSite:
    """Return how a new job stands at a site: absent if it does not answer now."""
    if site.site not in away:
        return site
    reason = Reason(code="PartyUnreachable", message=away[site.site], site=site.site)
    return replace(site, phase=SitePhase.ABSENT, retry_ms=now_ms + _AWAY_MS, reason=reason)


def _obsolete(spec: JobSpec) -> tuple[str, ...]:
    """Return the job parameters of old releases among those given, which have no effect."""
    section = spec.conf.get("job_parameters")
    common = section.get("common") if isinstance(section, dict) else None
    given = common if isinstance(common, dict) else {}
    return tuple(name for name in OBSOLETE if name in given)


def _used(asked: _Claim, job_id: str, warnings: tuple[JobWarning, ...], now_ms: int) -> SubmitKey:
    return SubmitKey(
        key=asked.key, digest=asked.digest, job_id=job_id, warnings=warnings, created_ms=now_ms
    )


def _scheduled(
    job_id: str, spec: JobSpec, now_ms: int, plan: InheritancePlan | None, keys: Mapping[str, str]
) -> ScheduledJob:
    """Return a new job; `keys` are the cache keys of its components, as far as they have one."""
    plans = plan.tasks if plan is not None else ()
    taken = {t.component: replace(t, cache_key=keys.get(t.component)) for t in plans}
    return ScheduledJob(
        job_id=job_id,
        initiator=spec.initiator,
        status=JobStatus.READY,
        epoch=0,
        dsl=spec.dsl,
        conf=spec.conf,
        priority=spec.job_parameters_at(spec.initiator).priority,
        created_ms=now_ms,
        updated_ms=now_ms,
        sites=tuple(ScheduledSite(site=s, phase=SitePhase.CREATING) for s in spec.sites),
        tasks=tuple(
            taken.get(name)
            or ScheduledTask(
                component=name,
                version=0,
                status=TaskStatus.WAITING,
                parties=tuple(
                    ScheduledPartyTask(site=s, status=TaskStatus.WAITING)
                    for s in spec.sites_of(name)
                ),
                cache_key=keys.get(name),
            )
            for name in spec.dag.order
        ),
    )
