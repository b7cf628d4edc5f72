"""Real storages for tests: an S3 server (moto's, on a free loopback port), MySQL, and Redis."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest
from pyarrow import fs
from redis import Redis
from redis.exceptions import RedisError


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Server:
    """A running server; it takes any keys."""

    endpoint: str  #: `http://host:port`
    access_key: str = "key"
    secret_key: str = "se/cr+et"

    @property
    def files(self) -> Any:
        """Return its file system, which may make buckets."""
        return fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that moto imports
        from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(endpoint=f"http://{host}:{port}")
    finally:
        server.stop()


@dataclass(frozen=True, kw_only=True, slots=True)
class MysqlDatabase:
    """An empty database at `FEDFLOW_TEST_MYSQL`, or 127.0.0.1:3306."""

    host: str
    port: int
    user: str
    password: str
    database: str

    def run(self, *statements: str) -> Any:
        """Run statements, and return the rows of the last one."""
        login = {"host": self.host, "port": self.port, "user": self.user}
        with (
            pymysql.connect(
                **login, password=self.password, database=self.database, autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()


@contextmanager
def mysql_database() -> Iterator[MysqlDatabase]:
    """Make a database and drop it; without a server the test is skipped, or fails in CI."""
    parts = urlsplit(os.environ.get("FEDFLOW_TEST_MYSQL", "mysql://root@127.0.0.1:3306/"))
    login: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1", "port": parts.port or 3306,
        "user": unquote(parts.username or "root"), "password": unquote(parts.password or ""),
    }  # fmt: skip
    name = f"fedflow_test_{secrets.token_hex(5)}"
    try:
        pymysql.connect(**login, connect_timeout=3).close()
    except pymysql.err.OperationalError as exc:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no MySQL: {exc.args[0]}")
        pytest.skip(f"no MySQL: {exc.args[0]}")
    with pymysql.connect(**login, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            yield MysqlDatabase(**login, database=name)
        finally:
            cursor.execute(f"DROP DATABASE {name}")


class RedisServer:
    """A private Redis at a socket below a folder; without the program the test is skipped, or
    fails in CI.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = folder / "redis"
        if shutil.which("redis-server") is None:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no redis-server")

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self, **more: str) -> None:
        """Start it, and wait until it answers; `more` are options, `_` stands for `-`."""
        options = {"port": "0", "unixsocket": str(self.socket), "save": "", "appendonly": "no"}
        options |= {name.replace("_", "-"): value for name, value in more.items()}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["redis-server", "--dir", str(self._folder), *words], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None
        self.socket.unlink(missing_ok=True)

    def run(self, *words: str | bytes) -> Any:
        """Run a command."""
        with closing(Redis(unix_socket_path=str(self.socket), protocol=2)) as client:
            return client.execute_command(*words)

    def _answers(self) -> bool:
        try:
            return bool(self.run("PING"))
        except RedisError:
            return False
