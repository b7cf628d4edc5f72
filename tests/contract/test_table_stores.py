"""What every table store promises, run over the local files, the memory twin, and Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fedflow.base.errors.data import BadData, TableNotFound
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkLost
from fedflow.sdk import Table, TableKind, TableSchema, TableStore
from fedflow.spark.errors import spark_errors
from fedflow.spark.tables.jobs import Cluster
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.tables import local_store, parts_store, spark_store

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("a", "b"))
ROWS = pa.table(
    {"id": ["u", "v", "w"], "y": pa.array([1, 0, 1]), "a": [0.5, 1.5, 2.5], "b": [3.0, 2.0, 1.0]}
)


BLOCK_ROWS = 65_536  #: at most in a block


def written(store: TableStore, rows: pa.Table = ROWS, schema: TableSchema = SCHEMA) -> Table:
    """Return a stored table."""
    with store.create(schema) as writer:
        writer.write(rows)
        return writer.close()


def long_rows(count: int) -> pa.Table:
    """Return rows that are more than a block."""
    at = np.arange(count)
    ids = pa.array([f"u{i}" for i in range(count)])
    return pa.table({"id": ids, "y": at % 2, "a": at / 2, "b": np.full(count, 1.0)})


@pytest.fixture(
    scope="session",
    params=["local", "memory", "dataset", pytest.param("spark", marks=pytest.mark.spark)],
)
def maker(request: pytest.FixtureRequest) -> Callable[[Path], TableStore]:
    """Return what makes a store below a folder."""
    makers: dict[str, Callable[[Path], TableStore]] = {
        "local": lambda folder: local_store(folder, cores=2),
        "memory": lambda _: MemoryTableStore(),
        "dataset": parts_store,
    }
    if request.param != "spark":
        return makers[request.param]
    session = request.getfixturevalue("local_spark")
    cluster = Cluster(spark=session, errors=lambda: spark_errors(_lost), partitions=3)
    return lambda folder: spark_store(folder, cluster=cluster)


@pytest.fixture
def store(maker: Callable[[Path], TableStore], tmp_path: Path) -> TableStore:
    return maker(tmp_path / "tables")


def _lost() -> FedflowError:
    return SparkLost(job_id="of this test", reason="it is gone")


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


def test_map_blocks_of_a_table_without_rows_learns_the_types(store: TableStore) -> None:
    table = written(store, ROWS.slice(0, 0))
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("n",))

    def number(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = pc.cast(batch.column("a"), pa.int64())
        return pa.RecordBatch.from_arrays([batch.column("id"), numbers], names=["id", "n"])

    result = table.map_blocks(number, schema=schema)
    assert result.count == 0
    assert result.read().schema.types == [pa.string(), pa.int64()]


def test_a_wrong_block_leaves_no_table_and_its_error_arrives(store: TableStore) -> None:
    table = written(store)

    def refuse(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise BadData(where="a block", reason=f"has {batch.num_rows} rows")

    with pytest.raises(BadData, match=r"a block.*3 rows"):
        table.map_blocks(refuse, schema=SCHEMA, name="refused")
    with pytest.raises(BadData, match=r"a block.*3 rows"):
        list(table.fold_blocks(refuse))
    with pytest.raises(TableNotFound):
        store.open("output", "refused")


def test_fold_blocks_gives_a_value_per_block_in_stored_order(store: TableStore) -> None:
    count = 2 * BLOCK_ROWS + 5
    table = written(store, long_rows(count))

    def first_and_rows(batch: pa.RecordBatch) -> tuple[str, int, float]:
        return batch.column("id")[0].as_py(), batch.num_rows, pc.sum(batch.column("b")).as_py()

    found = list(table.fold_blocks(first_and_rows))
    starts = np.cumsum([0, *(rows for _, rows, _ in found)])
    assert [name for name, _, _ in found] == [f"u{start}" for start in starts[:-1]]
    assert starts[-1] == sum(total for _, _, total in found) == count
    assert all(0 < rows <= BLOCK_ROWS for _, rows, _ in found)
    assert len(found) >= 3


def test_fold_blocks_of_a_table_without_rows_gives_nothing(store: TableStore) -> None:
    assert list(written(store, ROWS.slice(0, 0)).fold_blocks(lambda batch: batch.num_rows)) == []


def test_map_columns_gives_whole_columns_in_the_order_asked_for(store: TableStore) -> None:
    count = BLOCK_ROWS + 3
    table = written(store, long_rows(count))

    def size(name: str, column: pa.ChunkedArray) -> tuple[str, int, object]:
        return name, len(column), column[len(column) - 1].as_py()

    found = list(table.map_columns(size, ["b", "id", "a"]))
    assert found == [
        ("b", count, 1.0), ("id", count, f"u{count - 1}"), ("a", count, (count - 1) / 2),
    ]  # fmt: skip
    assert list(table.map_columns(size, [])) == []
    empty = written(store, ROWS.slice(0, 0))
    assert list(empty.map_columns(lambda name, column: (name, len(column)), ["y"])) == [("y", 0)]


def test_map_columns_of_an_unknown_column_is_refused(store: TableStore) -> None:
    with pytest.raises(BadData, match="zz"):
        list(written(store).map_columns(lambda name, column: name, ["a", "zz"]))


def test_an_error_of_one_column_arrives(store: TableStore) -> None:
    def refuse(name: str, column: pa.ChunkedArray) -> int:
        if name == "b":
            raise BadData(where=f"column {name!r}", reason="is refused")
        return len(column)

    lengths = written(store).map_columns(refuse, ["a", "b"])
    assert next(lengths) == 3
    with pytest.raises(BadData, match=r"'b'.*is refused"):
        next(lengths)


@pytest.mark.parametrize("rows", [[2, 0], [0, 0, 2, 1, 2], []])
def test_take_gives_rows_in_any_order_and_again(store: TableStore, rows: list[int]) -> None:
    taken = written(store).take(np.array(rows, np.int64))
    assert taken.schema == SCHEMA
    assert taken.count == len(rows)
    assert taken.read().equals(ROWS.take(pa.array(rows, pa.int64())))


def test_take_over_several_blocks_keeps_the_order_asked_for(store: TableStore) -> None:
    count = 2 * BLOCK_ROWS + 5
    table = written(store, long_rows(count))
    rows = np.random.default_rng(3).permutation(count)[: BLOCK_ROWS + 11]
    taken = table.take(rows)
    assert taken.read(("a",)).column(0).to_pylist() == (rows / 2).tolist()
    assert taken.read(("id",)).column(0).to_pylist() == [f"u{i}" for i in rows]


def test_take_picks_columns_and_puts_made_ones_beside_them(store: TableStore) -> None:
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("b", "new"))
    made = pa.table({"new": [7, 8, 9], "id": ["k", "l", "m"], "unused": [0, 0, 0]})
    taken = written(store).take(np.array([2, 0, 2]), schema=schema, made=made)
    assert taken.schema == schema
    assert taken.read().to_pydict() == {
        "id": ["k", "l", "m"], "b": [1.0, 3.0, 1.0], "new": [7, 8, 9],
    }  # fmt: skip
    only = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("new",))
    assert written(store).take(np.array([0, 0, 1]), schema=only, made=made).read().num_rows == 3
    none = written(store).take(np.array([], np.int64), schema=schema, made=made.slice(0, 0))
    assert none.read().schema.types == [pa.string(), pa.float64(), pa.int64()]


def test_take_at_a_negative_position_gives_a_row_of_nulls(store: TableStore) -> None:
    made = pa.table({"id": ["k", "l", "m"]})
    taken = written(store).take(np.array([-1, 1, -1]), made=made)
    assert taken.read().to_pydict() == {
        "id": ["k", "l", "m"], "y": [None, 0, None], "a": [None, 1.5, None], "b": [None, 2.0, None],
    }  # fmt: skip
    alone = written(store).take(np.array([-1, -1]), made=made.slice(1))
    assert alone.read(("a", "id")).to_pydict() == {"a": [None, None], "id": ["l", "m"]}


def test_take_refuses_what_is_not_there(store: TableStore) -> None:
    table = written(store)
    with pytest.raises(IndexError, match="row 3 of 3"):
        table.take(np.array([0, 3]))
    with pytest.raises(BadData, match="zz"):
        table.take(np.array([0]), schema=replace(SCHEMA, columns=("a", "zz")))
    with pytest.raises(ValueError, match="2 made rows for 1 positions"):
        table.take(np.array([0]), made=pa.table({"id": ["k", "l"]}))


def test_a_taken_table_is_found_by_its_name(store: TableStore) -> None:
    taken = written(store).take(np.array([1]), name="one row")
    assert store.open(taken.namespace, "one row").read().equals(ROWS.slice(1, 1))


@pytest.mark.parametrize("rows", [0, 3])
def test_progress_ends_at_one(store: TableStore, rows: int) -> None:
    table = written(store, ROWS.slice(0, rows))
    told: list[float] = []
    table.map_blocks(lambda batch: batch, schema=SCHEMA, progress=told.append)
    assert told[-1] == 1.0
    told.clear()
    table.take(np.arange(rows)[::-1], progress=told.append)
    assert told[-1] == 1.0


def test_arguments_in_the_wrong_order_are_told_in_words_of_the_call(store: TableStore) -> None:
    table = written(store)

    def first(name: str, column: pa.ChunkedArray) -> str:
        return f"{name} {column[0]}"

    with pytest.raises(
        TypeError, match=r"map_columns\(function, names\): the function comes first"
    ):
        table.map_columns(["a"], first)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"names come as a list or tuple, such as \['a'\]"):
        table.map_columns(first, "a")
    with pytest.raises(TypeError, match=r"read\(columns\): names come as a list or tuple"):
        table.read("a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the function comes first, not a TableSchema"):
        table.map_blocks(SCHEMA, schema=SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"fold_blocks\(function\): the function comes first"):
        table.fold_blocks(None)  # type: ignore[arg-type]
    with (
        pytest.raises(TypeError, match="RecordBatch or Table, not a NoneType"),
        store.create(SCHEMA) as writer,
    ):
        writer.write(None)  # type: ignore[arg-type]
    assert list(table.map_columns(first, ("b", "a"))) == ["b 3.0", "a 0.5"]
