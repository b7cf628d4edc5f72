"""Tables of other storages at a real server: bound, read by a job, and what is refused."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from pyarrow import parquet

from fedflow.base.errors.data import (
    ConnectorExists,
    ConnectorInUse,
    ConnectorNotFound,
    QueryNotAllowed,
    StorageMissing,
    StorageNotAllowed,
    StorageRefused,
    StorageUnreachable,
)
from fedflow.base.errors.error import FedflowError
from tests.e2e.servers import Party, free_ports, standalone, wait_for
from tests.storage_servers import MysqlDatabase, S3Server, mysql_database, s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.mysql, pytest.mark.timeout(600)]

PASSWORD = "p@ss:/ '\"w#%`"
ROWS = [("a", 1, 0.5), ("b", 0, 1.5), ("c", 1, 2.5)]
TEXT = [["a", "1", "0.5"], ["b", "0", "1.5"], ["c", "1", "2.5"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A server, and the storages that it may reach."""

    server: Party
    database: MysqlDatabase
    user: str
    store: S3Server
    folder: Path

    @property
    def login(self) -> dict[str, Any]:
        """Return a connector's members for the database."""
        where = {"host": self.database.host, "port": self.database.port}
        return {**where, "user": self.user, "passwd": PASSWORD}

    def bind(self, name: str, engine: str, address: Mapping[str, Any], **more: Any) -> None:
        given = {"engine": engine, "address": dict(address), "namespace": "w", "name": name}
        self.server.client.tables.bind({**given, **more})

    def read(self, name: str) -> tuple[str, str]:
        """Run a job that reads a table; return its id and status."""
        reads = {"0": {"reader_0": {"table": {"namespace": "w", "name": name}}}}
        answer = self.server.post(
            "/v1/job/submit",
            {
                "job_dsl": {
                    "components": {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}
                },
                "job_runtime_conf": {
                    "dsl_version": 2,
                    "initiator": {"role": "guest", "party_id": 9999},
                    "role": {"guest": [9999], "host": [10000]},
                    "component_parameters": {"role": {"guest": reads, "host": reads}},
                },
            },
        )
        assert answer["retcode"] == 0, answer
        job_id: str = answer["jobId"]

        def look() -> str | None:
            rows = self.server.post("/v1/job/query", {"job_id": job_id, "role": "guest"})["data"]
            status: str = rows[0]["f_status"]
            return None if status in ("running", "waiting") else status

        return job_id, wait_for(look, f"the end of job {job_id}", within_s=120)

    def rows(self, name: str) -> list[list[str]]:
        """Return the rows that a job reads of a table."""
        job_id, status = self.read(name)
        assert status == "success", self.reason(job_id)
        body = {"job_id": job_id, "component_name": "reader_0", "role": "guest", "party_id": 9999}
        found: list[list[str]] = self.server.post("/v1/tracking/component/output/data", body)[
            "data"
        ][0]
        return [[str(cell) for cell in row] for row in found]

    def reason(self, job_id: str) -> str:
        """Return what a job says of its failure."""
        return json.dumps(self.server.post("/v1/job/task/query", {"job_id": job_id})["data"])


@pytest.fixture(scope="module")
def database() -> Iterator[MysqlDatabase]:
    with mysql_database() as database:
        yield database


@pytest.fixture(scope="module")
def user(database: MysqlDatabase) -> Iterator[str]:
    """A user that may only read, with a password that is hard to write."""
    name = f"fed_{secrets.token_hex(4)}"
    quoted = pymysql.converters.escape_string(PASSWORD)
    database.run(
        f"CREATE USER '{name}'@'%' IDENTIFIED BY '{quoted}'",
        f"GRANT SELECT ON {database.database}.* TO '{name}'@'%'",
    )
    yield name
    database.run(f"DROP USER '{name}'@'%'")


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with s3_server() as store:
        store.files.create_dir("bucket")
        yield store


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, database: MysqlDatabase, user: str, store: S3Server
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("warehouse")
    host = f"{database.host}:{database.port}"
    (closed,) = free_ports(1)
    settings = {
        "FEDFLOW__STORAGE__ALLOWED_FOLDERS": json.dumps([str(folder)]),
        "FEDFLOW__STORAGE__MYSQL_HOSTS": json.dumps([host, f"127.0.0.1:{closed}"]),
        "FEDFLOW__STORAGE__S3_BUCKETS": json.dumps([f"{store.endpoint}/bucket/shared"]),
        "FEDFLOW__STORAGE__CONNECT_TIMEOUT_S": "2",
    }
    with standalone(tmp_path_factory.mktemp("bound"), settings=settings) as pair:
        server = pair.guest
        world = World(server=server, database=database, user=user, store=store, folder=folder)
        connector = {
            "connector_name": "warehouse", "engine": "MYSQL", "connector_info": world.login,
        }  # fmt: skip
        server.client.tables.create_connector(connector)
        yield world


