"""The first rows of a table, in a file beside it: what the server shows without Arrow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from fedflow.sdk.table import TableKind, TableSchema
from fedflow.tables.preview_file import FILE, LocalPreviews
from fedflow.testing.tables import local_store

SCHEMA = TableSchema(kind=TableKind.RAW, id="id", columns=("x",))


def made(root: Path, rows: int = 3) -> object:
    with local_store(root).create(SCHEMA, namespace="n", name="t") as writer:
        ids = [f"i{n}" for n in range(rows)]
        writer.write(pa.table({"id": ids, "x": ["0.5"] * rows}))
        return writer.close().entry


def test_the_record_is_short_and_the_rows_are_beside_the_table(tmp_path: Path) -> None:
    entry = made(tmp_path, 230)
    assert entry.preview == ()
    found = LocalPreviews(tmp_path).read(entry)
    assert (len(found), found[0], found[-1]) == (100, ("i0", "0.5"), ("i99", "0.5"))


def test_a_copy_has_the_rows_too(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    with store.create(SCHEMA, namespace="n", name="t") as writer:
        writer.write(pa.table({"id": ["a"], "x": ["1"]}))
        table = writer.close()
    copied = store.copy(table, namespace="n", name="copy")
    assert LocalPreviews(tmp_path).read(copied.entry) == (("a", "1"),)


def test_a_bound_tables_rows_are_those_of_its_record(tmp_path: Path) -> None:
    bound = replace(made(tmp_path), address="elsewhere", preview=(("u", "1"),))
    assert LocalPreviews(tmp_path).read(bound) == (("u", "1"),)


def test_a_preview_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    entry = made(tmp_path)
    for text in ("", "{", '[["a", 1]]'):
        (tmp_path / entry.address / FILE).write_text(text)
        assert LocalPreviews(tmp_path).read(entry) == ()
    (tmp_path / entry.address / FILE).unlink()
    assert LocalPreviews(tmp_path).read(entry) == ()
    for address in ("", "..", "../x", "a/b"):
        assert LocalPreviews(tmp_path).read(replace(entry, address=address)) == ()
