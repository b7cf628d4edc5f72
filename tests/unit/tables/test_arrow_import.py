"""Parquet and Arrow files become the table that the CSV file of their rows becomes."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import ipc, parquet

from fedflow.base.errors.data import BadData
from fedflow.tables import arrow_import
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.local_table import LocalTable
from fedflow.tables.sources import open_source
from fedflow.tables.text import text_of
from fedflow.testing.tables import MemoryCatalog, local_store
from tests.support.previews import preview_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "data"


def write(table: pa.Table, path: Path, kind: str) -> Path:
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=100)
    elif kind == "arrow":
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=150)
    else:
        with ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    return path


def upload(folder: Path, source: Path, **how: Any) -> LocalTable:
    store = local_store(folder / "tables", catalog=MemoryCatalog())
    return store.import_csv(source, namespace="n", name="t", **how)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_a_table_is_the_same_whatever_file_it_came_in(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_import, "BATCH_ROWS", 64)
    source = EXAMPLES / "breast_hetero_guest.csv"
    typed = arrow_csv.read_csv(source)
    assert typed.schema.field("id").type == pa.int64()
    told: list[float] = []
    made = upload(tmp_path, write(typed, tmp_path / "d.bin", kind), progress=told.append)
    as_text = upload(tmp_path / "csv", source)
    assert made.schema == as_text.schema
    assert (made.count, preview_of(made)[0][0]) == (569, preview_of(as_text)[0][0])
    mine, theirs = made.read(), as_text.read()
    assert mine.column("id").to_pylist() == theirs.column("id").to_pylist()
    for name in made.schema.columns:
        assert list(map(float, mine.column(name).to_pylist())) == list(
            map(float, theirs.column(name).to_pylist())
        )
    assert made.entry.have_head
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_cells_look_as_in_a_csv_file(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([7, 8], pa.int32()),
            "f": pa.array([0.1, None]),
            "nan": pa.array([float("nan"), 1e-5]),
            "f4": pa.array([0.1, -0.25], pa.float32()),
            "flag": [True, None],
            "day": [datetime.date(2026, 11, 22), None],
            "money": [decimal.Decimal("1.50"), None],
            "word": pa.array(["a,b", ""]).dictionary_encode(),
            "none": pa.nulls(2),
            "large": pa.array(["x", None], pa.large_string()),
        }
    )
    made = upload(tmp_path, write(table, tmp_path / "d.parquet", "parquet"))
    assert list(made.read().to_pylist()[0].values()) == [
        "7", "0.1", "", "0.1", "true", "2026-11-22", "1.50", "a,b", "", "x",
    ]  # fmt: skip
    assert list(made.read().to_pylist()[1].values()) == [
        "8", "", "0.00001", "-0.25", "", "", "", "", "", "",
    ]  # fmt: skip


def test_ids_can_be_made_and_a_head_is_always_there(tmp_path: Path) -> None:
    source = write(pa.table({"a": ["u", "u"], "b": [1, 2]}), tmp_path / "d", "arrow")
    made = upload(tmp_path, source, auto_increasing_sid=True, head=False)
    assert made.schema.names == ("extend_sid", "a", "b")
    assert made.read().column("extend_sid").to_pylist() == ["0", "1"]
    assert made.entry.have_head


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pa.table({"id": ["u", "u"]}), "row 2 repeats the id of row 1"),
        (pa.table({"id": ["u", None]}), "row 2 has an empty id"),
        (pa.table({"id": ["u"], "x": ["a\nb"]}), "row 1, column 'x' holds a line break"),
        (pa.table({"id": ["u"], "x": [[1]]}), "column 2 is of the type list"),
        (pa.table({"id": ["u"], "": [1]}), "column 2 has no usable name"),
        (pa.table([["u"], ["v"]], names=["id", "id"]), "more than once"),
        (pa.table({"id": pa.array([], pa.string())}), "it has no rows"),
        (pa.table({}), "0 columns"),
    ],
)
def test_a_wrong_file_leaves_nothing(tmp_path: Path, table: pa.Table, says: str) -> None:
    source = write(table, tmp_path / "d.arrow", "arrow")
    with pytest.raises(BadData, match=says):
        upload(tmp_path, source)
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
@pytest.mark.parametrize("left", [0.3, 0.95])
def test_a_damaged_file_is_refused(tmp_path: Path, kind: str, left: float) -> None:
    table = pa.table({"id": [str(i) for i in range(5000)], "x": list(range(5000))})
    source = write(table, tmp_path / "d.bin", kind)
    content = source.read_bytes()
    source.write_bytes(content[: int(len(content) * left)])
    with pytest.raises(BadData, match=r"damaged|no rows"):
        upload(tmp_path, source)
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize("kind", ["arrow", "stream"])
def test_a_name_that_is_no_text_is_refused(tmp_path: Path, kind: str) -> None:
    source = write(pa.table({"id": ["u"], "name": ["v"]}), tmp_path / "d.arrow", kind)
    source.write_bytes(source.read_bytes().replace(b"name", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(BadData, match="is damaged"):
        upload(tmp_path, source)


def test_text_that_is_no_text_is_refused(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    source = write(pa.table({"id": ["u"], "x": broken}), tmp_path / "d.arrow", "arrow")
    with pytest.raises(BadData, match="damaged after row 0"):
        upload(tmp_path, source)


def long_words(rows: int, size: int) -> pa.Table:
    """A few bytes of file that are `rows` cells of `size` bytes."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["w" * size])
    return pa.table({"id": [str(i) for i in range(rows)], "word": words})


