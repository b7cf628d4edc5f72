"""Folders of Parquet parts: what damages them is found, what is left of them goes, also on S3."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from fedflow.app.data.row_folders import GONE, NEW, remove_rows
from fedflow.base.decoding import read_as
from fedflow.base.errors.data import BadData, DiskFull, StorageMissing, TablesNotShared
from fedflow.base.errors.error import FedflowError
from fedflow.domain.records import TableRecord
from fedflow.sdk import TableKind, TableSchema
from fedflow.spark.tables.blocks import Source, cut
from fedflow.spark.tables.table import _mapping as mapping
from fedflow.spark.tables.table import seen
from fedflow.tables import parts as parts_module
from fedflow.tables import parts_store as parts_store_module
from fedflow.tables import spool
from fedflow.tables.archives import LocalArchives
from fedflow.tables.datasets import DatasetTable
from fedflow.tables.local import LocalTableStore
from fedflow.tables.parts_store import PartsTableStore
from fedflow.tables.remote_gc import RemoteTableRows, main
from fedflow.testing.tables import MemoryCatalog, local_store, parts_store
from tests.storage_servers import S3Server, s3_server
from tests.support.previews import preview_of

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("a", "b.c"))
BUCKET = "dataset-tables"  #: all servers of this process have the same buckets
ROWS = pa.table({"id": ["u", "v", "w"], "a": [0.5, None, 2.5], "b.c": [1, 2, 3]})


def written(store: PartsTableStore, rows: pa.Table = ROWS) -> DatasetTable:
    with store.create(SCHEMA) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        table = writer.close()
    assert isinstance(table, DatasetTable)
    return table


def folder_of(table: DatasetTable) -> Path:
    return Path(table.uri)


def again(table: DatasetTable) -> DatasetTable:
    """Return the table as another process opens it."""
    return DatasetTable(read_as(msgspec.to_builtins(table.entry), TableRecord), store=table._store)


def test_columns_with_dots_and_nulls_read_back(tmp_path: Path) -> None:
    table = again(written(parts_store(tmp_path)))
    assert table.read(("b.c", "a")).equals(ROWS.select(["b.c", "a"]))
    assert table.head(2).equals(ROWS.slice(0, 2))
    assert table.entry.engine == "LOCALFS"
    assert preview_of(table) == (("u", "0.5", "1"), ("v", "None", "2"), ("w", "2.5", "3"))


def test_large_tables_become_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_store_module, "PART_BYTES", 1_000_000)
    count = 200_000
    rows = pa.table({"id": [f"u{i}" for i in range(count)], "a": np.arange(count) / 2,
                     "b.c": np.arange(count)})  # fmt: skip
    table = again(written(parts_store(tmp_path), rows))
    assert len(table.manifest.parts) > 1
    assert table.read().equals(rows)
    assert table.head(70_000).equals(rows.slice(0, 70_000))
    assert max(batch.num_rows for batch in table.to_batches()) <= 65_536


def test_many_rows_are_read_through_a_file_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "SPOOL_BYTES", 0)
    store = parts_store(tmp_path)
    table = store.open("output", written(store).name)
    before = sorted(tmp_path.iterdir())
    allocated = pa.total_allocated_bytes()
    rows = table.read(("id", "b.c"))
    assert sorted(tmp_path.iterdir()) == before
    assert pa.total_allocated_bytes() == allocated
    assert rows.equals(ROWS.select(["id", "b.c"]))


def change_manifest(table: DatasetTable, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    path = folder_of(table) / "_rows.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


DAMAGES: dict[str, Callable[[dict], object]] = {  # type: ignore[type-arg]
    "a part elsewhere": lambda m: m["parts"][0].__setitem__("name", "../x/part-1.parquet"),
    "an absolute part": lambda m: m["parts"][0].__setitem__("name", "/etc/passwd"),
    "a part twice": lambda m: m["parts"].append(m["parts"][0]),
    "other rows": lambda m: m["parts"][0].__setitem__("batches", [2, 1]),
    "negative rows": lambda m: m["parts"][0].__setitem__("batches", [-3]),
    "huge rows": lambda m: m["parts"][0].__setitem__("batches", [1 << 40]),
    "no parts": lambda m: m["parts"].clear(),
    "another schema": lambda m: m["schema"].__setitem__("columns", ["a", "x"]),
    "another version": lambda m: m.__setitem__("version", 2),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_a_changed_manifest_is_refused(damage: str, tmp_path: Path) -> None:
    table = written(parts_store(tmp_path))
    change_manifest(table, DAMAGES[damage])
    with pytest.raises(BadData):
        again(table).read()


def test_a_manifest_of_garbage_or_none_is_refused(tmp_path: Path) -> None:
    table = written(parts_store(tmp_path))
    (folder_of(table) / "_rows.json").write_bytes(b"\xff\x00{")
    with pytest.raises(BadData, match="manifest is damaged"):
        list(again(table).to_batches())
    (folder_of(table) / "_rows.json").unlink()
    with pytest.raises(StorageMissing):
        again(table).head(1)


def test_parts_of_another_table_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    table = written(parts_store(tmp_path))
    part = folder_of(table) / table.manifest.parts[0].name
    good = part.read_bytes()
    pq.write_table(ROWS, part)
    with pytest.raises(BadData, match="another table"):
        again(table).read()
    part.write_bytes(good[:100])
    with pytest.raises(BadData, match="damaged"):
        again(table).read()
    part.unlink()
    with pytest.raises(StorageMissing, match="a part of it is missing"):
        again(table).read()


def test_an_entry_whose_parts_lie_elsewhere_is_not_opened(tmp_path: Path) -> None:
    store = parts_store(tmp_path)
    entry = written(store).entry
    strange = replace(entry, storage={"parts": "/etc"})
    with pytest.raises(BadData, match="strange folder"):
        store.table_of(strange)
    store.remove_files(strange)
    assert Path("/etc/passwd").exists()


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write_table(self, *_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(parts_module.pq, "ParquetWriter", lambda *_, **__: Full())
    with pytest.raises(DiskFull):
        written(parts_store(tmp_path))
    assert [p for p in tmp_path.rglob("*") if p.name != "parts"] == []


def test_the_server_packs_and_deletes_such_tables(tmp_path: Path) -> None:
    table = written(parts_store(tmp_path))
    target = io.BytesIO()
    LocalArchives(tmp_path).write(
        target, {"train": table.entry}, limit=-1, head=True, modified_ms=0
    )
    with tarfile.open(fileobj=io.BytesIO(target.getvalue())) as tar:
        member = tar.extractfile("train.csv")
        assert member is not None
        assert member.read().decode() == "id,a,b.c\nu,0.5,1\nv,None,2\nw,2.5,3\n"
    remove_rows(tmp_path, table.entry.address, table.uri)
    assert not folder_of(table).exists()
    assert [p.name for p in tmp_path.iterdir()] == ["parts"]


def test_of_two_attempts_at_a_part_the_one_that_won_counts(tmp_path: Path) -> None:
    store = parts_store(tmp_path)
    table = written(store, pa.concat_tables([ROWS.slice(i, 1) for i in range(3)]))
    parts = table.manifest.parts
    source = Source(uri=table.uri, folder="", parts=parts, schema=SCHEMA, where="t")
    folder, blocks = store.new_folder(), cut(source.batches, 3)
    work = mapping(source, blocks, lambda b: b, schema=SCHEMA, uri=folder.uri, where="t")
    attempts = [[pickle.loads(work(number)) for _ in range(2)] for number in range(len(blocks))]
    won = [pair[number % 2] for number, pair in enumerate(attempts)]
    assert len(list(Path(folder.uri).iterdir())) == 2 * len(blocks)
    place = store.target_like(table.entry, SCHEMA, name=None)
    made = store.finish(folder, place, SCHEMA, seen(folder.uri, won))
    assert made.read().equals(ROWS)
    names = {"_rows.json", *(written.part.name for written in won)}
    assert {path.name for path in Path(folder.uri).iterdir()} == names


def test_what_a_killed_writer_left_goes_with_a_sweep(tmp_path: Path) -> None:
    store = parts_store(tmp_path)
    kept = written(store)
    killed = store.new_folder()
    (Path(killed.uri) / "part-000000-x.parquet").write_bytes(b"half")
    RemoteTableRows(tmp_path).sweep(older_than_ms=0)
    assert Path(killed.uri).exists()
    RemoteTableRows(tmp_path).sweep(older_than_ms=1 << 50)
    assert not Path(killed.uri).exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert again(kept).read().equals(ROWS)


def test_parts_that_cannot_be_deleted_stay_noted(tmp_path: Path) -> None:
    store = parts_store(tmp_path)
    table, killed = written(store), store.new_folder()
    for folder in (folder_of(table), Path(killed.uri)):
        moved = folder.with_name(f"{folder.name}-moved")
        folder.rename(moved)
        folder.symlink_to(moved)  # which no deletion follows
    remove_rows(tmp_path, table.entry.address, table.uri)
    RemoteTableRows(tmp_path).sweep(older_than_ms=1 << 50)
    noted = {f"{GONE}{table.entry.address}", killed.note.name}
    assert {p.name for p in tmp_path.iterdir()} == {"parts", *noted}
    for uri in (table.uri, killed.uri):
        Path(uri).unlink()
        Path(f"{uri}-moved").rename(uri)
    RemoteTableRows(tmp_path).sweep(older_than_ms=1 << 50)
    assert [p.name for p in tmp_path.iterdir()] == ["parts"]
    assert list((tmp_path / "parts").iterdir()) == []


def test_a_sweep_leaves_what_is_still_written(tmp_path: Path) -> None:
    local, far = local_store(tmp_path), parts_store(tmp_path)
    writers = [local.create(SCHEMA), far.create(SCHEMA)]
    for writer in writers:
        writer.write(ROWS)
    began = [path for path in tmp_path.rglob(f"{NEW}*") if path.is_dir()]
    assert len(began) == 2
    for folder in began:
        os.utime(folder, (0, 0))  # writing to a file does not touch its folder
    for root in {folder.parent for folder in began}:
        RemoteTableRows(root).sweep(older_than_ms=1_000_000_000_000)
    for writer in writers:
        assert writer.close().read().equals(ROWS)


def test_a_folder_of_another_user_is_named_as_not_shared(tmp_path: Path) -> None:
    store = parts_store(tmp_path)
    folder = store.new_folder()
    parts_module.require_folder(folder.uri)
    Path(folder.uri).chmod(0o500)
    tmp_path.chmod(0o700)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        with pytest.raises(TablesNotShared):
            parts_module.require_folder(folder.uri)
    finally:
        os.seteuid(user)
    folder.discard()


# --- an object store ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def far(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PartsTableStore]:
    """Return a store whose parts lie in a bucket, entered with what the environment says."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    parts_module.folder_at.cache_clear()
    s3.files.create_dir(BUCKET)
    yield PartsTableStore(
        tmp_path,
        tables_uri=f"s3://{BUCKET}/a/b",
        catalog=MemoryCatalog(),
        output_namespace="output",
    )
    parts_module.folder_at.cache_clear()


