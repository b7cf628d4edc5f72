"""What every storage promises whose rows a job reads: files, data sets, object stores, MySQL."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import fs, ipc, parquet

from fedflow.base.errors.data import BadData, BoundTableChanged, StorageMissing
from fedflow.base.errors.error import FedflowError
from fedflow.domain.data.storages import (
    Address,
    Connection,
    LocalFiles,
    MysqlRows,
    PathFile,
    S3Files,
    Secrets,
)
from fedflow.domain.records import TableRecord
from fedflow.sdk.table import TableSchema
from fedflow.tables.catalog import TableOrigin, schema_to_json
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.local import LocalTableStore
from fedflow.tables.storages.mysql import BATCH_ROWS
from fedflow.tables.storages.opening import open_rows
from fedflow.testing.tables import MemoryCatalog
from tests.storage_servers import MysqlDatabase, S3Server, mysql_database, s3_server

ROWS = pa.table(
    {
        "x": pa.array([0.1, None, 1e-5, -2.0]),
        "id": ["u", "v", "w", "z"],
        "n": pa.array([1, -2, None, 4], pa.int64()),
        "day": pa.array([datetime.date(2026, 11, 22), None, datetime.date(1999, 1, 2), None]),
        "money": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.25"), None]),
        "word": ["a,b", "", 'q"q', "ünï"],
    }
)
TEXT = [
    {"id": "u", "x": "0.1", "n": "1", "day": "2026-11-22", "money": "1.50", "word": "a,b"},
    {"id": "v", "x": "", "n": "-2", "day": "", "money": "", "word": ""},
    {"id": "w", "x": "0.00001", "n": "", "day": "1999-01-02", "money": "-0.25", "word": 'q"q'},
    {"id": "z", "x": "-2", "n": "4", "day": "", "money": "", "word": "ünï"},
]


class Storage(Protocol):
    """Keeps one table at a time."""

    def put(self, rows: pa.Table) -> Connection:
        """Store rows in place of what there was, and tell where they are."""

    def drop(self) -> None:
        """Remove them."""


class Files:
    """A file, or a folder of two files, on some file system."""

    def __init__(self, files: Any, folder: str, *, kind: str, parts: int, address: Address) -> None:
        self._files = files
        self._folder = folder
        self._kind = kind
        self._parts = parts
        self._address = address
        self._keys = Secrets(access_key="key", secret_key="se/cr+et")

    def put(self, rows: pa.Table) -> Connection:
        self.drop()
        self._files.create_dir(self._folder, recursive=True)
        step = max(1, -(-rows.num_rows // self._parts))
        for i in range(self._parts):
            part = rows.slice(i * step, step)
            with self._files.open_output_stream(f"{self._folder}/part-{i}.bin") as sink:
                self._write(part, sink)
        if self._parts > 1:
            with self._files.open_output_stream(f"{self._folder}/_SUCCESS") as sink:
                sink.write(b"no rows")
        is_far = isinstance(self._address, S3Files)
        return Connection(address=self._address, secrets=self._keys if is_far else Secrets())

    def drop(self) -> None:
        if self._files.get_file_info(self._folder).type != fs.FileType.NotFound:
            self._files.delete_dir(self._folder)

    def _write(self, part: pa.Table, sink: Any) -> None:
        if self._kind == "parquet":
            parquet.write_table(part, sink)
        elif self._kind == "arrow":
            with ipc.new_file(sink, part.schema) as writer:
                writer.write_table(part)
        else:
            arrow_csv.write_csv(part, sink)


class Mysql:
    """A table of a database, or a query of it."""

    def __init__(self, database: MysqlDatabase, *, query: bool) -> None:
        self._database = database
        self._query = query

    def put(self, rows: pa.Table) -> Connection:
        self.drop()
        columns = [f"`{f.name}` {_sql_type(f.type)}" for f in rows.schema]
        self._database.run(
            f"CREATE TABLE `t``t` (place INT PRIMARY KEY DEFAULT 0 INVISIBLE, {', '.join(columns)})"
        )
        names = ", ".join(f"`{name}`" for name in ["place", *rows.column_names])
        for start in range(0, rows.num_rows, 5000):
            part = rows.slice(start, 5000).to_pylist()
            cells = [f"({start + i},{','.join(_sql(v) for v in r.values())})"
                     for i, r in enumerate(part)]  # fmt: skip
            self._database.run(f"INSERT INTO `t``t` ({names}) VALUES {','.join(cells)}")
        query = "SELECT * FROM `t``t` ORDER BY place"  # `*` leaves it out
        return Connection(
            address=MysqlRows(
                host=self._database.host,
                port=self._database.port,
                db=self._database.database,
                name=None if self._query else "t`t",
                query=query if self._query else None,
            ),
            secrets=Secrets(user=self._database.user, password=self._database.password),
        )

    def drop(self) -> None:
        self._database.run("DROP TABLE IF EXISTS `t``t`")


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return "DECIMAL(10,2)"
    known = {pa.float64(): "DOUBLE", pa.int64(): "BIGINT", pa.date32(): "DATE"}
    return known.get(kind, "VARCHAR(100) COLLATE utf8mb4_bin")


def _sql(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float | int):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


KINDS = ["csv", "parquet", "arrow"]
NAMES = [
    "path-csv",
    "path-parquet",
    *[f"folder-{kind}" for kind in KINDS],
    "s3-csv",
    "s3-parquet",
    pytest.param("mysql-table", marks=pytest.mark.mysql),
    pytest.param("mysql-query", marks=pytest.mark.mysql),
]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        server.files.create_dir("bucket")
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[MysqlDatabase]:
    with mysql_database() as made:
        yield made


@pytest.fixture(params=NAMES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    where, kind = request.param.split("-")
    if where == "mysql":
        return Mysql(request.getfixturevalue("database"), query=kind == "query")
    if where == "s3":
        server = request.getfixturevalue("s3")
        address = S3Files(bucket="bucket", path="d/w*", endpoint=server.endpoint)
        return Files(server.files, "bucket/d/w", kind=kind, parts=2, address=address)
    folder = str(tmp_path / "w")
    if where == "folder":
        return Files(
            fs.LocalFileSystem(), folder, kind=kind, parts=2, address=LocalFiles(path=folder)
        )
    one = PathFile(path=f"{folder}/part-0.bin")
    return Files(fs.LocalFileSystem(), folder, kind=kind, parts=1, address=one)


def chosen(connection: Connection, key: str | None, *features: str) -> Connection:
    return Connection(
        address=connection.address,
        secrets=connection.secrets,
        id_column=key,
        feature_columns=features or None,
    )


def read(connection: Connection, **how: Any) -> list[dict[str, str]]:
    with open_rows(connection, CsvOptions(**how), where="table n.t") as source:
        return [row for batch in source.batches() for row in batch.to_pylist()]


def bound(root: Path, connection: Connection, **changes: Any) -> LocalTableStore:
    """Bind what a connection names as n.t, in a store of its own."""
    options = CsvOptions(extend_sid=changes.get("extend_sid", False))
    with open_rows(connection, options, where="table n.t") as source:
        schema = source.schema
    catalog = MemoryCatalog()
    catalog.register(entry(schema, **changes))
    catalog.put_connection("n", "t", connection)
    return LocalTableStore(root / "tables", catalog=catalog, output_namespace="output")


def entry(schema: TableSchema, **changes: Any) -> TableRecord:
    given: dict[str, Any] = {
        "namespace": "n", "name": "t", "address": "0" * 32, "schema": schema_to_json(schema),
        "count": 0, "partitions": 4, "id_delimiter": ",", "have_head": True, "extend_sid": False,
        "origin": TableOrigin.BIND, "preview": (), "created_ms": 1, "engine": "MYSQL",
        "storage": {"address": {}}, **changes,
    }  # fmt: skip
    return TableRecord(**given)


def test_rows_are_the_same_text_wherever_they_lie(storage: Storage) -> None:
    connection = chosen(storage.put(ROWS), "id")
    with open_rows(connection, CsvOptions(), where="w") as source:
        assert source.schema.names == ("id", "x", "n", "day", "money", "word")
        rows = [row for batch in source.batches() for row in batch.to_pylist()]
        assert source.rows == 4
    assert rows == TEXT


def test_columns_are_chosen_and_ordered(storage: Storage) -> None:
    connection = chosen(storage.put(ROWS), "id", "word", "x")
    with open_rows(connection, CsvOptions(), where="w") as source:
        assert source.schema.names == ("id", "word", "x")
        assert set(source.names) == set(ROWS.column_names)
    assert [list(row.values()) for row in read(connection)] == [
        [row["id"], row["word"], row["x"]] for row in TEXT
    ]


def test_without_a_choice_the_first_column_is_the_id(storage: Storage) -> None:
    rows = ROWS.select(["id", "n"])
    assert [list(row) for row in read(storage.put(rows))] == [["id", "n"]] * 4


def test_ids_can_be_made(storage: Storage) -> None:
    connection = chosen(storage.put(ROWS), None, "word", "n")
    rows = read(connection, auto_increasing_sid=True)
    assert [list(row.values()) for row in rows] == [
        [str(i), row["word"], row["n"]] for i, row in enumerate(TEXT)
    ]


@pytest.mark.parametrize(
    ("key", "features", "says"),
    [
        ("nobody", (), "it has no column 'nobody'"),
        ("id", ("x", "y", "z"), "it has no column 'y', 'z'"),
        ("id", ("x", "x"), "column 'x' is chosen twice"),
        ("id", ("x", "id"), "column 'id' is chosen twice"),
    ],
)
def test_a_wrong_choice_is_refused(
    storage: Storage, key: str, features: tuple[str, ...], says: str
) -> None:
    with pytest.raises(BadData, match=says):
        read(chosen(storage.put(ROWS), key, *features))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (pa.table({"id": ["u", "v", ""], "x": [1, 2, 3]}), "has an empty id"),
        (pa.table({"id": ["u", None, "w"], "x": [1, 2, 3]}), "has an empty id"),
        (pa.table({"id": ["u"], "x": ["a\nb"]}), "row 1, column 'x' holds a line break|not CSV"),
        (pa.table({"id": pa.array([], pa.string()), "x": pa.array([], pa.int64())}), "no rows"),
    ],
)
def test_wrong_rows_are_refused_without_their_cells(
    storage: Storage, rows: pa.Table, says: str
) -> None:
    with pytest.raises(BadData, match=says):
        read(storage.put(rows))


def test_a_bound_table_becomes_one_of_the_job(storage: Storage, tmp_path: Path) -> None:
    connection = chosen(storage.put(ROWS), "id")
    told: list[tuple[int, float | None]] = []
    store = bound(tmp_path, connection)
    table = store.open_watched("n", "t", lambda rows, done: told.append((rows, done)))
    assert table.read().to_pylist() == TEXT
    assert (table.namespace, table.count, store.engine_of("n", "t")) == ("output", 4, "MYSQL")
    assert told[-1] == (4, 1.0)
    shares = [done for _, done in told if done is not None]
    assert shares == sorted(shares)
    storage.drop()
    assert table.read().num_rows == 4, "the job has a copy"


def test_ids_are_made_anew_for_each_job(storage: Storage, tmp_path: Path) -> None:
    store = bound(tmp_path, storage.put(ROWS.select(["n", "word"])), extend_sid=True)
    first, again = (store.open("n", "t").read() for _ in range(2))
    assert first.column("n").to_pylist() == [row["n"] for row in TEXT]
    assert not set(first.column(0).to_pylist()) & set(again.column(0).to_pylist())


def test_repeated_ids_name_both_rows_and_leave_nothing(storage: Storage, tmp_path: Path) -> None:
    rows = pa.table({"id": ["u", "v", "w", "v"], "x": [1, 2, 3, 4]})
    store = bound(tmp_path, storage.put(rows))
    with pytest.raises(BadData, match="row 4 repeats the id of row 2"):
        store.open("n", "t")
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (ROWS.select(["id", "n"]), "'x' is gone"),
        (ROWS.select(["id", "n", "x", "word"]), "'word' is new"),
        (ROWS.select(["id", "n", "x"]).rename_columns(["id", "m", "x"]), "'n' is gone, 'm' is new"),
        (ROWS.select(["id", "x", "n"]), "another order"),
    ],
)
def test_what_changed_since_the_binding_is_told(
    storage: Storage, tmp_path: Path, now: pa.Table, says: str
) -> None:
    store = bound(tmp_path, storage.put(ROWS.select(["id", "n", "x"])))
    storage.put(now)
    with pytest.raises(BoundTableChanged, match=says):
        store.open("n", "t")


def test_columns_that_nobody_chose_may_change(storage: Storage, tmp_path: Path) -> None:
    store = bound(tmp_path, chosen(storage.put(ROWS.select(["id", "n", "x"])), "id", "x"))
    storage.put(ROWS.select(["word", "x", "id"]))
    assert store.open("n", "t").read().column("x").to_pylist() == [row["x"] for row in TEXT]


def test_a_chosen_column_that_is_gone_is_told(storage: Storage, tmp_path: Path) -> None:
    store = bound(tmp_path, chosen(storage.put(ROWS.select(["id", "n", "x"])), "id", "x"))
    storage.put(ROWS.select(["id", "n"]))
    with pytest.raises(BoundTableChanged, match="no column 'x'"):
        store.open("n", "t")


def test_what_vanished_is_told(storage: Storage, tmp_path: Path) -> None:
    store = bound(tmp_path, storage.put(ROWS.select(["id", "n"])))
    storage.drop()
    with pytest.raises(FedflowError, match="there is no") as caught:
        store.open("n", "t")
    assert isinstance(caught.value, StorageMissing | BadData)


def test_batches_are_bounded_and_all_rows_come_once(storage: Storage) -> None:
    count = BATCH_ROWS + 1
    rows = pa.table({"id": [str(i) for i in range(count)], "x": list(range(count))})
    with open_rows(storage.put(rows), CsvOptions(), where="w") as source:
        batches = list(source.batches())
    assert max(batch.num_rows for batch in batches) <= 1 << 20
    assert len(batches) > 1 or "csv" in getattr(storage, "_kind", "")
    assert pa.Table.from_batches(batches).column("x").to_pylist() == [str(i) for i in range(count)]


def test_many_columns_are_read(storage: Storage) -> None:
    width = 900 if isinstance(storage, Mysql) else 5000
    rows = pa.table({"id": ["u", "v"], **{f"x{i}": [i, -i] for i in range(width)}})
    found = read(storage.put(rows))
    assert list(found[1].values()) == ["v", "0", *[str(-i) for i in range(1, width)]]
