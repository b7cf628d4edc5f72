"""Model archives: zip files with few rules, so that the same content gives the same bytes, and what
comes from outside is refused unless it keeps to them.
"""

from __future__ import annotations

import re
import stat
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from fedflow.base.errors.models import BadModelArchive

MIB: Final = 1024 * 1024
MAX_FILES: Final = 20_000
MAX_FILE_BYTES: Final = 64 * MIB  #: of one file, unpacked; workers report at most half of it
MAX_BYTES: Final = 2048 * MIB  #: of all files, unpacked
MAX_READ: Final = 8 * MIB  #: of an archive in one piece
_PATH: Final = re.compile(r"(?:[0-9A-Za-z_#.-]{1,200}/){0,4}[0-9A-Za-z_#.-]{1,200}")
_CHUNK: Final = 1 * MIB
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_EARLIEST_S: Final = 315_532_800  #: 1980, the first year that zip knows


class ZipArchives:
    """See `app.ports.models.ModelArchives`."""

    def write(
        self, target: IO[bytes], files: Iterable[tuple[str, bytes]], *, modified_ms: int
    ) -> None:
        """Write files by path, each dated `modified_ms`."""
        moment = time.gmtime(max(modified_ms // 1000, _EARLIEST_S))[:6]
        with zipfile.ZipFile(
            target, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=6
        ) as zip_:
            for path, content in files:
                info = zipfile.ZipInfo(path, date_time=moment)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.create_system = 3  # unix, whatever system this is
                info.external_attr = (stat.S_IFREG | 0o600) << 16
                zip_.writestr(info, content)

    @contextmanager
    def open(self, source: IO[bytes]) -> Iterator[ZipContents]:
        """Return the contents of an archive, whose list was checked. Raises: BadModelArchive."""
        try:
            zip_ = zipfile.ZipFile(_Bounded(source))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as exc:
            raise BadModelArchive(reason=f"it is no zip file ({exc})") from exc
        with zip_:
            yield ZipContents(zip_)


class _Bounded:
    """A file that gives no more at once than the list of a lawful archive: `zipfile` reads the
    list, as long as it says to be, before anybody can look at it.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.seek, self.tell = source.seek, source.tell
        self.seekable, self.close = source.seekable, source.close

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes. Raises: BadZipFile: that are too many."""
        content = self._source.read(MAX_READ + 1 if size < 0 or size > MAX_READ else size)
        if len(content) > MAX_READ:
            raise zipfile.BadZipFile(f"its list has more than {MAX_READ} bytes")
        return content


class ZipContents:
    """The files of an archive."""

    def __init__(self, zip_: zipfile.ZipFile) -> None:
        """Raises: BadModelArchive: a file's name, kind or size is not allowed."""
        self._zip = zip_
        self._infos: dict[str, zipfile.ZipInfo] = {}
        infos = zip_.infolist()
        if len(infos) > MAX_FILES:
            raise BadModelArchive(reason=f"it has more than {MAX_FILES} files")
        total = 0
        for info in infos:
            if info.is_dir() and _PATH.fullmatch(info.filename.rstrip("/")):
                continue
            _check(info)
            if info.filename in self._infos:
                raise BadModelArchive(reason=f"it has {info.filename[:100]} twice")
            total += info.file_size
            self._infos[info.filename] = info
        if total > MAX_BYTES:
            raise BadModelArchive(reason=f"unpacked it has more than {MAX_BYTES // MIB} MiB")

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths of all files."""
        return frozenset(self._infos)

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """Return a file of at most `limit` bytes. Raises: BadModelArchive."""
        info = self._infos.get(path)
        if info is None:
            raise BadModelArchive(reason=f"it lacks {path[:200]}")
        if info.file_size > limit:
            raise BadModelArchive(reason=f"{path[:200]} is larger than {limit} bytes")
        parts: list[bytes] = []
        size = 0
        try:
            with self._zip.open(info) as file:
                while chunk := file.read(_CHUNK):  # never more than it declares
                    parts.append(chunk)
                    size += len(chunk)
                    if size > info.file_size:
                        raise BadModelArchive(reason=f"{path[:200]} is larger than it declares")
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as exc:
            raise BadModelArchive(reason=f"{path[:200]} cannot be read ({exc})") from exc
        return b"".join(parts)


def _check(info: zipfile.ZipInfo) -> None:
    name = info.filename
    if not _PATH.fullmatch(name) or any(set(part) <= {"."} for part in name.split("/")):
        raise BadModelArchive(reason=f"{name[:100]!r} is not a path that an archive may have")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise BadModelArchive(reason=f"{name} is a link or no plain file")
    if info.flag_bits & _ENCRYPTED:
        raise BadModelArchive(reason=f"{name} is encrypted")
    if info.compress_type not in _METHODS:
        raise BadModelArchive(reason=f"{name} is compressed by another method than deflate")
    if info.file_size > MAX_FILE_BYTES:
        raise BadModelArchive(reason=f"{name} is larger than {MAX_FILE_BYTES // MIB} MiB")
