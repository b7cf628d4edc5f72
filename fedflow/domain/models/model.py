"""Stored models: what one site keeps of a federated model, how it is named, and how two sites see
that they hold the same one.

A model is named by `model_id` (its roles and parties) and `model_version` (the job that trained it,
or the id that a deploy gave). Each site keeps its own share: a `ModelVersion` with the job it came
from, one `ModelComponent` per component that wrote a model, and `Checkpoint`s. A share's contents
are two plain JSON objects, meta and param; a record holds their digests (`ModelPart`), the contents
lie in content-addressed blobs. Source: `docs/reference/models.md#identity`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.records import Json
from fedflow.domain.site import Role, Site

MAX_MODEL_ID: Final = 512  #: characters; about 80 parties
ARCHIVE_FORMAT: Final = "fedflow-model/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelKey:
    """One site's share of one version of a model."""

    site: Site
    model_id: str
    model_version: str

    @property
    def party_model_id(self) -> str:
        """Return `<role>#<party id>#<model id>`, FATE's name of a share."""
        return f"{self.site.role.value}#{self.site.party_id}#{self.model_id}"

    @staticmethod
    def from_party_model_id(party_model_id: str, model_version: str) -> ModelKey:
        """Return the key that FATE's name means. Raises: ValueError: it is none."""
        role, _, rest = party_model_id.partition("#")
        party_id, _, model_id = rest.partition("#")
        if not party_id or not model_id:
            raise ValueError(f"{party_model_id!r} is not <role>#<party id>#<model id>")
        return ModelKey(
            site=Site(Role(role), PartyId(party_id)), model_id=model_id, model_version=model_version
        )

    def __str__(self) -> str:
        return f"model {self.model_id} version {self.model_version} of {self.site}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPart:
    """One of the two objects of a model: its name and the digests of its canonical JSON."""

    name: str  #: for example `HeteroLogisticRegressionParam`
    sha256: str  #: name of the blob
    sha1: str  #: what FATE's clients are shown
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelComponent:
    """The model that one component wrote, in one version."""

    key: ModelKey
    component: str  #: name of the DAG node
    module: str
    alias: str  #: the declared `output.model` name
    meta: ModelPart
    param: ModelPart
    run_parameters: Json  #: the component's parameters at this site
    created_ms: int

    @property
    def size_bytes(self) -> int:
        return self.meta.size_bytes + self.param.size_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The state of a model after one step of its training; `attempt` is the task's version."""

    key: ModelKey
    component: str
    attempt: int
    alias: str
    step_index: int
    step_name: str
    meta: ModelPart
    param: ModelPart
    created_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StepChoice:
    """Which checkpoint: by its index, or by its name (the latest of that name)."""

    step_index: int | None = None
    step_name: str | None = None

    def of(self, checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
        """Return the one that is meant, of some in the order of their steps."""
        if self.step_index is None and self.step_name is None:
            return None
        found = [
            c
            for c in checkpoints
            if self.step_index in (None, c.step_index) and self.step_name in (None, c.step_name)
        ]
        return found[-1] if found else None

    def __str__(self) -> str:
        return str(self.step_name if self.step_index is None else self.step_index)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVersion:
    """One site's share of a version: where it came from. Its contents are its components.

    `parent` tells that it was trained here (or imported as such); a deployed child has False and
    names its parent in `parent_info` (`parent_model_id`, `parent_model_version`). While `ready` is
    False a deploy is being prepared: the version can be used by nobody.
    """

    key: ModelKey
    job_id: str
    roles: Mapping[str, Sequence[str]]
    initiator: Site
    train_dsl: Json
    train_conf: Json
    conf_on_party: Json
    fate_version: str
    created_ms: int
    updated_ms: int
    inference_dsl: Json = field(default_factory=dict)
    parent: bool = True
    parent_info: Json = field(default_factory=dict)
    size_bytes: int = 0
    loaded_times: int = 0
    imported: bool = False
    archive_sha256: str | None = None
    archive_from_ip: str | None = None
    ready: bool = True

    @property
    def is_deployed(self) -> bool:
        """Tell whether predict jobs and serving may use it."""
        return self.ready and not self.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFilter:
    """Which versions to list; None means any. Newest first."""

    model_id: str | None = None
    model_version: str | None = None
    role: Role | None = None
    party_id: str | None = None
    job_id: str | None = None
    with_unready: bool = False  #: also versions of deploys that are being prepared
    limit: int = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelTag:
    """A name that people give to model versions; `model_count` versions have it."""

    name: str
    description: str = ""
    model_count: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelContent:
    """A model with its contents, checked against its digests."""

    module: str
    alias: str
    meta_name: str
    param_name: str
    meta: Mapping[str, Any]
    param: Mapping[str, Any]


# --- canonical JSON and digests -------------------------------------------------------------------


def canonical_json(value: Json) -> bytes:
    """Return the one JSON text of a value that digests are taken of: sorted keys, no blanks, UTF-8.

    Raises: ValueError: a number is not finite, or a text has half a character. TypeError: it is not
        plain JSON.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def part_of(name: str, content: bytes) -> ModelPart:
    """Return the description of one object of a model."""
    return ModelPart(
        name=name,
        sha256=hashlib.sha256(content).hexdigest(),
        sha1=hashlib.sha1(content, usedforsecurity=False).hexdigest(),
        size_bytes=len(content),
    )


def common_digest(version: ModelVersion) -> str:
    """Return the sha256 of what all sites of a version must agree on before they use it together.

    It covers ids, roles, initiator, DSLs and descent, not the contents, which are each site's own,
    nor the conf, of which a site may know only its part.
    """
    return hashlib.sha256(canonical_json(_common(version))).hexdigest()


def _common(version: ModelVersion) -> dict[str, Any]:
    return {
        "model_id": version.key.model_id,
        "model_version": version.key.model_version,
        "roles": {role: sorted(parties) for role, parties in version.roles.items()},
        "initiator": version.initiator.key,
        "train_dsl": version.train_dsl,
        "inference_dsl": version.inference_dsl,
        "parent": version.parent,
        "parent_info": version.parent_info,
    }
