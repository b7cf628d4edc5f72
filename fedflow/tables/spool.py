"""Rows that were read from elsewhere, in memory or, if they are many, in a file that is mapped."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
from pyarrow import ipc

from fedflow.tables.writer import mapped, on_disk

SPOOL_BYTES: Final = 128 << 20  #: that stay in memory


class BatchSpool:
    """Collects batches; `close` it in any case. What `rows` returned lives on.

    The file has no name, so nothing is left of it, whatever happens to this process.
    """

    def __init__(self, schema: pa.Schema, folder: Path | None) -> None:
        """`folder` is where the file is made; None: there is none."""
        self._schema = schema
        self._folder = folder
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises: DiskFull."""
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._folder is None or self._bytes <= SPOOL_BYTES:
            return
        with on_disk(self._folder):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  see close
                self._writer = ipc.new_file(self._file, self._schema)
            for kept in self._batches:
                self._writer.write_batch(kept)
        self._batches.clear()

    def rows(self) -> pa.Table:
        """Return all rows. Raises: DiskFull."""
        if self._file is None or self._folder is None:
            return pa.Table.from_batches(self._batches, self._schema)
        with on_disk(self._folder):
            self._writer.close()
            self._file.flush()
        with mapped(Path(f"/proc/self/fd/{self._file.fileno()}")) as file:
            return ipc.open_file(file).read_all()

    def close(self) -> None:
        """Forget the file; the disk gets its space back with the last use of what it holds."""
        if self._file is not None:
            self._file.close()
