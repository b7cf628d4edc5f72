"""Connectors: encrypted, masked, bound tables' own; bindings of storages; credentials of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.allowed_storages import AllowedStorages
from fedflow.app.data.bindings import Binding, Bindings
from fedflow.app.data.connectors import Connectors
from fedflow.app.data.tables import Tables
from fedflow.app.participant.worker_storages import WorkerStorages
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.data import (
    BadStorage,
    BoundTableRefused,
    ConnectorExists,
    ConnectorInUse,
    ConnectorMismatch,
    ConnectorNotFound,
    FileNotAllowed,
    SecretUnreadable,
    StorageMissing,
    StorageNotAllowed,
    TableDisabled,
    TableExists,
    TableNotFound,
)
from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.requests import BadRequest, NotAuthenticated, NotSupportedYet
from fedflow.domain.data.storage_places import Places, check_connector_place
from fedflow.domain.data.storages import (
    Connection,
    HiveRows,
    LocalFiles,
    MysqlRows,
    PathFile,
    Secrets,
)
from fedflow.domain.records import Connector, TableRecord, TaskFilter, TaskKey
from fedflow.store.connector_key import KeyFile
from fedflow.wire.fields import shown_connector, table_info
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl, table

INFO = {"host": "h", "user": "u", "passwd": "geheim"}
OWN = {"db": "d", "name": "t"}
PLACES = Places(mysql_hosts=("h:3306", "h2:3306"), hive_hosts=("h:10000",))
READER = {"module": "Reader", "output": {"data": ["data"]}}


@dataclass
class Looks:
    """Finds the same columns everywhere."""

    seen: list[tuple[Connection, dict[str, Any]]] = field(default_factory=list)
    error: Exception | None = None

    def probe(self, connection: Connection, **how: Any) -> tuple[Any, tuple[tuple[str, ...], ...]]:
        self.seen.append((connection, how))
        if self.error is not None:
            raise self.error
        return {"kind": "raw", "id": "id", "columns": ["x"]}, (("1", "2"),)

    @property
    def last(self) -> Connection:
        return self.seen[-1][0]


@dataclass
class World:
    alone: OneServer
    connectors: Connectors
    bindings: Bindings
    tables: Tables
    storages: WorkerStorages
    looks: Looks
    data: Path
    reallow: Callable[[Places], Connectors]

    def get(self, name: str = "b") -> TableRecord | None:
        with self.alone.store.read() as tx:
            return tx.tables.get("n", name)

    def stored(self) -> list[Connector]:
        with self.alone.store.read() as tx:
            return tx.connectors.all()

    def bind(self, name: str = "b", **changes: Any) -> TableRecord:
        given = {"engine": "mysql", "address": {**INFO, **OWN}, "namespace": "n", **changes}
        return self.bindings.bind(Binding(name=name, **given))

    def opened(self, name: str = "b") -> Connection:
        found = self.get(name)
        assert found is not None
        with self.alone.store.read() as tx:
            return self.connectors.of_table(tx, found)


@pytest.fixture
def world(alone: OneServer, tmp_path: Path) -> World:
    folders = Folders(alone.home)
    folders.tables.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    sources = AllowedFolders((data,))
    sealer = KeyFile(folders.connector_key)

    def connectors_of(places: Places) -> Connectors:
        allowed = AllowedStorages(folders=sources, places=places)
        return Connectors(
            store=alone.store, sealer=lambda: sealer, allowed=allowed, clock=alone.clock
        )

    connectors, looks = connectors_of(PLACES), Looks()
    addresses = (f"{i:032x}" for i in range(1, 100))
    bindings = Bindings(
        alone.core.kernel, sources=sources, files=NoFiles(), probes=looks, connectors=connectors,
        new_address=lambda: next(addresses), own_party="0",
    )  # fmt: skip
    tables = Tables(
        store=alone.store, folders=folders, archives=NoArchives(), sources=sources,
        clock=alone.clock, own_party="0",
    )  # fmt: skip
    storages = WorkerStorages(store=alone.store, workers=alone.core.workers, connectors=connectors)
    alone.live()
    return World(
        alone=alone, connectors=connectors, bindings=bindings, tables=tables, storages=storages,
        looks=looks, data=data, reallow=connectors_of,
    )  # fmt: skip


class NoFiles:
    """Knows the columns of every file."""

    def probe(self, path: Path, **_how: Any) -> Any:
        return {"kind": "raw", "id": "id", "columns": ["x"]}, ()


class NoArchives:
    """Packs nothing."""

    def write(self, *_given: Any, **_how: Any) -> None:
        raise AssertionError("nothing is packed here")


def text_of(found: object) -> str:
    return msgspec.json.encode(found).decode()


# --- connectors of people -------------------------------------------------------------------------


def test_a_connector_is_stored_encrypted_and_opened_whole(world: World) -> None:
    world.connectors.put("c", "mysql", INFO)
    (stored,) = world.stored()
    assert set(stored.info) == {"sealed"}
    assert "geheim" not in text_of(stored)
    found = world.connectors.get("c")
    assert (found.engine, found.info) == ("MYSQL", INFO)
    assert shown_connector(found).connector_info["passwd"] == "******"
    world.connectors.put("c", "MYSQL", {**INFO, "host": "h2"})
    assert world.connectors.get("c").info["host"] == "h2"
    assert [(c.name, c.info) for c in world.connectors.all()] == [("c", {})]


def test_a_connector_is_only_replaced_if_that_is_wanted(world: World) -> None:
    world.connectors.put("c", "MYSQL", INFO, replaces=False)
    with pytest.raises(ConnectorExists, match="'c' already, for MYSQL"):
        world.connectors.put("c", "S3", {}, replaces=False)
    assert world.connectors.get("c").info == INFO


def test_the_host_of_a_connector_is_checked_even_if_its_port_comes_later() -> None:
    places = Places(mysql_hosts=("db.example.com:3307", "10.0.*:3306"))
    for host in ("db.example.com", "10.0.1.2"):
        check_connector_place("MYSQL", {"host": host}, places)
    check_connector_place("MYSQL", {"host": "db.example.com", "port": "3307"}, places)
    check_connector_place("MYSQL", {"user": "u"}, places)
    check_connector_place("EGGROLL", {"host": "x"}, places)
    for info in ({"host": "db"}, {"host": "db.example.com", "port": 3306}, {"host": "10.0.x"}):
        with pytest.raises(StorageNotAllowed, match=r"storage\.mysql_hosts"):
            check_connector_place("MYSQL", info, places)
    with pytest.raises(StorageNotAllowed, match=r"storage\.hive_hosts"):
        check_connector_place("HIVE", {"host": "db.example.com"}, places)


@pytest.mark.parametrize("name", ["", "x" * 101, ".hidden", "a\nb"])
def test_a_connector_with_a_strange_name_is_refused(world: World, name: str) -> None:
    with pytest.raises(BadRequest):
        world.connectors.put(name, "MYSQL", {})
    with pytest.raises(ConnectorNotFound):
        world.connectors.get(name)


def test_a_connector_that_a_table_needs_is_not_deleted(world: World) -> None:
    world.connectors.put("c", "MYSQL", INFO)
    world.bind(address={"connector_name": "c", **OWN})
    with pytest.raises(ConnectorInUse, match=r"n\.b"):
        world.connectors.delete("c")
    world.tables.drop("n", "b")
    world.connectors.delete("c")
    with pytest.raises(ConnectorNotFound):
        world.connectors.delete("c")


def test_what_is_stored_in_clear_is_encrypted_once(world: World) -> None:
    old = Connector(name="c", engine="MYSQL", info=INFO, created_ms=5)
    with world.alone.store.transaction() as tx:
        tx.connectors.put(old)
    assert world.connectors.get("c") == old
    assert world.connectors.seal_old() == 1
    assert "geheim" not in text_of(world.stored())
    assert world.connectors.get("c") == old
    assert world.connectors.seal_old() == 0


def test_another_key_file_opens_nothing_and_breaks_no_start(world: World) -> None:
    world.connectors.put("c", "MYSQL", INFO)
    world.bind(address={"connector_name": "c", **OWN})
    key = Folders(world.alone.home).connector_key
    key.unlink()
    other = Connectors(
        store=world.alone.store, sealer=lambda: KeyFile(key), clock=world.alone.clock,
        allowed=AllowedStorages(folders=AllowedFolders(()), places=PLACES),
    )  # fmt: skip
    assert other.seal_old() == 0
    with pytest.raises(SecretUnreadable, match="'c'"):
        other.get("c")
    assert not key.exists(), "a look makes no new key"


# --- bindings -------------------------------------------------------------------------------------


def test_credentials_in_an_address_go_to_a_hidden_connector(world: World) -> None:
    bound = world.bind(id_column="id", feature_column="x")
    assert world.looks.last.secrets == Secrets(user="u", password="geheim")
    assert world.looks.last.feature_columns == ("x",)
    stored = world.get()
    assert stored == bound
    assert "geheim" not in text_of(stored)
    shown = table_info(stored)
    assert shown.engine == "MYSQL"
    assert shown.address == {"host": "h", "port": 3306, "db": "d", "name": "t"}
    (hidden,) = world.stored()
    assert hidden.name == f".{bound.address}"
    assert "geheim" not in text_of(hidden)
    assert world.connectors.all() == []
    with pytest.raises(ConnectorNotFound):
        world.connectors.get(hidden.name)
    with pytest.raises(ConnectorNotFound):
        world.bind("c", address={**OWN, "connector_name": hidden.name})
    assert world.opened().secrets == Secrets(user="u", password="geheim")


def test_hidden_credentials_go_with_the_last_name_of_their_table(world: World) -> None:
    world.bind()
    again = {"namespace": "n", "name": "b"}
    world.bind("second", engine="STANDALONE", address=again)
    world.tables.drop("n", "b")
    assert world.opened("second").secrets.password == "geheim"
    world.tables.drop("n", "second")
    assert world.stored() == []
    world.bind()
    world.bind(drop=True, address={**INFO, **OWN, "passwd": "neu"})
    assert len(world.stored()) == 1
    assert world.opened().secrets.password == "neu"


def test_an_address_without_credentials_makes_no_connector(world: World) -> None:
    world.bind(address={"host": "h", **OWN})
    assert world.stored() == []
    assert world.opened().secrets == Secrets()


def test_a_failed_look_stores_nothing(world: World) -> None:
    world.looks.error = NotSupportedYet(what="x")
    with pytest.raises(NotSupportedYet):
        world.bind()
    assert world.get() is None
    assert world.stored() == []


def test_a_taken_name_is_refused_before_the_storage_is_looked_at(world: World) -> None:
    world.bind()
    world.looks.seen.clear()
    with pytest.raises(TableExists):
        world.bind()
    assert world.looks.seen == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"address": {**INFO, **OWN, "host": "evil"}}, StorageNotAllowed),
        ({"address": {**INFO, **OWN, "port": 22}}, StorageNotAllowed),
        ({"address": {"connector_name": "nobody", **OWN}}, ConnectorNotFound),
        ({"address": {"connector_name": 7, **OWN}}, BadRequest),
        ({"address": {"connector_name": "c", **OWN, "host": "evil"}}, ConnectorMismatch),
        ({"address": {"connector_name": "c", **OWN, "passwd": "x"}}, ConnectorMismatch),
        ({"engine": "HIVE", "address": {"connector_name": "c", "name": "t"}}, ConnectorMismatch),
        ({"engine": "HIVE", "address": {"host": "h", "name": "t"}}, BadRequest),
        (
            {
                "engine": "HIVE",
                "address": {"host": "h", "query": "SELECT 1 AS id"},
                "schema": {"sid": "id", "header": "x"},
            },
            NotSupportedYet,
        ),
        ({"head": False, "id_column": "id"}, BadRequest),
        ({"engine": "LOCALFS", "address": {"path": "/etc"}}, FileNotAllowed),
        ({"engine": "LOCALFS", "address": {"path": "/etc/*"}}, FileNotAllowed),
        ({"engine": "LOCALFS", "address": {"path": "/../etc"}}, BadStorage),
        ({"engine": "API", "address": {}}, NotSupportedYet),
        ({"extend_sid": True, "id_column": "x"}, BadRequest),
    ],
)
def test_a_wrong_storage_is_refused_and_leaves_nothing(
    world: World, changes: dict[str, Any], error: type[Exception]
) -> None:
    world.connectors.put("c", "MYSQL", {"user": "u", "passwd": "geheim"})
    with pytest.raises(error) as info:
        world.bind(**changes)
    assert "geheim" not in str(info.value)
    assert world.get() is None
    assert len(world.stored()) == 1


def test_links_in_the_path_of_a_data_set_are_followed_before_it_is_allowed(world: World) -> None:
    true = world.data / "true"
    true.mkdir()
    (world.data / "link").symlink_to(true)
    (world.data / "out").symlink_to("/etc")
    world.bind(engine="LOCALFS", address={"path": f"{world.data}/link/*.parquet"})
    found = world.looks.last
    assert found.address == LocalFiles(path=f"{true}/*.parquet")
    assert found.roots == (str(world.data),)
    assert world.opened().address == found.address
    for path in ("out", "out/*", "out/passwd"):
        with pytest.raises(FileNotAllowed):
            world.bind("c", engine="LOCALFS", address={"path": f"{world.data}/{path}"})
    true.rename(world.data / "moved")
    true.symlink_to("/etc")
    with pytest.raises(FileNotAllowed):
        world.opened()


def test_what_is_not_there_is_told_apart_from_what_may_not_be_read(world: World) -> None:
    with pytest.raises(StorageMissing):
        world.bind(engine="LOCALFS", address={"path": f"{world.data}/none/*.csv"})
    path = world.data / "d.csv"
    path.write_text("id\n1\n")
    world.bind(engine="PATH", address={"path": str(path)})
    path.unlink()
    with pytest.raises(StorageMissing):
        world.opened()
    path.symlink_to("/etc/passwd")
    with pytest.raises(FileNotAllowed):
        world.opened()


def test_a_table_of_hive_is_bound_with_the_columns_that_the_request_says(world: World) -> None:
    schema = {"sid": "id", "header": "y,x"}
    world.bind(engine="HIVE", address={"host": "h", "name": "t", "username": "u"}, schema=schema)
    stored = world.get()
    assert stored is not None
    assert stored.schema == {"kind": "raw", "id": "id", "columns": ["y", "x"]}
    assert world.opened().address == HiveRows(host="h", name="t")
    assert world.looks.seen == []


def test_a_connector_is_tried_with_a_query_or_an_address(world: World) -> None:
    world.connectors.put("c", "MYSQL", INFO)
    assert world.bindings.try_connector("c", {}) == ["id", "x"]
    assert world.looks.last.address == MysqlRows(
        host="h", db="information_schema", query="SELECT 1 AS one"
    )
    world.bindings.try_connector("c", OWN)
    assert world.looks.last.address == MysqlRows(host="h", db="d", name="t")
    world.connectors.put("e", "EGGROLL", {"x": [1]})
    with pytest.raises(NotSupportedYet):
        world.bindings.try_connector("e", {})


# --- credentials of tasks -------------------------------------------------------------------------


def test_what_is_allowed_is_checked_again_when_a_job_reads(world: World) -> None:
    world.bind()
    found = world.get()
    assert found is not None
    strict = world.reallow(Places())
    with world.alone.store.read() as tx, pytest.raises(StorageNotAllowed):
        strict.of_table(tx, found)


def test_a_changed_connector_counts_and_a_changed_host_must_be_allowed(world: World) -> None:
    world.connectors.put("c", "MYSQL", INFO)
    world.bind(address={"connector_name": "c", **OWN})
    world.connectors.put("c", "MYSQL", {**INFO, "host": "h2", "passwd": "neu"})
    opened = world.opened()
    assert (opened.address, opened.secrets.password) == (
        MysqlRows(host="h2", db="d", name="t"), "neu",
    )  # fmt: skip
    with pytest.raises(StorageNotAllowed, match="evil:3306"):
        world.connectors.put("c", "MYSQL", {**INFO, "host": "evil"})
    assert world.opened() == opened, "the one that works was not replaced"
    world.reallow(Places(mysql_hosts=("*:*",))).put("c", "MYSQL", {**INFO, "host": "evil"})
    with pytest.raises(StorageNotAllowed):
        world.opened()
    world.connectors.put("c", "MYSQL", {"user": "u", "passwd": "p"})
    with pytest.raises(BadStorage, match="host"):
        world.opened()
    world.connectors.put("c", "S3", {"secret_key": "p"})
    with pytest.raises(ConnectorMismatch):
        world.opened()


def test_only_a_running_task_that_was_told_to_read_a_table_gets_its_credentials(
    world: World,
) -> None:
    world.bind()
    world.bind("other")
    with world.alone.store.transaction() as tx:
        tx.tables.put(table("n", "plain"))
    reads = {"0": {"r": {"table": {"namespace": "n", "name": "b"}}}}
    parameters = {"role": {"guest": reads, "host": reads}}
    world.alone.core.submissions.submit(dsl(r=READER), conf(parameters=parameters))
    task = reader_of(world)
    token = str(world.alone.task(task).token)
    found = world.storages.connection(task, token, "n", "b")
    assert found.secrets == Secrets(user="u", password="geheim")
    for wrong in ("", "x", f"{token}x"):
        with pytest.raises(NotAuthenticated):
            world.storages.connection(task, wrong, "n", "b")
    for name in ("other", "plain", "none"):
        with pytest.raises(NotAuthenticated):
            world.storages.connection(task, token, "n", name)
    world.tables.set_disabled("n", "b", disabled=True)
    with pytest.raises(TableDisabled):
        world.storages.connection(task, token, "n", "b")
    world.tables.drop("n", "b")
    with pytest.raises(TableNotFound):
        world.storages.connection(task, token, "n", "b")
    with world.alone.store.transaction() as tx:
        tx.tables.put(table("n", "b"))
    with pytest.raises(NotAuthenticated, match="not bound"):
        world.storages.connection(task, token, "n", "b")


def test_other_parties_are_not_told_where_a_table_lies(world: World) -> None:
    world.connectors.put("c", "MYSQL", INFO)
    world.bind(address={"connector_name": "c", **OWN})
    reads = {"0": {"r": {"table": {"namespace": "n", "name": "b"}}}}
    parameters = {"role": {"guest": reads, "host": reads}}
    world.alone.core.submissions.submit(dsl(r=READER), conf(parameters=parameters))
    task = reader_of(world)
    token = str(world.alone.task(task).token)
    earlier = world.reallow(Places(mysql_hosts=("*:*",)))  # settings that were wider
    for info, told in (
        ({**INFO, "host": "secret-host"}, "`storage.mysql_hosts` does not allow its storage"),
        ({"user": "u", "port": 3306}, "does not fit"),
    ):
        earlier.put("c", "MYSQL", info)
        with pytest.raises(BoundTableRefused, match=told) as caught:
            world.storages.connection(task, token, "n", "b")
        assert "secret-host" not in str(caught.value)
    world.connectors.put("c", "S3", {})
    with pytest.raises(BoundTableRefused, match="does not fit"):
        world.storages.connection(task, token, "n", "b")
    with world.alone.store.transaction() as tx:
        tx.connectors.drop("c")
    with pytest.raises(BoundTableRefused, match="connector is not there"):
        world.storages.connection(task, token, "n", "b")


def test_a_task_that_has_ended_gets_no_credentials(world: World) -> None:
    world.bind()
    reads = {"0": {"r": {"table": {"namespace": "n", "name": "b"}}}}
    parameters = {"role": {"guest": reads, "host": reads}}
    job = world.alone.core.submissions.submit(dsl(r=READER), conf(parameters=parameters))
    task = reader_of(world)
    token = str(world.alone.task(task).token)
    world.alone.core.jobs.stop(job.job_id)
    with pytest.raises(LaunchRefused):  # its token ended with it
        world.storages.connection(task, token, "n", "b")


def test_a_file_that_an_earlier_release_bound_is_still_read(world: World) -> None:
    path = world.data / "d.csv"
    path.write_text("id\n1\n")
    old = replace(table("n", "old"), engine="PATH", source=str(path), origin="table_bind")
    assert old.storage is None
    with world.alone.store.transaction() as tx:
        tx.tables.put(old)
    assert world.opened("old").address == PathFile(path=str(path))


def reader_of(world: World) -> TaskKey:
    """Return the guest's attempt of the reader, once it was started."""
    with world.alone.store.read() as tx:
        found = [t for t in tx.tasks.find(TaskFilter()) if t.key.site in (GUEST, HOST)]
    return next(t.key for t in found if t.key.component == "r" and t.token is not None)
