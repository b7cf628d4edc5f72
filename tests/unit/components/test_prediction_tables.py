"""Prediction tables whose rows have labels or ids that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data import BadData
from fedflow.components.samples import predictions
from fedflow.components.samples.decoding import read_instances
from fedflow.components.samples.predictions import (
    write_clusters,
    write_predictions,
    write_values,
)
from fedflow.sdk import Context, Outputs, Params, component
from tests.unit.components.one_party import Party, rows_of


@component("Classes", roles=("guest",), params=Params)
class Classes:
    """Predicts the classes 0 and 1."""

    def run(self, ctx: Context) -> Outputs:
        """Predict 0.75 for every row."""
        ((_, table),) = ctx.inputs.data["data"]
        assert table is not None
        rows = read_instances(table)
        parts = [("predict", rows, np.full(rows.rows, 0.75))]
        return Outputs(data=(write_predictions(ctx, parts, classes=(0, 1), threshold=0.5),))


@component("Values", roles=("guest",), params=Params)
class Values:
    """Predicts numbers for several tables."""

    def run(self, ctx: Context) -> Outputs:
        """Predict 0.5 for every row."""
        tables = [table for _, table in ctx.inputs.data["data"] if table is not None]
        parts = [(t.name, read_instances(t)) for t in tables]
        written = write_values(ctx, [(n, rows, np.full(rows.rows, 0.5)) for n, rows in parts])
        return Outputs(data=(written,))


@component("Groups", roles=("guest",), params=Params)
class Groups:
    """Puts the rows of several tables into clusters."""

    def run(self, ctx: Context) -> Outputs:
        """Put the rows of a table into the clusters 0, 1, 2 ..."""
        tables = [table for _, table in ctx.inputs.data["data"] if table is not None]
        parts = [(t.name, read_instances(t)) for t in tables]
        groups = [(n, rows, np.arange(rows.rows, dtype=np.int32)) for n, rows in parts]
        return Outputs(data=(write_clusters(ctx, groups),))


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (pa.array([1.0, float("nan"), None]), [1, None, None]),
        (["1", "0", "1"], [1, 0, 1]),
        (pa.array([None, 0, 1], pa.int32()), [None, 0, 1]),
    ],
)
def test_labels_become_those_of_the_model(party: Party, labels: Any, expected: list[Any]) -> None:
    table = party.table({"id": ["a", "b", "c"], "y": labels, "x": [1.0, 2.0, 3.0]})
    assert rows_of(party.run(Classes, table))["label"] == expected


@pytest.mark.parametrize("labels", [["yes", "1"], [0.5, 1.0]])
def test_labels_that_the_model_cannot_have_are_refused(party: Party, labels: Any) -> None:
    table = party.table({"id": ["a", "b"], "y": labels, "x": [1.0, 2.0]})
    error = party.fails(Classes, table)
    assert isinstance(error, BadData)
    assert "not all are int64 as the model's" in error.message
    assert "yes" not in error.message


@pytest.mark.parametrize("name", ["label", "type", "predict_score"])
def test_an_id_column_with_the_name_of_a_prediction_is_refused(party: Party, name: str) -> None:
    error = party.fails(Classes, party.table({name: ["a"], "x": [1.0]}))
    assert isinstance(error, BadData)
    assert "its id column has the name of a column of predictions" in error.message


def test_labels_of_several_tables_become_numbers_of_one_type(party: Party) -> None:
    tables = [
        party.table({"id": ids, "y": labels, "x": [1.0, 2.0]})
        for ids, labels in ((["a", "b"], [1, 2]), (["c", "d"], [0.5, 1.5]))
    ]
    assert rows_of(party.run(Values, *tables))["label"] == [1.0, 2.0, 0.5, 1.5]
    assert rows_of(party.run(Values, tables[0]))["label"] == [1, 2]


def test_predictions_of_several_blocks_are_in_the_order_of_the_rows(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = party.table({"id": list("abcde"), "y": [0, 1, 0, 1, 1], "x": [1.0] * 5})
    whole = rows_of(party.run(Classes, table))
    monkeypatch.setattr(predictions, "BLOCK_ROWS", 2)
    assert rows_of(party.run(Classes, table)) == whole
    assert whole["id"] == list("abcde")


def test_clusters_stand_beside_the_labels_of_every_row(party: Party) -> None:
    tables = [
        party.table({"id": ["a", "b"], "y": ["yes", None], "x": [1.0, 2.0]}),
        party.table({"id": ["c"], "x": [1.0]}),
    ]
    rows = rows_of(party.run(Groups, *tables))
    assert list(rows) == ["id", "label", "predicted_cluster_index", "type"]
    assert rows["label"] == ["yes", None, None]
    assert rows["predicted_cluster_index"] == [0, 1, 0]
