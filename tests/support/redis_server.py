"""A private Redis for tests, on a free port of this machine; nothing of it is stored."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

_START_S = 20.0


@contextmanager
def redis_server(folder: Path, *options: str, password: str | None = None) -> Iterator[int]:
    """Run a server and give its port; without the program a test is skipped, or fails in CI."""
    program = shutil.which("redis-server")
    if program is None:
        no_server = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        no_server("no redis-server: apt install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = (
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
        *options,
    )
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([program, *words], stdout=log, stderr=log)
    try:
        _wait(port, password)
        yield port
    finally:
        process.terminate()
        process.wait(_START_S)


def _wait(port: int, password: str | None) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            with redis.Redis(port=port, password=password) as link:
                link.ping()
                return
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
