"""Rows in the middle of a table, as the server's pages show them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedflow.base.errors.data import BadData
from fedflow.domain.records import TableRecord
from fedflow.sdk import TableKind, TableSchema
from fedflow.tables.parts import PartFile
from fedflow.tables.row_ranges import LocalWindows
from fedflow.testing.tables import local_store, parts_store

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("a", "b"))
MAKERS: dict[str, Callable[[Path], Any]] = {"local": local_store, "parts": parts_store}


def stored(maker: Callable[[Path], Any], folder: Path, *sizes: int) -> TableRecord:
    """Return a table of blocks of these sizes; cell a of row i is i."""
    begin = 0
    with maker(folder).create(SCHEMA) as writer:
        for size in sizes:
            at = list(range(begin, begin + size))
            ids = [f"u{i}" for i in at]
            writer.write(pa.table({"id": ids, "y": [i % 2 for i in at], "a": at, "b": at}))
            begin += size
        table = writer.close()
    entry: TableRecord = table.entry
    return entry


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    ("offset", "limit"), [(0, 2), (2, 1), (2, 5), (3, 1), (8, 9), (9, 1), (10, 5), (0, 0), (0, 99)]
)
def test_a_window_has_the_rows_between_two_places(
    tmp_path: Path, kind: str, offset: int, limit: int
) -> None:
    table = stored(MAKERS[kind], tmp_path, 3, 1, 5, 1)
    found = LocalWindows(tmp_path).read(table, offset=offset, limit=limit, columns=(0, 2))
    wanted = range(offset, min(10, offset + limit))
    assert found == [(f"u{i}", str(i)) for i in wanted]


def test_batches_before_a_window_of_parts_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored(parts_store, tmp_path, 3, 3, 3, 3)
    read: list[int] = []
    plain = PartFile.batch

    def batch(file: PartFile, number: int, columns: Any = None) -> pa.RecordBatch:
        read.append(number)
        return plain(file, number, columns)

    monkeypatch.setattr(PartFile, "batch", batch)
    found = LocalWindows(tmp_path).read(table, offset=7, limit=2, columns=(0,))
    assert found == [("u7",), ("u8",)]
    assert len(read) == 1


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    table = stored(local_store, tmp_path, 3)
    (tmp_path / table.address / "rows.arrow").unlink()
    with pytest.raises(BadData, match="missing"):
        LocalWindows(tmp_path).read(table, offset=0, limit=1, columns=(0,))
