"""Rows of a task on a file system that Spark's workers reach too, and how workers read them.

A task that needs it has one scratch folder, below the party's folder for tables. What is in it is
removed with the call, or with the placed rows, that it was written for, and the folder with the
task; that of a killed task goes with a sweep of the tables that nobody finished. Files hold rows in
order: numpy arrays as their plain bytes, Arrow arrays as Arrow IPC files. So any range of rows is
read without the others.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.base.disk import NO_SPACE
from fedflow.base.errors.data import DiskFull

logger = logging.getLogger(__name__)

KEPT_BYTES: Final = 64 << 20  #: of rows read last, per process of a worker

_ARROW_ROWS: Final = 16_384  # per batch of a file: what is read at least

Array: TypeAlias = NDArray[Any] | pa.Array


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRows:
    """Some rows of one file."""

    files: Any  #: a `pyarrow.fs.FileSystem`; workers get it with the rows' place
    path: str
    kind: np.dtype[Any] | None  #: of a numpy array; None: an Arrow array
    shape: tuple[int, ...]  #: of one row of a numpy array
    start: int
    stop: int

    def part(self, start: int, stop: int) -> StoredRows:
        """Return rows `start` to `stop` of these."""
        return StoredRows(
            files=self.files,
            path=self.path,
            kind=self.kind,
            shape=self.shape,
            start=self.start + start,
            stop=self.start + stop,
        )

    def read(self) -> Array:
        """Return the rows, read-only. Raises: OSError."""
        with self.files.open_input_file(self.path) as file:
            return _read_arrow(file, self) if self.kind is None else _read_numpy(file, self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentRows:
    """Rows that travel with the work."""

    data: bytes
    kind: np.dtype[Any] | None
    shape: tuple[int, ...]  #: of all rows of a numpy array

    def read(self) -> Array:
        """Return the rows, read-only."""
        if self.kind is None:
            return pa.ipc.open_stream(self.data).read_all().column(0).combine_chunks()
        return np.frombuffer(self.data, self.kind).reshape(self.shape)


def sent(rows: Array) -> SentRows:
    """Return rows to be pickled: without the buffers of what they are a slice of."""
    if isinstance(rows, np.ndarray):
        _check(rows)
        return SentRows(data=rows.tobytes(), kind=rows.dtype, shape=rows.shape)
    batch = pa.record_batch([rows], ["rows"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return SentRows(data=sink.getvalue().to_pybytes(), kind=None, shape=())


class ScratchFolder(Protocol):
    """A new folder that driver and workers reach."""

    @property
    def files(self) -> Any:
        """Return its file system, a `pyarrow.fs.FileSystem`."""

    @property
    def path(self) -> str:
        """Return its path there, which was never used before."""

    def keep(self) -> None:
        """Tell sweeps that it is in use."""

    def discard(self) -> None:
        """Delete it and all in it, now or with a later sweep."""


class Scratch:
    """The scratch folder of a task; made when the first rows are written."""

    def __init__(self, make: Callable[[], ScratchFolder]) -> None:
        self._make = make
        self._folder: ScratchFolder | None = None
        self._names = 0

    def write(self, rows: Array) -> StoredRows:
        """Return rows that workers can read. Raises: DiskFull. OSError: another failure."""
        folder, path = self._new()
        is_numpy = isinstance(rows, np.ndarray)
        try:
            with folder.files.open_output_stream(path) as file:
                (_write_numpy if is_numpy else _write_arrow)(file, rows)
        except OSError as exc:
            if exc.errno in NO_SPACE:
                raise DiskFull(path=path) from exc
            raise
        return StoredRows(
            files=folder.files,
            path=path,
            kind=rows.dtype if is_numpy else None,
            shape=rows.shape[1:] if is_numpy else (),
            start=0,
            stop=len(rows),
        )

    @contextmanager
    def results(self) -> Iterator[tuple[Any, str]]:
        """Return a folder for what workers write, and its file system; it is removed at the end.

        Raises: OSError.
        """
        folder, path = self._new()
        folder.files.create_dir(path)
        try:
            yield folder.files, path
        finally:
            try:
                folder.files.delete_dir(path)
            except OSError as exc:
                logger.info("Scratch folder %s could not be removed: %s", path, exc)

    def remove(self, rows: StoredRows) -> None:
        """Remove a file of `write`; what cannot be removed now is removed with the folder."""
        if self._folder is None:
            return
        try:
            rows.files.delete_file(rows.path)
        except OSError as exc:
            logger.info("Scratch file %s could not be removed: %s", rows.path, exc)

    def keep(self) -> None:
        """Keep the folder from sweeps; rows may be placed for longer than these wait."""
        if self._folder is not None:
            self._folder.keep()

    def close(self) -> None:
        """Remove the folder, if there is one; safe to do twice."""
        if self._folder is not None:
            self._folder.discard()
            self._folder = None

    def _new(self) -> tuple[ScratchFolder, str]:
        """Return the folder, and a path in it that was not used before."""
        if self._folder is None:
            self._folder = self._make()
        self._names += 1
        return self._folder, f"{self._folder.path}/{self._names}"


class RowCache:
    """The rows that a worker read last, at most `KEPT_BYTES` of them."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, int, int], Array] = OrderedDict()
        self._bytes = 0

    def read(self, rows: StoredRows | SentRows) -> Array:
        """Return the rows. Raises: OSError."""
        if isinstance(rows, SentRows):
            return rows.read()
        key = rows.path, rows.start, rows.stop
        if (known := self._rows.get(key)) is not None:
            self._rows.move_to_end(key)
            return known
        found = rows.read()
        self._rows[key] = found
        self._bytes += found.nbytes
        while self._bytes > KEPT_BYTES and self._rows:
            _, dropped = self._rows.popitem(last=False)
            self._bytes -= dropped.nbytes
        return found


def _check(rows: NDArray[Any]) -> None:
    if rows.dtype.hasobject:
        raise ValueError("arrays of Python objects cannot be sent to workers")


def _write_numpy(file: Any, rows: NDArray[Any]) -> None:
    _check(rows)
    step = max(1, (4 << 20) // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):  # a copy of all may be too large
        file.write(rows[start : start + step].tobytes())


def _write_arrow(file: Any, rows: pa.Array) -> None:
    batch = pa.record_batch([rows], ["rows"])
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_table(pa.Table.from_batches([batch]), max_chunksize=_ARROW_ROWS)


def _read_numpy(file: Any, rows: StoredRows) -> NDArray[Any]:
    assert rows.kind is not None  # noqa: S101  the caller looked
    size = rows.kind.itemsize * int(np.prod(rows.shape, dtype=np.int64))
    count = rows.stop - rows.start
    data = file.read_at(count * size, rows.start * size)
    return np.frombuffer(data, rows.kind).reshape((count, *rows.shape))


def _read_arrow(file: Any, rows: StoredRows) -> pa.Array:
    reader = pa.ipc.open_file(file)
    first, last = rows.start // _ARROW_ROWS, max(rows.start, rows.stop - 1) // _ARROW_ROWS
    numbers: Sequence[int] = range(first, min(last + 1, reader.num_record_batches))
    chunks = [reader.get_batch(number).column(0) for number in numbers]
    column = pa.chunked_array(chunks, type=reader.schema.field(0).type)
    begin = rows.start - first * _ARROW_ROWS
    return column.slice(begin, rows.stop - rows.start).combine_chunks()
