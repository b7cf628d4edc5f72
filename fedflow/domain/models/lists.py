"""Lists of model versions: what fits, and what a row of a list says. Newest first, as in the store.

A row leaves out DSL and confs, which are long; `ModelVersion` has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from fedflow.base.values import dataclass
from fedflow.domain.models.model import ModelKey, ModelVersion
from fedflow.domain.site import Role, Site


class ModelKind(StrEnum):
    """Where a version comes from."""

    TRAINED = "trained"
    DEPLOYED = "deployed"
    IMPORTED = "imported"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelList:
    """Which versions that can be used to list, and which page of them; None and "" mean any."""

    text: str = ""  #: a part of the model id or version
    role: Role | None = None
    party_id: str | None = None
    kind: ModelKind | None = None
    module: str = ""  #: of one of its components
    tag: str = ""
    model_id: str = ""
    child_of: str = ""  #: the version that it was deployed from
    with_empty: bool = True  #: versions without contents, too
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelLine:
    """One site's share of a version, as a list shows it."""

    key: ModelKey
    job_id: str
    roles: Mapping[str, Sequence[str]]
    initiator: Site
    parent: bool
    parent_version: str  #: of a deployed version: what it was deployed from
    imported: bool
    size_bytes: int
    created_ms: int

    @property
    def trained_by(self) -> str:
        """Return the id of the job that trained it, or the version that it was deployed from."""
        return self.parent_version or self.key.model_version

    @property
    def kind(self) -> ModelKind:
        """Return where it comes from; an imported one that is deployed counts as imported."""
        return kind_of(parent=self.parent, imported=self.imported)


def kind_of(*, parent: bool, imported: bool) -> ModelKind:
    """Return the kind of a version."""
    if imported:
        return ModelKind.IMPORTED
    return ModelKind.TRAINED if parent else ModelKind.DEPLOYED


def line_of(version: ModelVersion) -> ModelLine:
    """Return the row of a version."""
    return ModelLine(
        key=version.key,
        job_id=version.job_id,
        roles=version.roles,
        initiator=version.initiator,
        parent=version.parent,
        parent_version=parent_version(version.parent_info),
        imported=version.imported,
        size_bytes=version.size_bytes,
        created_ms=version.created_ms,
    )


def parent_version(parent_info: object) -> str:
    """Return the version that a deployed version comes from, "" for any other."""
    found = parent_info.get("parent_model_version") if isinstance(parent_info, dict) else None
    return found if isinstance(found, str) else ""
