"""What differs between two versions of a model."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.domain.models.difference import (
    MAX_CHANGES,
    ModelWeights,
    dsl_difference,
    linear_weights,
    value_difference,
    weight_difference,
)


def test_dsls_differ_in_components_and_in_values() -> None:
    old = {"components": {"a": {"module": "A"}, "b": {"module": "B", "input": {"data": ["x"]}}}}
    new = {"components": {"b": {"module": "B", "input": {"data": ["y"]}}, "c": {}}}
    found = dsl_difference(old, new)
    assert (found.added, found.removed) == (("c",), ("a",))
    assert found.changed == {"b.input.data": (["x"], ["y"])}
    assert dsl_difference(old, old).changed == {}
    assert dsl_difference({}, new).added == ("b", "c")


def test_values_differ_by_path() -> None:
    old = {"a": {"b": 1, "c": []}, "d": None}
    new = {"a": {"b": 2, "c": []}, "e": {}}
    assert value_difference(old, new) == {"a.b": (1, 2), "e": (None, {})}
    assert value_difference({}, {}) == {}
    many = {str(n): n for n in range(MAX_CHANGES + 5)}
    assert len(value_difference({}, many)) == MAX_CHANGES


LINEAR = {"weight": {"x0": 0.5, "x1": -1.0}, "intercept": 0.1, "header": ["x0", "x1"]}


def test_linear_weights_are_by_column() -> None:
    assert linear_weights(LINEAR) == {"x0": 0.5, "x1": -1.0, "(intercept)": 0.1}
    several = {
        "need_one_vs_rest": True,
        "one_vs_rest_result": {
            "one_vs_rest_classes": ["0", "1"],
            "completed_models": [LINEAR, {"weight": {"x0": 3}}],
        },
    }
    assert linear_weights(several) == {
        "0/x0": 0.5, "0/x1": -1.0, "0/(intercept)": 0.1, "1/x0": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    "param",
    [
        {},
        {"weight": {}},
        {"weight": {"x0": "abc"}},
        {"weight": [1.0]},
        {"need_one_vs_rest": True, "one_vs_rest_result": {"completed_models": 3}},
        {
            "need_one_vs_rest": True,
            "one_vs_rest_result": {"one_vs_rest_classes": ["0"], "completed_models": [{}]},
        },
    ],
)
def test_other_models_have_no_weights(param: Any) -> None:
    assert linear_weights(param) is None


def test_models_differ_by_weights_if_linear_else_by_digest() -> None:
    old = {
        "lr": ModelWeights(digest="1", weights={"x0": 0.5, "x1": 1.0}),
        "scale": ModelWeights(digest="s"),
        "same": ModelWeights(digest="="),
        "gone": ModelWeights(digest="g", weights={"x9": 1.0}),
    }
    new = {
        "lr": ModelWeights(digest="2", weights={"x0": 0.25, "x1": 1.0, "x2": 7.0}),
        "scale": ModelWeights(digest="t"),
        "same": ModelWeights(digest="="),
    }
    found = weight_difference(old, new)
    assert list(found) == ["gone", "lr", "scale"]
    assert found["lr"].weights == {"x0": (0.5, 0.25), "x2": (None, 7.0)}
    assert (found["scale"].digests, found["scale"].weights) == (("s", "t"), None)
    assert found["gone"].weights == {"x9": (1.0, None)}
