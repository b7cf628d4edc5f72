"""LabelTransform on instances and prediction tables, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features.label_transform import LabelTransform
from fedflow.sdk import Model, Outputs, Table
from tests.unit.components.one_party import Party, rows_of, schema_of


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def data(party: Party, labels: list[Any]) -> Table:
    ids = [f"i{i}" for i in range(len(labels))]
    return party.table({"id": ids, "y": labels, "x": [float(i) for i in range(len(labels))]})


def predictions(party: Party, labels: Any, results: list[Any], details: list[str]) -> Table:
    count = len(results)
    return party.predictions(
        {
            "id": [f"i{i}" for i in range(count)],
            "label": labels,
            "predict_result": results,
            "predict_score": [0.75] * count,
            "predict_detail": details,
            "type": ["train"] * count,
        }
    )


def test_a_given_encoder_swaps_labels(party: Party) -> None:
    """FATE's example."""
    result = party.result(
        LabelTransform, data(party, [0, 1, 1]), label_encoder={"0": 1, "1": 0}, label_list=[0, 1]
    )
    assert result.outputs is not None
    assert rows_of(result.outputs) == {"id": ["i0", "i1", "i2"], "y": [1, 0, 0], "x": [0, 1, 2]}
    assert result.outputs.summary == {"label_encoder": {"0": 1, "1": 0}}
    metric = result.metrics["train", "label_transform"]
    assert metric.metric_type == "LABEL_TRANSFORM"
    assert metric.points == [("label_transform", 0)]
    assert metric.meta == {"label_encoder": {"0": 1, "1": 0}}
    assert result.outputs.model == Model(
        meta_name="LabelTransformMeta",
        param_name="LabelTransformParam",
        meta={"need_run": True},
        param={
            "label_encoder": {"0": "1", "1": "0"},
            "encoder_key_type": {"0": "int", "1": "int"},
            "encoder_value_type": {"0": "int", "1": "int"},
        },
    )


@pytest.mark.parametrize(
    ("labels", "encoder", "expected"),
    [
        ([3, -1, 3], None, [1, 0, 1]),
        (["b", "a", "c"], None, [1, 0, 2]),
        ([1.0, 0.0], {"0": "no", "1": "yes"}, ["yes", "no"]),
        ([1, 0], {"0": 0.5, "1": 2}, [2.0, 0.5]),
        (["yes", "no"], {"yes": 1, "no": -1}, [1, -1]),
        ([1, 2], {"1": "1", "2": 3}, ["1", "3"]),
    ],
)
def test_labels_become_what_they_shall(
    party: Party, labels: list[Any], encoder: dict[str, Any] | None, expected: list[Any]
) -> None:
    outputs = party.run(LabelTransform, data(party, labels), label_encoder=encoder)
    assert rows_of(outputs)["y"] == expected
    assert [type(v) for v in rows_of(outputs)["y"]] == [type(v) for v in expected]


def swapped(party: Party) -> Model:
    model = party.run(
        LabelTransform, data(party, [0, 1]), label_encoder={"0": 1, "1": 0}, label_list=[0, 1]
    ).model
    assert model is not None
    return model


def test_a_model_gives_instances_its_labels_and_predictions_the_old_ones(party: Party) -> None:
    model = swapped(party)
    assert rows_of(party.run(LabelTransform, data(party, [1, 0]), model=model))["y"] == [0, 1]
    table = predictions(party, [1, 0], [0, 0], ["{'0': 0.25, '1': 0.75}", "{'0': 1e-05, '1': 1}"])
    outputs = party.run(LabelTransform, table, model=model)
    rows = rows_of(outputs)
    assert (rows["label"], rows["predict_result"]) == ([0, 1], [1, 1])
    assert rows["predict_detail"] == ["{'1': 0.25, '0': 0.75}", "{'1': 1e-05, '0': 1}"]
    assert rows["predict_score"] == [0.75, 0.75]
    assert schema_of(outputs) == table.schema


def test_predictions_get_their_texts_back(party: Party) -> None:
    model = party.run(LabelTransform, data(party, ["van", "bus", "van"])).model
    table = predictions(party, [1, 0], [1, 1], ["{'0': 0.2, '1': 0.8}", "{'0': 0.4, '1': 0.6}"])
    rows = rows_of(party.run(LabelTransform, table, model=model))
    assert rows["label"] == ["van", "bus"]
    assert rows["predict_result"] == ["van", "van"]
    assert rows["predict_detail"][0] == "{'bus': 0.2, 'van': 0.8}"


