"""What every storage promises that a table is written to: all rows, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from fedflow.base.errors.data import BadData, StorageMissing, TableExists
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.domain.data.storages import Connection, LocalFiles, MysqlRows, S3Files, Secrets
from fedflow.sdk.table import Table, TableKind, TableSchema
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.storages.opening import open_rows
from fedflow.tables.storages.orphans import (
    held_folder,
    hold_table,
    sweep_folders,
    sweep_tables,
)
from fedflow.tables.storages.writing import write_rows
from fedflow.testing.tables import local_store
from tests.storage_servers import MysqlDatabase, S3Server, mysql_database, s3_server

NAMES = [
    "folder-parquet",
    "folder-csv",
    "folder-arrow",
    "s3-parquet",
    "s3-csv",
    pytest.param("mysql-", marks=pytest.mark.mysql),
]
SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=("x`%s", "w"))


def rows(count: int, *, last: str = "") -> pa.Table:
    ids = [f"u{i}" for i in range(count - 1)] + [last or f"u{count - 1}"]
    return pa.table(
        {
            "id": ids,
            "y": pa.array([i % 2 for i in range(count)], pa.int64()),
            "x`%s": [None if i == 1 else i / 4 for i in range(count)],
            "w": [f"a'\\{i},%s" for i in range(count)],
        }
    )


def made(folder: Path, content: pa.Table) -> Table:
    with local_store(folder).create(SCHEMA) as writer:
        writer.write(content)
        return writer.close()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        server.files.create_dir("bucket")
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[MysqlDatabase]:
    with mysql_database() as opened:
        yield opened


class Target:
    """A place where nothing is yet, and what else is there."""

    def __init__(self, connection: Connection, listed: Any) -> None:
        self.connection = connection
        self.listed = listed


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    where, form = request.param.split("-")
    if where == "mysql":
        database = request.getfixturevalue("database")
        database.run("DROP TABLE IF EXISTS `new_%s`")
        address: Any = MysqlRows(
            host=database.host, port=database.port, db=database.database, name="new_%s"
        )
        secrets = Secrets(user=database.user, password=database.password)
        return Target(
            Connection(address=address, secrets=secrets), lambda: database.run("SHOW TABLES")
        )
    if where == "s3":
        server = request.getfixturevalue("s3")
        path = f"to/{tmp_path.name}"
        address = S3Files(bucket="bucket", path=path, endpoint=server.endpoint, format=form)
        keys = Secrets(access_key=server.access_key, secret_key=server.secret_key)
        return Target(
            Connection(address=address, secrets=keys),
            lambda: [f.path for f in data_of(server, f"bucket/{path}")],
        )
    folder = tmp_path / "to"
    folder.mkdir()
    address = LocalFiles(path=str(folder / "new"), format=form)
    return Target(Connection(address=address), lambda: sorted(folder.rglob("*")))


def data_of(server: S3Server, path: str) -> list[Any]:
    from pyarrow import fs

    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    return [info for info in server.files.get_file_info(selector) if info.is_file]


def read(connection: Connection) -> list[dict[str, str]]:
    with open_rows(connection, CsvOptions(), where="t") as source:
        return [row for batch in source.batches() for row in batch.to_pylist()]


def test_what_was_written_reads_back(target: Target, tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(5))
    told: list[float] = []
    assert write_rows(table, target.connection, where="t", watch=told.append) == 5
    found = read(target.connection)
    assert [row["id"] for row in found] == [f"u{i}" for i in range(5)]
    assert [row["y"] for row in found] == ["0", "1", "0", "1", "0"]
    assert [row["w"] for row in found] == [f"a'\\{i},%s" for i in range(5)]
    numbers = [row["x`%s"] for row in found]
    assert numbers.pop(1) in ("", "None"), "a download writes None"
    assert list(map(float, numbers)) == [0.0, 0.5, 0.75, 1.0]
    assert told == sorted(told)


def test_what_is_there_stays_as_it_is(target: Target, tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", rows(3)), made(tmp_path / "b", rows(2))
    write_rows(first, target.connection, where="t", watch=lambda done: None)
    with pytest.raises(TableExists):
        write_rows(second, target.connection, where="t", watch=lambda done: None)
    assert len(read(target.connection)) == 3


def test_a_failure_leaves_nothing(target: Target, tmp_path: Path) -> None:
    before = target.listed()

    def fail(done: float) -> None:
        raise RuntimeError("stop")

    table = made(tmp_path / "t", rows(5))
    if target.connection.address.engine != "MYSQL" and target.connection.address.format == "csv":
        table = Breaking(table)
    with pytest.raises((RuntimeError, BadData)):
        write_rows(table, target.connection, where="t", watch=fail)
    assert target.listed() == before


class Breaking:
    """A table whose files are damaged after its first batch."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield next(iter(self._table.to_batches()))
        raise BadData(where="t", reason="its file is damaged")


