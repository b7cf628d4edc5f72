"""An external store of model archives in a bucket of an object store: S3, or what speaks like it.

    <prefix>/<h>/<name>/<sha256>-<digits>.zip    an archive; never changed, never written twice
    <prefix>/<h>/<name>/current                  JSON: which of them counts, its sha256 and size

`name` is the sha256 of the model's id and version, `h` its first two digits. An archive is written
whole before `current` names it, so readers see the old one or the new one. What `current` does not
name and is old enough is removed, and nothing else: an archive is never named again later.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Annotated, Final

import msgspec
import pyarrow as pa
from pyarrow import fs

from fedflow.base.clock import Clock
from fedflow.base.errors.data import (
    BadData,
    StorageMissing,
    StorageRefused,
    StorageUnreachable,
)
from fedflow.base.errors.models import ModelStoreUnavailable
from fedflow.tables.file_errors import told
from fedflow.tables.filesystems import FilesystemAccess, OpenPath, below, object_place

logger = logging.getLogger(__name__)

KEPT_MS: Final = (
    86_400_000  #: an archive that does not count any more is left for those who read it
)
_PIECE: Final = 1 << 20
_CURRENT: Final = "current"


class _Current(msgspec.Struct, frozen=True):
    """Which archive of a model version counts."""

    archive: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}-[0-9a-f]{16}\.zip$")]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, msgspec.Meta(ge=0)]


_current: Final = msgspec.json.Decoder(_Current)


class BucketModels:
    """See `app.ports.models.ExternalModels`. Servers may share a bucket."""

    def __init__(self, bucket: str, prefix: str, access: FilesystemAccess, clock: Clock) -> None:
        """Nothing is asked of the store yet. Raises: ModelStoreUnavailable: it is no bucket."""
        self._clock = clock
        try:
            self._place = object_place(bucket, prefix, access)
        except BadData as exc:
            raise ModelStoreUnavailable(reason=str(exc.message)) from exc

    def put(
        self, party_model_id: str, model_version: str, source: IO[bytes], *, sha256: str
    ) -> None:
        folder = self._folder(party_model_id, model_version)
        name = f"{sha256}-{secrets.token_hex(8)}.zip"
        with _told_as_unavailable(folder):
            size = _write(below(folder, name), source, sha256)
            current = _Current(archive=name, sha256=sha256, size_bytes=size)
            _write_whole(below(folder, _CURRENT), msgspec.json.encode(current))
        self._tidy(folder)

    def digest(self, party_model_id: str, model_version: str) -> str | None:
        folder = self._folder(party_model_id, model_version)
        with _told_as_unavailable(folder):
            current = _read_current(folder, damaged_is_none=True)
            if current is None:
                return None
            archive = below(folder, current.archive)
            found = archive.files.get_file_info(archive.path)
            return current.sha256 if found.size == current.size_bytes else None

    def get(self, party_model_id: str, model_version: str, target: IO[bytes]) -> bool:
        folder = self._folder(party_model_id, model_version)
        with _told_as_unavailable(folder):
            current = _read_current(folder)
            if current is None:
                return False
            _read(below(folder, current.archive), target, current.sha256)
        return True

    def sweep(self, *, older_than_ms: int) -> int:
        with _told_as_unavailable(self._place):
            folders: dict[str, list[fs.FileInfo]] = {}
            for one in self._files(self._place):
                folder, _, _ = one.path.rpartition("/")
                folders.setdefault(folder, []).append(one)
        gone = 0
        for path, found in folders.items():
            folder = below(self._place, *_names(path, self._place))
            try:
                with _told_as_unavailable(folder):
                    gone += self._collect(folder, found, older_than_ms)
            except ModelStoreUnavailable as exc:  # the others are looked at, too
                logger.warning("%s", exc.message, extra={"action": "sweep"})
        return gone

    def _tidy(self, folder: OpenPath) -> None:
        """Remove what is old of a model version that was stored; a failure changes nothing."""
        try:
            with _told_as_unavailable(folder):
                found = list(self._files(folder))
                self._collect(folder, found, self._clock.now_ms() - KEPT_MS)
        except ModelStoreUnavailable as exc:
            logger.warning("%s", exc.message, extra={"action": "sweep"})

    @staticmethod
    def _collect(folder: OpenPath, found: list[fs.FileInfo], older_than_ms: int) -> int:
        """Remove archives of a model version that do not count and are old; return how many.

        What counts is read after they were listed: what is not named then never will be.
        """
        old = [one for one in found if _is_old_archive(one, older_than_ms)]
        if not old:
            return 0
        current = _read_current(folder)
        unneeded = [one for one in old if current is None or one.base_name != current.archive]
        for one in unneeded:
            folder.files.delete_file(one.path)
        if unneeded:
            logger.info(
                "%d archives that do not count any more were removed from %s",
                len(unneeded),
                folder.uri,
                extra={"action": "sweep"},
            )
        return len(unneeded)

    @staticmethod
    def _files(place: OpenPath) -> Iterator[fs.FileInfo]:
        selector = fs.FileSelector(place.path, recursive=True, allow_not_found=True)
        return (one for one in place.files.get_file_info(selector) if one.type == fs.FileType.File)

    def _folder(self, party_model_id: str, model_version: str) -> OpenPath:
        """Return a place whose name no request can choose."""
        name = hashlib.sha256(f"{party_model_id}\n{model_version}".encode()).hexdigest()
        return below(self._place, name[:2], name)


def _names(path: str, root: OpenPath) -> list[str]:
    return path.removeprefix(root.path).strip("/").split("/")


def _is_old_archive(one: fs.FileInfo, older_than_ms: int) -> bool:
    if not one.base_name.endswith(".zip") or one.mtime is None:
        return False
    modified: datetime = one.mtime.replace(tzinfo=one.mtime.tzinfo or UTC)
    return modified.timestamp() * 1000 < older_than_ms


def _write(place: OpenPath, source: IO[bytes], sha256: str) -> int:
    """Write an archive, return its size. Raises: ModelStoreUnavailable: it is not what was said."""
    digest, size = hashlib.sha256(), 0
    with place.files.open_output_stream(place.path) as target:
        while piece := source.read(_PIECE):
            digest.update(piece)
            size += len(piece)
            target.write(piece)
    if digest.hexdigest() != sha256:
        raise ModelStoreUnavailable(reason=f"{place.uri}: the archive changed while it was stored")
    return size


def _write_whole(place: OpenPath, content: bytes) -> None:
    with place.files.open_output_stream(place.path) as target:
        target.write(content)


def _read_current(folder: OpenPath, *, damaged_is_none: bool = False) -> _Current | None:
    """Return which archive counts; None: there is none. Raises: ModelStoreUnavailable."""
    place = below(folder, _CURRENT)
    if place.files.get_file_info(place.path).type != fs.FileType.File:
        return None
    with place.files.open_input_stream(place.path) as source:
        raw = source.read(_PIECE)
    try:
        return _current.decode(raw)
    except msgspec.MsgspecError as exc:
        if damaged_is_none:
            return None
        raise ModelStoreUnavailable(reason=f"{place.uri} is damaged") from exc


def _read(place: OpenPath, target: IO[bytes], sha256: str) -> None:
    """Copy an archive. Raises: ModelStoreUnavailable: it is not what was stored."""
    digest = hashlib.sha256()
    with place.files.open_input_stream(place.path) as source:
        while piece := source.read(_PIECE):
            digest.update(piece)
            target.write(piece)
    if digest.hexdigest() != sha256:
        raise ModelStoreUnavailable(reason=f"{place.uri} is damaged")


@contextmanager
def _told_as_unavailable(place: OpenPath) -> Iterator[None]:
    """Raises: ModelStoreUnavailable; texts of the store may have keys in them."""
    try:
        with told(place.uri, found="there is no such bucket or object"):
            yield
    except (StorageMissing, StorageRefused, StorageUnreachable) as exc:
        raise ModelStoreUnavailable(reason=f"{place.uri}: {exc.fields['reason']}") from exc
    except (OSError, pa.ArrowException) as exc:
        reason = f"{place.uri}: it failed ({type(exc).__name__})"
        raise ModelStoreUnavailable(reason=reason) from exc
