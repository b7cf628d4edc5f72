"""What the filters keep, as pure functions of values; and the steps that parameters mean."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.components import BadParameter
from fedflow.components.selection.params import FILTERS, HeteroFeatureSelectionParams
from fedflow.components.selection.rules import (
    at_least_one,
    best_first,
    keep_by_value,
    keep_uncorrelated,
)
from fedflow.components.selection.steps import FilterStep, ValueSource, steps_of
from fedflow.sdk import check_params

VALUES = {"a": 3.0, "b": 1.0, "c": 2.0, "d": None, "e": 2.0}


def kept(columns: str, filter_type: str, threshold: float, *, take_high: bool = True) -> str:
    found = keep_by_value(
        list(columns),
        VALUES,
        filter_type=filter_type,
        take_high=take_high,
        threshold_of=lambda column: threshold,
    )
    return "".join(sorted(found))


@pytest.mark.parametrize(
    ("filter_type", "threshold", "take_high", "expected"),
    [
        ("threshold", 2, True, "acex"),
        ("threshold", 2, False, "bcex"),
        ("top_k", 2, True, "acx"),  # c stands before e, which is as good
        ("top_k", 2, False, "bcx"),
        ("top_k", 9, True, "abcdex"),
        ("top_percentile", 0.2, True, "ax"),
        ("top_percentile", 0.6, True, "acex"),  # 0.6 * 5 is a little above 3 in floats
        ("top_percentile", 0.61, True, "abcex"),
        ("top_percentile", 0.0, True, "x"),
    ],
)
def test_what_is_kept_by_value(
    filter_type: str, threshold: float, take_high: bool, expected: str
) -> None:
    """x has no value: it is not judged. d's is undefined: it is the worst."""
    assert kept("abcdex", filter_type, threshold, take_high=take_high) == expected


@pytest.mark.parametrize("take_high", [True, False])
def test_what_is_no_number_is_worse_than_all_numbers(take_high: bool) -> None:
    values = {"a": 0.2, "b": math.nan, "c": 0.9, "d": None, "e": math.nan, "f": 0.4}
    order = best_first("abcdef", values, take_high=take_high)
    assert "".join(order) == ("cfabde" if take_high else "afcbde")


def test_one_column_is_put_back() -> None:
    assert at_least_one("bca", set(), VALUES, take_high=True) == {"a"}
    assert at_least_one("cba", set(), VALUES, take_high=False) == {"b"}
    assert at_least_one("yx", set(), VALUES, take_high=True) == {"y"}
    assert at_least_one("", {"a"}, VALUES, take_high=True) == set()
    assert at_least_one("ab", {"b", "z"}, VALUES, take_high=True) == {"b"}


def uncorrelated(alike: set[tuple[str, str]], goodness: str, threshold: float = 0.5) -> str:
    """Own columns are upper case; those named first in `goodness` are the best."""
    found = keep_uncorrelated(
        sorted(goodness),
        {name: float(-rank) for rank, name in enumerate(goodness)},
        correlation=lambda x, y: -0.9 if {(x, y), (y, x)} & alike else 0.1,
        is_own=str.isupper,
        threshold=threshold,
    )
    return "".join(name for name in goodness if name in found)


def test_a_column_that_is_like_a_better_one_goes() -> None:
    assert uncorrelated({("A", "B")}, "AB") == "A"
    assert uncorrelated({("A", "B")}, "BA") == "B"
    assert uncorrelated({("A", "h")}, "Ah") == "A"
    assert uncorrelated({("A", "h")}, "hA") == "h"
    assert uncorrelated({("A", "B")}, "AB", threshold=0.95) == "AB"
    # B goes because of A, so C, which is like B only, stays
    assert uncorrelated({("A", "B"), ("B", "C")}, "ABC") == "AC"


def test_a_removed_column_of_the_other_party_still_removes_worse_ones() -> None:
    assert uncorrelated({("A", "h"), ("h", "B")}, "AhB") == "A"


def test_columns_of_the_other_party_are_not_compared() -> None:
    assert uncorrelated({("g", "h")}, "gh") == "gh"


def test_many_columns_of_the_other_party_are_walked_through_once() -> None:
    asked: list[tuple[int, int]] = []

    def correlation(one: int, other: int) -> float:
        asked.append((one, other))
        return 0.0

    columns = range(30_000)  # each with each would be half a billion
    good = {number: float(-number) for number in columns}
    kept = keep_uncorrelated(
        columns, good, correlation=correlation, is_own=lambda c: c == 20_000, threshold=0.5
    )
    assert kept == set(columns)
    assert len(asked) == 29_999


@given(
    st.permutations("ABCDgh"), st.sets(st.sampled_from(list(itertools.combinations("ABCDgh", 2))))
)
def test_no_two_own_columns_that_are_alike_are_left(
    goodness: list[str], alike: set[tuple[str, str]]
) -> None:
    left = uncorrelated(alike, "".join(goodness))
    for one, other in alike:
        if one.isupper():
            assert not {one, other} <= set(left)


