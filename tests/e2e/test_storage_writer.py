"""Tables that a real server writes to other storages, and binds there again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.e2e.servers import Party, standalone, wait_for
from tests.storage_servers import MysqlDatabase, S3Server, mysql_database, s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.mysql, pytest.mark.timeout(600)]

TEXT = "id,y,x0\n" + "".join(f"u{i},{i % 2},{i / 4}\n" for i in range(1000))


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A server that may write, and where to."""

    server: Party
    database: MysqlDatabase
    store: S3Server
    folder: Path

    def write(self, engine: str, address: dict[str, Any]) -> dict[str, Any]:
        place = {"storage_engine": engine, "address": address}
        body = {"namespace": "w", "table_name": "t", **place}
        answer: dict[str, Any] = self.server.post("/v1/data/writer", body)
        return answer

    def end_of(self, answer: dict[str, Any]) -> str:
        """Wait for a writer's job and return its status."""
        assert answer["retcode"] == 0, answer

        def look() -> str | None:
            body = {"job_id": answer["jobId"], "role": "local", "party_id": 0}
            status: str = self.server.post("/v1/job/query", body)["data"][0]["f_status"]
            return None if status in ("running", "waiting") else status

        return wait_for(look, "the end of the writer", within_s=120)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("warehouse")
    source = folder / "t.csv"
    source.write_text(TEXT)
    with mysql_database() as database, s3_server() as store:
        store.files.create_dir("bucket")
        host = f"{database.host}:{database.port}"
        settings = {
            "FEDFLOW__STORAGE__MAY_WRITE": "true",
            "FEDFLOW__STORAGE__MYSQL_HOSTS": json.dumps([host]),
            "FEDFLOW__STORAGE__S3_BUCKETS": json.dumps([f"{store.endpoint}/bucket/out"]),
            "FEDFLOW__STORAGE__ALLOWED_FOLDERS": json.dumps([str(folder)]),
            "FEDFLOW__DOWNLOAD__ALLOWED_FOLDERS": json.dumps([str(folder)]),
        }
        with standalone(tmp_path_factory.mktemp("writer"), settings=settings) as pair:
            world = World(server=pair.guest, database=database, store=store, folder=folder)
            path = {"path": str(source)}
            pair.guest.client.tables.bind(
                {"engine": "LOCALFS", "address": path, "namespace": "w", "name": "t"}
            )
            login = {"host": database.host, "port": database.port, "user": database.user}
            pair.guest.client.tables.create_connector(
                {
                    "connector_name": "db", "engine": "MYSQL",
                    "connector_info": {**login, "passwd": database.password},
                }
            )  # fmt: skip
            keys = {"access_key": store.access_key, "secret_key": store.secret_key}
            pair.guest.client.tables.create_connector(
                {
                    "connector_name": "s3", "engine": "S3",
                    "connector_info": {**keys, "endpoint": store.endpoint},
                }
            )  # fmt: skip
            yield world


def test_a_table_becomes_one_of_a_database(world: World) -> None:
    address = {"connector_name": "db", "db": world.database.database, "name": "made"}
    assert world.end_of(world.write("MYSQL", address)) == "success"
    assert world.database.run("SELECT COUNT(*), MAX(id), SUM(y) FROM made") == (
        (1000, "u999", 500.0),
    )
    assert world.end_of(world.write("MYSQL", address)) == "failed", "it is there already"
    assert world.database.run("SHOW TABLES") == (("made",),)


def test_a_table_becomes_a_data_set(world: World) -> None:
    place = {"path": str(world.folder / "set")}
    assert world.end_of(world.write("LOCALFS", place)) == "success"
    assert parquet.read_table(world.folder / "set").num_rows == 1000
    far = {"connector_name": "s3", "bucket": "bucket", "path": "out/set", "format": "csv"}
    assert world.end_of(world.write("S3", far)) == "success"
    with world.store.files.open_input_stream("bucket/out/set/part-0.csv") as written:
        assert written.read().decode() == TEXT


@pytest.mark.parametrize(
    ("engine", "address"),
    [
        ("MYSQL", {"host": "elsewhere", "db": "d", "name": "t"}),
        ("MYSQL", {"connector_name": "none", "db": "d", "name": "t"}),
        ("LOCALFS", {"path": "/etc/fedflow-new"}),
        ("S3", {"connector_name": "s3", "bucket": "bucket", "path": "in/set"}),
    ],
)
def test_a_place_that_is_not_allowed_starts_no_job(
    world: World, engine: str, address: dict[str, Any]
) -> None:
    answer = world.write(engine, address)
    assert answer["retcode"] != 0
    assert "jobId" not in answer
