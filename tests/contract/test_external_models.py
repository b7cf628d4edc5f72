"""External stores of model archives: a folder, a MySQL table, a bucket of a real S3 server."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest
from pyarrow import fs

from fedflow.base.clock import SystemClock
from fedflow.base.errors.models import ModelStoreUnavailable
from fedflow.blobs.bucket import KEPT_MS, BucketModels
from fedflow.blobs.external import SLICE_BYTES, FolderModels, MySqlAddress, MySqlModels
from fedflow.tables.filesystems import FilesystemAccess
from tests.storage_servers import S3Server, s3_server
from tests.support.caches import TwoClocks

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


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        server.files.create_dir("models")
        yield server


@pytest.fixture
def clock() -> TwoClocks:
    clock = TwoClocks()
    clock.wall_ms = SystemClock().now_ms()  # the server's files have its time
    return clock


@pytest.fixture
def bucket(s3: S3Server, clock: TwoClocks) -> BucketModels:
    return opened(s3, clock)


def opened(s3: S3Server, clock: TwoClocks, bucket: str = "models", **access: Any) -> BucketModels:
    given = {
        "endpoint": s3.endpoint, "access_key": s3.access_key, "secret_key": s3.secret_key, **access,
    }  # fmt: skip
    return BucketModels(bucket, f"of/{secrets.token_hex(4)}", FilesystemAccess(**given), clock)


@pytest.fixture(params=["folder", pytest.param("mysql", marks=pytest.mark.mysql), "s3"])
def models(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "folder":
        return FolderModels(tmp_path / "shared")
    if request.param == "s3":
        return request.getfixturevalue("bucket")
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


def test_a_sweep_never_removes_what_a_version_has(models: Any) -> None:
    put(models, b"old", "1")
    put(models, b"new", "1")
    put(models, b"other", "2")
    models.sweep(older_than_ms=SystemClock().now_ms() + 10 * KEPT_MS)
    assert (got(models, "1"), got(models, "2")) == (b"new", b"other")
    assert models.sweep(older_than_ms=SystemClock().now_ms() + 10 * KEPT_MS) == 0


def test_a_half_written_archive_in_a_folder_goes_when_it_is_old(tmp_path: Path) -> None:
    models = FolderModels(tmp_path)
    put(models, b"x")
    (folder,) = tmp_path.iterdir()
    (folder / "new-abc").write_bytes(b"half")
    now_ms = SystemClock().now_ms()
    assert models.sweep(older_than_ms=now_ms - KEPT_MS) == 0
    assert models.sweep(older_than_ms=now_ms + KEPT_MS) == 1
    assert [path.suffix for path in folder.iterdir()] == [".zip"]


# --- a bucket -------------------------------------------------------------------------------------


def archives(s3: S3Server, models: BucketModels) -> list[str]:
    found = s3.files.get_file_info(fs.FileSelector(models._place.path, recursive=True))
    return [one.path for one in found if one.path.endswith(".zip")]


def test_an_archive_that_was_replaced_stays_a_day_for_its_readers(
    s3: S3Server, bucket: BucketModels, clock: TwoClocks
) -> None:
    put(bucket, b"old")
    put(bucket, b"new")
    assert len(archives(s3, bucket)) == 2
    clock.go(KEPT_MS / 1000 + 10)
    put(bucket, b"newest")
    assert len(archives(s3, bucket)) == 1
    assert got(bucket) == b"newest"


def test_a_store_that_breaks_off_leaves_the_old_archive_and_what_is_swept(
    s3: S3Server, bucket: BucketModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bucket, b"old", "1")
    later_ms = SystemClock().now_ms() + KEPT_MS
    with monkeypatch.context() as patch:
        patch.setattr("fedflow.blobs.bucket._write_whole", die)  # before it counts
        for version in ("1", "2"):
            with pytest.raises(KeyboardInterrupt):
                put(bucket, b"new", version)
    assert (got(bucket, "1"), got(bucket, "2")) == (b"old", None)
    assert len(archives(s3, bucket)) == 3
    assert bucket.sweep(older_than_ms=later_ms - 2 * KEPT_MS) == 0
    assert bucket.sweep(older_than_ms=later_ms) == 2
    assert (got(bucket, "1"), len(archives(s3, bucket))) == (b"old", 1)


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_put_and_a_sweep_at_once_lose_nothing(s3: S3Server, bucket: BucketModels) -> None:
    """A sweep that takes everything for old meets puts of the same versions."""
    put(bucket, b"first", "0")
    wrong: list[object] = []
    ended = threading.Event()

    def sweeps() -> None:
        while not ended.is_set():
            bucket.sweep(older_than_ms=SystemClock().now_ms() - 1_000)

    thread = threading.Thread(target=sweeps)
    thread.start()
    try:
        for turn in range(20):
            put(bucket, b"%d" % turn, str(turn % 3))
            if got(bucket, str(turn % 3)) != b"%d" % turn:
                wrong.append(turn)
    finally:
        ended.set()
        thread.join()
    assert wrong == []


def test_an_archive_that_was_changed_is_named_and_one_that_is_gone_is_stored_again(
    s3: S3Server, bucket: BucketModels
) -> None:
    sha256 = put(bucket, b"content")
    (path,) = archives(s3, bucket)
    with s3.files.open_output_stream(path) as file:
        file.write(b"CONTENT")
    with pytest.raises(ModelStoreUnavailable, match="damaged"):
        got(bucket)
    s3.files.delete_file(path)
    assert bucket.digest(MODEL, "1") is None
    with pytest.raises(ModelStoreUnavailable, match="no such bucket or object"):
        got(bucket)
    put(bucket, b"content")
    assert (bucket.digest(MODEL, "1"), got(bucket)) == (sha256, b"content")


@pytest.mark.parametrize(
    "raw",
    [b"", b"garbage", b'{"archive": "../../x", "sha256": "%s", "size_bytes": 1}' % (b"0" * 64)],
)
def test_a_damaged_pointer_is_named_swept_around_and_replaced(
    s3: S3Server, bucket: BucketModels, raw: bytes
) -> None:
    put(bucket, b"content")
    (path,) = archives(s3, bucket)
    with s3.files.open_output_stream(f"{path.rpartition('/')[0]}/current") as file:
        file.write(raw)
    with pytest.raises(ModelStoreUnavailable, match="current is damaged"):
        got(bucket)
    assert bucket.sweep(older_than_ms=SystemClock().now_ms() + KEPT_MS) == 0
    assert archives(s3, bucket) == [path]
    assert bucket.digest(MODEL, "1") is None
    put(bucket, b"again")
    assert got(bucket) == b"again"


def test_a_source_that_is_not_what_was_said_does_not_count(bucket: BucketModels) -> None:
    put(bucket, b"old")
    with pytest.raises(ModelStoreUnavailable, match="changed while it was stored"):
        bucket.put(MODEL, "1", io.BytesIO(b"other"), sha256="0" * 64)
    assert got(bucket) == b"old"


def test_a_bucket_that_cannot_be_used_is_named_without_its_keys(
    s3: S3Server, clock: TwoClocks
) -> None:
    nowhere = opened(s3, clock, endpoint="http://127.0.0.1:1", secret_key="secret")
    for models in (opened(s3, clock, bucket="no-such-bucket"), nowhere):
        with pytest.raises(ModelStoreUnavailable) as caught:
            put(models, b"x")
        assert "s3://" in str(caught.value.message)
        assert "secret" not in str(caught.value.message)
    with pytest.raises(ModelStoreUnavailable, match="names no bucket"):
        opened(s3, clock, bucket="a/b")
