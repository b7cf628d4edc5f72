"""The server's knowledge of component modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fedflow.app.administration.modules import Modules
from fedflow.base.errors import UnknownComponent
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.registry import describe
from fedflow.sdk import spec_of


class OneModule:
    """Has HeteroLR imported."""

    def describe(self) -> list[dict[str, Any]]:
        return [describe(spec_of(HeteroLR))]

    def check(self, module: str, parameters: Mapping[str, Any], *, path: str) -> None:
        raise NotImplementedError


def test_all_parameters_are_told_and_given_ones_replace_defaults_also_within_objects() -> None:
    given = {"max_iter": 5, "init_param": {"init_method": "zeros"}, "metrics": ["ks"]}
    name, values = Modules(OneModule()).parameters("heterolr", given)
    assert name == "HeteroLogisticParam"
    assert values["max_iter"] == 5
    assert values["metrics"] == ["ks"]
    assert values["init_param"] == {
        "init_method": "zeros",
        "init_const": 1.0,
        "fit_intercept": True,
        "random_seed": None,
    }
    assert values["encrypt_param"]["key_length"] == 2048
    assert given == {"max_iter": 5, "init_param": {"init_method": "zeros"}, "metrics": ["ks"]}


def test_parameters_of_an_unknown_module_are_an_error() -> None:
    with pytest.raises(UnknownComponent):
        Modules(OneModule()).parameters("NoSuch", {})


class Agreeable(OneModule):
    """Finds everything good, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def check(self, module: str, parameters: Mapping[str, Any], *, path: str) -> None:
        self.asked += 1


def test_good_parameters_are_asked_for_once_and_do_not_fill_the_memory() -> None:
    describer = Agreeable()
    modules = Modules(describer)
    for text in ("a" * 1_000_000, "b" * 1_000_000, "a" * 1_000_000):
        modules.check("heterolr", {"metrics": [text]}, path="p")
    assert describer.asked == 2
    assert sum(map(len, modules._good)) < 100
