"""Deploying a trained model: a child version that predict jobs and serving may use.

The server of the initiator coordinates (`Deployment`); every site of the model's roles makes its
own child (`LocalDeployment`) from the share that it has: the same component models, or
checkpoints in their place, and the predict DSL. Both halves go by `app/models/model_changes.py`.
Source: `docs/reference/jobs.md#predict-dsl` and `docs/reference/models.md#deploy`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from fedflow.app.models.model_changes import (
    ChangedModel,
    ModelChange,
    ModelChanges,
    PreparedModels,
    sites_of,
)
from fedflow.app.models.models import ModelRepository
from fedflow.app.ports.components import Catalog
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Incoming, TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.models import (
    CheckpointNotFound,
    ModelIsDeployed,
    ModelNotFound,
    ModelNotReady,
    ModelsDiffer,
    NotModelInitiator,
    WrongModelSource,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import given_version
from fedflow.domain.job.document import JsonObject, Report, check_document, child, copy_object
from fedflow.domain.job.dsl import Component, parse_dsl
from fedflow.domain.job.predict_dsl import deduce_predict_dsl
from fedflow.domain.job.spec import names_of
from fedflow.domain.models.model import (
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelVersion,
    StepChoice,
    common_digest,
)
from fedflow.domain.records import JobFilter, JobKey, Reply
from fedflow.domain.states import JOB_FINAL
from fedflow.wire.commands import DeployModel

_DSL_PATH: Final = "$.dsl.components"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeployRequest:
    """What a client asks for: which components stay, or the whole predict DSL; not both."""

    model_id: str
    model_version: str  #: also `branch:NAME` or `tag:NAME`
    components: Sequence[str] | None = None  #: None and no DSL: all
    predict_dsl: JsonObject | None = None
    checkpoints: Mapping[str, StepChoice] = field(default_factory=dict)  #: by component


class Deployment(UseCase):
    """The use case of the deploy route."""

    def __init__(self, kernel: Kernel, *, model_changes: ModelChanges) -> None:
        super().__init__(kernel)
        self._model_changes = model_changes

    def deploy(self, asked: DeployRequest) -> ChangedModel:
        """Make a child version at all sites of a model, or at none.

        Raises: as `named_share`; ModelIsDeployed. InvalidJobSpec: of the DSL or the list of
            components. BadRequest: both were given.
        """
        parent = named_share(self._store, asked.model_id, asked.model_version)
        _check_parent(parent)
        version = self._new_job_id(self._clock.now_ms())
        predict_dsl = self._predict_dsl(parent, asked)
        body = DeployModel(
            model_id=asked.model_id,
            parent_version=parent.key.model_version,
            parent_digest=common_digest(parent),
            inference_dsl=predict_dsl,
            components_checkpoint={n: _as_json(s) for n, s in asked.checkpoints.items()},
        )
        sites = sites_of(parent.roles)
        outcome = self._model_changes.carry_out(
            ModelChange(
                id=new_request_id(),
                command="model_deploy",
                version=version,
                source=parent.initiator,
                bodies=dict.fromkeys(sites, body),
                digest=common_digest(child_of(parent, version, predict_dsl, now_ms=0)),
            )
        )
        return ChangedModel(model_id=asked.model_id, model_version=version, outcome=outcome)

    def _predict_dsl(self, parent: ModelVersion, asked: DeployRequest) -> JsonObject:
        if asked.predict_dsl is not None and asked.components is not None:
            raise BadRequest(reason="give either cpn_list or predict_dsl, not both")
        if asked.predict_dsl is not None:
            predict_dsl = asked.predict_dsl
        else:
            predict_dsl = deduce_predict_dsl(
                parent.train_dsl, asked.components, version=given_version(parent.train_conf)
            )
        components = check_predict_dsl(predict_dsl, parent, catalog=self._catalog)
        _check_checkpoints(asked.checkpoints, components)
        return copy_object(predict_dsl)


class LocalDeployment(UseCase):
    """A site's half: makes the child share when the initiator's server says so."""

    def __init__(
        self, kernel: Kernel, *, repository: ModelRepository, prepared: PreparedModels
    ) -> None:
        super().__init__(kernel)
        self._repository = repository
        self._prepared = prepared

    def check(self, incoming: TypedCommand[DeployModel]) -> None:
        """Check before anything is written, contents included.

        Raises: ModelNotFound, WrongModelSource, ModelsDiffer, ModelIsDeployed, InvalidJobSpec,
            CheckpointNotFound, ModelDamaged, BadRequest.
        """
        with self._store.read() as tx:
            version, components = self._child(tx, incoming)
        check_predict_dsl(version.inference_dsl, version, catalog=self._catalog)
        check_contents(self._repository, components)

    def prepare(self, tx: Tx, incoming: TypedCommand[DeployModel], effects: AfterCommit) -> Reply:
        """Store the child, which is not usable before it is committed."""
        version, components = self._child(tx, incoming)
        return self._prepared.put(tx, incoming, version, components)

    def _child(
        self, tx: Tx, incoming: TypedCommand[DeployModel]
    ) -> tuple[ModelVersion, list[ModelComponent]]:
        """Return the child share that a command describes."""
        body = incoming.body
        report = Report()
        check_document(body.inference_dsl, "$.dsl", report=report)
        report.raise_if_any()
        checkpoints = steps_of(body.components_checkpoint)
        key = ModelKey(
            site=incoming.job.site, model_id=body.model_id, model_version=body.parent_version
        )
        parent = trained_version(tx, key)
        check_source(parent, incoming, what=f"deploy the {key}")
        _check_parent(parent)
        if common_digest(parent) != body.parent_digest:
            raise ModelsDiffer(site=incoming.site, what="the training DSL, a role or the initiator")
        now_ms = self._clock.now_ms()
        version = child_of(parent, incoming.job_id, body.inference_dsl, now_ms=now_ms)
        wanted = stored_models(body.inference_dsl)
        chosen = [
            _at_step(tx, c, checkpoints.get(c.component))
            for c in tx.models.components(key)
            if c.component in wanted
        ]
        own = [replace(c, key=version.key, created_ms=now_ms) for c in chosen]
        return replace(version, size_bytes=sum(c.size_bytes for c in own)), own


# --- rules that both halves share -----------------------------------------------------------------


def initiators_share(store: Store, model_id: str, model_version: str) -> ModelVersion:
    """Return the share of the site that trained a version, if it is this server's.

    Raises: ModelNotFound: no share of it is here. ModelNotReady: its job goes on.
        NotModelInitiator.
    """
    which = ModelFilter(model_id=model_id, model_version=model_version)
    named = f"model {model_id} version {model_version}"
    with store.read() as tx:
        found = tx.models.find(which)
        jobs = [] if found else tx.jobs.find(JobFilter(job_id=model_version))
    if not found:
        if any(job.status not in JOB_FINAL for job in jobs):
            raise ModelNotReady(model=named)
        raise ModelNotFound(model=named)
    own = [v for v in found if v.key.site == v.initiator]
    if not own:
        raise NotModelInitiator(model=named)
    return own[0]


def named_share(store: Store, model_id: str, name: str) -> ModelVersion:
    """Return the initiator's share of the version that an id, a branch or a tag names.

    Raises: as `initiators_share`; BranchNotFound, TagNotFound, TagNotUnique.
    """
    return initiators_share(store, model_id, version_id(store, model_id, name))


def version_id(store: Store, model_id: str, name: str) -> str:
    """Return the version that an id, a branch or a tag names.

    Raises: ModelNotFound, BranchNotFound, TagNotFound, TagNotUnique.
    """
    if ":" not in name:  # no id has one
        return name
    from fedflow.app.models.model_names import named_version, site_here  # no job needs it

    with store.read() as tx:
        key = ModelKey(site=site_here(tx, model_id), model_id=model_id, model_version=name)
        return named_version(tx, key).model_version


def trained_version(tx: Tx, key: ModelKey) -> ModelVersion:
    """Return a site's share of a version.

    Raises: ModelNotFound. ModelNotReady: its job has not ended at this site, as may be for a moment
        when it has ended at the initiator.
    """
    version = tx.models.get(key)
    if version is not None and version.ready:
        return version
    job = tx.jobs.get(JobKey(job_id=key.model_version, site=key.site))
    if job is not None and job.status not in JOB_FINAL:
        raise ModelNotReady(model=key)
    raise ModelNotFound(model=key)


def child_of(
    parent: ModelVersion, version: str, predict_dsl: JsonObject, *, now_ms: int
) -> ModelVersion:
    """Return a site's share of the version that a deploy makes."""
    key = replace(parent.key, model_version=version)
    descent = {
        "parent_model_id": parent.key.model_id,
        "parent_model_version": parent.key.model_version,
    }
    return replace(
        parent,
        key=key,
        job_id=version,
        train_conf=conf_of_version(parent.train_conf, key),
        conf_on_party=conf_on_party(parent.conf_on_party, key),
        inference_dsl=predict_dsl,
        parent=False,
        parent_info=descent,
        created_ms=now_ms,
        updated_ms=now_ms,
        loaded_times=0,
        imported=False,
        archive_sha256=None,
        archive_from_ip=None,
        ready=False,
    )


