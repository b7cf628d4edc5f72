"""Tables on Spark: the same rows, batches and errors as here, and nothing left over."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql import SparkSession

from fedflow.base.errors.data import BadData, BoundTableChanged, StorageMissing, TablesNotShared
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.domain.data.storages import Bound, HiveRows, bound_to_json
from fedflow.domain.records import TableRecord
from fedflow.sdk import Table, TableKind, TableSchema, TableStore
from fedflow.spark.tables import gather, jobs
from fedflow.spark.tables import table as table_module
from fedflow.spark.tables.blocks import Source, cut
from fedflow.spark.tables.jobs import INLINE_BYTES, Cluster
from fedflow.spark.tables.store import SparkTableStore
from fedflow.spark.tables.table import SparkTable, seen
from fedflow.tables.catalog import TableOrigin, schema_to_json
from fedflow.tables.local import LocalTableStore
from fedflow.tables.parts import folder_at, part_name
from fedflow.testing.tables import MemoryCatalog, local_store, spark_store
from tests.storage_servers import s3_server
from tests.support.executors import wait_until
from tests.support.previews import preview_of
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("a", "b", "c"))
PROGRAM = Path(__file__).parent / "spark_tables_program.py"
ROWS = 150_000  #: three batches


def rows_of(count: int) -> pa.Table:
    """Return rows with types that Spark lacks, nulls, and numbers that must stay bit for bit."""
    at = np.arange(count)
    odd = pa.array(at % 5 == 1)
    c = pa.array([f"text {i % 7}" for i in range(count)])
    return pa.table(
        {
            "id": [f"u{i}" for i in range(count)],
            "y": pa.array(at % 250, pa.uint8()),
            "a": np.where(at % 3 == 0, -0.0, at / 7),
            "b": pa.array((at % 100).astype(np.float16)),
            "c": pc.if_else(odd, pa.scalar(None, pa.string()), c).cast(pa.large_string()),
        }
    )


@pytest.fixture(scope="module")
def cluster(local_spark: SparkSession) -> Cluster:
    return Cluster(spark=local_spark, errors=nullcontext, partitions=3)


@pytest.fixture
def store(cluster: Cluster, tmp_path: Path) -> SparkTableStore:
    return spark_store(tmp_path / "tables", cluster=cluster)


@pytest.fixture
def local(tmp_path: Path) -> TableStore:
    return local_store(tmp_path / "local")


def written(store: TableStore, rows: pa.Table, schema: TableSchema = SCHEMA) -> Table:
    with store.create(schema) as writer:
        for start in range(0, rows.num_rows, 65_536):
            writer.write(rows.slice(start, 65_536))
        return writer.close()


def assert_same(one: Table, other: Table) -> None:
    """Both have the same rows in the same batches, and are described alike."""
    assert (one.schema, one.count) == (other.schema, other.count)
    for mine, theirs in zip(one.to_batches(), other.to_batches(), strict=True):
        assert mine.schema == theirs.schema
        assert mine.equals(theirs)
    assert preview_of(one) == preview_of(other)


def left(store_root: Path) -> list[str]:
    """Return what is below a table root of tables that are not finished."""
    return [p.name for p in store_root.iterdir() if p.name.startswith(".")]


def test_mapped_tables_are_those_that_this_machine_makes(
    store: SparkTableStore, local: TableStore, tmp_path: Path
) -> None:
    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        keep = pc.not_equal(batch.column("y"), 3)
        return batch.filter(keep)

    rows = rows_of(ROWS)
    mapped = written(store, rows).map_blocks(change, schema=SCHEMA)
    expected = written(local, rows).map_blocks(change, schema=SCHEMA)
    assert_same(mapped, expected)
    facts = [
        (folder / table.entry.address / "columns.json").read_text()  # type: ignore[attr-defined]
        for folder, table in ((tmp_path / "tables", mapped), (tmp_path / "local", expected))
    ]
    assert facts[0] == facts[1]
    assert left(tmp_path / "tables") == []


@pytest.mark.parametrize("reads", [-1, 1_000_000], ids=["shuffled", "read where it lies"])
def test_taken_rows_are_those_that_this_machine_takes(
    store: SparkTableStore,
    local: TableStore,
    reads: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "MOST_READS", reads)
    rows = rows_of(ROWS)
    wanted = np.random.default_rng(1).permutation(ROWS)
    wanted[::10] = 7
    wanted[100_000:] = -1  # the last bucket has rows of nulls alone
    made = pa.table(
        {"id": [f"new{i}" for i in range(ROWS)], "a": pa.array(range(ROWS), pa.int32())}
    )
    taken = written(store, rows).take(wanted, made=made)
    assert_same(taken, written(local, rows).take(wanted, made=made))
    parts = tmp_path / "tables" / "parts" / taken.entry.address  # type: ignore[attr-defined]
    names = {p.name.split("-")[0] for p in parts.iterdir()}
    assert names == {"_rows.json", "part"}


def test_a_null_id_is_refused_on_a_worker_and_leaves_nothing(
    store: SparkTableStore, tmp_path: Path
) -> None:
    table = written(store, rows_of(10))
    before = sorted(p.name for p in (tmp_path / "tables").rglob("*"))
    with pytest.raises(BadData, match="an id is null"):
        table.take(np.array([1, -1]))
    assert sorted(p.name for p in (tmp_path / "tables").rglob("*")) == before


def test_blocks_of_other_types_are_refused_as_here(store: SparkTableStore) -> None:
    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        kind = pa.float64() if batch.column("id")[0].as_py() == "u0" else pa.int64()
        sums = pa.array([1] * batch.num_rows).cast(kind)
        return pa.RecordBatch.from_arrays([batch.column("id"), sums], names=["id", "s"])

    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("s",))
    with pytest.raises(BadData, match=r"column 's' is int64, was double before"):
        written(store, rows_of(ROWS)).map_blocks(change, schema=schema)


def test_long_results_come_through_files_that_are_removed(
    store: SparkTableStore, tmp_path: Path
) -> None:
    def long(batch: pa.RecordBatch) -> bytes:
        return bytes([batch.num_rows % 256]) * (INLINE_BYTES + 1)

    table = written(store, rows_of(ROWS))
    before = sorted((tmp_path / "tables" / "parts").iterdir())
    found = table.fold_blocks(long)
    first = next(found)
    assert len(sorted((tmp_path / "tables" / "parts").iterdir())) == len(before) + 1
    rest = list(found)
    assert [f[0] for f in (first, *rest)] == [b.num_rows % 256 for b in table.to_batches()]
    assert sorted((tmp_path / "tables" / "parts").iterdir()) == before
    assert left(tmp_path / "tables") == []


def test_many_results_come_through_files_too(
    store: SparkTableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "INLINE_IN_ALL", 1)
    table = written(store, rows_of(ROWS))
    parts = tmp_path / "tables" / "parts"
    before = set(parts.iterdir())
    found = table.fold_blocks(lambda batch: batch.num_rows)
    first = next(found)
    (folder,) = set(parts.iterdir()) - before
    assert len(list(folder.iterdir())) == 3
    assert [first, *found] == [batch.num_rows for batch in table.to_batches()]


def test_long_columns_are_a_task_each(
    store: SparkTableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "COLUMN_BYTES", 1)
    monkeypatch.setattr(table_module, "GROUPS_PER_PARTITION", 1)

    def task(name: str, column: pa.ChunkedArray) -> tuple[str, int, int]:
        return name, len(column), TaskContext.get().partitionId()

    table = written(store, rows_of(ROWS))
    names = table.schema.names
    found = table.map_columns(task, names)
    assert list(found) == [(name, ROWS, number) for number, name in enumerate(names)]


def test_values_before_an_error_arrive_first(store: SparkTableStore) -> None:
    def rows(batch: pa.RecordBatch) -> int:
        if batch.num_rows != 65_536:
            raise BadData(where="the last block", reason="is short")
        return batch.num_rows

    found = written(store, rows_of(ROWS)).fold_blocks(rows)
    assert [next(found), next(found)] == [65_536, 65_536]
    with pytest.raises(BadData, match="the last block"):
        next(found)


def test_any_process_reads_and_drops_tables_of_spark_with_arrow_alone(
    cluster: Cluster, tmp_path: Path
) -> None:
    catalog = MemoryCatalog()
    root = tmp_path / "tables"
    made = written(spark_store(root, cluster=cluster, catalog=catalog), rows_of(1000))
    local = LocalTableStore(root, catalog=catalog, output_namespace="output")
    table = local.open(made.namespace, made.name)
    assert table.read().equals(rows_of(1000))
    target = io.BytesIO()
    assert local.export_csv(table, target) == 1000
    copy = local.copy(table, namespace="n", name="copy")
    assert copy.read().equals(rows_of(1000))
    local.drop(made.namespace, made.name)
    assert list((root / "parts").iterdir()) == []
    assert copy.read().equals(rows_of(1000))


def test_tables_of_this_machine_are_copied_if_workers_do_not_see_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    catalog = MemoryCatalog()
    table = written(local_store(tmp_path / "own", catalog=catalog), rows_of(10))
    store = SparkTableStore(
        tmp_path / "own",
        cluster=cluster,
        tables_uri=(tmp_path / "shared").as_uri(),
        catalog=catalog,
        output_namespace="output",
    )
    found = store.open(table.namespace, table.name)
    assert list(found.fold_blocks(lambda batch: batch.num_rows)) == [10]
    assert list((tmp_path / "shared" / "parts").iterdir())


def test_parts_that_this_process_does_not_see_are_named(store: SparkTableStore) -> None:
    folder = store.new_folder()
    made = written(store, rows_of(3))
    assert isinstance(made, SparkTable)
    elsewhere: list = made._rows.manifest.parts  # type: ignore[attr-defined]

    class Written:
        part = elsewhere[0]

    with pytest.raises(TablesNotShared):
        seen(folder.uri, [Written()])  # type: ignore[list-item]
    folder.discard()


def test_spark_reads_a_table_as_a_dataframe_in_its_order(store: SparkTableStore) -> None:
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("a",))
    table = written(store, rows_of(ROWS).select(["id", "a"]), schema)
    assert isinstance(table, SparkTable)
    assert table.dataframe.toArrow().column("id").to_pylist() == [f"u{i}" for i in range(ROWS)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_blocks_are_consecutive_and_never_empty(count: int) -> None:
    from fedflow.tables.parts import TablePart

    parts = (TablePart("part-0.parquet", (5, 0, 7), 1), TablePart("part-1.parquet", (), 1),
             TablePart("part-2.parquet", (1, 1, 30), 1))  # fmt: skip
    source = Source(uri="/x", folder="", parts=parts, schema=SCHEMA, where="t")
    blocks = cut(source.batches, count)
    assert 1 <= len(blocks) <= count
    assert all(blocks)
    assert [batch for block in blocks for batch in block] == source.batches
    assert [b.start for b in source.batches] == [0, 5, 12, 13, 14]


def test_workers_write_and_read_parts_in_an_object_store(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as server:
        server.files.create_dir("spark-tables")
        keys = {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": server.access_key,
                "AWS_SECRET_ACCESS_KEY": server.secret_key}  # fmt: skip
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
            # what `spark.executorEnv.*` in the conf does
            monkeypatch.setitem(cluster.spark.sparkContext.environment, name, value)
        folder_at.cache_clear()
        store = SparkTableStore(
            tmp_path / "tables",
            cluster=cluster,
            tables_uri="s3://spark-tables/fedflow",
            catalog=MemoryCatalog(),
            output_namespace="output",
        )
        rows = rows_of(ROWS)
        table = written(store, rows).map_blocks(lambda batch: batch, schema=SCHEMA)
        assert table.read().equals(rows)
        wanted = np.arange(ROWS - 1, -1, -1)
        taken = table.take(wanted, made=rows.select(["id"]))
        assert taken.read(("a",)).equals(rows.select(["a"]).take(wanted))
        for made in (table, taken):
            store.drop(made.namespace, made.name)
        left_over = server.files.get_file_info(fs.FileSelector("spark-tables", recursive=True))
        made_parts = {i.path.split("/")[3] for i in left_over if i.type == fs.FileType.File}
        assert len(made_parts) == 1  # the first table
    folder_at.cache_clear()


# --- tables of Hive, here of Spark's own catalog --------------------------------------------------


def hive_entry(name: str, *columns: str, makes_ids: bool = False, **choice: object) -> TableRecord:
    """Return a bound table; `columns` are those that it was bound with, the id in front."""
    bound = Bound(address=HiveRows(host="metastore", name=name), **choice)  # type: ignore[arg-type]
    schema = TableSchema(kind=TableKind.RAW, id=columns[0], columns=columns[1:])
    return TableRecord(
        namespace="n", name=name, address="0" * 32, schema=schema_to_json(schema),
        count=0, partitions=1, id_delimiter=",", have_head=True, extend_sid=makes_ids,
        origin=TableOrigin.BIND, preview=(),
        created_ms=0, engine="HIVE", storage=bound_to_json(bound),
    )  # fmt: skip


@pytest.fixture
def hive(store: SparkTableStore, cluster: Cluster) -> Iterator[Callable[..., Table]]:
    """Return what makes a table in Spark's catalog of a query, and reads it as a bound one."""
    made: list[str] = []

    def read(query: str, entry: TableRecord) -> Table:
        made.append(entry.name)
        cluster.spark.sql(f"CREATE OR REPLACE TEMP VIEW source AS {query}")
        cluster.spark.sql(f"CREATE TABLE `{entry.name}` USING parquet AS SELECT * FROM source")
        return store.copy_bound(entry)

    yield read
    for name in made:
        cluster.spark.sql(f"DROP TABLE IF EXISTS `{name}`")


