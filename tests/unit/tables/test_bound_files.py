"""Files that are bound as tables: looked at by the server, packed for download."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedflow.base.errors.data import BadData
from fedflow.domain.records import TableRecord
from fedflow.tables import arrow_probe
from fedflow.tables.archives import LocalArchives
from fedflow.tables.binding import LocalBoundFiles
from fedflow.tables.csv_header import COLUMN_LIMIT, LINE_BYTES
from fedflow.testing.tables import local_store


def look(path: Path, **how: Any) -> tuple[Any, tuple[tuple[str, ...], ...]]:
    given = {
        "head": True, "id_delimiter": ",", "makes_ids": False, "names": None, "whole": False, **how
    }  # fmt: skip
    return LocalBoundFiles().probe(path, **given)


def file(folder: Path, content: bytes) -> Path:
    path = folder / "d.csv"
    path.write_bytes(content)
    return path


def test_a_look_tells_columns_and_first_rows(tmp_path: Path) -> None:
    path = file(tmp_path, b'\xef\xbb\xbfid,x\r\n1,"a,b"\r\n\r\n2,c\r\n3\r\n4,d\r\n')
    schema, preview = look(path)
    assert schema == {
        "kind": "raw", "id": "id", "columns": ["x"], "label": None, "match_id": None,
        "weight": None, "anonymous": [],
    }  # fmt: skip
    assert preview == (("1", "a,b"), ("2", "c")), "it ends at the row that is wrong"


@pytest.mark.parametrize(
    ("how", "columns", "first"),
    [
        ({"head": False}, ["x0"], ("1", "2")),
        ({"head": False, "names": ("k", "v")}, ["v"], ("1", "2")),
        ({"head": False, "makes_ids": True}, ["x0", "x1"], ("0", "1", "2")),
        ({"makes_ids": True}, ["1", "2"], ("0", "3", "4")),
    ],
)
def test_a_look_reads_as_an_upload_would(
    tmp_path: Path, how: dict[str, Any], columns: list[str], first: tuple[str, ...]
) -> None:
    schema, preview = look(file(tmp_path, b"1,2\n3,4\n"), **how)
    assert schema["columns"] == columns
    assert preview[0] == first


def test_a_preview_is_bounded(tmp_path: Path) -> None:
    path = file(tmp_path, b"id,x\n" + b"".join(b"%d,1\n" % i for i in range(1000)))
    assert len(look(path)[1]) == 100
    path = file(tmp_path, b"id,x\n" + b"".join(b"%d,%s\n" % (i, b"y" * 9000) for i in range(90)))
    assert 0 < sum(len(cell) for row in look(path)[1] for cell in row) <= 500_000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\n\r\n\n", "empty"),
        (gzip.compress(b"id,x\n1,2\n", mtime=0), "gzip"),
        (b"PK\x03\x04rest", "zip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"(\xb5/\xfd ", "zstd"),
        (b"PAR1", "Parquet"),
        (b"ARROW1\x00\x00", "Arrow"),
        (b"\xff\xfei\x00d\x00\n", "UTF-8"),
        (b"x" * LINE_BYTES + b"\n1\n", "longer"),
        (b",".join(b"c%d" % i for i in range(COLUMN_LIMIT + 1)) + b"\n", "columns"),
        (b"id,,x\n", "no usable name"),
        (b"id,a\x1b,x\n", "no usable name"),
        (b"id,x,x\n", "more than once"),
        (b'id,"x\n', "not CSV"),
    ],
)
def test_what_is_no_table_is_refused_by_a_look_and_by_an_import(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = file(tmp_path, content)
    store = local_store(tmp_path / "tables")
    with pytest.raises(BadData, match=says):
        look(path)
    with pytest.raises(BadData, match=says):
        store.import_csv(path, namespace="n", name="t")
    assert list((tmp_path / "tables").iterdir()) == []


def test_a_compressed_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = file(tmp_path, gzip.compress(b"0" * (64 << 20)))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(BadData, match="gzip"):
        local_store(tmp_path / "tables").import_csv(path, namespace="n", name="t")
    assert sum(p.stat().st_size for p in (tmp_path / "tables").rglob("*")) == 0


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_a_look_costs_the_server_no_arrow(tmp_path: Path, kind: str) -> None:
    path = file(tmp_path, b"id,x\n1,2\n")
    if kind == "parquet":
        parquet.write_table(pa.table({"id": [7]}), path)
    code = (
        "import sys; from pathlib import Path; from fedflow.tables.binding import LocalBoundFiles; "
        "LocalBoundFiles().probe(Path(sys.argv[1]), head=True, id_delimiter=',', makes_ids=False,"
        " names=None, whole=False); sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_a_bound_file_is_packed_without_leaving_a_copy(tmp_path: Path) -> None:
    path = file(tmp_path, b"id,x\n1,2\n")
    schema, preview = look(path)
    record = TableRecord(
        namespace="n", name="t", address="f" * 32, schema=schema, count=0, partitions=1,
        origin="table_bind", created_ms=1000, preview=preview, engine="PATH", source=str(path),
    )  # fmt: skip
    root = tmp_path / "tables"
    root.mkdir()
    packed = io.BytesIO()
    LocalArchives(root).write(packed, {"table": record}, limit=-1, head=True, modified_ms=0)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        assert sorted(tar.getnames()) == ["table.csv", "table.meta"]
        rows, meta = tar.extractfile("table.csv"), tar.extractfile("table.meta")
        assert rows is not None
        assert meta is not None
        assert rows.read() == b"id,x\n1,2\n"
        assert json.loads(meta.read()) == {"header": ["id", "x"]}
    assert list(root.iterdir()) == []


def test_rows_of_different_lengths_are_one_text_each(tmp_path: Path) -> None:
    path = file(tmp_path, b"u,a,b\nv\nw,c\n")
    schema, preview = look(path, head=False)
    assert schema["columns"] == ["x0"]
    assert preview == (("u", "a,b"), ("v", ""), ("w", "c"))
    assert look(path, head=False, makes_ids=True)[1] == (("0", "u,a,b"), ("1", "v"), ("2", "w,c"))
    assert look(file(tmp_path, b"u,a,b\nv,c,d\n"), head=False, whole=True)[1][0] == ("u", "a,b")


@pytest.mark.parametrize("head", [True, False])
def test_a_parquet_file_is_looked_at_like_the_text_of_its_rows(tmp_path: Path, head: bool) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"id": [7, 8], "x": [0.5, None]}), path)
    assert look(path, head=head) == look(file(tmp_path, b"id,x\n7,0.5\n8,\n"))
    schema, preview = look(path, makes_ids=True)
    assert schema["columns"] == ["id", "x"]
    assert preview == (("0", "7", "0.5"), ("1", "8", ""))


def test_what_is_wrong_with_a_parquet_file_is_told_by_a_look(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"id": [7], "x": [[1]]}), path)
    with pytest.raises(BadData, match=r"file d\.parquet: column 2 is of the type list"):
        look(path)


def test_a_file_that_takes_too_much_memory_does_not_harm_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_probe, "MEMORY_BYTES", 200 << 20)
    path = tmp_path / "d.parquet"
    parquet.write_table(
        pa.table({"id": ["w" * (200 << 20)]}), path, compression="zstd", use_dictionary=False,
        write_statistics=False,
    )  # fmt: skip
    assert path.stat().st_size < 1 << 20
    with pytest.raises(BadData, match="cannot be looked at within 200 MiB"):
        look(path)


def test_a_file_that_takes_too_long_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_probe, "LOOK_S", 0.001)
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"id": [7]}), path)
    with pytest.raises(BadData, match=r"more than 0.001 s"):
        look(path)
