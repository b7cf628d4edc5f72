"""SampleWeight: by label, balanced, from a feature; models and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features.sample_weight import SampleWeight
from fedflow.components.samples.decoding import read_instances
from fedflow.components.samples.labels import label_key
from fedflow.sdk import Model, Outputs, Table
from tests.unit.components.one_party import Party, rows_of, schema_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "data" / "breast_hetero_guest.csv"
LABELS = [1, 0, 1, 1, 2]


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def data(party: Party, labels: list[Any] | None = None) -> Table:
    return party.table(
        {
            "id": ["a", "b", "c", "d", "e"],
            "y": labels or LABELS,
            "x0": [1.0, 2.0, 3.0, 4.0, 5.0],
            "pm": [0.5, 1.0, 1.5, 0.0, 2.0],
        },
        anonymous=("g0", "g1"),
    )


def test_labels_get_their_weights_and_others_one(party: Party) -> None:
    result = party.result(SampleWeight, data(party), class_weight={"0": 4, "1": 0.5})
    outputs = result.outputs
    assert outputs is not None
    assert rows_of(outputs)["weight"] == [0.5, 4.0, 0.5, 0.5, 1.0]
    schema = schema_of(outputs)
    assert schema.names == ("id", "y", "weight", "x0", "pm")
    assert (schema.weight, schema.anonymous) == ("weight", ("g0", "g1"))
    metric = result.metrics["train", "sample_weight"]
    assert metric.metric_type == "SAMPLE_WEIGHT"
    assert metric.points == [("sample_weight", 0)]
    assert metric.meta == {
        "weight_mode": "class weight",
        "class_weight": {"0": 4.0, "1": 0.5},
        "classes": ["0", "1"],
        "sample_weight_name": None,
    }
    assert outputs.model == Model(
        meta_name="SampleWeightModelMeta",
        param_name="SampleWeightModelParam",
        meta={"sample_weight_name": "", "normalize": False, "need_run": True},
        param={
            "header": ["x0", "pm"],
            "weight_mode": "class weight",
            "class_weight": {"0": 4.0, "1": 0.5},
        },
    )


def test_balanced_weights_are_scikit_learns(party: Party) -> None:
    outputs = party.run(SampleWeight, data(party), class_weight="balanced")
    expected = compute_sample_weight("balanced", LABELS)
    np.testing.assert_allclose(rows_of(outputs)["weight"], expected, rtol=1e-15)
    assert outputs.model is not None
    assert list(outputs.model.param["class_weight"]) == ["0", "1", "2"]


def test_labels_of_other_types_are_found(party: Party) -> None:
    floats = data(party, [1.0, 0.0, 1.0, 1.0, 0.5])
    rows = rows_of(party.run(SampleWeight, floats, class_weight={"1": 3, "0.5": 2}))
    assert rows["weight"] == [3.0, 1.0, 3.0, 3.0, 2.0]
    texts = data(party, ["yes", "no", "yes", "yes", "maybe"])
    rows = rows_of(party.run(SampleWeight, texts, class_weight={"no": 0}))
    assert rows["weight"] == [1.0, 0.0, 1.0, 1.0, 1.0]


def test_a_feature_becomes_the_weight(party: Party) -> None:
    result = party.result(
        SampleWeight, data(party), sample_weight_name="pm", class_weight="balanced"
    )
    assert result.outputs is not None
    assert rows_of(result.outputs)["weight"] == [0.5, 1.0, 1.5, 0.0, 2.0]
    schema = schema_of(result.outputs)
    assert (schema.columns, schema.anonymous) == (("x0",), ("g0",))
    meta = result.metrics["train", "sample_weight"].meta
    assert meta["weight_mode"] == "sample weight name"
    assert (meta["class_weight"], meta["sample_weight_name"]) == (None, "pm")
    table = result.outputs.data[0]
    assert table is not None
    assert read_instances(table).weights is not None


def test_normalized_weights_have_mean_one(party: Party) -> None:
    outputs = party.run(SampleWeight, data(party), sample_weight_name="pm", normalize=True)
    assert rows_of(outputs)["weight"] == [0.5, 1.0, 1.5, 0.0, 2.0]
    table = party.table({"id": ["a", "b"], "w": [2, 6]})
    outputs = party.run(SampleWeight, table, sample_weight_name="w", normalize=True)
    assert rows_of(outputs) == {"id": ["a", "b"], "weight": [0.5, 1.5]}


def test_earlier_weights_are_replaced(party: Party) -> None:
    table = party.table({"id": ["a", "b"], "y": [0, 1], "weight": [9.0, 9.0], "x0": [1.0, 2.0]})
    outputs = party.run(SampleWeight, table, class_weight={"1": 2})
    assert rows_of(outputs) == {"id": ["a", "b"], "y": [0, 1], "weight": [1.0, 2.0], "x0": [1, 2]}


def test_a_model_is_used_again(party: Party) -> None:
    model = party.run(SampleWeight, data(party), class_weight="balanced").model
    other = party.table({"id": ["u", "v"], "y": [0, 2], "x0": [0.0, 0.0]})
    outputs = party.run(SampleWeight, other, model=model)
    assert rows_of(outputs)["weight"] == [5 / 3, 5 / 3]
    named = party.run(SampleWeight, data(party), sample_weight_name="pm").model
    with_pm = party.table({"id": ["u"], "pm": [3.0]})
    assert rows_of(party.run(SampleWeight, with_pm, model=named)) == {"id": ["u"], "weight": [3.0]}


def test_a_model_passes_rows_on_that_lack_what_it_needs(party: Party) -> None:
    table = party.table({"id": ["u"], "x0": [0.0]})
    for params in ({"class_weight": "balanced"}, {"sample_weight_name": "pm"}):
        model = party.run(SampleWeight, data(party), **params).model
        outputs = party.run(SampleWeight, table, model=model)
        assert outputs == Outputs(data=(table,), model=model, passed=True)


def test_the_examples_classes_weigh_as_in_fate(party: Party) -> None:
    """Source: docs/reference/numerics.md#features."""
    y = np.loadtxt(EXAMPLE, delimiter=",", skiprows=1, usecols=1).astype(int)
    table = party.table({"id": [str(i) for i in range(len(y))], "y": y})
    model = party.run(SampleWeight, table, class_weight="balanced").model
    assert model is not None
    expected = {"0": 1.341981, "1": 0.796919}
    assert model.param["class_weight"] == pytest.approx(expected, abs=5e-7)


