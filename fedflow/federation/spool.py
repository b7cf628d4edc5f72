"""Where values in transit lie: small ones in memory, the rest in files; and how much there may be.

Files: `<key>.part` while a value arrives (it survives a restart, to be resumed), `<key>.value` when
it is complete and unread, `out-*` for a moment while an executor writes one. Everything here may
touch the disk and is called in threads, except `Ledger`, which only counts, on the event loop.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from fedflow.base.errors.data_plane import SpoolFull
from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.start import HomeNotUsable
from fedflow.base.shares import Shares

PART = ".part"
VALUE = ".value"
OUT = "out-"
VALUE_OVERHEAD = 512  #: bytes that are counted for an unread value on top of its size
FILE_OVERHEAD = 4096  #: the same for one in a file


class Ledger:
    """How many bytes the values in transit use, by the party that sent them; see `Shares`.

    Belongs to the event loop.
    """

    def __init__(self, *, memory_limit: int, spool_limit: int) -> None:
        self._memory = Shares(memory_limit)
        self._spool = Shares(spool_limit)

    @property
    def memory(self) -> int:
        """Return the bytes of values in memory."""
        return self._memory.total

    @property
    def spool(self) -> int:
        """Return the bytes of files, those included that parts may grow by."""
        return self._spool.total

    def take_memory(self, party: str, size: int) -> bool:
        """Count a value in memory; False, and nothing is counted: it must be spooled."""
        return self._memory.take(party, size + VALUE_OVERHEAD)

    def take_file(self, party: str, size: int) -> None:
        """Count a file of `size` bytes. Raises: SpoolFull."""
        self.grow(party, size + FILE_OVERHEAD)

    def grow(self, party: str, size: int) -> None:
        """Count what a file grows by. Raises: SpoolFull."""
        if not self._spool.take(party, size):
            raise SpoolFull(used=self.spool, limit=self._spool.limit)

    def give_back(self, party: str, size: int) -> None:
        """Count bytes of files as free again."""
        self._spool.give_back(party, size)

    def pass_on(self, blob: Blob, party: str) -> None:
        """Count the file of a value in the share of another party."""
        self._spool.give_back(blob.party, blob.size + FILE_OVERHEAD)
        self._spool.add(party, blob.size + FILE_OVERHEAD)
        blob.party = party

    def release(self, blob: Blob) -> None:
        """Count a value as gone."""
        if blob.data is not None:
            self._memory.give_back(blob.party, blob.size + VALUE_OVERHEAD)
        else:
            self._spool.give_back(blob.party, blob.size + FILE_OVERHEAD)


@dataclass(kw_only=True, slots=True, eq=False)
class Blob:
    """One complete value: in memory (`data`), a named file (`path`) or an open file (`fd`)."""

    size: int
    digest: str
    party: str = ""  #: in whose share of the ledger it is counted
    data: bytes | None = None
    path: Path | None = None
    fd: int = -1

    def open_file(self) -> int:
        """Return a new read-only descriptor of the value's file."""
        if self.path is not None:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return os.dup(self.fd)

    def discard(self) -> None:
        """Remove the file or close it; may take 60 ms per GiB. Safe to do twice."""
        path, self.path = self.path, None
        fd, self.fd = self.fd, -1
        self.data = None
        if path is not None:
            path.unlink(missing_ok=True)
        if fd >= 0:
            os.close(fd)


def blob_from_descriptor(fd: int, *, size: int, digest: str) -> Blob:
    """Return the value in an executor's file; the blob owns `fd`.

    Raises: BadRequest: it is not a regular file of at least `size` bytes; `fd` is then closed.
    """
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_size < size:
        os.close(fd)
        raise BadRequest(reason=f"a descriptor that is not a file of {size} bytes")
    return Blob(size=size, digest=digest, fd=fd)


def read_at(fd: int, *, offset: int, length: int) -> bytes:
    """Return exactly `length` bytes of a file.

    Raises: BadRequest: the file is shorter than it was.
    """
    data = os.pread(fd, length, offset)
    if len(data) != length:
        raise BadRequest(reason="the file of a value was cut off by its executor")
    return data


@dataclass(kw_only=True, slots=True, eq=False)
class Part:
    """A big value that is arriving: an open file and how many bytes of it are safe."""

    path: Path
    size: int
    digest: str
    fd: int
    written: int
    lock: threading.Lock = field(default_factory=threading.Lock)  #: no close while a thread writes

    def write(self, data: memoryview, crc32: int) -> None:
        """Append a chunk. Raises: BadRequest: its checksum is wrong, or the part was closed."""
        with self.lock:
            self._write(data, crc32)

    def _write(self, data: memoryview, crc32: int) -> None:
        if self.fd < 0:
            raise BadRequest(reason="the stream of a value was closed")
        if zlib.crc32(data) != crc32:
            raise BadRequest(reason=f"the chunk at {self.written} has a wrong checksum")
        offset = self.written
        while len(data):
            done = os.pwrite(self.fd, data, offset)
            offset += done
            data = data[done:]
        self.written = offset

    def finish(self) -> Blob:
        """Return the complete value, in a file that a sweep at start removes."""
        with self.lock:
            os.ftruncate(self.fd, self.size)
            done = self.path.with_suffix(VALUE)
            self.path.rename(done)
        self.close()
        return Blob(size=self.size, digest=self.digest, path=done)

    def close(self) -> None:
        """Close the file and keep it, to be resumed."""
        with self.lock:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                os.close(fd)


class Spool:
    """The folder for values in transit.

    Raises: HomeNotUsable: it cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as exc:
            raise HomeNotUsable(path=folder, reason=exc.strerror) from exc

    def sweep(self) -> list[Path]:
        """Remove what an earlier run left, except parts that may be resumed; return those."""
        parts = []
        for path in self.folder.iterdir():
            if path.suffix == PART:
                parts.append(path)
            elif path.suffix == VALUE or path.name.startswith(OUT):
                path.unlink(missing_ok=True)
        return parts

    def part_path(self, key_id: bytes, digest: str) -> Path:
        """Return the file in which the value with that key and digest arrives."""
        return self.folder / f"{key_id.hex()}-{digest[:16]}{PART}"

    def open_part(self, path: Path, *, size: int, digest: str, chunk_bytes: int) -> Part:
        """Return the part at `path`, new or with the whole chunks that it has already."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = os.fstat(fd).st_size
        written = size if found >= size else found // chunk_bytes * chunk_bytes
        return Part(path=path, size=size, digest=digest, fd=fd, written=written)

    def write_value(self, data: bytes, *, digest: str) -> Blob:
        """Return `data` as a file of its own."""
        path = self.folder / f"{secrets.token_hex(16)}{VALUE}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, [data])
        finally:
            os.close(fd)
        return Blob(size=len(data), digest=digest, path=path)


def write_out_file(folder: Path, parts: list[bytes | memoryview]) -> int:
    """Return a read-only descriptor of a new nameless file in `folder` that holds `parts`."""
    path = folder / f"{OUT}{secrets.token_hex(16)}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            path.unlink()  # before it is written: who is killed meanwhile leaves no file
        try:
            write_all(fd, parts)
        except BaseException:
            os.close(reader)
            raise
        return reader
    finally:
        os.close(fd)


def write_all(fd: int, parts: list[bytes | memoryview]) -> None:
    """Write all of `parts` to `fd`."""
    for part in parts:
        view = memoryview(part).cast("B")
        while len(view):
            view = view[os.write(fd, view[: 64 * 1024 * 1024]) :]