@pytest.fixture
def people(world: World) -> Iterator[str]:
    """A table of the database."""
    name = f"people_{secrets.token_hex(3)}"
    world.database.run(
        f"CREATE TABLE {name} (y INT, x0 DOUBLE, id VARCHAR(9) PRIMARY KEY)",
        f"INSERT INTO {name} VALUES (1,0.5,'a'),(0,1.5,'b'),(1,2.5,'c')",
    )
    yield name
    with suppress(pymysql.MySQLError):
        world.database.run(f"DROP TABLE {name}")


def table_of(*rows: tuple[str, int, float]) -> pa.Table:
    names = ("id", "y", "x0")
    return pa.table({n: [row[i] for row in rows] for i, n in enumerate(names)})


# --- what works -----------------------------------------------------------------------------------


def test_a_table_of_a_database_is_bound_through_a_connector_and_read(
    world: World, people: str
) -> None:
    address = {"db": world.database.database, "name": people, "connector_name": "warehouse"}
    world.bind("t1", "MYSQL", address, id_column="id", feature_column="y,x0")
    info = world.server.client.tables.info("w", "t1")
    assert (info.engine, info.schema["sid"], info.schema["header"]) == ("MYSQL", "id", "y,x0")
    assert info.address["connector_name"] == "warehouse"
    assert info.address["host"] == world.database.host
    preview = world.server.client.tables.preview("w", "t1")
    assert [list(row) for row in preview.rows] == TEXT
    assert world.rows("t1") == TEXT
    world.database.run(f"INSERT INTO {people} VALUES (0,9,'d')")
    assert world.rows("t1") == [*TEXT, ["d", "0", "9"]]
    world.server.client.tables.delete("w", "t1")
    assert len(world.database.run(f"SELECT * FROM {people}")) == 4


def test_a_query_is_bound_and_read(world: World, people: str) -> None:
    query = f"SELECT id, x0 * 2 AS twice FROM {people} WHERE y = 1 ORDER BY id;"
    address = {"db": world.database.database, "query": query, "connector_name": "warehouse"}
    world.bind("t2", "MYSQL", address)
    assert world.rows("t2") == [["a", "1"], ["c", "5"]]


def test_a_data_set_of_an_object_store_is_bound_and_read(world: World) -> None:
    files = world.store.files
    for number, row in enumerate(ROWS):
        target = f"bucket/shared/d/part-{number}.parquet"
        parquet.write_table(table_of(row), target, filesystem=files)
    info = {
        "endpoint": world.store.endpoint, "region": "us-east-1",
        "access_key": world.store.access_key, "secret_key": world.store.secret_key,
    }  # fmt: skip
    given = {"connector_name": "store", "engine": "S3", "connector_info": info}
    world.server.client.tables.create_connector(given)
    address = {"bucket": "bucket", "path": "shared/d", "connector_name": "store"}
    assert world.server.client.tables.test_connector("store", address) == ["id", "y", "x0"]
    world.bind("t3", "S3", {**address, "format": "parquet"})
    assert world.rows("t3") == TEXT


def test_a_data_set_of_the_servers_machine_is_bound_and_read(world: World) -> None:
    folder = world.folder / "parts"
    folder.mkdir()
    for number, row in enumerate(ROWS):
        parquet.write_table(table_of(row), folder / f"part-{number}.parquet")
    world.bind("t4", "LOCALFS", {"path": str(folder)}, id_column="id", feature_column="x0")
    assert world.rows("t4") == [[key, x0] for key, _, x0 in TEXT]
    world.bind("t4", "LOCALFS", {"path": f"{folder}/part-?.parquet"}, drop=1)
    assert world.rows("t4") == TEXT