@pytest.mark.mysql
def test_rows_that_do_not_fit_leave_nothing(database: MysqlDatabase, tmp_path: Path) -> None:
    address = MysqlRows(host=database.host, port=database.port, db=database.database, name="never")
    connection = Connection(
        address=address, secrets=Secrets(user=database.user, password=database.password)
    )
    before = database.run("SHOW TABLES")
    long = made(tmp_path / "t", rows(5, last="u" * 300))
    with pytest.raises(BadData):
        write_rows(long, connection, where="t", watch=lambda done: None)
    assert database.run("SHOW TABLES") == before


@pytest.mark.mysql
def test_what_a_killed_writer_left_in_a_database_goes_and_what_a_running_one_makes_stays(
    database: MysqlDatabase,
) -> None:
    left, busy, other = (f"_fedflow_new_{c * 32}" for c in "abx")
    try:
        database.run(*(f"CREATE TABLE {name} (id INT)" for name in (left, busy, other)))
        login = {"host": database.host, "port": database.port, "user": database.user}
        with (
            pymysql.connect(**login, password=database.password) as running,
            running.cursor() as its,
            pymysql.connect(**login, password=database.password) as sweeping,
            sweeping.cursor() as cursor,
        ):
            hold_table(its, busy)
            assert sweep_tables(cursor, database.database) == [], "they are young"
            assert sweep_tables(cursor, database.database, young_s=-60) == [left]
        assert {name for (name,) in database.run("SHOW TABLES")} >= {busy, other}
    finally:
        database.run(*(f"DROP TABLE IF EXISTS {name}" for name in (left, busy, other)))


def test_what_a_killed_writer_left_in_a_folder_goes_and_what_a_running_one_makes_stays(
    tmp_path: Path,
) -> None:
    left, busy, other = (
        tmp_path / name for name in (f"._new-{'a' * 32}", f"._new-{'b' * 32}", "x")
    )
    for folder in (left, busy, other):
        folder.mkdir()
        (folder / "part-0.parquet").write_bytes(b"PAR1")
    (tmp_path / f"._new-{'c' * 32}").symlink_to(other)
    with held_folder(busy):
        assert sweep_folders(tmp_path) == [], "they are young"
        assert sweep_folders(tmp_path, young_s=-60) == [left.name]
    assert not left.exists()
    assert (busy / "part-0.parquet").exists()
    assert (other / "part-0.parquet").exists()


def test_a_writer_holds_what_it_makes_and_sweeps(target: Target, tmp_path: Path) -> None:
    """A look from outside in the middle of the writing: nobody else may sweep it away."""
    seen: list[list[str]] = []
    address = target.connection.address

    def watch(done: float) -> None:
        if isinstance(address, LocalFiles):
            seen.append(sweep_folders(Path(address.path).parent, young_s=-60))
        elif isinstance(address, MysqlRows):
            login = {"host": address.host, "port": address.port, "user": secrets.user or ""}
            with (
                pymysql.connect(**login, password=secrets.password or "") as other,
                other.cursor() as cursor,
            ):
                seen.append(sweep_tables(cursor, address.db, young_s=-60))

    secrets = target.connection.secrets
    write_rows(made(tmp_path / "t", rows(5)), target.connection, where="t", watch=watch)
    assert seen == [[]] * len(seen)
    assert len(read(target.connection)) == 5


def test_a_place_must_be_one_place(tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(2))
    query = MysqlRows(host="h", db="d", query="SELECT 1")
    for address in (LocalFiles(path=str(tmp_path / "x*")), query, S3Files(bucket="bucket")):
        with pytest.raises(NotSupportedYet):
            write_rows(table, Connection(address=address), where="t", watch=lambda done: None)
    nowhere = LocalFiles(path=str(tmp_path / "no" / "x"))
    with pytest.raises(StorageMissing, match="no folder to write to"):
        write_rows(table, Connection(address=nowhere), where="t", watch=lambda done: None)
