"""What one party has of a deployed model, whole: what a serving process loads and keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class DeployedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """The stored model of one component."""

    module: str
    meta_name: str
    param_name: str
    meta: dict[str, Any]
    param: dict[str, Any]


class DeployedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A party's part of one version of a model, as plain JSON.

    `digest` is that of what all parties of the version have in common
    (`domain/models/model.common_digest`): two shares with the same one belong together.
    """

    role: str
    party_id: str
    model_id: str
    model_version: str
    roles: Mapping[str, list[str]]
    digest: str
    dsl: dict[str, Any]  #: the predict DSL
    parameters: Mapping[str, dict[str, Any]]  #: component -> its parameters at this party
    components: Mapping[str, DeployedComponent]  #: component of the training -> its model
