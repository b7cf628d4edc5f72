"""A table that is written becomes complete, or nothing is left of it; in every kind of storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from fedflow.base.errors.data import TableExists
from fedflow.sdk import TableKind, TableSchema
from fedflow.tables.local import LocalTableStore
from fedflow.tables.parts_store import PartsTableWriter
from fedflow.tables.stored_table import StoredTable
from fedflow.tables.writer import LocalTableWriter
from fedflow.testing.tables import local_store, parts_store

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("x",))
ROWS = pa.table({"id": ["a", "b"], "x": [1.0, 2.0]})

Writer = LocalTableWriter[StoredTable] | PartsTableWriter


@pytest.fixture(params=[local_store, parts_store])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalTableStore:
    make: Callable[[Path], LocalTableStore] = request.param
    return make(tmp_path / "tables")


def begun(store: LocalTableStore, **names: str) -> Writer:
    """Return a writer that has written rows."""
    writer = store.create(SCHEMA, **names)
    assert isinstance(writer, LocalTableWriter | PartsTableWriter)
    writer.write(ROWS)
    return writer


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_a_complete_table_is_not_discarded(store: LocalTableStore) -> None:
    writer = begun(store, namespace="n", name="t")
    writer.close()
    writer.discard()
    assert store.open("n", "t").read().equals(ROWS)


def test_what_was_discarded_cannot_be_finished(store: LocalTableStore, tmp_path: Path) -> None:
    writer = begun(store)
    for _ in range(2):
        writer.discard()
    with pytest.raises(ValueError, match="closed"):
        writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(ROWS)
    assert not files(tmp_path)


def test_a_block_in_which_the_table_was_discarded_makes_none(
    store: LocalTableStore, tmp_path: Path
) -> None:
    with begun(store) as writer:
        writer.discard()
    assert not files(tmp_path)


def test_a_table_that_its_catalog_refused_is_gone(store: LocalTableStore, tmp_path: Path) -> None:
    late = begun(store, namespace="n", name="t")
    begun(store, namespace="n", name="t").close()
    with pytest.raises(TableExists):
        late.close()
    kept = files(tmp_path)
    with pytest.raises(ValueError, match="closed"):
        late.close()
    late.discard()
    assert files(tmp_path) == kept
    assert store.open("n", "t").read().equals(ROWS)
