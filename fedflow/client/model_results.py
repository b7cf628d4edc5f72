"""What a server answers about models, as frozen values. Times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVersion:
    """One site's share of one version of a model."""

    model_id: str
    model_version: str
    role: str
    party_id: str
    roles: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    parent: bool | None = None  #: False: a deploy made it from another version
    parent_info: Mapping[str, Any] | None = None
    size: int | None = None
    imported: int | None = None
    create_time: int | None = None

    @property
    def is_deployed(self) -> bool:
        """Tell whether predict jobs may use this version."""
        return self.parent is False

    def __repr__(self) -> str:
        return f"<Model {self.model_id} {self.model_version} at {self.role} {self.party_id}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVersion:
    """A version that a deploy or a migration made at all its sites."""

    model_id: str
    model_version: str
    detail: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Role -> party id -> what the site said."""

    def __repr__(self) -> str:
        return f"<Model {self.model_id} {self.model_version}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A name that people give to versions."""

    name: str
    description: str = ""
    model_count: int | None = None

    def __repr__(self) -> str:
        return f"<Tag {self.name}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """A model archive on the server's machine."""

    party_model_id: str
    model_version: str
    path: str
    hash: str  #: sha256
