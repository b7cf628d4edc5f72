"""Submitting a job: check it, store it, and wait until its sites accepted it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedflow.app.folders import Folders
from fedflow.app.inheritance import Inheritance, Plan
from fedflow.app.model_loading import loaded_digests
from fedflow.app.outgoing import Outgoing
from fedflow.app.parameter_checks import parameter_problems
from fedflow.app.ports import Catalog, PartyClient, Store, Wakeup
from fedflow.app.predict import Predictions, model_of
from fedflow.app.specs import Specs
from fedflow.app.submitted_files import SubmittedFiles, files_of, write_files
from fedflow.app.timing import Timing
from fedflow.app.waiting import Changes, await_sites
from fedflow.base.clock import Clock
from fedflow.base.errors import (
    FedflowError,
    InvalidJobSpec,
    NoRoute,
    Problem,
    SubmitRefused,
)
from fedflow.base.ids import JobId
from fedflow.domain.formats import read_job
from fedflow.domain.job_parameters import OBSOLETE
from fedflow.domain.job_spec import JobSpec, model_id
from fedflow.domain.providers import provider_notes, provider_problems
from fedflow.domain.records import (
    SUBMIT_FAILED,
    JobKey,
    JobRecord,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
)
from fedflow.domain.schedule import Reason, SitePhase
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus

logger = logging.getLogger(__name__)

_GUARDED: Final[Mapping[str, str]] = {
    "Upload": "/v1/data/upload (`fedflow data upload`)",
    "Download": "/v1/data/download",
    "Writer": "/v1/data/writer",
    "ModelStore": "/v1/model/store",
    "ModelRestore": "/v1/model/restore",
}
"""Modules that only this server's own routes may start -> the route."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """A job that all its sites accepted."""

    job_id: str
    model_id: str
    model_version: str
    logs_directory: str
    warnings: tuple[str, ...]
    initiator: Site
    files: SubmittedFiles
    obsolete: tuple[str, ...] = ()  #: job parameters of old releases that were given


