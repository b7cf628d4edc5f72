"""Arrow files on disk: nothing half-done stays, nothing foreign is read."""

from __future__ import annotations

import errno
import json
import os
import pwd
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from fedflow.base.decoding import read_as
from fedflow.base.errors.data import (
    BadData,
    BadTableName,
    DiskFull,
    FolderNotWritable,
    TableExists,
    TableNotFound,
)
from fedflow.domain.records import TableRecord
from fedflow.sdk import TableKind, TableSchema
from fedflow.tables import local_table, stored_table
from fedflow.tables.local import LocalTableStore
from fedflow.tables.remote_gc import RemoteTableRows
from fedflow.testing.tables import MemoryCatalog, local_store
from fedflow.wire.fields import table_schema_row
from tests.support.previews import preview_of

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("x",))


def rows(count: int) -> pa.Table:
    ids = pa.array([f"i{n}" for n in range(count)], pa.string())
    return pa.table({"id": ids, "x": pa.array(np.arange(count, dtype=float))})


def files(root: Path) -> list[Path]:
    """Return the files with rows; beside each lie the facts of its columns and its first rows."""
    found = [p for p in root.rglob("*") if p.is_file()]
    return [p for p in found if p.name not in ("columns.json", "preview.json")]


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog()


@pytest.fixture
def store(tmp_path: Path, catalog: MemoryCatalog) -> LocalTableStore:
    return local_store(tmp_path / "tables", catalog=catalog)


def write(store: LocalTableStore, count: int = 3, **names: str) -> TableRecord:
    with store.create(SCHEMA, **names) as writer:
        writer.write(rows(count))
        return writer.close().entry


def test_batches_are_never_longer_than_65536_rows(store: LocalTableStore) -> None:
    table = store.table_of(write(store, 150_000))
    sizes = [b.num_rows for b in table.to_batches()]
    assert sum(sizes) == table.count == 150_000
    assert max(sizes) <= 65_536


def test_reading_maps_the_file_instead_of_copying_it(store: LocalTableStore) -> None:
    table = store.table_of(write(store, 200_000))
    before = pa.total_allocated_bytes()
    held = table.read()
    assert held.nbytes > 3_000_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_rows_stay_readable_after_the_table_is_dropped(store: LocalTableStore) -> None:
    entry = write(store, namespace="n", name="t")
    held = store.open("n", "t").read()
    store.drop("n", "t")
    assert held.equals(rows(3))
    with pytest.raises(TableNotFound):
        store.open("n", "t")
    with pytest.raises(BadData, match="missing"):
        store.table_of(entry).read()


def test_a_folder_is_never_named_after_a_namespace_or_name(
    store: LocalTableStore, tmp_path: Path
) -> None:
    entry = write(store, namespace="../up", name="/etc/passwd")
    assert files(tmp_path) == [tmp_path / "tables" / entry.address / "rows.arrow"]
    assert set(entry.address) <= set("0123456789abcdef")


def test_an_error_leaves_no_file(store: LocalTableStore, tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), store.create(SCHEMA) as writer:
        writer.write(rows(10))
        raise ZeroDivisionError
    assert list((tmp_path / "tables").iterdir()) == []


def test_a_table_cannot_be_seen_before_it_is_complete(
    store: LocalTableStore, catalog: MemoryCatalog
) -> None:
    with store.create(SCHEMA, namespace="n", name="t") as writer:
        writer.write(rows(1))
        assert catalog.find("n", "t") is None
    assert store.open("n", "t").count == 1


def test_what_a_killed_writer_left_is_swept(store: LocalTableStore, tmp_path: Path) -> None:
    store.create(SCHEMA).write(rows(5))
    kept = write(store)
    RemoteTableRows(tmp_path / "tables").sweep(older_than_ms=1 << 50)
    assert files(tmp_path) == [tmp_path / "tables" / kept.address / "rows.arrow"]


def test_a_taken_name_is_refused_before_anything_is_written(
    store: LocalTableStore, tmp_path: Path
) -> None:
    write(store, namespace="n", name="t")
    with pytest.raises(TableExists):
        store.create(SCHEMA, namespace="n", name="t")
    assert len(files(tmp_path)) == 1


def test_of_two_writers_of_one_name_one_wins_and_the_other_leaves_nothing(
    store: LocalTableStore, tmp_path: Path
) -> None:
    first = store.create(SCHEMA, namespace="n", name="t")
    second = store.create(SCHEMA, namespace="n", name="t")
    first.write(rows(1))
    second.write(rows(2))
    first.close()
    with pytest.raises(TableExists):
        second.close()
    assert store.open("n", "t").count == 1
    assert len(files(tmp_path)) == 1


