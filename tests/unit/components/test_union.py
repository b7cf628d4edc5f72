"""Union: rows of several tables, first come first kept; headers must agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedflow.base.errors.data import BadData
from fedflow.components.features.union import Union
from fedflow.sdk import Outputs, Table, TableKind
from tests.unit.components.one_party import Party, rows_of, schema_of


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def data(party: Party, ids: str, **columns: Any) -> Table:
    rows = {"id": list(ids), "y": [1] * len(ids), "x": [float(ord(i)) for i in ids]}
    return party.table({**rows, **columns}, anonymous=("g0",))


def test_the_first_row_of_an_id_is_kept(party: Party) -> None:
    first = data(party, "abc")
    second = data(party, "cda", x=[0.0, 1.0, 2.0])
    third = data(party, "de", x=[7.0, 8.0])
    result = party.result(Union, first, second, third)
    assert result.outputs is not None
    assert rows_of(result.outputs) == {
        "id": list("abcde"),
        "y": [1] * 5,
        "x": [97.0, 98.0, 99.0, 1.0, 8.0],
    }
    assert schema_of(result.outputs) == first.schema
    counts = {"reader_0": 3, "reader_1": 3, "reader_2": 2, "Total": 5}
    assert result.outputs.summary == counts
    metric = result.metrics["train", "union"]
    assert metric.metric_type == "UNION"
    assert metric.points == list(counts.items())


def test_duplicates_are_kept_under_the_names_of_their_components(party: Party) -> None:
    outputs = party.run(Union, data(party, "ab"), data(party, "b"), keep_duplicate=True)
    assert rows_of(outputs)["id"] == ["a_reader_0", "b_reader_0", "b_reader_1"]
    assert outputs.summary == {"reader_0": 2, "reader_1": 1, "Total": 3}


def test_a_component_that_is_connected_twice_counts_twice(party: Party) -> None:
    ports = {"data": [("split_0", data(party, "a")), ("split_0", data(party, "a"))]}
    outputs = party.run(Union, ports=ports, keep_duplicate=True)
    assert rows_of(outputs)["id"] == ["a_split_0", "a_split_0_1"]
    assert outputs.summary == {"split_0": 1, "split_0_1": 1, "Total": 2}


def test_empty_tables_are_skipped(party: Party) -> None:
    empty = party.table({"id": pa.array([], pa.string()), "z": pa.array([], pa.float64())})
    outputs = party.run(Union, empty, data(party, "ab"))
    assert rows_of(outputs)["id"] == ["a", "b"]
    assert outputs.summary == {"reader_0": 0, "reader_1": 2, "Total": 2}
    assert rows_of(party.run(Union, empty, empty)) == {"id": [], "z": []}


def test_whole_and_other_numbers_become_floating(party: Party) -> None:
    outputs = party.run(Union, data(party, "a", x=[3]), data(party, "b", x=[0.5]))
    assert rows_of(outputs)["x"] == [3.0, 0.5]


def test_ids_are_unique_over_many_blocks(tmp_path: Path) -> None:
    party = Party(tmp_path)
    size = 70_000
    one = party.table({"id": [str(i) for i in range(size)], "x": range(size)})
    two = party.table({"id": [str(i) for i in range(size - 5, 2 * size)], "x": range(size + 5)})
    rows = rows_of(party.run(Union, one, two))
    assert rows["id"] == [str(i) for i in range(2 * size)]
    assert rows["x"][size] == 5


def test_raw_tables_and_predictions_are_united_too(party: Party) -> None:
    kinds = [
        party.table({"id": [i], "y": ["1"]}, kind=TableKind.RAW, label=None, columns=("y",))
        for i in "ab"
    ]
    assert rows_of(party.run(Union, *kinds)) == {"id": ["a", "b"], "y": ["1", "1"]}


@pytest.mark.parametrize(
    ("columns", "schema", "what"),
    [
        ({"id": ["b"], "y": [1], "z": [1.0]}, {}, "column 1 of reader_1 is 'z'"),
        ({"id": ["b"], "y": [1], "x": [1.0], "z": [1.0]}, {}, "number of columns of reader_1 is 2"),
        ({"key": ["b"], "y": [1], "x": [1.0]}, {}, "id column of reader_1 is key"),
        ({"id": ["b"], "x": [1.0]}, {}, "label column of reader_1 is None"),
        ({"id": ["b"], "y": [1], "x": ["t"]}, {}, "column 'x': it is text in some tables"),
        ({"id": ["b"], "y": [1], "x": [1.0]}, {"kind": TableKind.RAW}, "kind of reader_1 is raw"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    party: Party, columns: dict[str, Any], schema: dict[str, Any], what: str
) -> None:
    error = party.fails(Union, data(party, "a"), party.table(columns, **schema))
    assert isinstance(error, BadData)
    assert what in error.message


def test_one_table_is_not_enough(party: Party) -> None:
    assert "this is one" in party.fails(Union, data(party, "a")).message
    assert party.run(Union, None, None) == Outputs()


def test_need_run_false_passes_the_first_table(party: Party) -> None:
    first = data(party, "a")
    assert party.run(Union, first, data(party, "b"), need_run=False) == Outputs(
        data=(first,), passed=True
    )
