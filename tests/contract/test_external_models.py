"""External stores of model archives: a folder, and a MySQL table."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest

from fedflow.base.errors.models import ModelStoreUnavailable
from fedflow.blobs.external import SLICE_BYTES, FolderModels, MySqlAddress, MySqlModels

MODEL = "guest#9999#guest-9999#host-10000#model"


@pytest.fixture(scope="session")
def address() -> Iterator[MySqlAddress]:
    parts = urlsplit(os.environ.get("FEDFLOW_TEST_MYSQL", "mysql://root@127.0.0.1:3306/"))
    login: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1", "port": parts.port or 3306,
        "user": unquote(parts.username or "root"), "password": unquote(parts.password or ""),
    }  # fmt: skip
    try:
        pymysql.connect(**login, connect_timeout=3).close()
    except pymysql.err.OperationalError as exc:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no MySQL: {exc.args[0]}")
        pytest.skip(f"no MySQL: {exc.args[0]}")
    address = MySqlAddress(**login, database=f"fedflow_test_{secrets.token_hex(5)}")
    yield address
    with pymysql.connect(**login) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {address.database}")


@pytest.fixture(params=["folder", pytest.param("mysql", marks=pytest.mark.mysql)])
def models(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "folder":
        return FolderModels(tmp_path / "shared")
    return MySqlModels(request.getfixturevalue("address"))


def put(models: Any, content: bytes, version: str = "1") -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    models.put(MODEL, version, io.BytesIO(content), sha256=sha256)
    return sha256


def got(models: Any, version: str = "1") -> bytes | None:
    target = io.BytesIO()
    return target.getvalue() if models.get(MODEL, version, target) else None


def test_an_archive_comes_back_whole(models: Any) -> None:
    content = os.urandom(1000) * ((SLICE_BYTES + 5000) // 1000)  # more than a slice
    sha256 = put(models, content, "big")
    assert got(models, "big") == content
    assert models.digest(MODEL, "big") == sha256


def test_a_newer_archive_replaces_the_older_one(models: Any) -> None:
    put(models, b"a" * 100, "again")
    newer = put(models, b"b", "again")
    assert (got(models, "again"), models.digest(MODEL, "again")) == (b"b", newer)


def test_what_was_never_stored_is_not_there(models: Any) -> None:
    assert models.digest(MODEL, "none") is None
    assert got(models, "none") is None


@pytest.mark.parametrize("version", ["../../x", "a'; DROP TABLE t; --", "%s", "1 "])
def test_names_are_only_names(models: Any, version: str) -> None:
    put(models, version.encode(), version)
    assert got(models, version) == version.encode()
    assert got(models, version + "x") is None


def test_a_source_that_breaks_leaves_what_was_there(models: Any) -> None:
    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "broken")

    put(models, b"old", "kept")
    with pytest.raises((OSError, ModelStoreUnavailable)):
        models.put(MODEL, "kept", Breaks(), sha256="x")
    assert got(models, "kept") == b"old"


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    address = MySqlAddress(
        host="127.0.0.1", port=1, user="u", password="secret", database="d", timeout_s=1
    )
    with pytest.raises(ModelStoreUnavailable) as caught:
        MySqlModels(address).digest(MODEL, "1")
    assert "127.0.0.1:1/d" in str(caught.value)
    assert "secret" not in f"{caught.value}{address!r}"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ModelStoreUnavailable):
        put(FolderModels(tmp_path / "file"), b"x")


def test_a_database_name_is_checked() -> None:
    with pytest.raises(ModelStoreUnavailable):
        MySqlModels(MySqlAddress(host="h", port=1, user="u", password="", database="a`b"))
