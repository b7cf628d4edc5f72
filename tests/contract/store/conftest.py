"""The stores that the contract is run over, and builders that name only the fields that matter.

MySQL: `FEDFLOW_TEST_MYSQL=mysql://user:password@host:port/`; the default is root without a
password at 127.0.0.1:3306. Each run makes a database of its own and drops it. Without a server the
tests are skipped, except with CI=true.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest

from fedflow.app.ports.store import Store
from fedflow.base.ids import PartyId
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Command,
    CommandKind,
    JobKey,
    JobRecord,
    OutputTable,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
    StoredModel,
    TableRecord,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.store.connect import open_mysql, open_sqlite
from fedflow.store.memory.store import MemoryStore
from fedflow.store.sql.store import SqlStore
from fedflow.store.tables import TABLES

_DEFAULT = "mysql://root@127.0.0.1:3306/"


@dataclass(frozen=True, kw_only=True)
class MySql:
    """A server for tests, and a database on it."""

    host: str
    port: int
    user: str
    password: str
    database: str

    def connect(self) -> Any:
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            connect_timeout=3,
        )

    def open(self, **other: Any) -> SqlStore:
        login: dict[str, Any] = {
            "host": self.host, "port": self.port, "user": self.user, "password": self.password,
            "database": self.database,
        }  # fmt: skip
        return open_mysql(**{**login, **other})

    def run(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySql]:
    """A MySQL server with a new database name, dropped at the end."""
    parts = urlsplit(os.environ.get("FEDFLOW_TEST_MYSQL", _DEFAULT))
    server = MySql(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=f"fedflow_test_{secrets.token_hex(5)}",
    )
    try:
        server.connect().close()
    except pymysql.err.OperationalError as exc:
        where = f"no MySQL at {server.host}:{server.port} (set FEDFLOW_TEST_MYSQL): {exc.args[0]}"
        if os.environ.get("CI") == "true":
            pytest.fail(where)
        pytest.skip(where)
    yield server
    server.run(f"DROP DATABASE IF EXISTS {server.database}")


@pytest.fixture(scope="session")
def mysql_store(mysql: MySql) -> Iterator[SqlStore]:
    store = mysql.open()
    yield store
    store.close()


#: of these the store in memory has no part: simulations do not use them
NOT_IN_MEMORY = ("accounts", "administration", "caches", "instances", "models")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        kinds: list[Any] = ["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)]
        if not metafunc.module.__name__.endswith(NOT_IN_MEMORY):
            kinds.insert(0, "memory")
        metafunc.parametrize("store", kinds, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "mysql":
        store: Store = request.getfixturevalue("mysql_store")
        server: MySql = request.getfixturevalue("mysql")
        server.run(*(f"DELETE FROM {server.database}.{table.name}" for table in TABLES))
        yield store
        return
    store = MemoryStore() if request.param == "memory" else open_sqlite(tmp_path / "store.db")
    yield store
    store.close()


class Make:
    """Builders of records."""

    guest = Site(Role.GUEST, PartyId("9999"))
    host = Site(Role.HOST, PartyId("10000"))
    arbiter = Site(Role.ARBITER, PartyId("10000"))

    def reason(self, message: str = "it waits", code: str = "NotEnoughResources") -> Reason:
        return Reason(code=code, message=message, site=self.host)

    def job_key(self, job_id: str = "j1", site: Site | None = None) -> JobKey:
        return JobKey(job_id=job_id, site=site or self.guest)

    def job(self, job_id: str = "j1", site: Site | None = None, **fields: Any) -> JobRecord:
        values: dict[str, Any] = {
            "key": self.job_key(job_id, site), "initiator": self.guest, "status": JobStatus.WAITING,
            "epoch": 0, "dsl": {"components": {}}, "conf": {"dsl_version": 2},
            "roles": {"guest": ["9999"], "host": ["10000"]}, "cores": 2, "created_ms": 1000,
            "updated_ms": 1000,
        }  # fmt: skip
        return JobRecord(**{**values, **fields})

    def task_key(
        self,
        component: str = "a",
        version: int = 0,
        *,
        job_id: str = "j1",
        site: Site | None = None,
    ) -> TaskKey:
        return TaskKey(job_id=job_id, component=component, version=version, site=site or self.guest)

    def task(self, key: TaskKey | None = None, **fields: Any) -> TaskRecord:
        values: dict[str, Any] = {
            "key": key or self.task_key(), "module": "Empty", "initiator": self.guest,
            "status": TaskStatus.WAITING, "party_status": TaskStatus.WAITING,
            "parameters": {"seconds": 0.5}, "created_ms": 1000, "updated_ms": 1000,
        }  # fmt: skip
        return TaskRecord(**{**values, **fields})

    def scheduled_task(
        self, component: str, version: int = 0, status: TaskStatus = TaskStatus.WAITING
    ) -> ScheduledTask:
        return ScheduledTask(
            component=component,
            version=version,
            status=status,
            parties=tuple(
                ScheduledPartyTask(site=s, status=status) for s in (self.guest, self.host)
            ),
        )

    def schedule(
        self, job_id: str = "j1", *, components: tuple[str, ...] = ("b", "a"), **fields: Any
    ) -> ScheduledJob:
        values: dict[str, Any] = {
            "job_id": job_id, "initiator": self.guest, "status": JobStatus.READY, "epoch": 0,
            "dsl": {"components": dict.fromkeys(components)}, "conf": {}, "priority": 0,
            "created_ms": 1000, "updated_ms": 1000,
            "sites": tuple(
                ScheduledSite(site=s, phase=SitePhase.CREATING) for s in (self.host, self.guest)
            ),
            "tasks": tuple(self.scheduled_task(c) for c in components),
        }  # fmt: skip
        return ScheduledJob(**{**values, **fields})

    def command(self, job_id: str = "j1", to: Site | None = None, **fields: Any) -> Command:
        values: dict[str, Any] = {
            "kind": CommandKind.START_TASK, "job_id": job_id, "source": self.guest,
            "destination": to or self.host, "path": "/party/x", "body": {"epoch": 0},
            "request_id": secrets.token_hex(8), "created_ms": 1000, "deadline_ms": 9000,
            "due_ms": 1000,
        }  # fmt: skip
        return Command(**{**values, **fields})

    def table(self, namespace: str = "ns", name: str = "t", **fields: Any) -> TableRecord:
        values: dict[str, Any] = {
            "namespace": namespace, "name": name, "address": "ab12", "schema": {"id": "id"},
            "count": 3, "partitions": 4, "origin": "upload", "created_ms": 1000,
            "preview": (("id", "x"), ("1", "2")),
        }  # fmt: skip
        return TableRecord(**{**values, **fields})

    def output(self, key: TaskKey, data_name: str = "data", position: int = 0) -> OutputTable:
        return OutputTable(
            key=key, data_name=data_name, position=position, namespace="out",
            name=f"{key.session}_{data_name}", address=f"rows-{data_name}",
        )  # fmt: skip

    def model(self, key: TaskKey, **fields: Any) -> StoredModel:
        values: dict[str, Any] = {
            "key": key, "alias": "model", "meta_name": "M", "param_name": "P", "meta": {"a": 1},
            "param": {"w": [0.1, -2.5]},
        }  # fmt: skip
        return StoredModel(**{**values, **fields})


@pytest.fixture
def make() -> Make:
    return Make()
