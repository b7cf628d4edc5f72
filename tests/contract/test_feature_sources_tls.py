"""Feature sources over TLS: the server's certificate is checked against the authority given."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from fedflow.cli.tls import PartyFiles, create_files
from fedflow.serving.sources.source import FeatureFault, open_feature_source
from tests import mysql_server
from tests.support.redis_server import redis_server
from tests.unit.docs.markdown import ROOT


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> PartyFiles:
    return create_files(tmp_path_factory.mktemp("tls") / "own", ("1",))[0]


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> PartyFiles:
    """An authority that has not signed the server's certificate."""
    return create_files(tmp_path_factory.mktemp("tls") / "others", ("1",))[0]


def found(name: str, **options: Any) -> Any:
    """Return the features of u1, or the code of the fault."""
    with closing(open_feature_source(name, {"timeout_ms": 3_000, **options})) as source:
        (one,) = source.find([{"id": "u1"}], deadline_s=1e12)
    return one.retcode if isinstance(one, FeatureFault) else one


@pytest.fixture(scope="module")
def secured_redis(
    files: PartyFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = (
        "--tls-port", str(port), "--tls-cert-file", str(files.certificate), "--tls-key-file",
        str(files.key), "--tls-auth-clients", "no", "--requirepass", "secret",
    )  # fmt: skip
    with redis_server(tmp_path_factory.mktemp("redis"), *words, password="secret") as plain:
        with redis.Redis(port=plain, password="secret") as link:
            link.hset("row:u1", mapping={"x": "1"})
        yield {"port": port, "key": "row:{id}", "password": "secret"}


def test_redis_is_asked_over_tls(
    secured_redis: dict[str, Any], files: PartyFiles, others: PartyFiles
) -> None:
    own = {**secured_redis, "ca": str(files.ca)}
    assert found("redis", **own) == {"x": "1"}
    assert found("redis", **{**own, "host": "localhost"}) == {"x": "1"}
    assert found("redis", **{**own, "ca": str(others.ca)}) == 116
    assert found("redis", **{**own, "password": "wrong"}) == 116
    assert found("redis", **secured_redis) == 116


@pytest.fixture(scope="module")
def secured_mysql(
    files: PartyFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    if shutil.which("mariadbd") is None:
        pytest.skip("no mariadbd: apt install mariadb-server")
    folder = tmp_path_factory.mktemp("mysql")
    options = (f"--ssl-cert={files.certificate}", f"--ssl-key={files.key}")
    url = subprocess.check_output(
        [sys.executable, "-m", "tests.mysql_server", "start", str(folder), *options],
        text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        yield {
            "host": "127.0.0.1", "port": urlsplit(url.strip()).port, "user": "root",
            "database": "mysql",
            "query": "SELECT VARIABLE_VALUE <> '' AS tls FROM information_schema.SESSION_STATUS"
                     " WHERE VARIABLE_NAME = 'Ssl_cipher' AND :id = 'u1'",
        }  # fmt: skip
    finally:
        mysql_server.stop(folder)


def test_mysql_is_asked_over_tls(
    secured_mysql: dict[str, Any], files: PartyFiles, others: PartyFiles
) -> None:
    assert found("mysql", **secured_mysql, ca=str(files.ca)) == {"tls": 1}
    assert found("mysql", **secured_mysql) == {"tls": 0}
    assert found("mysql", **secured_mysql, ca=str(others.ca)) == 116