def test_a_damaged_model_is_refused(party: Party) -> None:
    model = Model(
        meta_name="SampleWeightModelMeta", param_name="SampleWeightModelParam", meta={}, param={}
    )
    assert isinstance(party.fails(SampleWeight, data(party), model=model), BadData)


def test_without_a_wish_the_rows_pass(party: Party) -> None:
    table = data(party)
    assert party.run(SampleWeight, table) == Outputs(data=(table,), passed=True)
    other = Model(meta_name="ScaleMeta", param_name="ScaleParam", meta={}, param={})
    params = {"class_weight": "balanced", "need_run": False}
    for model in (None, other):
        found = party.run(SampleWeight, table, model=model, **params)
        assert found == Outputs(data=(table,), passed=True)


def test_balanced_weights_need_rows(party: Party) -> None:
    empty = party.table({"id": np.array([], dtype=str), "y": np.array([], dtype=int)})
    assert "has no rows" in party.fails(SampleWeight, empty, class_weight="balanced").message


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"class_weight": {"1": float("inf")}}, "class_weight.1"),
        ({"class_weight": "even"}, "class_weight"),
        ({"sample_weight_name": "nope"}, "no feature 'nope'"),
    ],
)
def test_wrong_parameters_are_named(party: Party, params: dict[str, Any], what: str) -> None:
    try:
        error: Exception = party.fails(SampleWeight, data(party), **params)
    except BadParameter as exc:
        error = exc
    assert isinstance(error, BadParameter)
    assert what in str(error)


@pytest.mark.parametrize(
    ("params", "weights"),
    [
        ({"sample_weight_name": "pm"}, [-0.5, 1.0, 1.5, 0.0, 2.0]),
        ({"sample_weight_name": "pm", "normalize": True}, [-0.625, 1.25, 1.875, 0.0, 2.5]),
        ({"class_weight": {"0": -1}}, [1.0, -1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_negative_weights_are_taken_and_said(
    party: Party, params: dict[str, Any], weights: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    columns = {
        "id": ["a", "b", "c", "d", "e"],
        "y": LABELS,
        "x0": [1.0, 2.0, 3.0, 4.0, 5.0],
        "pm": [-0.5, 1.0, 1.5, 0.0, 2.0],
    }
    outputs = party.run(SampleWeight, party.table(columns), **params)
    assert rows_of(outputs)["weight"] == pytest.approx(weights)
    assert "1 of 5 weights are negative" in caplog.text


@pytest.mark.parametrize(
    ("columns", "params", "what"),
    [
        ({"x": [1.0, 2.0]}, {"class_weight": "balanced"}, "has no label column"),
        ({"y": [1, None]}, {"class_weight": {"1": 2}}, "1 of 2 rows have no label"),
        ({"x": [1.0, -2.0]}, {"sample_weight_name": "x", "normalize": True}, "not above 0"),
        ({"x": [0.0, 0.0]}, {"sample_weight_name": "x"}, "all 2 weights are 0"),
        ({"x": [1.0, None]}, {"sample_weight_name": "x"}, "'x' has 1 missing"),
        ({"y": [1, 0], "weight": [1.0, 2.0]}, {"class_weight": {"1": 2}}, "called 'weight'"),
    ],
)
def test_unusable_data_are_refused_with_counts(
    party: Party, columns: dict[str, Any], params: dict[str, Any], what: str
) -> None:
    schema = {"weight": None, "columns": ("weight",)} if "weight" in columns else {}
    if schema:
        columns = {"y": columns["y"], "weight": columns["weight"]}
    table = party.table({"id": ["a", "b"], **columns}, **schema)
    error = party.fails(SampleWeight, table, **params)
    assert isinstance(error, BadData)
    assert what in error.message


@pytest.mark.parametrize(
    ("label", "key"),
    [(1, "1"), (1.0, "1"), ("1.0", "1"), ("-2", "-2"), (0.5, "0.5"), ("007", "007"), ("a", "a"),
     ("nan", "nan"), (" 1", " 1"), ("0.50", "0.5"), ("0", "0")],
)  # fmt: skip
def test_equal_labels_have_one_key(label: Any, key: str) -> None:
    assert label_key(label) == key
