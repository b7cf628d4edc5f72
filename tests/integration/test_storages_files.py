"""Reading data sets: which files belong to one, and what may be wrong with them."""

from __future__ import annotations

import gzip
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from fedflow.base.errors.data import (
    BadData,
    BoundTableChanged,
    StorageMissing,
    StorageRefused,
    StorageUnreachable,
)
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.domain.data.storages import (
    Address,
    Connection,
    HdfsFiles,
    HiveRows,
    LocalFiles,
    PathFile,
    S3Files,
    Secrets,
)
from fedflow.tables import arrow_import
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.storages.opening import open_rows
from tests.storage_servers import S3Server, s3_server

ONE = pa.table({"id": ["u", "v"], "x": [1, 2]})
TWO = pa.table({"id": ["w", "z"], "x": [3, 4]})


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        server.files.create_dir("bucket")
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    return tmp_path / "d"


def put(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path)
    return path


def at(address: Address, **how: Any) -> Connection:
    return Connection(address=address, **how)


def read(connection: Connection, **how: Any) -> list[list[str]]:
    with open_rows(connection, CsvOptions(**how), where="table n.t") as source:
        return [list(row.values()) for batch in source.batches() for row in batch.to_pylist()]


def ids(connection: Connection) -> list[str]:
    return [row[0] for row in read(connection)]


def local(path: Path, **how: Any) -> Connection:
    return at(LocalFiles(path=str(path), **how))


def test_files_are_read_by_path_and_what_is_no_data_is_left_out(folder: Path) -> None:
    put(folder / "b.parquet", ONE)
    put(folder / "a" / "z.parquet", TWO)
    for name in ("_SUCCESS", ".b.parquet.crc", "_temporary/0/part.parquet"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no table")
    (folder / "c.parquet").touch()
    assert ids(local(folder)) == ["w", "z", "u", "v"]
    assert ids(local(folder / "b.parquet")) == ["u", "v"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.parquet", ["u", "v"]),
        ("day-*", ["w", "z"]),
        ("day-?", []),
        ("day-??/*", ["w", "z"]),
        ("*", ["u", "v", "w", "z"]),
        ("*/*", ["w", "z"]),
        ("nothing/*", []),
    ],
)
def test_a_glob_names_files_and_folders(folder: Path, glob: str, found: list[str]) -> None:
    put(folder / "a.parquet", ONE)
    put(folder / "day-01" / "p.parquet", TWO)
    if found:
        assert ids(local(folder / glob)) == found
    else:
        with pytest.raises(StorageMissing, match="there is no"):
            read(local(folder / glob))


def test_folders_of_hive_partitions_are_columns(folder: Path) -> None:
    put(folder / "day=2026-11-21" / "land=a%2Fb" / "p.parquet", ONE)
    put(folder / "day=__HIVE_DEFAULT_PARTITION__" / "land=" / "p.parquet", TWO)
    assert read(local(folder)) == [
        ["u", "1", "2026-11-21", "a/b"], ["v", "2", "2026-11-21", "a/b"],
        ["w", "3", "", ""], ["z", "4", "", ""],
    ]  # fmt: skip
    chosen = at(LocalFiles(path=str(folder)), id_column="id", feature_columns=("land", "x"))
    assert read(chosen)[0] == ["u", "a/b", "1"]
    only_keys = at(LocalFiles(path=str(folder)), feature_columns=("day",))
    made = read(only_keys, auto_increasing_sid=True)
    assert made[0] == ["0", "2026-11-21"]
    with pytest.raises(BadData, match="the id 'day' is a partition"):
        read(at(LocalFiles(path=str(folder)), id_column="day"))
    put(folder / "other=1" / "p.parquet", ONE)
    with pytest.raises(BadData, match="partitions are not those of the first file"):
        read(local(folder))


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (TWO.rename_columns(["id", "y"]), "'x' is gone, 'y' is new"),
        (TWO.append_column("y", pa.array([1, 2])), "'y' is new"),
        (TWO.select(["x", "id"]), "another order"),
        (TWO.set_column(1, "x", pa.array(["3", "4"])), "column 'x' is string, int64 in the first"),
    ],
)
def test_a_file_with_other_columns_is_named(folder: Path, second: pa.Table, says: str) -> None:
    put(folder / "a.parquet", ONE)
    put(folder / "b.parquet", second)
    with pytest.raises(BadData, match=f"file b.parquet: .*{says}"):
        read(local(folder))


