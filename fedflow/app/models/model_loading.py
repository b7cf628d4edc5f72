"""Which stored model a `ModelLoader` means. Source: `docs/reference/components.md#loaders`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.app.models.models import ModelRepository, version_in
from fedflow.app.ports.store import Tx
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.models import ModelNotFound, ModelsDiffer
from fedflow.base.values import dataclass
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelKey,
    ModelVersion,
    StepChoice,
    common_digest,
)
from fedflow.domain.site import Site

MODEL_LOADER: Final = "ModelLoader"


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadRequest:
    """A component's model of a version, or its state after a step."""

    key: ModelKey
    component: str
    alias: str | None
    step: StepChoice | None

    def locate(
        self, repository: ModelRepository, tx: Tx
    ) -> tuple[ModelComponent | Checkpoint, str]:
        """Return its row and module. Raises: as `ModelRepository.locate`."""
        return repository.locate(
            tx, self.key, self.component, alias=self.alias, checkpoint=self.step
        )


def load_request(
    module: str, component: str, parameters: Mapping[str, Any], site: Site
) -> LoadRequest | None:
    """Return what a component loads at a site; None if it is no ModelLoader, or does not run.

    Raises: BadParameter: it does not name a model.
    """
    if module.lower() != MODEL_LOADER.lower() or parameters.get("need_run") is False:
        return None

    def text(name: str) -> str | None:
        value = parameters.get(name)
        return None if value is None else str(value)

    names = ("model_id", "model_version", "component_name")
    model_id, model_version, loaded = (text(n) for n in names)
    if model_id is None or model_version is None or loaded is None:
        missing = next(n for n in names if parameters.get(n) is None)
        raise BadParameter(path=f"{component}.{missing}", reason="names which model is loaded")
    step_index, step_name = parameters.get("step_index"), text("step_name")
    step = None
    if step_index is not None or step_name is not None:
        step = StepChoice(
            step_index=None if step_index is None else int(step_index), step_name=step_name
        )
    return LoadRequest(
        key=ModelKey(site=site, model_id=model_id, model_version=model_version),
        component=loaded,
        alias=text("model_alias"),
        step=step,
    )


def loaded_digests(tx: Tx, spec: JobSpec) -> dict[str, str]:
    """Return, by ModelLoader, the digest of what all sites of its version must have in common.

    It is the initiator's word; a loader that loads nothing there, or has no share, is left out.
    """
    site = spec.initiator
    digests: dict[str, str] = {}
    for component, asked in _loaders(spec, site):
        try:
            digests[component] = common_digest(version_in(tx, asked.key))
        except ModelNotFound:
            continue  # the site's own create command is refused with the reason
    return digests


def check_loaded(
    tx: Tx, repository: ModelRepository, spec: JobSpec, site: Site, *, digests: object
) -> None:
    """Check that a site has what its ModelLoaders load, of the version that the initiator means,
    and that no party takes part in the job that has no share of that model.

    Raises: as `ModelRepository.locate`, BadParameter, ModelsDiffer.
    """
    told = digests if isinstance(digests, dict) else {}
    for component, asked in _loaders(spec, site):
        asked.locate(repository, tx)
        version = version_in(tx, asked.key)
        _check_parties(version, spec, component)
        digest = common_digest(version)
        if told.get(component, digest) != digest:
            raise ModelsDiffer(site=site, what="a DSL, a role or the initiator")


def _check_parties(version: ModelVersion, spec: JobSpec, component: str) -> None:
    """Raises: BadParameter: a party of the job is none of those of the model.

    What a component tells the others is computed with its own share, so they could learn from it.
    """
    owners = {party for parties in version.roles.values() for party in parties}
    for site in spec.sites:
        if site.party_id not in owners:
            reason = f"{site} takes part in the job and is none of the parties of the {version.key}"
            raise BadParameter(path=f"{component}.model_id", reason=reason)


def _loaders(spec: JobSpec, site: Site) -> list[tuple[str, LoadRequest]]:
    """Return what each ModelLoader of a job loads at a site. Raises: BadParameter."""
    found = []
    for component in spec.components:
        if spec.runs_at(component.name, site):
            parameters = spec.component_parameters(component.name, site)
            asked = load_request(component.module, component.name, parameters, site)
            if asked is not None:
                found.append((component.name, asked))
    return found
