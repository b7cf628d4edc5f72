"""Changing the parameters of an ended job, for its next rerun.

Every site checks and keeps the new conf, then the initiator. A site that missed an update gets the
initiator's conf with the rerun, so a half-done update cannot make sites run different things. A
rerun that brings new parameters lets the sites check them only: they come with its command.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from fedflow.app.initiator.submitted_files import write_files
from fedflow.app.initiator.validation import refuse_guarded
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.initiator_calls import ASKED_CALLS, ask_initiator, asked_job
from fedflow.app.protocol.kernel import UseCase
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import ChangeNotAllowed, JobNotFound, ParametersRefused
from fedflow.base.ids import new_request_id
from fedflow.base.messages import joined
from fedflow.base.values import dataclass
from fedflow.domain.job.document import MAX_DEPTH, JsonObject, copy_object, merge_objects
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import refuse
from fedflow.domain.records import JobFilter, JobKey, JobRecord, Reply, ScheduledJob
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL
from fedflow.wire import paths
from fedflow.wire.api.jobs import ChangedParameters
from fedflow.wire.commands import (
    ChangeParameters,
    InitiatorParameters,
    ParametersAnswer,
    plain,
    read_command,
)

_FIXED: Final = (
    "job_type", "dsl_version", "model_id", "model_version", "inheritance_info", "idempotency_key",
    "elastic",
)  # fmt: skip
"""Job parameters that a job keeps: its results depend on them."""
_TABLES: Final = frozenset({"table", "tables"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sections:
    """Sections of a runtime conf (`common`, `role`) to be laid over a job's own; empty: none."""

    job_parameters: JsonObject = field(default_factory=dict)
    component_parameters: JsonObject = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.job_parameters or self.component_parameters)

    def as_json(self) -> dict[str, Any]:
        return {
            "job_parameters": self.job_parameters,
            "component_parameters": self.component_parameters,
        }


def sections_of(body: InitiatorParameters) -> Sections:
    """Return the sections that a command brings."""
    return Sections(
        job_parameters=body.job_parameters or {},
        component_parameters=body.component_parameters or {},
    )


def check_own(sections: Sections, spec: JobSpec, site: Site) -> None:
    """Check that a site of another party than the initiator's changes its own parameters only.

    These are `component_parameters.role.<role>.<index>` of the party's sites, each index by itself.
    Tables and all that a Reader reads stay as they are, and so do job parameters: what a job reads
    and takes at a site is what its initiator's people asked for. Raises: ChangeNotAllowed.
    """
    if site.party_id == spec.initiator.party_id:
        return
    own = {
        ("component_parameters", "role", one.role.value, str(spec.settings.index_of(one)))
        for one in spec.sites
        if one.party_id == site.party_id
    }
    readers = {name for name, info in spec.modules.items() if info.module.lower() == "reader"}
    given = {name: section for name, section in sections.as_json().items() if section}
    for path in _leaves(given, ()):
        is_own = len(path) > 4 and path[:4] in own
        if not is_own or path[4] in readers or _TABLES.intersection(path[5:]):
            raise ChangeNotAllowed(site=site, path=".".join(path)[:200])


