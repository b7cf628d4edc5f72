"""What every table store promises, run over the local files and over the memory twin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fedflow.base.errors import BadData, TableNotFound
from fedflow.sdk import TableKind, TableSchema, TableStore
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.tables import local_store

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("a", "b"))
ROWS = pa.table(
    {"id": ["u", "v", "w"], "y": pa.array([1, 0, 1]), "a": [0.5, 1.5, 2.5], "b": [3.0, 2.0, 1.0]}
)


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    makers: dict[str, Callable[[], TableStore]] = {
        "local": lambda: local_store(tmp_path / "tables"),
        "memory": MemoryTableStore,
    }
    return makers[request.param]()


def test_a_written_table_reads_back_equal(store: TableStore) -> None:
    with store.create(SCHEMA) as writer:
        writer.write(ROWS.slice(0, 2))
        writer.write(ROWS.slice(2).to_batches()[0])
        table = writer.close()
    assert table.schema == SCHEMA
    assert table.count == 3
    assert table.read().equals(ROWS)
    assert pa.Table.from_batches(table.to_batches()).equals(ROWS)


def test_columns_come_in_the_order_that_was_asked_for(store: TableStore) -> None:
    with store.create(SCHEMA) as writer:
        writer.write(ROWS)
        table = writer.close()
    assert table.read(("b", "id")).equals(ROWS.select(["b", "id"]))
    assert table.read(()).num_columns == 0


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 99])
def test_head_gives_the_first_rows_or_all_there_are(store: TableStore, rows: int) -> None:
    with store.create(SCHEMA) as writer:
        writer.write(ROWS)
        table = writer.close()
    assert table.head(rows).to_pylist() == ROWS.to_pylist()[:rows]


def test_a_named_table_is_found_by_its_name(store: TableStore) -> None:
    with store.create(SCHEMA, namespace="ns", name="../../etc/passwd") as writer:
        writer.write(ROWS)
    found = store.open("ns", "../../etc/passwd")
    assert (found.namespace, found.name) == ("ns", "../../etc/passwd")
    assert found.read().equals(ROWS)


def test_an_unknown_table_is_not_found(store: TableStore) -> None:
    with pytest.raises(TableNotFound):
        store.open("ns", "nothing")


def test_outputs_without_names_do_not_collide(store: TableStore) -> None:
    made = []
    for _ in range(3):
        with store.create(SCHEMA) as writer:
            writer.write(ROWS)
            made.append(writer.close())
    assert len({(t.namespace, t.name) for t in made}) == 3


def test_an_error_in_the_with_block_leaves_no_table(store: TableStore) -> None:
    with suppress(ZeroDivisionError), store.create(SCHEMA, namespace="n", name="t") as writer:
        writer.write(ROWS)
        raise ZeroDivisionError
    with pytest.raises(TableNotFound):
        store.open("n", "t")


def test_columns_in_another_order_are_refused(store: TableStore) -> None:
    with pytest.raises(BadData), store.create(SCHEMA) as writer:
        writer.write(ROWS.select(["id", "y", "b", "a"]))


def test_a_table_without_rows_is_a_table(store: TableStore) -> None:
    with store.create(SCHEMA) as writer:
        table = writer.close()
    assert table.count == 0
    assert table.read().num_rows == 0
    assert tuple(table.read().column_names) == SCHEMA.names


def test_map_blocks_keeps_the_order_of_rows(store: TableStore) -> None:
    with store.create(SCHEMA) as writer:
        writer.write(ROWS)
        table = writer.close()
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("sum",))

    def add(batch: pa.RecordBatch) -> pa.RecordBatch:
        total = pc.add(batch.column("a"), batch.column("b"))
        return pa.RecordBatch.from_arrays([batch.column("id"), total], names=["id", "sum"])

    result = table.map_blocks(add, schema=schema)
    assert result.read().to_pydict() == {"id": ["u", "v", "w"], "sum": [3.5, 3.5, 3.5]}
    assert table.read().equals(ROWS)