def test_columns_of_a_text_file_are_chosen_and_ordered(world: World) -> None:
    path = world.folder / "d.csv"
    path.write_text("y,x0,id\n1,0.5,a\n0,1.5,b\n")
    world.bind("t9", "PATH", {"path": str(path)}, id_column="id", feature_column="x0,y")
    preview = world.server.client.tables.preview("w", "t9")
    assert list(preview.header) == ["id", "x0", "y"]
    assert world.rows("t9") == [["a", "0.5", "1"], ["b", "1.5", "0"]]
    folder = world.folder / "texts"
    folder.mkdir()
    (folder / "1.csv").write_text("a;1\n")
    (folder / "2.csv").write_text("b;2\n")
    schema = {"sid": "key", "header": "v"}
    how = {"head": 0, "id_delimiter": ";", "schema": schema}
    world.bind("t10", "LOCALFS", {"path": str(folder), "format": "csv"}, **how)
    assert world.rows("t10") == [["a", "1"], ["b", "2"]]
    assert list(world.server.client.tables.preview("w", "t10").header) == ["key", "v"]


def test_credentials_in_an_address_are_shown_and_stored_nowhere(world: World, people: str) -> None:
    address = {**world.login, "db": world.database.database, "name": people}
    world.bind("t5", "MYSQL", address, id_column="id")
    shown = world.server.post("/v1/table/table_info", {"namespace": "w", "name": "t5"})
    assert "passwd" not in shown["data"]["address"]
    assert PASSWORD not in json.dumps(shown, ensure_ascii=False)
    assert world.user not in json.dumps(shown)
    assert [row[0] for row in world.rows("t5")] == ["a", "b", "c"]
    marks = [PASSWORD.encode(), json.dumps(PASSWORD)[1:-1].encode()]
    home = world.server.home
    for path in (p for p in home.rglob("*") if p.is_file() and not p.is_symlink()):
        content = path.read_bytes()
        assert not any(mark in content for mark in marks), path
    names = [one.name for one in world.server.client.tables.connectors()]
    assert "warehouse" in names
    assert not any(name.startswith(".") for name in names)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"name": "nothing"}, StorageMissing, "nothing"),
        ({"db": "nothing", "name": "t"}, FedflowError, ""),
        ({"query": "SELECT 1; SELECT 2"}, QueryNotAllowed, "$.address.query"),
        ({"query": "DELETE FROM t"}, QueryNotAllowed, "SELECT"),
        ({"query": "SELECT * FROM t INTO OUTFILE '/tmp/x'"}, QueryNotAllowed, "INTO"),
        ({"query": "SELECT 1 AS a, 2 AS a"}, FedflowError, "query"),
        ({"query": "SELECT 'x' AS id, x'00ff' AS b"}, FedflowError, "b"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_when_it_is_bound(
    world: World, change: dict[str, Any], error: type[Exception], says: str
) -> None:
    address = {"db": world.database.database, "connector_name": "warehouse", **change}
    with pytest.raises(error) as info:
        world.bind("bad", "MYSQL", address)
    assert says in str(info.value)
    assert PASSWORD not in str(info.value)
    assert not world.server.client.tables.info("w", "bad").exists


def test_a_storage_that_is_not_allowed_is_refused_with_the_setting(world: World) -> None:
    tables = [
        ("MYSQL", {"host": "db.example.com", "db": "d", "name": "t"}, "storage.mysql_hosts"),
        ("HIVE", {"host": "127.0.0.1", "name": "t"}, "storage.hive_hosts"),
        ("S3", {"bucket": "bucket", "path": "shared"}, "storage.s3_buckets"),
        ("S3", {"bucket": "bucket", "path": "private", "endpoint": world.store.endpoint},
         "storage.s3_buckets"),
        ("HDFS", {"name_node": "hdfs://nn", "path": "/a"}, "storage.hdfs_folders"),
    ]  # fmt: skip
    for engine, address, setting in tables:
        with pytest.raises(StorageNotAllowed) as info:
            world.bind("bad", engine, address)
        assert setting in str(info.value)
    (world.folder / "out").symlink_to("/etc")
    for path in ("/etc", f"{world.folder}/out", f"{world.folder}/out/passwd"):
        with pytest.raises(FedflowError) as refused:
            world.bind("bad", "LOCALFS", {"path": path})
        assert refused.value.name == "FileNotAllowed"


def test_wrong_credentials_and_a_server_that_is_off_are_told_apart(world: World) -> None:
    login = {**world.login, "db": world.database.database, "name": "t"}
    with pytest.raises(StorageRefused):
        world.bind("bad", "MYSQL", {**login, "passwd": "wrong"})
    allowed = json.loads(world.server.place.settings["FEDFLOW__STORAGE__MYSQL_HOSTS"])
    closed = int(allowed[1].rpartition(":")[2])
    with pytest.raises(StorageUnreachable):
        world.bind("bad", "MYSQL", {**login, "host": "127.0.0.1", "port": closed})


def test_a_bound_table_that_changed_or_vanished_fails_the_job_with_the_reason(
    world: World, people: str
) -> None:
    address = {"db": world.database.database, "name": people, "connector_name": "warehouse"}
    world.bind("t6", "MYSQL", address, id_column="id")
    world.database.run(f"ALTER TABLE {people} RENAME COLUMN x0 TO x9")
    job_id, status = world.read("t6")
    assert status == "failed"
    assert "x9" in world.reason(job_id)
    world.database.run(f"DROP TABLE {people}")
    job_id, status = world.read("t6")
    assert status == "failed"
    assert people in world.reason(job_id)
    assert PASSWORD not in world.reason(job_id)


def test_a_query_that_repeats_ids_fails_the_job_with_both_rows(world: World) -> None:
    query = "SELECT 'a' AS id, 1 AS x UNION ALL SELECT 'b', 2 UNION ALL SELECT 'a', 3"
    address = {"db": world.database.database, "query": query, "connector_name": "warehouse"}
    world.bind("t7", "MYSQL", address)
    job_id, status = world.read("t7")
    assert status == "failed"
    assert "row 3 repeats the id of row 1" in world.reason(job_id)


def test_a_connector_in_use_stays_and_a_changed_one_counts_at_once(
    world: World, people: str
) -> None:
    tables = world.server.client.tables
    given = {"connector_name": "other", "engine": "MYSQL", "connector_info": world.login}
    tables.create_connector(given)
    assert tables.test_connector("other") == ["one"]
    address = {"db": world.database.database, "name": people, "connector_name": "other"}
    world.bind("t8", "MYSQL", address, id_column="id")
    with pytest.raises(ConnectorInUse):
        tables.delete_connector("other")
    wrong = {**world.login, "passwd": "wrong"}
    tables.create_connector({**given, "connector_info": wrong})
    job_id, status = world.read("t8")
    assert status == "failed"
    assert "StorageRefused" in world.reason(job_id) or "refuses" in world.reason(job_id)
    elsewhere = {**given, "connector_info": {**world.login, "host": "db.inner"}}
    with pytest.raises(StorageNotAllowed):
        tables.create_connector(elsewhere)
    with pytest.raises(ConnectorExists):
        tables.create_connector(given, replace=False)
    tables.delete("w", "t8")
    tables.delete_connector("other")
    with pytest.raises(ConnectorNotFound):
        tables.connector("other")


def test_credentials_that_an_earlier_release_stored_in_clear_are_encrypted_at_the_start(
    world: World,
) -> None:
    server = world.server
    server.stop()
    path = server.home / "fedflow.sqlite"
    with closing(sqlite3.connect(path)) as store, store:
        store.execute(
            "INSERT INTO t_storage_connector VALUES ('old', 'MYSQL', ?, 5)",
            (json.dumps(world.login),),
        )
    server.start().wait_ready()
    assert server.client.tables.test_connector("old") == ["one"]
    with closing(sqlite3.connect(path)) as store:
        rows = store.execute("SELECT f_connector_info FROM t_storage_connector").fetchall()
    assert rows
    assert all(list(json.loads(info)) == ["sealed"] for (info,) in rows)
