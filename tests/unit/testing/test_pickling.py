"""What tests refuse of the functions that components give to tables."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedflow.sdk import TableStore
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.pickling import pickled
from fedflow.testing.tables import local_store


def test_what_a_function_captures_is_copied() -> None:
    seen: list[int] = []

    def note(value: int) -> int:
        seen.append(value)
        return value + len(seen)

    assert pickled(note)(3) == 4
    assert seen == []


def test_what_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(AssertionError, match="cannot be sent to a worker"):
        pickled(lambda value: value if lock.locked() else None)


def test_a_function_that_captures_whole_columns_is_refused() -> None:
    column = np.zeros(100_000)
    with pytest.raises(AssertionError, match="captures 8"):
        pickled(lambda value: value + column.sum())


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_tables_of_tests_send_their_functions(kind: str, tmp_path: Path) -> None:
    store: TableStore = local_store(tmp_path) if kind == "local" else MemoryTableStore()
    table = MemoryTableStore().add({"id": ["a"], "x": [1.0]})
    with store.create(table.schema) as writer:
        writer.write(table.read())
        stored = writer.close()
    seen: list[int] = []

    def note(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.num_rows)
        return batch

    def note_column(name: str, column: pa.ChunkedArray) -> str:
        seen.append(len(column))
        return name

    assert stored.map_blocks(note, schema=stored.schema).count == 1
    assert len(list(stored.fold_blocks(note))) == 1
    assert list(stored.map_columns(note_column, ["x"])) == ["x"]
    assert seen == []
    if kind == "memory":
        plain = MemoryTableStore(pickles=False).add({"id": ["a"], "x": [1.0]})
        assert list(plain.map_columns(note_column, ["x"])) == ["x"]
        assert seen == [1]
