"""What one party has of a deployed model, as plain JSON."""

from __future__ import annotations

from typing import Any

import msgspec


class DeployedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """The model that one component has stored at this party."""

    module: str
    param_name: str
    meta_name: str
    param: dict[str, Any]
    meta: dict[str, Any]


class DeployedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One party's part of a version: the predict DSL, parameters and stored models."""

    role: str  #: guest or host
    party_id: str
    model_id: str
    model_version: str
    roles: dict[str, list[str]]  #: role -> party ids, in the order of the conf
    digest: str  #: what all parties of the version have in common
    dsl: dict[str, Any]  #: the predict DSL
    parameters: dict[str, dict[str, Any]]  #: by component, those of this party
    components: dict[str, DeployedComponent]  #: by component
