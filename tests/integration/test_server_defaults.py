"""A server as it comes, without any setting: who can reach it, and who can read what it writes."""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedflow.client.client import Client
from tests.e2e.jobs import NAMES, example
from tests.e2e.servers import DATA, environment

ANY_PORT = {"FEDFLOW__FATEFLOW__HTTP_PORT": "0", "FEDFLOW__FATEFLOW__GRPC_PORT": "0"}
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
CELL = re.compile(r"-?\d+\.\d{5,}")  #: long enough to be of no other origin


def fedflow(*words: object) -> str:
    """Run a command of the CLI with default settings, but for the ports; return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=40,
        env=environment(ANY_PORT),
        umask=0o022,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Running:
    """A server that ran the main job."""

    home: Path
    state: dict[str, Any]
    mode: int  #: that its home shall have

    @property
    def log(self) -> Path:
        return self.home / "server-logs" / "server.log"

    def processes(self) -> list[psutil.Process]:
        server = psutil.Process(self.state["pid"])
        return [server, *server.children(recursive=True)]


@pytest.fixture(scope="module", params=["a new home", "a home that others may read"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("defaults") / "home"
    mode = 0o700
    if request.param == "a home that others may read":
        mode = 0o755
        home.mkdir()
        home.chmod(mode)
    state = json.loads(fedflow("server", "start", "--home", home, "--json"))
    try:
        with Client(f"http://{state['http']}") as client:
            for table in NAMES.values():
                sent = client.upload(
                    DATA / f"{table}.csv", namespace="experiment", table_name=table
                )
                assert client.wait(sent.job_id, timeout_s=30).succeeded
            job_id = client.submit(*example(iterations=1)).job_id
            assert client.wait(job_id, timeout_s=30).succeeded
        yield Running(home, state, mode)
    finally:
        fedflow("server", "stop", "--home", home)


def test_a_server_listens_on_loopback_only(server: Running) -> None:
    addresses = []
    for process in server.processes():
        with suppress(psutil.NoSuchProcess):  # a worker that has just ended
            addresses += [
                connection.laddr.ip.removeprefix("::ffff:")
                for connection in process.net_connections(kind="inet")
                if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
            ]
    assert len(addresses) >= 2, "REST and gRPC"
    assert set(addresses) <= {"127.0.0.1", "::1"}


def test_a_home_is_for_its_user_only(server: Running) -> None:
    """A folder that was there before keeps its mode, but lets nobody in further."""
    assert stat.S_IMODE(server.home.stat().st_mode) == server.mode
    for folder in ("run", "tables", "spool", "uploads", "jobs", "logs"):
        assert stat.S_IMODE((server.home / folder).stat().st_mode) == 0o700, folder


def test_nothing_in_a_home_can_be_read_by_others(server: Running) -> None:
    open_to_others = [
        (str(path.relative_to(server.home)), oct(path.lstat().st_mode))
        for path in server.home.rglob("*")
        if path.lstat().st_mode & FOR_OTHERS
    ]
    assert open_to_others == []


def test_spec_files_are_private(server: Running) -> None:
    specs = list((server.home / "jobs").rglob("spec-*.json"))
    assert len(specs) > 10, "uploads and the tasks of the main job"
    assert {stat.S_IMODE(path.stat().st_mode) for path in specs} == {0o600}


def test_sockets_lie_in_a_private_folder(server: Running) -> None:
    sockets = {
        Path(str(connection.laddr))
        for process in server.processes()
        for connection in process.net_connections(kind="unix")
        if isinstance(connection.laddr, str) and connection.laddr.startswith("/")
    }
    assert {path.name for path in sockets} >= {"server.sock", "federation.sock"}
    for path in sockets:
        folder = path.parent.stat()
        assert (stat.S_IMODE(folder.st_mode), folder.st_uid) == (0o700, os.getuid()), path


def test_no_log_holds_a_token_or_a_cell_of_the_data(server: Running) -> None:
    logs = {path: path.read_text() for path in server.home.rglob("*.log")}
    assert server.log in logs
    assert "Job " in logs[server.log], "the server's log tells of the job"
    secrets = tokens(server.home) | cells()
    assert len(secrets) > 1000
    words = {word for text in logs.values() for word in re.findall(r"[\w.-]+", text)}
    assert {word.strip(".") for word in words}.isdisjoint(secrets)
    everything = "\n".join(logs.values())
    assert [token for token in tokens(server.home) if token in everything] == []


def tokens(home: Path) -> set[str]:
    """Return the token of every attempt."""
    uri = f"file:{home / 'fedflow.sqlite'}?mode=ro"
    connection = sqlite3.connect(uri, uri=True)
    try:
        rows = connection.execute("SELECT f_token FROM t_task WHERE f_token IS NOT NULL").fetchall()
    finally:
        connection.close()
    assert len(rows) > 10
    return {token for (token,) in rows}


def cells() -> set[str]:
    """Return the cells of both parties' files that could be of no other origin."""
    found: set[str] = set()
    for table in NAMES.values():
        with (DATA / f"{table}.csv").open(newline="", encoding="utf-8") as file:
            found |= {cell for row in csv.reader(file) for cell in row if CELL.fullmatch(cell)}
    return found