def keys(s3: S3Server) -> list[str]:
    selector = fs.FileSelector(BUCKET, recursive=True)
    return [i.path for i in s3.files.get_file_info(selector) if i.type == fs.FileType.File]


def test_tables_on_s3_are_read_dropped_and_swept(far: PartsTableStore, s3: S3Server) -> None:
    table = written(far)
    assert table.entry.engine == "S3"
    assert "key" not in json.dumps(msgspec.to_builtins(table.entry))
    assert again(table).read().equals(ROWS)
    assert len(keys(s3)) == 2
    doubled = again(table).map_blocks(lambda batch: batch, schema=SCHEMA)
    assert doubled.read().equals(ROWS)
    far.drop(doubled.namespace, doubled.name)
    far.drop(table.namespace, table.name)
    assert keys(s3) == []
    assert list(far._root.iterdir()) == []


def test_the_server_notes_what_is_far_and_a_process_apart_deletes_it(
    far: PartsTableStore, s3: S3Server
) -> None:
    table, killed = written(far), far.new_folder()
    remove_rows(far._root, table.entry.address, table.uri)
    assert len(keys(s3)) == 2
    names = sorted(p.name[:5] for p in far._root.iterdir())
    assert names == [GONE[:5], NEW]
    rows = RemoteTableRows(far._root)
    rows.sweep(older_than_ms=0)
    assert rows._apart is not None
    assert rows._apart.wait(40) == 0
    assert keys(s3) == []
    assert [p.name for p in far._root.iterdir()] == [killed.note.name]
    killed.discard()
    rows.close()


def test_parts_that_cannot_be_reached_stay_noted(
    far: PartsTableStore, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(far)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    parts_module.folder_at.cache_clear()
    with pytest.raises(FedflowError):
        again(table).read()
    far.drop(table.namespace, table.name)
    assert [p.name for p in far._root.iterdir()] == [f"{GONE}{table.entry.address}"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    parts_module.folder_at.cache_clear()
    main(str(far._root), "0")
    assert list(far._root.iterdir()) == []
    assert keys(s3) == []


def test_local_tasks_read_tables_on_s3(far: PartsTableStore) -> None:
    entry = written(far).entry
    catalog = MemoryCatalog()
    catalog.register(entry)
    local = LocalTableStore(far._root, catalog=catalog, output_namespace="output")
    assert local.open(entry.namespace, entry.name).read().equals(ROWS)
    assert isinstance(local.open(entry.namespace, entry.name), DatasetTable)
    local.drop(entry.namespace, entry.name)
    shutil.rmtree(far._root)