def _leaves(value: JsonObject, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of what an object sets; an empty object sets something, too."""
    for name, member in value.items():
        if isinstance(member, dict) and member:
            yield from _leaves(member, (*path, name))
        else:
            yield (*path, name)


class ParameterUpdates(UseCase):
    """The use case of the parameter route."""

    # --- what a user asks for -------------------------------------------------------------------

    def update(
        self, job_id: str, *, job_parameters: JsonObject, component_parameters: JsonObject
    ) -> ChangedParameters:
        """Lay parameters over those of an ended job, at all its sites.

        Each is a section of a runtime conf: `common`, `role`. At another site than the initiator
        it is asked to do so. Raises: JobNotFound, InvalidJobSpec, ParametersRefused: the job runs,
        or a site refused; its `data` tells which. ChangeNotAllowed: that is up to the initiator.
        """
        sections = Sections(
            job_parameters=job_parameters, component_parameters=component_parameters
        )
        with self._store.read() as tx:
            job = tx.schedules.get(job_id)
            own = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if job is None and not own:
            raise JobNotFound(job_id=job_id)
        if job is None:
            check_own(sections, self._specs.get(job_id, own[0].dsl, own[0].conf), own[0].key.site)
            return self._ask_initiator(own[0], sections)
        self.agree(job, sections)
        effects = AfterCommit()
        with self._store.transaction() as tx:
            spec = self.keep(tx, job_id, sections, epoch=job.epoch, effects=effects)
        effects.run()
        return _told(spec, sections)

    def agree(
        self,
        job: ScheduledJob,
        sections: Sections,
        *,
        runs: Collection[str] | None = None,
        requested_by: Site | None = None,
    ) -> None:
        """Let all sites check the parameters of an ended job, and keep them unless `runs` are
        given: the components that a rerun is to repeat with them.

        `requested_by` is another site that wants them. Raises: InvalidJobSpec, ParametersRefused.
        """
        spec = self.changed(job, sections)
        codes: dict[str, dict[str, int]] = {}
        refusals: list[str] = []
        change = ChangeParameters(
            epoch=job.epoch,
            runtime_conf=spec.conf,
            runs=None if runs is None else sorted(runs),
            requested_by=None if requested_by is None else requested_by.key,
        )
        for site in spec.sites:
            reply = self._tell(job, site, change)
            codes.setdefault(site.role.value, {})[site.party_id] = reply.retcode
            if reply.retcode != 0:
                refusals.append(reply.said_by(site))
        if refusals:
            self._specs.forget(job.job_id)
            reason = joined(refusals, "; ")
            raise ParametersRefused(job_id=job.job_id, reason=reason, parties=codes)

    def keep(
        self, tx: Tx, job_id: str, sections: Sections, *, epoch: int | None, effects: AfterCommit
    ) -> JobSpec:
        """Store the parameters of an ended job at its initiator; return the job with them.

        Raises: ParametersRefused: it is not in this epoch any more. InvalidJobSpec.
        """
        job = tx.schedules.get(job_id)
        if job is None or job.status not in JOB_FINAL or epoch not in (None, job.epoch):
            self._specs.forget(job_id)
            raise ParametersRefused(job_id=job_id, reason="it was run again meanwhile")
        spec = self.changed(job, sections)
        tx.schedules.set_conf(job_id, spec.conf, now_ms=self._clock.now_ms())
        share = tx.jobs.get(JobKey(job_id=job_id, site=job.initiator))
        train_conf = share.train_conf if share is not None else {}

        def write() -> None:
            given = (spec.dsl, spec.conf)
            write_files(self._folders, job_id, spec, train_conf=train_conf, given=given)

        effects.add(write)
        return spec

    def changed(self, job: ScheduledJob, sections: Sections) -> JobSpec:
        """Return an ended job with new parameters. Raises: InvalidJobSpec, ParametersRefused."""
        if job.status not in JOB_FINAL:
            raise ParametersRefused(job_id=job.job_id, reason=f"it is {job.status.value}")
        return self._checked(job, _changed(job.conf, sections))

    # --- asked by another site of the job -------------------------------------------------------

    def check_asked(self, incoming: TypedCommand[InitiatorParameters]) -> None:
        """Let the sites check and keep what another site asks for; before the transaction.

        Raises: as `update`, WrongSite, BadRequest, ChangeNotAllowed.
        """
        with self._store.read() as tx:
            job = asked_job(tx, incoming)
        site, sections = incoming.job.site, sections_of(incoming.body)
        check_own(sections, self._specs.get(job.job_id, job.dsl, job.conf), site)
        self.agree(job, sections, requested_by=site)

    def asked(
        self, tx: Tx, incoming: TypedCommand[InitiatorParameters], effects: AfterCommit
    ) -> Reply:
        """Keep what the sites have agreed to."""
        sections = sections_of(incoming.body)
        spec = self.keep(tx, incoming.job_id, sections, epoch=None, effects=effects)
        told = _told(spec, sections)
        answer = ParametersAnswer(
            job_parameters=told.job_parameters,
            component_parameters=told.component_parameters,
            components=list(told.components),
        )
        return Reply(retcode=0, data=plain(answer))

    def _ask_initiator(self, own: JobRecord, sections: Sections) -> ChangedParameters:
        """Let the initiator change the parameters. Raises: ParametersRefused: in its words."""
        job_id = own.key.job_id
        reply = ask_initiator(
            self._parties,
            own,
            "initiator_parameters",
            InitiatorParameters(
                job_parameters=sections.job_parameters,
                component_parameters=sections.component_parameters,
            ),
            request_id=new_request_id(),
            deadline_s=ASKED_CALLS * self._timing.call_timeout_s,
        )
        if reply.retcode != 0:
            reason = reply.said_by(own.initiator)
            raise ParametersRefused(job_id=job_id, reason=reason, parties=reply.data)
        kept = read_command(reply.data, ParametersAnswer)
        return ChangedParameters(
            job_parameters=kept.job_parameters,
            component_parameters=kept.component_parameters,
            components=tuple(kept.components),
        )

    # --- at the initiator -----------------------------------------------------------------------

    def _checked(self, job: ScheduledJob, conf: JsonObject) -> JobSpec:
        """Return the job with its new conf. Raises: InvalidJobSpec, ParametersRefused."""
        before = self._specs.get(job.job_id, job.dsl, job.conf)
        spec = self._specs.replace(job.job_id, job.dsl, conf)
        try:
            refuse_guarded(spec)
            refuse(one for one in spec.warnings if one not in before.warnings)  # nobody is told
        except FedflowError:
            self._specs.forget(job.job_id)
            raise
        if spec.sites != before.sites or spec.initiator != before.initiator:
            self._specs.forget(job.job_id)
            raise ParametersRefused(job_id=job.job_id, reason="the parties stay as they are")
        return spec

    def _tell(self, job: ScheduledJob, site: Site, change: ChangeParameters) -> Reply:
        """Let one site check the new conf and keep it, unless it is that of a rerun; no answer is
        a refusal, too.
        """
        try:
            return self._parties.call(
                job.initiator,
                site.party_id,
                paths.job_path("job_parameters", JobKey(job_id=job.job_id, site=site)),
                plain(change),
                request_id=new_request_id(),
                job_id=job.job_id,
                deadline_s=self._timing.call_timeout_s,
            )
        except FedflowError as exc:
            return Reply(retcode=exc.retcode, retmsg=exc.message, error=exc.name)


def _told(spec: JobSpec, sections: Sections) -> ChangedParameters:
    return ChangedParameters(
        job_parameters=spec.conf.get("job_parameters", {}),
        component_parameters=spec.conf.get("component_parameters", {}),
        components=_named(sections.component_parameters, spec),
    )


def _changed(conf: JsonObject, sections: Sections) -> JsonObject:
    """Return a conf with sections laid over its own; what a job is stays."""
    merged = copy_object(merge_objects(conf, sections.as_json(), depth=MAX_DEPTH))
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
