"""Contents of models as files, named by their sha256: `<folder>/<first two digits>/<sha256>`.

A file is written beside its place, brought to disk, and renamed, so a crash leaves no half one;
every read is checked against the name.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fedflow.base.disk import writing
from fedflow.base.errors.models import BlobDamaged

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_PREFIX: Final = "new-"


class LocalBlobs:
    """See `app.ports.models.ModelBlobs`. One object per folder and process: its lock keeps
    `remove` from what is being put again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def put(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._path(sha256)
        with self._lock:
            if self._is_whole(path, sha256):
                os.utime(path)  # so that it does not count as old
                return sha256
        with writing(self._folder):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(path, content)
        return sha256

    def get(self, sha256: str) -> bytes:
        if not _NAME.fullmatch(sha256):
            raise BlobDamaged(sha256=sha256[:80], reason="this is no digest")
        try:
            content = self._path(sha256).read_bytes()
        except OSError as exc:
            raise BlobDamaged(sha256=sha256, reason=f"{exc.strerror}") from exc
        if hashlib.sha256(content).hexdigest() != sha256:
            raise BlobDamaged(sha256=sha256, reason="the file was changed")
        return content

    def has(self, sha256: str) -> bool:
        return bool(_NAME.fullmatch(sha256)) and self._path(sha256).is_file()

    def old(self, older_than_ms: int) -> Iterator[str]:
        """Yield old contents; what a crash left half-written is deleted on the way."""
        for path in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")):
            modified_ms = _modified_ms(path)
            if modified_ms is None or modified_ms >= older_than_ms:
                continue
            if _NAME.fullmatch(path.name):
                yield path.name
            elif path.name.startswith(_PREFIX):
                path.unlink(missing_ok=True)

    def remove(self, sha256: str, *, older_than_ms: int) -> bool:
        path = self._path(sha256)
        with self._lock:
            modified_ms = _modified_ms(path)
            if modified_ms is None or modified_ms >= older_than_ms:
                return False
            path.unlink()
        return True

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    def _is_whole(self, path: Path, sha256: str) -> bool:
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
        except OSError:
            return False


def _write(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name is on disk too
    finally:
        os.close(folder)


def _modified_ms(path: Path) -> float | None:
    try:
        return path.stat().st_mtime * 1000
    except FileNotFoundError:
        return None
