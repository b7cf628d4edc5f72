"""What columns amount to is counted while a table is written, and read without Arrow."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.domain.records import ColumnFacts, TableRecord
from fedflow.sdk import TableKind, TableSchema
from fedflow.tables import statistics_file
from fedflow.tables.local import LocalTableStore
from fedflow.tables.local_table import LocalTable
from fedflow.tables.statistics_file import LocalColumnFacts
from fedflow.testing.tables import local_store

EXAMPLES = Path(__file__).parents[3] / "examples" / "data"


@pytest.fixture
def store(tmp_path: Path) -> LocalTableStore:
    return local_store(tmp_path)


def facts_of(root: Path, table: LocalTable, **changes: Any) -> dict[str, ColumnFacts]:
    entry = table.entry
    record = TableRecord(
        namespace="n", name="t", address=entry.address, schema={}, count=entry.count, partitions=1,
        origin="upload", created_ms=1,
    )  # fmt: skip
    return {f.name: f for f in LocalColumnFacts(root).read(replace(record, **changes))}


def upload(store: LocalTableStore, folder: Path, text: str) -> LocalTable:
    source = folder / "in.csv"
    source.write_text(text)
    return store.import_csv(source, namespace="n", name="t", drop=True)


def test_an_uploaded_file_is_counted_as_it_is(store: LocalTableStore, tmp_path: Path) -> None:
    source = EXAMPLES / "breast_hetero_guest.csv"
    table = store.import_csv(source, namespace="n", name="t")
    numbers = np.loadtxt(source, delimiter=",", skiprows=1)
    found = facts_of(tmp_path, table)
    assert tuple(found) == table.schema.columns
    for index, fact in enumerate(found.values(), start=1):
        column = numbers[:, index]
        assert (fact.kind, fact.count, fact.missing) == ("number", 569, 0)
        assert (fact.least, fact.greatest) == (column.min(), column.max())
        assert fact.mean == pytest.approx(column.mean(), rel=1e-12, abs=1e-15)


def test_missing_cells_and_text_are_told(store: LocalTableStore, tmp_path: Path) -> None:
    table = upload(store, tmp_path, "id,a,b,c,d,e\nu,1,x,,inf,1\nv,NA,,,2,nan\nw,3,NULL,null,3,3\n")
    found = list(facts_of(tmp_path, table).values())
    assert found == [
        ColumnFacts(name="a", kind="number", count=3, missing=1, least=1.0, greatest=3.0, mean=2.0),
        ColumnFacts(name="b", kind="text", count=3, missing=2),
        ColumnFacts(name="c", kind="number", count=3, missing=3),
        ColumnFacts(name="d", kind="number", count=3, missing=0, least=2.0),
        ColumnFacts(name="e", kind="number", count=3, missing=1, least=1.0, greatest=3.0, mean=2.0),
    ]


def test_batches_count_together(store: LocalTableStore, tmp_path: Path) -> None:
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("x", "n", "w"))
    with store.create(schema) as writer:
        for k in range(3):
            writer.write(
                pa.record_batch(
                    {
                        "id": [f"a{k}", f"b{k}"],
                        "y": pa.array([k, None], pa.int64()),
                        "x": [float(k), math.nan],
                        "n": pa.array([None, None], pa.float64()),
                        "w": ["1", "word" if k == 2 else "2"],
                    }
                )
            )
        table = writer.close()
    assert list(facts_of(tmp_path, table).values()) == [
        ColumnFacts(name="y", kind="number", count=6, missing=3, least=0.0, greatest=2.0, mean=1.0),
        ColumnFacts(name="x", kind="number", count=6, missing=3, least=0.0, greatest=2.0, mean=1.0),
        ColumnFacts(name="n", kind="number", count=6, missing=6),
        ColumnFacts(name="w", kind="text", count=6, missing=0),
    ]


def test_wide_tables_are_counted_in_part(store: LocalTableStore, tmp_path: Path) -> None:
    header = ",".join(f"x{i}" for i in range(1005))
    table = upload(store, tmp_path, f"id,{header}\nu{',1' * 1005}\n")
    assert list(facts_of(tmp_path, table)) == [f"x{i}" for i in range(1000)]


def test_a_copy_has_the_facts_too(store: LocalTableStore, tmp_path: Path) -> None:
    table = upload(store, tmp_path, "id,a\nu,1\n")
    copy = store.copy(table, namespace="n", name="u")
    assert facts_of(tmp_path, copy) == facts_of(tmp_path, table)


def test_what_cannot_be_read_is_left_out(
    store: LocalTableStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = upload(store, tmp_path, "id,a\nu,1\n")
    path = tmp_path / table.entry.address / statistics_file.FILE
    path.write_text('[{"name": 1}]')
    assert facts_of(tmp_path, table) == {}
    assert "cannot be read" in caplog.text
    path.unlink()
    assert facts_of(tmp_path, table) == {}
    for address in ("", "..", "../x", "a/b"):
        assert facts_of(tmp_path, table, address=address) == {}
