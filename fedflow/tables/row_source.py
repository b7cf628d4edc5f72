"""A file whose rows become a table: what is the same for every kind of file.

Rules (reference/components.md section 4.1): the first column is the sample id, cells are text
without line breaks. Rows in messages are counted from 1. No message repeats a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.base.errors import BadData
from fedflow.base.ids import new_request_id
from fedflow.sdk.table import TableSchema
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.text import text_of


class RowSource(ABC):
    """An open file of rows; closes with its `with` block. Subclasses read it in bounded memory."""

    schema: TableSchema  #: of the table that it becomes

    def __init__(self, path: Path, options: CsvOptions) -> None:
        """Open the file. Raises: BadData: it cannot be read."""
        self._where = f"file {path.name}"
        self._options = options
        self._rows = 0
        try:
            self._size = path.stat().st_size
            self._file: Any = pa.OSFile(str(path), "rb")
        except OSError as exc:
            raise self._bad(f"it cannot be read ({exc.strerror or type(exc).__name__})") from exc

    def __enter__(self) -> RowSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._close()
        self._file.close()

    @property
    def done(self) -> float:
        """Return how much of the file was read, 0 to 1."""
        return min(1.0, self._file.tell() / self._size) if self._size else 1.0

    @property
    def where(self) -> str:
        """Return what messages call the file."""
        return self._where

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as text columns, named as in `schema`; only once.

        Raises: BadData: the file is damaged, a row or cell is wrong, an id is empty, or there is no
            row. RaggedRows: rows differ in length.
        """
        prefix = new_request_id() if self._options.extend_sid else ""
        if self._options.auto_increasing_sid:
            prefix = ""
        for batch in self._file_batches():
            if batch.num_rows == 0:
                continue
            self._check_cells(batch)
            if self._options.makes_ids:
                ids = [f"{prefix}{i}" for i in range(self._rows, self._rows + batch.num_rows)]
                columns = [pa.array(ids, pa.string()), *batch.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=list(self.schema.names))
            else:
                self._check_ids(batch.column(0))
            self._rows += batch.num_rows
            yield batch
        if self._rows == 0:
            raise self._bad("it has no rows")

    @abstractmethod
    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the file's own columns as text without nulls, named as in `schema`."""

    def _close(self) -> None:  # noqa: B027  most have nothing to close
        """Close what reads the file."""

    @property
    def _file_names(self) -> tuple[str, ...]:
        """Return the names of the file's own columns."""
        return self.schema.names[1 if self._options.makes_ids else 0 :]

    def _check_cells(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(self._file_names, batch.columns, strict=True):
            text = text_of(column).tobytes()
            if b"\n" not in text and b"\r" not in text:
                continue
            row = pc.index(pc.match_substring_regex(column, "[\r\n]"), True).as_py()
            if row >= 0:
                reason = "holds a line break (is a quote not closed?)"
                raise self._bad(f"row {self._rows + row + 1}, column {name!r} {reason}")

    def _check_ids(self, ids: pa.Array) -> None:
        row = pc.index(pc.utf8_trim_whitespace(ids), "").as_py()
        if row >= 0:
            raise self._bad(f"row {self._rows + row + 1} has an empty id")

    def _bad(self, reason: str) -> BadData:
        return BadData(where=self._where, reason=reason)
