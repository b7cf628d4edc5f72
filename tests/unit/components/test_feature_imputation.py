"""FeatureImputation: methods per column, values that mean missing, models, bad input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features.imputation import FeatureImputation
from fedflow.sdk import Model, Outputs, Table
from tests.unit.components.one_party import Party, rows_of, schema_of

NAN = math.nan


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def data(party: Party) -> Table:
    return party.table(
        {
            "id": ["a", "b", "c", "d"],
            "y": [1, 0, 1, 0],
            "x0": [1.0, NAN, 3.0, 8.0],
            "x1": [NAN, NAN, 0.0, 7.0],
            "k": [5, None, 2, 2],
            "t": ["red", None, "NA", "blue"],
        },
        anonymous=("g0", "g1", "g2", "g3"),
    )


def test_each_column_has_its_method(party: Party) -> None:
    table = data(party)
    outputs = party.run(
        FeatureImputation,
        table,
        col_missing_fill_method={"x0": "Mean", "x1": "max", "k": "min", "t": "designated"},
        default_value="grey",
    )
    rows = rows_of(outputs)
    assert rows["x0"] == [1.0, 4.0, 3.0, 8.0]
    assert rows["x1"] == [7.0, 7.0, 0.0, 7.0]
    assert rows["k"] == [5, 2, 2, 2]
    assert rows["t"] == ["red", "grey", "grey", "blue"]
    assert rows["y"] == [1, 0, 1, 0]
    assert schema_of(outputs) == table.schema
    assert outputs.summary == {
        "missing_value": ["", "NULL", "null", "NA"],
        "missing_impute_value": {"x0": 4.0, "x1": 7.0, "k": 2, "t": "grey"},
        "missing_impute_rate": {"x0": 0.25, "x1": 0.5, "k": 0.25, "t": 0.5},
        "skip_cols": [],
    }


def test_columns_without_a_method_are_skipped(party: Party) -> None:
    outputs = party.run(FeatureImputation, data(party), col_missing_fill_method={"x0": "max"})
    rows = rows_of(outputs)
    assert rows["x0"] == [1.0, 8.0, 3.0, 8.0]
    assert [math.isnan(v) for v in rows["x1"]] == [True, True, False, False]
    assert rows["k"] == [5, None, 2, 2]
    assert outputs.summary["skip_cols"] == ["x1", "k", "t"]


def test_the_general_method_serves_columns_without_their_own(party: Party) -> None:
    table = party.table({"id": ["a", "b"], "x0": [NAN, 4.0], "x1": [NAN, 6.0]})
    outputs = party.run(
        FeatureImputation, table, missing_fill_method="max", col_missing_fill_method={"x1": "min"}
    )
    assert rows_of(outputs) == {"id": ["a", "b"], "x0": [4.0, 4.0], "x1": [6.0, 6.0]}


def test_listed_values_count_as_missing(party: Party) -> None:
    """FATE's example: zeros become 42."""
    table = party.table({"id": ["a", "b", "c"], "x0": [0.0, 1.0, NAN], "k": [0, 3, 4]})
    outputs = party.run(
        FeatureImputation,
        table,
        missing_fill_method="designated",
        default_value=42,
        missing_impute=[0],
    )
    assert rows_of(outputs) == {"id": ["a", "b", "c"], "x0": [42.0, 1.0, 42.0], "k": [42, 3, 4]}
    assert outputs.summary["missing_value"] == ["0"]


def test_a_list_gives_each_feature_its_value(party: Party) -> None:
    table = party.table({"id": ["a"], "x0": [NAN], "x1": [NAN]})
    outputs = party.run(
        FeatureImputation, table, missing_fill_method="designated", default_value=[1.5, -2]
    )
    assert rows_of(outputs) == {"id": ["a"], "x0": [1.5], "x1": [-2.0]}


def fitted(party: Party, **params: Any) -> Outputs:
    table = party.table({"id": ["a", "b"], "x0": [NAN, 4.0], "k": [-1, 6], "z": [NAN, 0.0]})
    given = {"col_missing_fill_method": {"x0": "mean", "k": "max"}, "missing_impute": [-1]}
    return party.run(FeatureImputation, table, **{**given, **params})


def test_a_model_fills_with_what_it_learnt(party: Party) -> None:
    model = fitted(party).model
    other = party.table({"id": ["u", "v"], "k": [-1, 1], "z": [NAN, -1.0], "x0": [-1.0, NAN]})
    outputs = party.run(FeatureImputation, other, model=model)
    rows = rows_of(outputs)
    assert rows["k"] == [6, 1]
    assert rows["x0"] == [4.0, 4.0]
    assert math.isnan(rows["z"][0])
    assert rows["z"][1] == -1.0
    assert outputs.model == model


def test_the_model_holds_fates_fields(party: Party) -> None:
    model = fitted(party).model
    assert model == Model(
        meta_name="FeatureImputationMeta",
        param_name="FeatureImputationParam",
        meta={
            "need_run": True,
            "imputer_meta": {
                "is_imputer": True,
                "strategy": "",
                "missing_value": ["-1"],
                "missing_value_type": ["int"],
                "cols_strategy": {"x0": "mean", "k": "max"},
            },
        },
        param={
            "header": ["x0", "k", "z"],
            "imputer_param": {
                "missing_replace_value": {"x0": "4.0", "k": "6"},
                "missing_replace_value_type": {"x0": "float", "k": "int"},
                "missing_value_ratio": {"x0": 0.5, "k": 0.5, "z": 0.0},
                "skip_cols": ["z"],
                "cols_replace_method": {"x0": "mean", "k": "max"},
            },
        },
    )


def test_a_model_whose_columns_are_missing_or_damaged_is_refused(party: Party) -> None:
    model = fitted(party).model
    assert model is not None
    other = party.table({"id": ["u"], "x0": [1.0]})
    assert "1 columns of the model are missing: k" in (
        party.fails(FeatureImputation, other, model=model).message
    )
    broken = Model(
        meta_name=model.meta_name, param_name=model.param_name, meta={}, param=model.param
    )
    assert isinstance(party.fails(FeatureImputation, other, model=broken), BadData)


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"missing_fill_method": "median"}, "missing_fill_method"),
        ({"col_missing_fill_method": {"x0": "median"}}, "col_missing_fill_method.x0"),
        ({"col_missing_fill_method": {"nope": "mean"}}, "no features nope"),
        ({"missing_fill_method": "designated", "default_value": None}, "default_value"),
        ({"missing_fill_method": "designated", "default_value": [1]}, "1 values for 4 features"),
    ],
)
def test_wrong_parameters_are_named(party: Party, params: dict[str, Any], what: str) -> None:
    try:
        error: Exception = party.fails(FeatureImputation, data(party), **params)
    except BadParameter as exc:
        error = exc
    assert isinstance(error, BadParameter)
    assert what in str(error)


def test_a_column_with_nothing_to_learn_from_is_refused(party: Party) -> None:
    table = party.table({"id": ["a"], "x0": [NAN]})
    error = party.fails(FeatureImputation, table, missing_fill_method="mean")
    assert isinstance(error, BadData)
    assert "column 'x0'" in error.message


def test_need_run_false_passes_the_rows(party: Party) -> None:
    table = data(party)
    assert party.run(FeatureImputation, table, need_run=False) == Outputs(
        data=(table,), passed=True
    )