def predict_dsl_of(version: ModelVersion) -> JsonObject | None:
    """Return what a predict job of a version runs, None if it cannot be used as it is.

    A model that a job of version 1 trained need not be deployed: `need_deploy` says what predicts.
    """
    if not version.ready:
        return None
    if version.is_deployed:
        return _object(version.inference_dsl)
    if given_version(version.train_conf) == 1:
        return deduce_predict_dsl(version.train_dsl, version=1)
    return None


def conf_of_version(conf: Any, key: ModelKey) -> Any:
    """Return a training conf that names a version as its model."""
    section = _object(_object(conf).get("job_parameters"))
    common = {**_object(section.get("common")), **_named(key)}
    return {**_object(conf), "job_parameters": {**section, "common": common}}


def conf_on_party(conf: Any, key: ModelKey) -> Any:
    """Return a conf on party, whose job parameters lie open, that names a version as its model."""
    parameters = {**_object(_object(conf).get("job_parameters")), **_named(key)}
    return {**_object(conf), "job_parameters": parameters}


def _named(key: ModelKey) -> dict[str, str]:
    return {"model_id": key.model_id, "model_version": key.model_version}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def check_predict_dsl(
    predict_dsl: JsonObject, version: ModelVersion, *, catalog: Catalog
) -> tuple[Component, ...]:
    """Return the components of a predict DSL that fits a trained version.

    Raises: InvalidJobSpec: it is no predict DSL, a module is unknown here, or a model is named that
        the training does not declare.
    """
    report = Report()
    check_document(predict_dsl, "$.dsl", report=report)
    report.raise_if_any()
    components = parse_dsl(predict_dsl, report, mode="predict")
    trained = _declared_models(version.train_dsl)
    modules = catalog.modules()
    for component in components:
        path = child(_DSL_PATH, component.name)
        if component.module.lower() not in modules:
            from fedflow.domain.job.missing_modules import refusal  # most servers never need it

            rule, message = refusal(component.module, names_of(modules))
            report.problem(f"{path}.module", message, rule=rule)
        for ref in component.stored_models:
            if ref.output not in trained.get(ref.component, ()):
                message = f"the training job has no model {ref}"
                report.problem(f"{path}.input.model", message, rule="InputNameNotExistError")
    report.raise_if_any()
    return components