def params(**values: Any) -> HeteroFeatureSelectionParams:
    return check_params(HeteroFeatureSelectionParams, values, path="selection")


def test_lists_make_several_runs() -> None:
    steps = steps_of(
        params(
            filter_methods=["iv_filter", "statistic_filter"],
            iv_param={
                "metrics": ["iv", "iv", "iv"],
                "filter_type": ["threshold", "top_k", "top_percentile"],
                "take_high": True,
                "threshold": [0.03, 15, 0.7],
                "host_thresholds": [[0.15], None, None],
                "mul_class_merge_type": ["max", "min", "average"],
            },
            statistic_param={
                "metrics": ["skewness", "95%"],
                "filter_type": "threshold",
                "take_high": [True, False],
                "threshold": -10,
                "host_thresholds": [1, 2],
            },
        )
    )
    found = [(s.metric, s.filter_type, s.take_high, s.threshold, s.federated) for s in steps]
    assert found == [
        ("iv", "threshold", True, 0.03, True),
        ("iv", "top_k", True, 15.0, True),
        ("iv", "top_percentile", True, 0.7, True),
        ("skewness", "threshold", True, -10.0, False),
        ("95%", "threshold", False, -10.0, False),
    ]
    thresholds = [s.host_thresholds for s in steps]
    assert thresholds == [(0.15,), None, None, (1.0, 2.0), (1.0, 2.0)]
    assert [s.merge for s in steps[:3]] == ["max", "min", "average"]


def test_older_names_become_newer_filters() -> None:
    older = {
        "unique_value": "range >= 1e-05",
        "iv_value_thres": "iv >= 0.1 guest",
        "iv_percentile": "iv top_percentile 0.9 all",
        "iv_top_k": "iv top_k 7 all",
        "coefficient_of_variation_value_thres": "coefficient_of_variance >= 0.3",
        "outlier_cols": "95% <= 2",
    }
    steps = steps_of(
        params(
            filter_methods=list(older),
            iv_value_param={"value_threshold": 0.1, "local_only": True, "host_thresholds": [1]},
            iv_percentile_param={"percentile_threshold": 0.9},
            iv_top_k_param={"k": 7, "local_only": False},
            variance_coe_param={"value_threshold": 0.3},
            outlier_param={"percentile": 0.95, "upper_threshold": 2.0},
        )
    )
    assert [told(step) for step in steps] == list(older.values())
    assert [step.name for step in steps] == list(older)
    assert steps[1].host_thresholds == (1.0,)


def told(step: FilterStep) -> str:
    rule = {"threshold": ">=" if step.take_high else "<="}.get(step.filter_type, step.filter_type)
    whose = "" if step.source is not ValueSource.IV else " all" if step.federated else " guest"
    return f"{step.metric} {rule} {step.threshold:g}{whose}"


def test_every_filter_has_steps() -> None:
    for name in FILTERS:
        assert [step.name for step in steps_of(params(filter_methods=[name]))] == [name]
    assert [step.name for step in steps_of(params(filter_methods=None))] == ["manually"]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"filter_methods": ["best"]}, "filter_methods"),
        ({"iv_param": {"metrics": "psi"}}, "iv_param.metrics"),
        ({"iv_param": {"take_high": False}}, "iv_param.take_high"),
        ({"iv_param": {"take_high": [True, False]}}, "iv_param.take_high"),
        ({"iv_param": {"mul_class_merge_type": "sum"}}, "mul_class_merge_type"),
        ({"iv_param": {"mul_class_merge_type": ["min", "max"], "threshold": [1, 2, 3]}}, "merge"),
        ({"statistic_param": {"metrics": "mode"}}, "statistic_param.metrics"),
        ({"statistic_param": {"metrics": ["a"] * 3, "threshold": [1, 2]}}, "statistic_param"),
        ({"psi_param": {"filter_type": "top"}}, "psi_param.filter_type"),
        ({"psi_param": {"filter_type": "top_k", "threshold": 0.5}}, "psi_param.threshold"),
        ({"vif_param": {"filter_type": "top_percentile", "threshold": 2}}, "vif_param.threshold"),
        ({"sbt_param": {"metrics": "gain"}}, "sbt_param.metrics"),
        ({"sbt_param": {"host_thresholds": [[1], None]}}, "sbt_param.host_thresholds"),
        ({"correlation_param": {"sort_metric": "vif"}}, "correlation_param.sort_metric"),
        ({"correlation_param": {"threshold": -1}}, "correlation_param.threshold"),
        ({"percentage_value_param": {"upper_pct": 0.05}}, "percentage_value_param.upper_pct"),
        ({"manually_param": {"filter_out_indexes": [0], "left_col_names": ["a"]}}, "not both"),
        ({"unique_param": {"epsilon": 1}}, "unique_param"),
    ],
)
def test_wrong_parameters_are_named(values: dict[str, Any], word: str) -> None:
    with pytest.raises(BadParameter, match=word):
        params(**values)
