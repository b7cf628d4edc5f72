"""Where a Writer may make something: what the administrator allows, and without credentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.allowed_storages import AllowedStorages
from fedflow.app.data.connectors import Connectors
from fedflow.app.data.writing_targets import WritingTargets
from fedflow.app.local_jobs.transfers import Transfers
from fedflow.app.participant.worker_storages import WorkerStorages
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.data import (
    BadStorage,
    ConnectorMismatch,
    ConnectorNotFound,
    PlaceNotAllowed,
    StorageNotAllowed,
    TableNotFound,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.requests import MissingArgument, NotAuthenticated
from fedflow.base.ids import PartyId
from fedflow.domain.data.storage_places import Places
from fedflow.domain.data.storages import LocalFiles, MysqlRows, Secrets
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Role, Site
from fedflow.store.connector_key import KeyFile
from tests.unit.app.fakes import OneServer, table

LOCAL = Site(Role.LOCAL, PartyId("0"))
PLACES = Places(mysql_hosts=("db:3306",), s3_buckets=("s3://bucket/out",))
MYSQL = {"connector_name": "c", "db": "d", "name": "new"}


@dataclass
class World:
    alone: OneServer
    targets: WritingTargets
    transfers: Transfers
    storages: WorkerStorages
    out: Path

    def submit(self, engine: str, address: dict[str, Any] | None, name: str = "t") -> TaskKey:
        job = self.transfers.write(
            "n", name, output_namespace=None, output_name=None, storage_engine=engine,
            address=address,
        )  # fmt: skip
        return TaskKey(job_id=job.job_id, component="writer_0", version=0, site=LOCAL)


def world_of(alone: OneServer, *, may_write: bool) -> World:
    home = Folders(alone.home)
    out = alone.home / "out"
    out.mkdir(exist_ok=True)
    folders = AllowedFolders((out,))
    allowed = AllowedStorages(folders=folders, places=PLACES, may_write=may_write)
    connectors = Connectors(
        store=alone.store,
        sealer=lambda: KeyFile(home.connector_key),
        allowed=allowed,
        clock=alone.clock,
    )
    connectors.put("c", "MYSQL", {"host": "db", "user": "u", "passwd": "pw"})
    targets = WritingTargets(connectors=connectors, allowed=allowed, folders=folders)
    with alone.store.transaction() as tx:
        if tx.tables.get("n", "t") is None:
            tx.tables.put(replace(table("n", "t")))
    transfers = Transfers(
        store=alone.store, submissions=alone.core.submissions, targets=folders, own_party="0",
        writing=targets,
    )  # fmt: skip
    storages = WorkerStorages(
        store=alone.store, workers=alone.core.workers, connectors=connectors, targets=targets
    )
    return World(alone=alone, targets=targets, transfers=transfers, storages=storages, out=out)


@pytest.fixture
def world(alone: OneServer) -> World:
    alone.live()
    return world_of(alone, may_write=True)


def test_a_running_writer_gets_the_credentials_of_its_place(world: World) -> None:
    key = world.submit("mysql", MYSQL)
    given = world.alone.task(key).parameters
    assert given == {
        "namespace": "n", "table_name": "t", "storage_engine": "MYSQL", "address": MYSQL,
    }  # fmt: skip
    token = str(world.alone.task(key).token)
    found = world.storages.target(key, token)
    assert found.address == MysqlRows(host="db", db="d", name="new")
    assert found.secrets == Secrets(user="u", password="pw")
    with pytest.raises(NotAuthenticated):
        world.storages.target(key, token + "x")
    with pytest.raises(StorageNotAllowed, match="may_write"):
        world_of(world.alone, may_write=False).storages.target(key, token)
    world.alone.core.jobs.stop(key.job_id)
    with pytest.raises(LaunchRefused):  # its token ended with it
        world.storages.target(key, token)


def test_a_writer_of_a_second_name_gets_no_place(world: World) -> None:
    job = world.transfers.write("n", "t", output_namespace="o", output_name="u")
    key = TaskKey(job_id=job.job_id, component="writer_0", version=0, site=LOCAL)
    with pytest.raises(NotAuthenticated):
        world.storages.target(key, str(world.alone.task(key).token))


def test_a_folder_of_this_machine_must_be_allowed_and_new(world: World) -> None:
    place = world.targets.checked("LOCALFS", {"path": str(world.out / "new"), "format": "csv"})
    assert place.address == LocalFiles(path=str(world.out / "new"), format="csv")
    (world.out / "there").mkdir()
    (world.out / "link").symlink_to("/tmp")
    for path in ("/etc/new", "/etc", world.out / "link" / "new"):
        with pytest.raises(PlaceNotAllowed, match="outside"):
            world.targets.checked("LOCALFS", {"path": str(path)})
    for path in (world.out, world.out / "there"):
        with pytest.raises(BadStorage, match="already"):
            world.targets.checked("LOCALFS", {"path": str(path)})


@pytest.mark.parametrize(
    ("engine", "address", "error"),
    [
        ("MYSQL", {"db": "d", "name": "n", "host": "db", "user": "u", "passwd": "p"}, BadStorage),
        ("MYSQL", {**MYSQL, "passwd": "p"}, ConnectorMismatch),
        ("MYSQL", {**MYSQL, "host": "other"}, ConnectorMismatch),
        ("MYSQL", {"connector_name": "c", "db": "d", "query": "SELECT 1"}, BadStorage),
        ("MYSQL", {"connector_name": "x", "db": "d", "name": "n"}, ConnectorNotFound),
        ("MYSQL", {"connector_name": 7}, BadStorage),
        ("MYSQL", {"host": "elsewhere", "db": "d", "name": "n"}, StorageNotAllowed),
        ("S3", {"bucket": "bucket", "path": "out/a*"}, BadStorage),
        ("S3", {"bucket": "bucket", "path": "in/a"}, StorageNotAllowed),
        ("S3", {"bucket": "bucket"}, FedflowError),
        ("HDFS", {"name_node": "hdfs://h", "path": "/a"}, StorageNotAllowed),
        ("LOCALFS", {"path": "/a/../b"}, BadStorage),
        ("LOCALFS", {}, BadStorage),
    ],
)
def test_a_wrong_place_starts_nothing(
    world: World, engine: str, address: dict[str, Any], error: type[FedflowError]
) -> None:
    with pytest.raises(error):
        world.submit(engine, address)
    assert world.alone.executor.started == []


def test_what_is_not_named_is_missing(world: World) -> None:
    with pytest.raises(MissingArgument, match="address"):
        world.submit("MYSQL", None)
    with pytest.raises(TableNotFound):
        world.submit("MYSQL", MYSQL, name="none")


def test_nothing_is_written_unless_the_administrator_says_so(alone: OneServer) -> None:
    world = world_of(alone, may_write=False)
    for engine, address in (("MYSQL", MYSQL), ("LOCALFS", {"path": str(world.out / "new")})):
        with pytest.raises(StorageNotAllowed, match=r"storage\.may_write"):
            world.submit(engine, address)
