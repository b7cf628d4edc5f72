"""Predict jobs: what they run (the predict DSL of a deployed model) and with what (its models).

The initiator's share of the model gives DSL and training conf; the submitted conf lies over the
latter, a submitted DSL counts for nothing. Every site takes component models from its own share,
after it saw that the shares belong together, before anything starts.
Source: `docs/reference/jobs.md#predict-conf` and `docs/reference/models.md#deploy`.
"""

from __future__ import annotations

from typing import Any, cast

from fedflow.app.models.deployment import check_contents, predict_dsl_of, stored_models
from fedflow.app.models.model_loading import LoadRequest
from fedflow.app.models.models import ModelRepository, version_in
from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.models import ModelNotDeployed, ModelsDiffer, NotPredictable
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import mode_of, party_id_of, role_of
from fedflow.domain.job.document import JsonObject
from fedflow.domain.job.dsl import Component
from fedflow.domain.job.formats import read_job
from fedflow.domain.job.predict_conf import merge_predict_conf, unknown_names
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.models.model import ModelKey, ModelVersion, common_digest
from fedflow.domain.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a predict job runs."""

    dsl: JsonObject
    conf: JsonObject  #: the training conf with the submitted one over it
    train_conf: JsonObject
    digest: str  #: what the share of every site must agree with
    warnings: tuple[JobWarning, ...]  #: about the submitted conf


class Predictions:
    """What submitting and creating a predict job need of the deployed model."""

    def __init__(self, *, store: Store, repository: ModelRepository) -> None:
        self._store = store
        self._repository = repository

    def begin(self, conf: Any) -> Prediction | None:
        """Return what a submitted conf asks to run, None if it is not one of a predict job.

        The conf may name the version by a branch or a tag; what runs has the version itself.
        Raises: InvalidJobSpec, ModelNotFound, ModelNotDeployed, BranchNotFound, TagNotFound,
            TagNotUnique.
        """
        if mode_of(conf) != "predict":
            return None
        key = _named(conf)
        if ":" in key.model_version:  # no id has one
            from fedflow.app.models.model_names import named_version  # few jobs need it

            with self._store.read() as tx:
                key = named_version(tx, key)
            conf = _with_version(conf, key)
        version, dsl = self._usable(key)
        form = read_job(dsl, conf)
        merged, warnings = merge_predict_conf(version.train_conf, form.conf)
        names = {*_components(dsl), *_components(version.train_dsl)}
        return Prediction(
            dsl=dsl,
            conf=merged,
            train_conf=version.train_conf,
            digest=common_digest(version),
            warnings=(*form.warnings, *warnings, *unknown_names(conf, names)),
        )

    def check_here(self, spec: JobSpec, site: Site, *, digest: Any) -> None:
        """Check that a site's own share can run its part of a predict job, contents included.

        `digest` is that of the initiator's share. Raises: ModelNotFound, ModelNotDeployed,
        ModelsDiffer, NotPredictable, ModelDamaged.
        """
        key = model_of(spec, site)
        version, predict_dsl = self._usable(key)
        if digest != common_digest(version) or spec.dsl != predict_dsl:
            raise ModelsDiffer(site=site, what="a DSL, a role or the initiator")
        for other in spec.sites:
            if other.party_id not in version.roles.get(other.role.value, ()):
                raise NotPredictable(model=key, reason=f"{other} has no share of it")
        used = stored_models(predict_dsl)
        with self._store.read() as tx:
            components = [c for c in tx.models.components(key) if c.component in used]
        check_contents(self._repository, components)

    def train_conf(self, tx: Tx, spec: JobSpec, site: Site) -> JsonObject:
        """Return the conf that a predict job's model was trained with, none of other jobs.

        Raises: ModelNotFound.
        """
        if spec.mode != "predict":
            return {}
        return cast(JsonObject, version_in(tx, model_of(spec, site)).train_conf)

    def _usable(self, key: ModelKey) -> tuple[ModelVersion, JsonObject]:
        """Return a share that can predict, and its predict DSL.

        Raises: ModelNotFound, ModelNotDeployed.
        """
        version = self._repository.version(key)
        predict_dsl = predict_dsl_of(version)
        if predict_dsl is None:
            raise ModelNotDeployed(model=key)
        return version, predict_dsl


def _with_version(conf: JsonObject, key: ModelKey) -> JsonObject:
    """Return a conf that names this version wherever it named one."""
    section = cast(JsonObject, conf["job_parameters"])
    own = {"model_version": key.model_version}
    changed = {**section, **own} if "model_version" in section else dict(section)
    common = section.get("common")
    if isinstance(common, dict) and "model_version" in common:
        changed["common"] = {**common, **own}
    return {**conf, "job_parameters": changed}


def _components(dsl: JsonObject) -> tuple[str, ...]:
    return tuple(cast(JsonObject, dsl.get("components") or {}))


def model_of(spec: JobSpec, site: Site) -> ModelKey:
    """Return a site's share of the model that a predict job uses."""
    common = spec.settings.job_parameters.common
    return ModelKey(
        site=site,
        model_id=str(common["model_id"]),
        model_version=str(common["model_version"]),
    )


def deployed_models(tx: Tx, spec: JobSpec, component: Component, site: Site) -> list[LoadRequest]:
    """Return which models of the deployed version a component of a predict job starts with.

    A component that wrote no model at this site has none there.
    """
    if not component.stored_models:
        return []
    key = model_of(spec, site)
    stored = {(c.component, c.alias) for c in tx.models.components(key)}
    return [
        LoadRequest(key=key, component=ref.component, alias=ref.output, step=None)
        for ref in component.stored_models
        if (ref.component, ref.output) in stored
    ]


def _named(conf: Any) -> ModelKey:
    """Return the initiator's share of the model that a predict conf names.

    Raises: InvalidJobSpec: it names none, or no initiator.
    """
    section = conf.get("job_parameters") or {}
    common = section.get("common")
    given = {**section, **(common if isinstance(common, dict) else {})}
    problems = [
        Problem(
            f"$.conf.job_parameters.common.{member}",
            "a predict job names the deployed model that it uses",
            rule="ModelNotNamed",
        )
        for member in ("model_id", "model_version")
        if not isinstance(given.get(member), str | int) or not given[member]
    ]
    initiator = conf.get("initiator")
    initiator = initiator if isinstance(initiator, dict) else {}
    role, party_id = role_of(initiator.get("role")), party_id_of(initiator.get("party_id"))
    if role is None or party_id is None:
        message = "must name the role and the party_id of a site of the model"
        problems.append(Problem("$.conf.initiator", message, rule="InitiatorError"))
    if problems or role is None or party_id is None:
        raise InvalidJobSpec(problems)
    return ModelKey(
        site=Site(role, party_id),
        model_id=str(given["model_id"]),
        model_version=str(given["model_version"]),
    )