def test_a_dictionary_is_unpacked_a_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_import, "BATCH_BYTES", 3500)
    source = write(long_words(10, 1000), tmp_path / "d.arrow", "arrow")
    with open_source(source, CsvOptions()) as rows:
        assert [batch.num_rows for batch in rows.batches()] == [3, 3, 3, 1]


@pytest.mark.parametrize("kind", ["plain", "large", "view", "dictionary"])
def test_a_row_that_is_too_long_is_told(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_import, "LINE_BYTES", 100)
    cells = pa.array(["short", None, "w" * 101], pa.large_string() if kind == "large" else None)
    if kind == "dictionary":
        cells = cells.dictionary_encode()
    if kind == "view":
        cells = cells.cast(pa.string_view())
    source = write(pa.table({"id": ["a", "b", "c"], "x": cells}), tmp_path / "d.arrow", "arrow")
    with pytest.raises(BadData, match="row 3 is longer than 100 bytes"):
        upload(tmp_path, source)


def test_a_file_of_far_more_rows_than_it_has_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_import, "TEXT_BYTES", 10_000)
    monkeypatch.setattr(arrow_import, "TEXT_TIMES", 2)
    source = write(long_words(100, 1000), tmp_path / "d.arrow", "arrow")
    with pytest.raises(BadData, match="more than 2 times as large as the file"):
        upload(tmp_path, source)
    assert list((tmp_path / "tables").iterdir()) == []


def test_a_parquet_file_that_says_it_is_a_bomb_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_import, "GROUP_BYTES", 1 << 20)
    source = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"id": ["w" * (2 << 20)]}), source, compression="zstd")
    with pytest.raises(BadData, match="row group 1 unpacks to 2 MiB"):
        upload(tmp_path, source)


def test_slices_of_one_large_batch_do_not_see_each_others_text() -> None:
    column = pa.array(["a", None, "bcd", ""])
    assert [text_of(column.slice(i, 2)).tobytes() for i in range(4)] == [b"a", b"bcd", b"bcd", b""]


def test_names_are_trimmed_as_those_of_a_header(tmp_path: Path) -> None:
    source = write(pa.table({" id ": ["u"], " x": [1]}), tmp_path / "d.arrow", "arrow")
    assert upload(tmp_path, source).schema.names == ("id", "x")


def test_a_time_of_no_calendar_is_refused(tmp_path: Path) -> None:
    times = pa.array([0, 2**62], pa.timestamp("s"))
    source = write(pa.table({"id": ["u", "v"], "t": times}), tmp_path / "d.arrow", "arrow")
    with pytest.raises(BadData, match="row 2, column 't' is no such time"):
        upload(tmp_path, source)


def test_spans_of_months_are_refused_by_their_type(tmp_path: Path) -> None:
    spans = pa.array([pa.MonthDayNano([1, 2, 3])])
    source = write(pa.table({"id": ["u"], "t": spans}), tmp_path / "d.arrow", "arrow")
    with pytest.raises(BadData, match="type month_day_nano_interval"):
        upload(tmp_path, source)