def test_a_column_without_values_has_the_type_of_the_others(folder: Path) -> None:
    put(folder / "a.parquet", ONE)
    put(folder / "b.parquet", TWO.set_column(1, "x", pa.nulls(2)))
    assert read(local(folder))[2:] == [["w", ""], ["z", ""]]


def test_files_of_one_data_set_are_of_one_kind(folder: Path) -> None:
    put(folder / "a.parquet", ONE)
    (folder / "b.csv").write_text("id,x\nw,3\n")
    with pytest.raises(BadData, match=r"file b\.csv: .*format csv, not parquet"):
        read(local(folder))
    with pytest.raises(BadData, match=r"file a\.parquet: .*format parquet, not csv"):
        read(local(folder, format="csv"))


def test_texts_have_a_head_each_and_gzip_is_refused(folder: Path) -> None:
    (folder / "a.csv").write_text("id;x\nu;1\n")
    (folder / "b.csv").write_bytes(b"\xef\xbb\xbfid;x\r\nw;2\r\n")
    assert read(local(folder), id_delimiter=";") == [["u", "1"], ["w", "2"]]
    (folder / "c.csv").write_bytes(gzip.compress(b"id;x\nz;3\n", mtime=0))
    with pytest.raises(BadData, match=r"file c\.csv: it is a gzip archive"):
        read(local(folder), id_delimiter=";")
    (folder / "c.csv").write_text("id;x\nz;3;4\n")
    with pytest.raises(BadData, match=r"file c\.csv: row 1 has 3 cells, not 2"):
        read(local(folder), id_delimiter=";")


def test_a_text_without_a_head_must_not_be_ragged(folder: Path) -> None:
    (folder / "a.csv").write_text("u,1\nv,2\n")
    (folder / "b.csv").write_text("w,3\nz,4,5\n")
    with pytest.raises(BadData, match=r"file b\.csv: its rows differ in length"):
        read(local(folder), head=False)


