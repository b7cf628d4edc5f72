"""Rows are taken in any order, window by window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedflow.sdk import TableKind, TableSchema
from fedflow.tables import gathering
from fedflow.tables.gathering import take_rows
from fedflow.testing.tables import local_store

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("x",))


@pytest.mark.parametrize("window", [7, 1000])
@pytest.mark.parametrize("repeats", [False, True])
def test_rows_come_in_the_order_asked_for(
    tmp_path: Path, window: int, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "WINDOW_ROWS", window)
    monkeypatch.setattr(gathering, "BATCH_ROWS", 5)
    with local_store(tmp_path).create(SCHEMA) as writer:
        for start in range(0, 40, 10):
            at = range(start, start + 10)
            writer.write(
                pa.record_batch(
                    {"id": [f"u{i}" for i in at], "y": list(at), "x": [i / 2 for i in at]}
                )
            )
        table = writer.close()
    random = np.random.default_rng(1)
    rows = random.integers(0, 40, 60) if repeats else random.permutation(40)[:33]
    batches = list(take_rows(table, rows))
    assert max(batch.num_rows for batch in batches) <= 5
    found = pa.Table.from_batches(batches)
    assert found.column_names == ["id", "y", "x"]
    assert found.to_pydict() == {
        "id": [f"u{i}" for i in rows], "y": rows.tolist(), "x": (rows / 2).tolist(),
    }  # fmt: skip
    (ids,) = {tuple(b.schema.names) for b in take_rows(table, rows, columns=("id",))}
    assert ids == ("id",)
    assert list(take_rows(table, rows[:0])) == []
    with pytest.raises(IndexError):
        list(take_rows(table, np.array([0, 40])))


@pytest.mark.parametrize("rows", [[1, -1, 0, -1], [-1, -1]])
def test_a_negative_position_gives_a_row_of_nulls(tmp_path: Path, rows: list[int]) -> None:
    with local_store(tmp_path).create(SCHEMA) as writer:
        writer.write(pa.record_batch({"id": ["a", "b"], "y": [0, 1], "x": [0.5, 1.5]}))
        table = writer.close()
    (batch,) = take_rows(table, np.array(rows))
    assert batch.column(0).to_pylist() == [None if i < 0 else "ab"[i] for i in rows]
    assert batch.column(2).to_pylist() == [None if i < 0 else i + 0.5 for i in rows]


def test_wide_rows_are_gathered_fewer_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = tuple(f"x{i}" for i in range(100))
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=columns)
    with local_store(tmp_path).create(schema) as writer:
        cells = {name: np.arange(50.0) for name in columns}
        writer.write(pa.record_batch({"id": [f"u{i}" for i in range(50)], **cells}))
        table = writer.close()
    monkeypatch.setattr(gathering, "WINDOW_BYTES", 10_000)
    batches = list(take_rows(table, np.arange(49, -1, -1)))
    assert max(batch.num_rows for batch in batches) == 12
    found = pa.Table.from_batches(batches)
    assert found.column("x99").to_pylist() == [float(i) for i in range(49, -1, -1)]


@pytest.mark.parametrize("rows", [range(40), range(7, 23), range(10, 20), range(39, 40)])
def test_rows_that_follow_each_other_are_not_copied(
    tmp_path: Path, rows: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "WINDOW_ROWS", 16)
    with local_store(tmp_path).create(SCHEMA) as writer:
        for start in range(0, 40, 10):
            at = range(start, start + 10)
            ids = [f"u{i}" for i in at]
            writer.write(pa.record_batch({"id": ids, "y": list(at), "x": [i / 2 for i in at]}))
        table = writer.close()
    before = pa.total_allocated_bytes()
    found = pa.Table.from_batches(take_rows(table, np.array(rows)))
    assert pa.total_allocated_bytes() - before < 1000
    assert found.column("y").to_pylist() == list(rows)
    assert found.column("id").to_pylist() == [f"u{i}" for i in rows]
