"""Contents of models by their digest: files, and the ones in memory."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.models import BlobDamaged
from fedflow.blobs.files import LocalBlobs
from tests.support.blobs import MemoryBlobs

FUTURE_MS = 2**52


@pytest.fixture(params=["files", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return LocalBlobs(tmp_path / "blobs") if request.param == "files" else MemoryBlobs()


@pytest.fixture
def files(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "blobs")


def test_contents_come_back_by_their_digest(blobs: Any) -> None:
    for content in (b"", b"one", bytes(range(256)) * 4096):
        sha256 = blobs.put(content)
        assert sha256 == hashlib.sha256(content).hexdigest()
        assert blobs.put(content) == sha256
        assert blobs.get(sha256) == content
        assert blobs.has(sha256)


@pytest.mark.parametrize("sha256", ["ab" * 32, "../../etc/passwd", "", "AB" * 32])
def test_what_is_not_there_is_no_contents(blobs: Any, sha256: str) -> None:
    assert not blobs.has(sha256)
    with pytest.raises(BlobDamaged):
        blobs.get(sha256)


def test_old_contents_are_listed_and_removed(blobs: Any) -> None:
    digests = {blobs.put(b"%d" % i) for i in range(5)}
    assert set(blobs.old(FUTURE_MS)) == digests
    gone = digests.pop()
    assert blobs.remove(gone, older_than_ms=FUTURE_MS)
    assert not blobs.remove(gone, older_than_ms=FUTURE_MS)
    assert set(blobs.old(FUTURE_MS)) == digests


def path_of(tmp_path: Path, sha256: str) -> Path:
    return tmp_path / "blobs" / sha256[:2] / sha256


def test_a_changed_or_cut_file_is_noticed_and_healed_by_the_next_put(
    files: LocalBlobs, tmp_path: Path
) -> None:
    sha256 = files.put(b"content")
    for damage in (b"Content", b"conten", b"", b"content "):
        path_of(tmp_path, sha256).write_bytes(damage)
        with pytest.raises(BlobDamaged, match="changed"):
            files.get(sha256)
        files.put(b"content")
        assert files.get(sha256) == b"content"


def test_contents_that_were_put_again_are_not_old(files: LocalBlobs, tmp_path: Path) -> None:
    sha256 = files.put(b"content")
    os.utime(path_of(tmp_path, sha256), (1, 1))
    assert list(files.old(10_000)) == [sha256]
    files.put(b"content")
    assert list(files.old(10_000)) == []
    assert not files.remove(sha256, older_than_ms=10_000)
    assert files.has(sha256)


def test_what_a_crash_left_half_written_is_no_contents_and_is_swept(
    files: LocalBlobs, tmp_path: Path
) -> None:
    files.put(b"content")
    half = path_of(tmp_path, files.put(b"other")).with_name("new-abc")
    half.write_bytes(b"cont")
    os.utime(half, (1, 1))
    assert list(files.old(10_000)) == []
    assert not half.exists()


def test_a_failed_write_leaves_nothing(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        files.put(b"content")
    assert [p for p in (tmp_path / "blobs").rglob("*") if p.is_file()] == []


def test_threads_may_put_the_same_contents_at_once(files: LocalBlobs) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(files.put(b"same" * 1000))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert files.get(found[0]) == b"same" * 1000