def stored_models(predict_dsl: JsonObject) -> set[str]:
    """Return the components of the training whose models a predict DSL names."""
    components = parse_dsl(predict_dsl, Report(), mode="predict")
    return {ref.component for c in components for ref in c.stored_models}


def check_contents(repository: ModelRepository, components: Sequence[ModelComponent]) -> None:
    """Raises: ModelDamaged: contents of a component's model are gone or changed."""
    for component in components:
        for part in (component.meta, component.param):
            repository.raw(component, part)


def check_source(version: ModelVersion, incoming: Incoming, *, what: str) -> None:
    """Raises: WrongModelSource: the command is not from the party that trained the model."""
    source = incoming.source_party
    if source is not None and source != version.initiator.party_id:
        raise WrongModelSource(party_id=source, what=what)


def steps_of(value: Any) -> dict[str, StepChoice]:
    """Return the checkpoints that `components_checkpoint` names, by component.

    Raises: BadRequest: an entry is not `{"step_index": number}` or `{"step_name": text}`.
    """
    if not isinstance(value, dict | None):
        raise BadRequest(reason="`components_checkpoint` must be an object")
    return {str(name): _step(name, entry) for name, entry in (value or {}).items()}


def _step(component: str, entry: Any) -> StepChoice:
    index = entry.get("step_index") if isinstance(entry, dict) else None
    name = entry.get("step_name") if isinstance(entry, dict) else None
    if isinstance(index, str) and re.fullmatch(r"[0-9]{1,9}", index, re.ASCII):
        index = int(index)  # `flow model deploy --cpn-step-index` sends text
    if index is None and isinstance(name, str) and name:
        return StepChoice(step_name=name)
    if isinstance(index, int) and not isinstance(index, bool) and name is None:
        return StepChoice(step_index=index)
    raise BadRequest(
        reason=f"components_checkpoint.{component} must have either step_index or step_name"
    )


def _as_json(choice: StepChoice) -> dict[str, Any]:
    members = {"step_index": choice.step_index, "step_name": choice.step_name}
    return {name: value for name, value in members.items() if value is not None}


def _check_parent(version: ModelVersion) -> None:
    if not version.parent:
        raise ModelIsDeployed(
            model=version.key, parent=version.parent_info.get("parent_model_version", "?")
        )


def _check_checkpoints(steps: Mapping[str, StepChoice], components: Sequence[Component]) -> None:
    """Raises: InvalidJobSpec: a checkpoint is named of a component that is not deployed."""
    deployed = {ref.component for c in components for ref in c.stored_models}
    problems = [
        Problem(
            child("$.components_checkpoint", name),
            "no model of this component is deployed",
            rule="DeployComponentNotExistError",
        )
        for name in steps
        if name not in deployed
    ]
    if problems:
        raise InvalidJobSpec(problems)


def _declared_models(train_dsl: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of the models that each component of a training DSL declares."""
    return {c.name: c.model_outputs for c in parse_dsl(train_dsl, Report())}


def _at_step(tx: Tx, component: ModelComponent, choice: StepChoice | None) -> ModelComponent:
    """Return a component's model, as it was at a step if one is given.

    Raises: CheckpointNotFound.
    """
    if choice is None:
        return component
    step = choice.of(tx.models.checkpoints(component.key, component.component))
    if step is None:
        raise CheckpointNotFound(component=component.component, step=choice, model=component.key)
    return replace(component, alias=step.alias, meta=step.meta, param=step.param)