def test_threads_write_different_tables_at_once(store: LocalTableStore) -> None:
    def work(number: int) -> None:
        write(store, 1000 + number, namespace="n", name=str(number))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [store.open("n", str(n)).count for n in range(4)] == [1000, 1001, 1002, 1003]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (pa.table({"id": ["a"], "x": ["text"]}), "was double before"),
        (pa.table({"id": pa.array([None], pa.string()), "x": [1.0]}), "an id is null"),
        (pa.table({"id": ["a"], "z": [1.0]}), "columns"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(
    store: LocalTableStore, batch: pa.Table, reason: str
) -> None:
    writer = store.create(SCHEMA)
    writer.write(rows(2))
    with pytest.raises(BadData, match=reason):
        writer.write(batch)
    writer.discard()


def test_ids_must_be_text(store: LocalTableStore) -> None:
    with pytest.raises(BadData, match="not string"), store.create(SCHEMA) as writer:
        writer.write(pa.table({"id": [1], "x": [1.0]}))


def test_a_closed_writer_takes_no_rows(store: LocalTableStore) -> None:
    writer = store.create(SCHEMA)
    writer.write(rows(1))
    assert writer.close() is writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(rows(1))


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "csv", "missing"])
def test_a_damaged_file_is_bad_data(store: LocalTableStore, tmp_path: Path, damage: str) -> None:
    table = store.table_of(write(store, 1000))
    (path,) = files(tmp_path)
    good = path.read_bytes()
    path.unlink()
    if damage != "missing":
        content = {"empty": b"", "cut": good[:-100], "garbage": b"\xff" * 5000, "csv": b"id,x\n"}
        path.write_bytes(content[damage])
    for read in (table.read, lambda: table.head(1), lambda: list(table.to_batches())):
        with pytest.raises(BadData):
            read()


def test_too_little_memory_is_no_damage(
    store: LocalTableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = store.table_of(write(store, 10))

    def fails(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    monkeypatch.setattr(local_table, "mapped", fails)
    with pytest.raises(MemoryError):
        table.read()


def test_every_cut_of_a_file_is_bad_data(store: LocalTableStore, tmp_path: Path) -> None:
    table = store.table_of(write(store, 20))
    (path,) = files(tmp_path)
    good = path.read_bytes()
    for length in range(0, len(good), 7):
        path.unlink()
        path.write_bytes(good[:length])
        with pytest.raises(BadData):
            table.read()


def test_the_file_of_another_table_is_bad_data(store: LocalTableStore, tmp_path: Path) -> None:
    entry = write(store)
    path = tmp_path / "tables" / entry.address / "rows.arrow"
    path.unlink()
    foreign = pa.table({"id": ["a"], "secret": [1.0]})
    with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, foreign.schema) as writer:
        writer.write_table(foreign)
    with pytest.raises(BadData, match="another table"):
        store.table_of(entry).read()


def test_a_file_with_fewer_rows_than_the_catalog_says_is_bad_data(
    store: LocalTableStore, tmp_path: Path
) -> None:
    long, short = write(store, 5), write(store, 4)
    target = tmp_path / "tables" / long.address / "rows.arrow"
    target.unlink()
    (tmp_path / "tables" / short.address / "rows.arrow").rename(target)
    with pytest.raises(BadData, match="4 rows, not 5"):
        store.table_of(long).read()
    with pytest.raises(BadData, match="4 rows, not 5"):
        list(store.table_of(long).to_batches())


@pytest.mark.parametrize("address", ["../../etc", "", "A" * 32, "a" * 33, "a/b"])
def test_an_address_that_is_no_folder_id_is_refused(store: LocalTableStore, address: str) -> None:
    with pytest.raises(BadData, match="address"):
        store.table_of(replace(write(store), address=address))


def test_an_unknown_column_is_named(store: LocalTableStore) -> None:
    table = store.table_of(write(store))
    with pytest.raises(BadData, match="nope"):
        table.read(("id", "nope"))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101, "\u2028", "a\x00"])
def test_a_name_that_people_cannot_read_is_refused(store: LocalTableStore, name: str) -> None:
    if name:  # an empty name means: make one
        with pytest.raises(BadTableName):
            store.create(SCHEMA, namespace="n", name=name)
    with pytest.raises(BadTableName):
        store.import_csv(Path("/nowhere.csv").absolute(), namespace="n", name=name)


def test_the_description_of_a_table_survives_the_way_through_json(store: LocalTableStore) -> None:
    entry = write(store)
    assert read_as(json.loads(json.dumps(msgspec.to_builtins(entry))), TableRecord) == entry
    assert preview_of(store.table_of(entry)) == (("i0", "0.0"), ("i1", "1.0"), ("i2", "2.0"))
    assert table_schema_row(entry) == {"header": "x", "sid": "id"}
    with pytest.raises(BadData, match="description is damaged"):
        store.table_of(replace(entry, schema={"kind": "raw", "id": 5}))


