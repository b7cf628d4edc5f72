"""Reading MySQL and MariaDB: what a server or a network may do to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest

from fedflow.base.errors.data import BadData, StorageMissing, StorageRefused, StorageUnreachable
from fedflow.domain.data.storages import Connection, Limits, MysqlRows, Secrets
from fedflow.domain.records import TableRecord
from fedflow.tables.catalog import TableOrigin, schema_to_json
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.local import LocalTableStore
from fedflow.tables.storages import mysql
from fedflow.tables.storages.opening import open_rows
from fedflow.testing.tables import MemoryCatalog
from tests.storage_servers import MysqlDatabase, mysql_database

pytestmark = pytest.mark.mysql
MANY = 100_000  #: rows of 200 bytes do not fit into the buffers of a connection


@pytest.fixture(scope="module")
def database() -> Iterator[MysqlDatabase]:
    with mysql_database() as made:
        yield made


def at(database: MysqlDatabase, **changes: Any) -> Connection:
    place: dict[str, Any] = {
        "host": database.host, "port": database.port, "db": database.database, "name": "t",
        **changes,
    }  # fmt: skip
    if "query" in changes:
        del place["name"]
    secrets = Secrets(user=database.user, password=database.password)
    return Connection(address=MysqlRows(**place), secrets=secrets)


def fill(database: MysqlDatabase, columns: str, *rows: str) -> Connection:
    database.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})")
    if rows:
        database.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    return at(database)


@pytest.fixture(scope="module")
def many(database: MysqlDatabase) -> Connection:
    """A table of `MANY` long rows; tests may change its last ones."""
    if "MariaDB" not in database.run("SELECT VERSION()")[0][0]:
        pytest.skip("sequences are MariaDB's")
    cells = f"SELECT seq, REPEAT('x', 200) FROM seq_1_to_{MANY}"
    database.run(
        "CREATE TABLE many (id INT PRIMARY KEY, x VARCHAR(200))", f"INSERT INTO many {cells}"
    )
    return at(database, name="many")


def read(connection: Connection, **how: Any) -> list[dict[str, str]]:
    with open_rows(connection, CsvOptions(**how), where="table n.t") as source:
        return [row for batch in source.batches() for row in batch.to_pylist()]


@contextmanager
def second(database: MysqlDatabase) -> Iterator[Any]:
    with pymysql.connect(
        host=database.host, port=database.port, user=database.user, password=database.password,
        database=database.database, autocommit=True,
    ) as connection, connection.cursor() as cursor:  # fmt: skip
        yield cursor


def test_cells_look_as_the_server_prints_them(database: MysqlDatabase) -> None:
    connection = fill(
        database,
        "id BIGINT UNSIGNED, tiny TINYINT(1), z INT(5) ZEROFILL, f FLOAT, d DOUBLE,"
        " m DECIMAL(20,4), flags BIT(9), y YEAR, day DATE, moment DATETIME(3), span TIME,"
        " e ENUM('a','b'), s SET('p','q'), j JSON, c CHAR(3)",
        "(18446744073709551615, TRUE, 42, 16777217, 1e300, -0.5, b'100000001', 2026,"
        " '2026-11-22', '2026-11-22 01:02:03.5', '-12:00:00', 'b', 'p,q', '{\"a\": 1}', 'ab ')",
        "(1, NULL, NULL, 0.1, 0.1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    first, second = read(connection)
    assert list(first.values()) == [
        "18446744073709551615", "1", "00042", "16777216", "1e+300", "-0.5000", "257", "2026",
        "2026-11-22", "2026-11-22 01:02:03.500", "-12:00:00", "b", "p,q", '{"a": 1}', "ab",
    ]  # fmt: skip
    assert list(second.values()) == ["1", "", "", "0.1", "0.1", *[""] * 10]


@pytest.mark.parametrize("kind", ["BLOB", "VARBINARY(9)", "BINARY(2)", "LONGBLOB", "GEOMETRY"])
def test_bytes_are_refused_unless_nobody_chose_them(database: MysqlDatabase, kind: str) -> None:
    connection = fill(database, f"id INT, x INT, pic {kind}", "(1, 2, NULL)")
    with pytest.raises(BadData, match="column 'pic' holds bytes"):
        read(connection)
    chosen = msgspec.structs.replace(connection, id_column="id", feature_columns=("x",))
    assert read(chosen) == [{"id": "1", "x": "2"}]


def test_names_may_hold_quotes(database: MysqlDatabase) -> None:
    name = """x`; DROP TABLE t; -- '"%s%"""
    quoted = mysql.quoted(name)
    database.run(
        f"CREATE TABLE {quoted} ({quoted} INT, `a b` INT)".replace("%", "%%").replace("%%", "%"),
        f"INSERT INTO {quoted} VALUES (1, 2)",
    )
    assert read(at(database, name=name)) == [{name: "1", "a b": "2"}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS id, 2 AS id",
        "SELECT 1 AS id INTO @x",
        "SELECT 1 AS id INTO OUTFILE '/tmp/h-G-never'",
        "SELECT 1 AS id) AS q UNION (SELECT 2",
        "SELECT * FROM t; DROP TABLE t",
        "DELETE FROM t",
        "SHOW TABLES",
        "SELECT id FROM t PROCEDURE ANALYSE()",
        "SELECT nothing FROM t",
        "SELECT 1 AS id /* ",
    ],
)
def test_a_query_that_is_no_select_of_rows_is_refused(database: MysqlDatabase, query: str) -> None:
    fill(database, "id INT", "(1)")
    with pytest.raises(BadData, match=r"its query|answers error"):
        read(at(database, query=query))
    assert database.run("SELECT COUNT(*) FROM t") == ((1,),)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT 1 AS a, 2 AS a", "two columns of its query have one name"),
        ("SELECT a FROM (SELECT 1 AS b) AS q", "a column that is not there"),
        ("SELECT nothing(1) AS a", "a function that is not there"),
        ("SELECT a FROM (SELECT 1 AS a", "cannot read the SQL"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(database: MysqlDatabase, query: str, says: str) -> None:
    with pytest.raises(BadData, match=says):
        read(at(database, query=query, name=None))


def test_a_query_keeps_its_order_and_may_end_with_a_semicolon(database: MysqlDatabase) -> None:
    fill(database, "id INT", "(2)", "(3)", "(1)")
    query = "SELECT id FROM t WHERE id LIKE '%' ORDER BY id DESC;"
    assert [row["id"] for row in read(at(database, query=query))] == ["3", "2", "1"]


def test_a_read_sees_one_state(database: MysqlDatabase, many: Connection) -> None:
    before = database.run("SELECT COUNT(*) FROM many")[0][0]
    with open_rows(many, CsvOptions(), where="w") as source:
        batches = source.batches()
        count = next(batches).num_rows
        with second(database) as cursor:
            cursor.execute("DELETE FROM many ORDER BY id DESC LIMIT 10")
            cursor.execute(f"INSERT INTO many VALUES ({MANY + before}, 'new')")
        count += sum(batch.num_rows for batch in batches)
    assert count == before


def test_a_broken_connection_leaves_no_half_table(
    database: MysqlDatabase, many: Connection, tmp_path: Path
) -> None:
    with open_rows(many, CsvOptions(), where="w") as source:
        schema = source.schema
    catalog = MemoryCatalog()
    bound = TableRecord(
        namespace="n", name="t", address="0" * 32, schema=schema_to_json(schema),
        count=0, partitions=1, id_delimiter=",", have_head=True, extend_sid=False,
        origin=TableOrigin.BIND, preview=(),
        created_ms=1, engine="MYSQL", storage={"address": {}},
    )  # fmt: skip
    catalog.register(bound)
    catalog.put_connection("n", "t", many)
    store = LocalTableStore(tmp_path, catalog=catalog, output_namespace="o")

    def kill(rows: int, done: float | None) -> None:
        with second(database) as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s AND id <>"
                " CONNECTION_ID()",
                (database.database,),
            )
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")

    with pytest.raises(StorageUnreachable, match=r"the connection broke after row \d+"):
        store.open_watched("n", "t", kill)
    assert list(tmp_path.iterdir()) == []
    assert [entry.name for entry in catalog.entries()] == ["t"]


def test_leaving_early_does_not_read_the_rest(many: Connection) -> None:
    with open_rows(many, CsvOptions(), where="w") as source:
        next(source.batches())
        assert source.done is not None
    assert 0 < source.rows + mysql.BATCH_ROWS < MANY


def test_a_statement_ends_at_its_limit(database: MysqlDatabase, many: Connection) -> None:
    endless = "SELECT a.id, b.id AS x FROM many AS a, many AS b WHERE a.x > b.x"
    limits = Limits(statement_s=1.0)
    connection = msgspec.structs.replace(at(database, query=endless), limits=limits)
    with pytest.raises(StorageUnreachable, match="it took too long after row 0"):
        read(connection)


def test_a_locked_table_is_not_waited_for_for_ever(
    database: MysqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "LOCK_S", 1)
    connection = fill(database, "id INT", "(1)")
    with second(database) as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        with pytest.raises(StorageUnreachable, match="somebody has locked it"):
            read(connection)


@pytest.fixture
def user(database: MysqlDatabase) -> Iterator[Secrets]:
    """A user with a strange password and no rights but to the table `seen`."""
    name, password = f"u{database.database[-8:]}", "p@ss:w/ö%s'\"\\ %d"
    escaped = password.replace("\\", "\\\\").replace("'", "''")
    database.run(
        "CREATE TABLE IF NOT EXISTS seen (id INT)", "INSERT INTO seen VALUES (1)",
        f"CREATE USER {name} IDENTIFIED BY '{escaped}'", f"GRANT SELECT ON seen TO {name}",
    )  # fmt: skip
    yield Secrets(user=name, password=password)
    database.run(f"DROP USER {name}", "DROP TABLE seen")


def test_rights_and_passwords_are_the_servers_to_check(
    database: MysqlDatabase, user: Secrets
) -> None:
    fill(database, "id INT", "(1)")
    as_user = msgspec.structs.replace(at(database, name="seen"), secrets=user)
    assert read(as_user) == [{"id": "1"}]
    for connection in (
        msgspec.structs.replace(as_user, secrets=Secrets(user=user.user, password="wrong")),
        msgspec.structs.replace(as_user, secrets=Secrets(user="nobody-here")),
        msgspec.structs.replace(at(database), secrets=user),
        msgspec.structs.replace(at(database, db="mysql", name="user"), secrets=user),
    ):
        with pytest.raises(StorageRefused, match="wrong user or password"):
            read(connection)


def test_what_is_not_there_is_told(database: MysqlDatabase) -> None:
    with pytest.raises(StorageMissing, match="no such table"):
        read(at(database, name="nothing"))
    with pytest.raises(StorageMissing, match="no such database"):
        read(at(database, db="fedflow_nothing"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(StorageUnreachable, match="no server answers"):
            read(at(database, port=free.getsockname()[1]))
    with pytest.raises(StorageUnreachable, match="no server answers"):
        read(at(database, host="nothing.invalid"))


# --- servers that are none ------------------------------------------------------------------------

GREETING = (
    b"\x0a8.0.0\0" + b"\1\0\0\0" + b"12345678" + b"\0" + b"\xff\xf7" + b"\x2d" + b"\2\0"
    + b"\xff\xff" + b"\x15" + b"\0" * 10 + b"123456789012\0" + b"mysql_native_password\0"
)  # fmt: skip
OK = b"\0\0\0\2\0\0\0"


@contextmanager
def server(act: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a server for one connection on a free port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                act(connection)

        thread = threading.Thread(target=serve, name="test-mysql")
        thread.start()
        yield listening.getsockname()[1]
        thread.join(20)
        assert not thread.is_alive()


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def hostile(port: int) -> Connection:
    return Connection(
        address=MysqlRows(host="127.0.0.1", port=port, db="d", name="t"),
        secrets=Secrets(user="u", password="very-secret"),
        limits=Limits(connect_s=1.0, read_s=1.0),
    )


def test_a_server_that_says_nothing_is_left(caplog: pytest.LogCaptureFixture) -> None:
    with server(lambda connection: connection.recv(1) and None) as port:
        with pytest.raises(StorageUnreachable):
            read(hostile(port))


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 99, b"\xff" * 99])
def test_a_server_of_another_kind_is_told(noise: bytes) -> None:
    def act(connection: socket.socket) -> None:
        connection.sendall(noise)

    with server(act) as port:
        with pytest.raises(StorageUnreachable):
            read(hostile(port))


@pytest.mark.parametrize(
    "asks",
    [
        b"\xfemysql_clear_password\0",
        b"\xfedialog\0\4Password: ",
        b"\xfemysql_old_password\0salt1234",
    ],
    ids=["clear", "dialog", "old"],
)
def test_no_server_gets_the_password_in_clear(asks: bytes) -> None:
    heard: list[bytes] = []

    def act(connection: socket.socket) -> None:
        connection.sendall(packet(0, GREETING))
        heard.append(connection.recv(4096))
        connection.sendall(packet(2, asks))
        heard.append(connection.recv(4096))

    with server(act) as port:
        with pytest.raises(StorageRefused):
            read(hostile(port))
    assert b"very-secret" not in b"".join(heard)
    assert heard[0]


def test_no_server_gets_a_file() -> None:
    heard: list[bytes] = []

    def act(connection: socket.socket) -> None:
        connection.sendall(packet(0, GREETING))
        connection.recv(4096)
        connection.sendall(packet(2, OK))
        while (said := connection.recv(4096)) and b"max_statement_time" not in said:
            connection.sendall(packet(1, OK))
        connection.sendall(packet(1, b"\xfb/etc/passwd"))
        heard.append(connection.recv(1 << 16))

    with server(act) as port:
        with pytest.raises(StorageUnreachable):
            read(hostile(port))
    assert b"root" not in b"".join(heard)