class Submissions:
    """The use cases of the submit route, and of the routes that submit local jobs."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        catalog: Catalog,
        outgoing: Outgoing,
        parties: PartyClient,
        wakeup: Wakeup,
        changes: Changes,
        clock: Clock,
        timing: Timing,
        folders: Folders,
        predictions: Predictions,
        inheritance: Inheritance,
        new_job_id: Callable[[int], JobId],
    ) -> None:
        self._store = store
        self._specs = specs
        self._catalog = catalog
        self._outgoing = outgoing
        self._parties = parties
        self._wakeup = wakeup
        self._changes = changes
        self._clock = clock
        self._timing = timing
        self._folders = folders
        self._predictions = predictions
        self._inheritance = inheritance
        self._new_job_id = new_job_id

    def submit(self, dsl: Any, conf: Any, *, internal: bool = False) -> Submitted:
        """Create a job at all its sites and queue it.

        `internal` allows the modules that touch files of the server (`_GUARDED`): the caller has
        checked which ones.

        Raises: InvalidJobSpec: every mistake that can be seen here. NoRoute. SubmitRefused: a site
        did not accept the job, with its own sentence; nothing was started anywhere. Every error
        has the field `job_id`, as FATE's clients expect the id of a refused job too.
        """
        job_id = self._new_job_id(self._clock.now_ms())
        try:
            return self._submit(job_id, dsl, conf, internal=internal)
        except FedflowError as exc:
            exc.fields.setdefault("job_id", job_id)
            raise

    def _submit(self, job_id: JobId, dsl: Any, conf: Any, *, internal: bool) -> Submitted:
        spec, notes = self._begin(job_id, dsl, conf, internal=internal)
        objection = await_sites(
            job_id, store=self._store, changes=self._changes, timing=self._timing
        )
        if objection is not None:
            raise SubmitRefused(reason=objection)
        named = model_of(spec, spec.initiator) if spec.mode == "predict" else None
        return Submitted(
            job_id=job_id,
            model_id=named.model_id if named else model_id(spec),
            model_version=named.model_version if named else job_id,
            logs_directory=str(self._folders.job_logs(job_id)),
            warnings=(*spec.warnings, *notes),
            initiator=spec.initiator,
            files=files_of(self._folders, job_id, spec.initiator),
            obsolete=_obsolete(spec),
        )

    def begin(self, dsl: Any, conf: Any, *, internal: bool = False) -> tuple[JobId, JobSpec]:
        """Check a job, store it, and send its create commands; the rest is the scheduler's."""
        job_id = self._new_job_id(self._clock.now_ms())
        return job_id, self._begin(job_id, dsl, conf, internal=internal)[0]

    def _begin(
        self, job_id: JobId, dsl: Any, conf: Any, *, internal: bool
    ) -> tuple[JobSpec, tuple[str, ...]]:
        """Return the job, and what people should know beside its own warnings."""
        now_ms = self._clock.now_ms()
        given = (dsl, conf)
        prediction = self._predictions.begin(conf)
        more: dict[str, Any] = {}
        if prediction is not None:
            dsl, conf = prediction.dsl, prediction.conf
            more["model_digest"] = prediction.digest
        read_notes = () if prediction is None else prediction.notes
        form = read_job(dsl, conf)
        spec = self._specs.get(job_id, form.dsl, form.conf, notes=(*read_notes, *form.notes))
        try:
            self._check(spec, internal=internal)
        except FedflowError as exc:
            self._keep_refused(job_id, spec, exc, now_ms=now_ms)
            raise
        train_conf = prediction.train_conf if prediction is not None else {}
        write_files(self._folders, job_id, spec, train_conf=train_conf, given=given)
        plan = self._inheritance.plan(spec)
        if plan is not None:
            more["inherited"] = plan.told
        job = _scheduled(job_id, spec, now_ms, plan)
        with self._store.transaction() as tx:
            if loaded := loaded_digests(tx, spec):
                more["loaded_models"] = loaded
            tx.schedules.add(job)
            tx.outbox.put([self._outgoing.create_job(job, site, **more) for site in spec.sites])
        self._wakeup.outbox(sorted({s.party_id for s in spec.sites}))
        logger.info("Job %s was submitted", job_id, extra={"action": "submit", "job_id": job_id})
        return spec, (*provider_notes(spec), *(() if plan is None else plan.notes))

    def _check(self, spec: JobSpec, *, internal: bool) -> None:
        """Raises: InvalidJobSpec, NoRoute, SubmitRefused: this server cannot start the job."""
        if not internal:
            refuse_guarded(spec)
        unknown = provider_problems(spec)
        if unknown:
            raise InvalidJobSpec(unknown)
        self._check_parameters(spec)
        for site in spec.sites:
            if not self._parties.knows(site.party_id):
                raise NoRoute(party_id=site.party_id)
        if not self._parties.is_local(spec.initiator.party_id):
            raise SubmitRefused(
                reason=f"this server does not host the initiator, party {spec.initiator.party_id}"
            )

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
            reason=Reason(code=error.name, message=error.message[:4000]),
            tag=SUBMIT_FAILED,
        )
        with self._store.transaction() as tx:
            tx.jobs.add(refused)

    def _check_parameters(self, spec: JobSpec) -> None:
        """Check every site's component parameters; report all mistakes."""
        problems: list[Problem] = []
        for name in (c.name for c in spec.components):
            asked = [
                (
                    f"$.conf.component_parameters ({site}) .{name}",
                    spec.component_parameters(name, site),
                )
                for site in spec.sites_of(name)
            ]
            problems += parameter_problems(self._catalog, spec.component(name).module, asked)
        if problems:
            raise InvalidJobSpec(problems)


def refuse_guarded(spec: JobSpec) -> None:
    """Refuse modules that would read, write or delete any file that the server can."""
    problems = [
        Problem(
            f"$.dsl.components.{name}.module",
            f"{info.module} runs through {_GUARDED[info.module]}, which checks the file",
            "ModuleNotAllowed",
        )
        for name, info in spec.modules.items()
        if info.module in _GUARDED
    ]
    if problems:
        raise InvalidJobSpec(problems)


def _obsolete(spec: JobSpec) -> tuple[str, ...]:
    """Return the job parameters of old releases among those given, which have no effect."""
    section = spec.conf.get("job_parameters")
    common = section.get("common") if isinstance(section, dict) else None
    given = common if isinstance(common, dict) else {}
    return tuple(name for name in OBSOLETE if name in given)


def _scheduled(job_id: str, spec: JobSpec, now_ms: int, plan: Plan | None) -> ScheduledJob:
    taken = {t.component: t for t in plan.tasks} if plan is not None else {}
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
            )
            for name in spec.dag.order
        ),
    )