def test_the_preview_of_a_wide_table_is_bounded(store: LocalTableStore) -> None:
    schema = TableSchema(kind=TableKind.RAW, id="id", columns=("t",))
    with store.create(schema) as writer:
        writer.write(pa.table({"id": [str(n) for n in range(100)], "t": ["x" * 20_000] * 100}))
        table = writer.close()
    assert 10 <= len(preview_of(table)) <= 25


def test_a_full_disk_is_named_and_leaves_nothing(store: LocalTableStore, tmp_path: Path) -> None:
    writer = store.create(SCHEMA)
    with _largest_file(200_000), pytest.raises(DiskFull):
        writer.write(rows(100_000))
    assert files(tmp_path) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_may_not_be_written_is_named_with_the_user(
    store: LocalTableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_args: object, **_named: object) -> None:
        raise OSError(number, "refused")  # a test that runs as root may write everywhere

    writer = store.create(SCHEMA)
    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(FolderNotWritable, match="below") as caught:
        writer.write(rows(1))
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert caught.value.fields == {"path": tmp_path / "tables", "user": user}


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """Let writes beyond `size` bytes fail, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_reading_copies_nothing_into_memory(store: LocalTableStore) -> None:
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("a", "b"))
    with store.create(schema) as writer:
        writer.write(
            pa.table({"id": [str(i) for i in range(9000)], "a": [1.0] * 9000, "b": [2] * 9000})
        )
        table = writer.close()
    before = pa.total_allocated_bytes()
    whole, part = table.read(), table.read(("b", "id"))
    assert pa.total_allocated_bytes() - before < 9000
    assert (part.column_names, whole.num_rows) == (["b", "id"], 9000)


@pytest.mark.parametrize("at_a_time", [1, 1 << 23])
def test_columns_are_mapped_some_at_a_time(
    tmp_path: Path, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_table, "MAPPED_CELLS", at_a_time)
    names = tuple(f"x{i}" for i in range(7))
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=names)
    for cores in (1, 3):
        store = local_store(tmp_path / f"{cores}", cores=cores)
        with store.create(schema) as writer:
            cells = {name: [float(i), -1.0] for i, name in enumerate(names)}
            writer.write(pa.table({"id": ["a", "b"], **cells}))
            table = writer.close()
        found = list(table.map_columns(lambda name, column: (name, column[0].as_py()), names[::-1]))
        assert found == [(f"x{i}", float(i)) for i in reversed(range(7))]


def test_threads_end_with_the_iterators_that_use_them(tmp_path: Path) -> None:
    store = local_store(tmp_path / "tables", cores=2)
    with store.create(SCHEMA) as writer:
        for _ in range(9):
            writer.write(rows(3))
        table = writer.close()
    blocks = table.fold_blocks(lambda batch: batch.num_rows)
    columns = table.map_columns(lambda name, column: len(column), ["id", "x"])
    assert (next(blocks), next(columns)) == (3, 27)
    assert any(t.name.startswith(("blocks", "columns")) for t in threading.enumerate())
    blocks.close()  # type: ignore[attr-defined]
    columns.close()  # type: ignore[attr-defined]
    assert not any(t.name.startswith(("blocks", "columns")) for t in threading.enumerate())


def test_an_iterator_may_end_in_a_thread_of_its_own_as_garbage_does(tmp_path: Path) -> None:
    store = local_store(tmp_path / "tables", cores=2)
    with store.create(SCHEMA) as writer:
        for count in range(1, 10):
            writer.write(rows(count))
        table = writer.close()
    is_left, has_ended = threading.Event(), threading.Event()
    failures: list[RuntimeError] = []

    def end_it(batch: pa.RecordBatch) -> int:
        if batch.num_rows > 1:
            is_left.wait(60)
        if batch.num_rows == 2:
            try:
                blocks.close()  # type: ignore[attr-defined]
            except RuntimeError as exc:
                failures.append(exc)
            has_ended.set()
        return batch.num_rows

    blocks = table._fold_ahead(end_it)  # `fold_blocks` of a test sends copies of functions
    assert next(blocks) == 1
    is_left.set()
    assert has_ended.wait(60)
    assert failures == []
    for thread in threading.enumerate():
        if thread.name.startswith("blocks"):
            thread.join(60)
            assert not thread.is_alive()


def test_a_taken_id_may_not_be_missing(store: LocalTableStore) -> None:
    table = store.table_of(write(store, 3))
    with pytest.raises(BadData, match="an id is null"):
        table.take(np.array([0, -1]))


def test_whoever_asks_is_told_how_far_a_pass_is(tmp_path: Path) -> None:
    store = local_store(tmp_path / "tables")
    with store.create(SCHEMA) as writer:
        for count in (1, 3):
            writer.write(rows(count))
        table = writer.close()
    told: list[float] = []
    table.map_blocks(lambda batch: batch, schema=SCHEMA, progress=told.append)
    assert told == [0.25, 1.0]
    told.clear()
    table.take(np.array([3, 0]), progress=told.append)
    assert told == [0.0, 1.0]
