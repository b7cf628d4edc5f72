"""What one party has of a deployed model, whole: what a serving process loads and keeps."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import isfinite
from typing import Any, Final

import msgspec

HORIZONTAL_MODELS: Final = frozenset({"homolr", "homonn"})
"""Modules, in lower case, whose models each party has whole."""


def is_horizontal(predict_dsl: Mapping[str, Any]) -> bool:
    """Tell whether a predict DSL has a model that each party can ask by itself."""
    components = predict_dsl.get("components")
    return isinstance(components, Mapping) and any(
        isinstance(one, Mapping) and str(one.get("module", "")).lower() in HORIZONTAL_MODELS
        for one in components.values()
    )


class DeployedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """The stored model of one component."""

    module: str
    meta_name: str
    param_name: str
    meta: dict[str, Any]
    param: dict[str, Any]


class ColumnHistogram(msgspec.Struct, frozen=True, kw_only=True):
    """How the values of one column were distributed.

    A value belongs to the first bin whose edge is not below it, and to the last bin if there is
    none. So `counts` has one number more than `edges`, which ascend.
    """

    edges: list[float]
    counts: list[int]
    missing: int = 0  #: values that were missing or infinite

    def __post_init__(self) -> None:
        """Raises: ValueError: counts and edges do not fit together."""
        if len(self.counts) != len(self.edges) + 1:
            raise ValueError("a histogram has one count more than edges")
        if any(a >= b for a, b in pairwise(self.edges)) or not all(map(isfinite, self.edges)):
            raise ValueError("the edges of a histogram are finite and ascend")
        if min(*self.counts, self.missing, 0) < 0 or not sum(self.counts) + self.missing:
            raise ValueError("a histogram counts something")


class ReferenceHistograms(msgspec.Struct, frozen=True, kw_only=True):
    """How features and scores were distributed in the training, at one party.

    A score is named `score`; one of several classes is named `score:` and its class.
    """

    source: str  #: what was counted, for people
    features: dict[str, ColumnHistogram] = {}
    scores: dict[str, ColumnHistogram] = {}


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
    reference: ReferenceHistograms | None = None  #: what drift is measured against; None: nothing