NUMBERED = "SELECT concat('u', id) AS id, id / 4 AS a, if(id = 2, NULL, id) AS b FROM range(0, 9)"


def test_a_table_of_hive_becomes_text_with_chosen_columns(hive: Callable[..., Table]) -> None:
    choice = {"id_column": "id", "feature_columns": ("b", "a")}
    table = hive(NUMBERED, hive_entry("chosen", "id", "b", "a", **choice))
    rows = sorted(table.read().to_pylist(), key=lambda row: row["id"])
    assert rows[1] == {"id": "u1", "b": "1", "a": "0.25"}
    assert rows[2] == {"id": "u2", "b": "", "a": "0.5"}
    assert table.count == 9
    assert table.entry.origin is TableOrigin.READER  # type: ignore[attr-defined]


def test_parts_of_hive_that_do_not_count_are_deleted(
    hive: Callable[..., Table], store: SparkTableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.new_folder()
    (Path(folder.uri) / part_name(0, "overtaken")).write_bytes(b"half")
    monkeypatch.setattr(store, "new_folder", lambda: folder)
    table = hive(NUMBERED, hive_entry("tidy", "id", "a", "b"))
    assert table.count == 9
    assert not list(Path(folder.uri).glob("*overtaken*"))


def test_made_ids_of_rows_of_hive_differ(hive: Callable[..., Table]) -> None:
    entry = hive_entry("made", "extend_sid", "id", "a", "b", makes_ids=True)
    assert len(set(hive(NUMBERED, entry).read(("extend_sid",)).column(0).to_pylist())) == 9


@pytest.mark.parametrize(
    ("query", "columns", "error", "said"),
    [
        (NUMBERED, ("id", "a"), BoundTableChanged, "'b' is new"),
        (NUMBERED, ("id", "a", "b", "c"), BoundTableChanged, "'c' is gone"),
        (NUMBERED + " WHERE id > 9", ("id", "a", "b"), BadData, "no rows"),
        ("SELECT concat('u', id % 7) AS id FROM range(0, 9)", ("id",), BadData, "an id: 2"),
        (
            "SELECT if(id = 3, '', string(id)) AS id FROM range(0, 9)",
            ("id",),
            BadData,
            "an empty id",
        ),
        ("SELECT id, 'a\\nb' AS a FROM range(0, 3)", ("id", "a"), BadData, "a line break"),
        ("SELECT id, array(1) AS a FROM range(0, 3)", ("id", "a"), BadData, "is no text"),
    ],
    ids=[
        "a new column",
        "a column gone",
        "no rows",
        "ids repeat",
        "empty id",
        "line break",
        "list",
    ],
)
def test_wrong_rows_of_hive_are_refused_and_leave_nothing(
    hive: Callable[..., Table],
    tmp_path: Path,
    query: str,
    columns: tuple[str, ...],
    error: type[Exception],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        hive(query, hive_entry("wrong", *columns))
    assert left(tmp_path / "tables") == []
    assert list((tmp_path / "tables" / "parts").iterdir()) == []


def test_queries_and_unknown_tables_of_hive_are_refused(store: SparkTableStore) -> None:
    with pytest.raises(StorageMissing, match="no such table"):
        store.copy_bound(hive_entry("nothing` x", "id"))
    query = Bound(address=HiveRows(host="metastore", query="SELECT reflect('a', 'b')"))
    with pytest.raises(NotSupportedYet, match="query of Hive"):
        store.copy_bound(replace(hive_entry("x", "id"), storage=bound_to_json(query)))


# --- a real cluster -------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_worker_killed_in_mid_table_costs_a_retry_and_no_row(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAM), spark_cluster.master, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
    try:
        wait_until(lambda: marker.exists() or driver.poll() is not None, timeout_s=90)
        holder = {process.pid for process in psutil.Process(int(marker.read_text())).parents()}
        executors = {
            worker: set(spark_cluster.executors(worker)) for worker in spark_cluster.workers
        }
        spark_cluster.kill(next(w for w, pids in executors.items() if pids & holder))
        said, _ = driver.communicate(timeout=90)
    finally:
        driver.kill()
        driver.communicate()
        spark_cluster.heal()
    assert said.split() == ["same", "True", "batches", "6", "files", "6"]
