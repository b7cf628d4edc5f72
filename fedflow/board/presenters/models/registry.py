"""Which shape a stored model has, by the name of its param object; any other is a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fedflow.board.language import t
from fedflow.board.presenters.models.binning import binning
from fedflow.board.presenters.models.boosted import boosted
from fedflow.board.presenters.models.correlation import correlation
from fedflow.board.presenters.models.features import (
    class_weights,
    filling,
    label_codes,
    one_hot,
    scaling,
    stability,
    statistics,
)
from fedflow.board.presenters.models.network import network
from fedflow.board.presenters.models.sections import Cell, Facts, NoticeSection, Section, Tree
from fedflow.board.presenters.models.selection import selection
from fedflow.board.presenters.models.visible import own_meta, own_param
from fedflow.board.presenters.models.weights import weights
from fedflow.domain.site import Role

Json = Mapping[str, Any]
Shape = Callable[[Role, Json, Json, Mapping[str, str]], list[Section]]

SHAPES: Final[Mapping[str, Shape]] = {
    "HeteroLogisticRegressionParam": weights,
    "HeteroLinearRegressionParam": weights,
    "HeteroPoissonRegressionParam": weights,
    "HomoLogisticRegressionParam": weights,
    "LocalBaselineParam": weights,
    "HeteroSecureBoostingTreeGuestParam": boosted,
    "HeteroSecureBoostingTreeHostParam": boosted,
    "FeatureBinningParam": binning,
    "FeatureSelectionParam": selection,
    "HeteroPearsonModelParam": correlation,
    "PSIParam": stability,
    "StatisticParam": statistics,
    "ScaleParam": scaling,
    "FeatureImputationParam": filling,
    "DataTransformParam": filling,
    "DataIOParam": filling,
    "OneHotParam": one_hot,
    "OHEAlignmentParam": one_hot,
    "HomoNNParam": network,
    "LabelTransformParam": label_codes,
    "SampleWeightModelParam": class_weights,
}


def sections_of(
    role: Role, param_name: str, param: Any, meta: Any, choices: Mapping[str, str]
) -> list[Section]:
    """Return what a site's page shows of its stored model, nothing that it may not see.

    `choices` are the parameters of the page's address.
    """
    if role is Role.ARBITER:
        return [NoticeSection(text=t("An arbiter has no part of the model's data."))]
    seen, about = own_param(role, param_name, param, meta), own_meta(role, meta)
    shape = SHAPES.get(param_name, _unknown)
    return shape(role, seen, about, choices)


def _unknown(role: Role, param: Json, meta: Json, choices: Mapping[str, str]) -> list[Section]:
    """Return a model of a kind that has no shape here: its plain values, and all of its JSON."""
    plain: list[tuple[str, Cell]] = [
        (name, value)
        for name, value in param.items()
        if isinstance(value, str | int | float | bool)
    ]
    facts: list[Section] = [Facts(title=t("Values"), pairs=plain)] if plain else []
    return [*facts, Tree(title=t("Model"), value=param), Tree(title=t("Parameters"), value=meta)]