def test_unlabelled_predictions_stay_unlabelled(party: Party) -> None:
    table = predictions(
        party, pa.array([None, 1], pa.int64()), [1, 0], ["{'0': 0.2, '1': 0.8}"] * 2
    )
    rows = rows_of(party.run(LabelTransform, table, model=swapped(party)))
    assert (rows["label"], rows["predict_result"]) == ([None, 0], [0, 1])


def test_predicted_numbers_are_passed_on(party: Party) -> None:
    table = predictions(party, [1.5], [1.25], ["{'label': 1.25}"])
    outputs = party.run(LabelTransform, table, model=swapped(party))
    assert outputs.data == (table,)
    assert outputs.passed


def test_there_is_no_way_back_from_one_value_for_two_labels(party: Party) -> None:
    model = party.run(
        LabelTransform, data(party, [0, 1, 2]), label_encoder={"0": 0, "1": 1, "2": 1}
    ).model
    table = predictions(party, [1], [1], ["{'0': 0.2, '1': 0.8}"])
    assert "no way back" in party.fails(LabelTransform, table, model=model).message


def test_labels_that_the_model_lacks_are_counted(party: Party) -> None:
    model = party.run(LabelTransform, data(party, [0, 1])).model
    error = party.fails(LabelTransform, data(party, [0, 1, 2, 2]), model=model)
    assert isinstance(error, BadData)
    assert "column 'y': 2 of 4 rows have a label that the model does not name" in error.message


def test_labels_that_a_given_encoder_does_not_name_stay(party: Party) -> None:
    """As in FATE's example label_transform_encoder_partial."""
    encoder = {"0": 1, "1": 0}
    outputs = party.run(LabelTransform, data(party, [0, 1, 2, 3, 0]), label_encoder=encoder)
    assert rows_of(outputs)["y"] == [1, 0, 2, 3, 1]
    assert outputs.summary == {"label_encoder": {"0": 1, "1": 0, "2": 2, "3": 3}}
    assert outputs.model is not None
    assert set(outputs.model.param["encoder_key_type"].values()) == {"int"}
    detail = "{'0': 0.1, '1': 0.2, '2': 0.3, '3': 0.4}"
    back = party.run(LabelTransform, predictions(party, [1], [3], [detail]), model=outputs.model)
    assert rows_of(back)["label"] == [0]
    assert rows_of(back)["predict_result"] == [3]
    assert rows_of(back)["predict_detail"] == ["{'1': 0.1, '0': 0.2, '2': 0.3, '3': 0.4}"]


def test_missing_labels_are_counted(party: Party) -> None:
    error = party.fails(LabelTransform, data(party, [0, None, None]))
    assert "2 of 3 rows have no label" in error.message
    error = party.fails(LabelTransform, data(party, [0, None]), label_encoder={"0": 1})
    assert "1 of 2 rows have no label" in error.message


def test_rows_without_labels_are_refused(party: Party) -> None:
    table = party.table({"id": ["a"], "x": [1.0]})
    for params in ({}, {"label_encoder": {"0": 1}}):
        assert "has no label column" in party.fails(LabelTransform, table, **params).message


def test_labels_are_not_learnt_from_nothing(party: Party) -> None:
    empty = party.table({"id": pa.array([], pa.string()), "y": pa.array([], pa.int64())})
    assert "has no rows" in party.fails(LabelTransform, empty).message


def test_a_model_passes_rows_on_that_have_no_labels(party: Party) -> None:
    table = party.table({"id": ["a"], "x": [1.0]})
    model = swapped(party)
    outputs = party.run(LabelTransform, table, model=model)
    assert outputs == Outputs(data=(table,), model=model, passed=True)


def test_the_list_must_fit_the_encoder(party: Party) -> None:
    with pytest.raises(BadParameter, match="label_list"):
        party.run(
            LabelTransform, data(party, [0]), label_encoder={"0": 1, "1": 0}, label_list=[0, 2]
        )


def test_a_damaged_model_is_refused(party: Party) -> None:
    model = Model(
        meta_name="LabelTransformMeta",
        param_name="LabelTransformParam",
        meta={},
        param={
            "label_encoder": {"0": "x"},
            "encoder_key_type": {"0": "int"},
            "encoder_value_type": {"0": "int"},
        },
    )
    assert isinstance(party.fails(LabelTransform, data(party, [0]), model=model), BadData)


def test_nothing_to_do_passes_the_rows_or_nothing(party: Party) -> None:
    table = data(party, [0])
    assert party.run(LabelTransform, table, need_run=False) == Outputs(data=(table,), passed=True)
    assert party.run(LabelTransform, None) == Outputs()
