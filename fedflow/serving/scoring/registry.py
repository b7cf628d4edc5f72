"""Which modules can be served, and what works for each; nothing is imported before it is asked for.

A row step makes rows of rows, a model makes scores of them, the input makes rows of what a caller
or a feature source gives.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from fedflow.domain.site import Site
from fedflow.sdk.outputs import Model
from fedflow.sdk.params import Params, check_params
from fedflow.serving.scoring.batch import RowHeader

P = TypeVar("P", bound=Params)

INPUTS: Final[Mapping[str, str]] = {
    "datatransform": "inputs:data_transform",
    "dataio": "inputs:data_transform",
}
CONSTANTS: Final[Mapping[str, str]] = {"columnexpand": "constants:column_expand"}
"""What gives rows columns of one value, before they are read."""
STEPS: Final[Mapping[str, str]] = {
    "featureimputation": "columns:feature_imputation",
    "featurescale": "scaling:feature_scale",
    "heterofeaturebinning": "binning:hetero_feature_binning",
    "heterofeatureselection": "columns:hetero_feature_selection",
    "homofeaturebinning": "binning:homo_feature_binning",
    "homoonehotencoder": "columns:homo_one_hot_encoder",
    "onehotencoder": "columns:one_hot_encoder",
}
MODELS: Final[Mapping[str, str]] = {
    "heterofastsecureboost": "trees:hetero_secureboost",
    "heterolr": "linear:hetero_lr",
    "heterolinr": "linear:hetero_linr",
    "heteropoisson": "linear:hetero_poisson",
    "heterosecureboost": "trees:hetero_secureboost",
    "heterosshelinr": "sshe:hetero_sshe_linr",
    "heterosshelr": "sshe:hetero_sshe_lr",
}
ALONE: Final[Mapping[str, str]] = {
    "homolr": "linear:homo_lr",
    "homonn": "network:homo_nn",
}
"""Horizontal models: each party has the whole of it, and asks nobody."""
SCORES: Final[Mapping[str, str]] = {"scorecard": "scorecard:scorecard"}
"""What follows a model and works on its scores."""

PASSED: Final = frozenset({"reader", "intersection", "labeltransform", "sampleweight"})
"""Rows go through these before the model as they are: ids and labels are no matter of a score."""
MEASURING: Final = frozenset(
    {"datastatistics", "evaluation", "heteropearson", "psi", "positiveunlabeled"}
)
"""These only look at rows or predictions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSource:
    """What a step or model is made of."""

    component: str
    header: RowHeader  #: of the rows that come to it
    model: Model | None  #: what it has stored at this party
    parameters: Mapping[str, Any]
    site: Site
    guest: Site
    hosts: tuple[Site, ...]
    nn_folder: Path | None = None  #: of this party's own models of HomoNN

    def stored(self, *names: str) -> Model:
        """Return the stored model; its param object has one of `names`, if there are any.

        Raises: ValueError: there is none, or it is of another component.
        """
        if self.model is None:
            raise ValueError("this party has stored no model of it")
        if names and self.model.param_name not in names:
            raise ValueError(f"its stored model is a {self.model.param_name}")
        return self.model

    def params(self, kind: type[P]) -> P:
        """Return its parameters. Raises: BadParameter."""
        return check_params(kind, self.parameters, path=self.component)


def known(module: str) -> bool:
    """Tell whether a module, in lower case, is one that a served model may have."""
    return module in PASSED | MEASURING or any(
        module in table for table in (INPUTS, CONSTANTS, STEPS, MODELS, ALONE, SCORES)
    )


def maker(place: str) -> Any:
    """Return the function that a value of the tables above names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"fedflow.serving.scoring.steps.{module}"), name)
