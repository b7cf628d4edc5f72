"""Changing the parameters of an ended job, for its next rerun.

Every site checks and keeps the new conf, then the initiator. A site that missed an update gets the
initiator's conf with the rerun, so a half-done update cannot make sites run different things.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedflow.app.folders import Folders
from fedflow.app.ports import PartyClient, Store
from fedflow.app.specs import Specs
from fedflow.app.submissions import refuse_guarded
from fedflow.app.submitted_files import write_files
from fedflow.app.timing import Timing
from fedflow.base.clock import Clock
from fedflow.base.errors import FedflowError, JobNotFound, ParametersRefused
from fedflow.domain.document import MAX_DEPTH, JsonObject, copy_object, merge_objects
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import JobFilter, JobKey, Reply, ScheduledJob
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL
from fedflow.wire import paths

_FIXED: Final = ("job_type", "dsl_version", "model_id", "model_version", "inheritance_info")
"""Job parameters that a job keeps: its results depend on them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedParameters:
    """The sections of a conf after a change, and the components that it concerns."""

    job_parameters: Any
    component_parameters: Any
    components: tuple[str, ...]


class ParameterUpdates:
    """The use case of the parameter route."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        parties: PartyClient,
        clock: Clock,
        timing: Timing,
        folders: Folders,
        new_request_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._specs = specs
        self._parties = parties
        self._clock = clock
        self._timing = timing
        self._folders = folders
        self._new_request_id = new_request_id

    def update(
        self, job_id: str, *, job_parameters: JsonObject, component_parameters: JsonObject
    ) -> ChangedParameters:
        """Lay parameters over those of an ended job, at all its sites.

        Each is a section of a runtime conf: `common`, `role`. Raises: JobNotFound, InvalidJobSpec,
        ParametersRefused: the job runs, is another party's, or a site refused; its `data` tells
        which.
        """
        job = self._ended(job_id)
        conf = _changed(job.conf, job_parameters, component_parameters)
        spec = self._checked(job, conf)
        codes: dict[str, dict[str, int]] = {}
        refusals: list[str] = []
        for site in spec.sites:
            reply = self._tell(job, site, spec.conf)
            codes.setdefault(site.role.value, {})[site.party_id] = reply.retcode
            if reply.retcode != 0:
                refusals.append(f"{site}: {reply.retmsg.removesuffix('.')}")
        if refusals:
            self._specs.forget(job_id)
            raise ParametersRefused(job_id=job_id, reason="; ".join(refusals), parties=codes)
        with self._store.transaction() as tx:
            now = tx.schedules.get(job_id)
            if now is None or now.status not in JOB_FINAL or now.epoch != job.epoch:
                self._specs.forget(job_id)
                raise ParametersRefused(job_id=job_id, reason="it was run again meanwhile")
            tx.schedules.set_conf(job_id, spec.conf, now_ms=self._clock.now_ms())
            share = tx.jobs.get(JobKey(job_id=job_id, site=job.initiator))
        train_conf = share.train_conf if share is not None else {}
        given = (spec.dsl, spec.conf)
        write_files(self._folders, job_id, spec, train_conf=train_conf, given=given)
        return ChangedParameters(
            job_parameters=spec.conf.get("job_parameters", {}),
            component_parameters=spec.conf.get("component_parameters", {}),
            components=_named(component_parameters, spec),
        )

    def _ended(self, job_id: str) -> ScheduledJob:
        with self._store.read() as tx:
            job = tx.schedules.get(job_id)
            own = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if job is None and not own:
            raise JobNotFound(job_id=job_id)
        if job is None:
            reason = f"only {own[0].initiator}, which submitted it, may do so"
            raise ParametersRefused(job_id=job_id, reason=reason)
        if job.status not in JOB_FINAL:
            raise ParametersRefused(job_id=job_id, reason=f"it is {job.status.value}")
        return job

    def _checked(self, job: ScheduledJob, conf: JsonObject) -> JobSpec:
        """Return the job with its new conf. Raises: InvalidJobSpec, ParametersRefused."""
        before = self._specs.get(job.job_id, job.dsl, job.conf)
        spec = self._specs.replace(job.job_id, job.dsl, conf)
        try:
            refuse_guarded(spec)
        except FedflowError:
            self._specs.forget(job.job_id)
            raise
        if spec.sites != before.sites or spec.initiator != before.initiator:
            self._specs.forget(job.job_id)
            raise ParametersRefused(job_id=job.job_id, reason="the parties stay as they are")
        return spec

    def _tell(self, job: ScheduledJob, site: Site, conf: JsonObject) -> Reply:
        """Let one site check and keep the new conf; no answer is a refusal, too."""
        try:
            return self._parties.call(
                job.initiator,
                site.party_id,
                paths.job_path("job_parameters", JobKey(job_id=job.job_id, site=site)),
                {"epoch": job.epoch, "runtime_conf": conf},
                request_id=self._new_request_id(),
                job_id=job.job_id,
                deadline_s=self._timing.call_timeout_s,
            )
        except FedflowError as exc:
            return Reply(retcode=exc.retcode, retmsg=exc.message, error=exc.name)


def _changed(
    conf: JsonObject, job_parameters: JsonObject, component_parameters: JsonObject
) -> JsonObject:
    """Return a conf with sections laid over its own; what a job is stays."""
    given = {"job_parameters": job_parameters, "component_parameters": component_parameters}
    merged = copy_object(merge_objects(conf, given, depth=MAX_DEPTH))
    for section, before in _levels(merged.get("job_parameters"), conf.get("job_parameters")):
        for name in _FIXED:
            section.pop(name, None)
            if name in before:
                section[name] = before[name]
    return merged


def _levels(merged: object, before: object) -> list[tuple[dict[str, object], Mapping[str, object]]]:
    """Return the sections of job parameters that hold values, each with what it was before."""
    if not isinstance(merged, dict):
        return []
    old = before if isinstance(before, dict) else {}
    found: list[tuple[dict[str, object], Mapping[str, object]]] = []
    common = merged.get("common")
    if isinstance(common, dict):
        known = old.get("common")
        found.append((common, known if isinstance(known, dict) else {}))
    roles = merged.get("role")
    for role, indexes in roles.items() if isinstance(roles, dict) else ():
        for index, values in indexes.items() if isinstance(indexes, dict) else ():
            known = ((old.get("role") or {}).get(role) or {}).get(index)
            if isinstance(values, dict):
                found.append((values, known if isinstance(known, dict) else {}))
    return found


def _named(section: JsonObject, spec: JobSpec) -> tuple[str, ...]:
    """Return the components that a section of parameters names, in the job's order."""
    common, roles = section.get("common"), section.get("role")
    named = set(common) if isinstance(common, dict) else set()
    for indexes in roles.values() if isinstance(roles, dict) else ():
        for values in indexes.values() if isinstance(indexes, dict) else ():
            named |= set(values) if isinstance(values, dict) else set()
    return tuple(name for name in spec.dag.order if name in named)