def test_links_do_not_lead_out_of_the_allowed_folders(folder: Path, tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.parquet", ONE)
    (folder / "a.parquet").symlink_to(secret)
    roots = (str(folder),)
    with pytest.raises(StorageRefused, match="a link leads out"):
        read(at(LocalFiles(path=str(folder)), roots=roots))
    with pytest.raises(StorageRefused, match="a link leads out"):
        read(at(PathFile(path=str(folder / "a.parquet")), roots=roots))
    assert ids(at(LocalFiles(path=str(tmp_path / "secret.parquet")), roots=(str(tmp_path),)))
    (folder / "a.parquet").unlink()
    (folder / "again").symlink_to(folder)
    with pytest.raises(BadData, match="its folders are links"):
        read(local(folder))


def test_a_pipe_is_no_data(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(StorageMissing, match="neither a file nor a folder"):
        read(at(LocalFiles(path=str(folder / "pipe"))))
    put(folder / "a.parquet", ONE)
    assert len(read(at(LocalFiles(path=str(folder))))) == 2, "it is no file of the folder either"


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_file_that_changes_while_it_is_read_is_told(folder: Path, kind: str) -> None:
    path = put(folder / "a.parquet", pa.table({"id": [str(i) for i in range(40_000)]}))
    address = LocalFiles(path=str(folder)) if kind == "folder" else PathFile(path=str(path))
    with open_rows(at(address), CsvOptions(), where="w") as source:
        batches = source.batches()
        next(batches)
        with path.open("ab") as file:
            file.write(b"more")
        with pytest.raises(BoundTableChanged, match="it changed while it was read"):
            list(batches)


def test_a_file_that_is_replaced_while_it_is_read_is_told(folder: Path) -> None:
    path = put(folder / "a.parquet", pa.table({"id": [str(i) for i in range(40_000)]}))
    with open_rows(local(folder), CsvOptions(), where="w") as source:
        batches = source.batches()
        next(batches)
        os.replace(put(folder / "_new", TWO), path)
        with pytest.raises(BoundTableChanged, match="it changed while it was read"):
            list(batches)


def test_a_damaged_or_swollen_file_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder / "a.parquet", ONE)
    whole = put(folder / "b.parquet", TWO).read_bytes()
    (folder / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadData, match=r"file b\.parquet: .*damaged"):
        read(local(folder))
    monkeypatch.setattr(arrow_import, "TEXT_BYTES", 1000)
    monkeypatch.setattr(arrow_import, "TEXT_TIMES", 2)
    words = pa.array(["w" * 5000] * 9).dictionary_encode()
    put(folder / "b.parquet", pa.table({"id": [str(i) for i in range(9)], "x": words}))
    put(folder / "a.parquet", pa.table({"id": ["a"], "x": ["b"]}))
    with pytest.raises(BadData, match=r"file b\.parquet: its rows are more than"):
        read(local(folder))


def test_what_cannot_be_read_here_is_said(folder: Path) -> None:
    hive = HiveRows(host="h", name="t")
    with pytest.raises(NotSupportedYet, match="Hive"):
        read(at(hive))
    try:
        fs.HadoopFileSystem("127.0.0.1", 1)
    except OSError as exc:
        if "libhdfs" not in str(exc) and "libjvm" not in str(exc):
            pytest.skip("Hadoop's library is here")
    hdfs = HdfsFiles(name_node="hdfs://127.0.0.1:1", path="/d")
    with pytest.raises(NotSupportedYet, match="libhdfs"):
        read(at(hdfs))


def far(server: S3Server, path: str, bucket: str = "bucket", **changes: Any) -> Connection:
    endpoint = changes.pop("endpoint", server.endpoint)
    keys = Secrets(access_key=server.access_key, secret_key=server.secret_key)
    return at(S3Files(bucket=bucket, path=path, endpoint=endpoint), secrets=keys, **changes)


def test_partitions_of_a_bucket_are_read(s3: S3Server) -> None:
    for i, table in enumerate((ONE, TWO)):
        with s3.files.open_output_stream(f"bucket/set/k={i}/p#?.parquet") as sink:
            parquet.write_table(table, sink, row_group_size=1)
    assert read(far(s3, "set")) == [
        ["u", "1", "0"], ["v", "2", "0"], ["w", "3", "1"], ["z", "4", "1"],
    ]  # fmt: skip
    assert ids(far(s3, "set/k=1/*.parquet")) == ["w", "z"]


def test_large_row_groups_of_a_bucket_are_read_in_pieces(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_import, "FAR_GROUP_BYTES", 10)
    with s3.files.open_output_stream("bucket/pieces.parquet") as sink:
        parquet.write_table(ONE, sink)
    assert ids(far(s3, "pieces.parquet")) == ["u", "v"]


def test_what_is_not_in_a_bucket_is_told(s3: S3Server) -> None:
    for connection in (far(s3, "nothing"), far(s3, "x", bucket="no-bucket"), far(s3, "no*")):
        with pytest.raises(StorageMissing, match="there is no"):
            read(connection)


def test_an_object_store_that_does_not_answer_is_told(s3: S3Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(StorageUnreachable, match="its server does not answer"):
            read(far(s3, "x", endpoint=nowhere))


def test_an_object_store_cannot_send_a_reader_elsewhere() -> None:
    asked: list[str] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.command == "HEAD" else 307)
            self.send_header("Location", "/inner")
            self.send_header("Last-Modified", "Tue, 15 Nov 1994 12:45:26 GMT")
            self.send_header("Content-Length", "14" if self.command == "HEAD" else "0")
            self.end_headers()

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_given: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        serving = threading.Thread(target=server.serve_forever, name="test-redirect")
        serving.start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_port}"
            address = S3Files(bucket="bucket", path="a.csv", endpoint=endpoint)
            keys = Secrets(access_key="k", secret_key="s", session_token="t")
            for region in (None, "us-east-1"):
                named = msgspec.structs.replace(address, region=region)
                with pytest.raises(StorageUnreachable, match="another address"):
                    read(Connection(address=named, secrets=keys))
        finally:
            server.shutdown()
            serving.join()
    assert set(asked) == {"/bucket/a.csv"}
