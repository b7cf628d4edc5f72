"""Rows that become a table: what is the same for files, data sets and databases.

Rules (docs/reference/data-formats.md#rows): one column is the sample id, cells are text without
line breaks. Rows in messages are counted from 1. No message repeats a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.base.errors.data import BadData
from fedflow.base.ids import new_request_id
from fedflow.sdk.table import TableSchema
from fedflow.tables.csv_header import CsvOptions, FileKind, kind_of
from fedflow.tables.file_errors import named
from fedflow.tables.input_files import InputFile, local_file
from fedflow.tables.text import text_of


class RowSource(ABC):
    """An open source of rows; closes with its `with` block. Subclasses read in bounded memory."""

    schema: TableSchema  #: of the table that it becomes
    names: tuple[str, ...]  #: of all columns that there are, chosen or not
    doubts: tuple[str, ...] = ()  #: sentences on what was taken leniently

    def __init__(self, where: str, options: CsvOptions) -> None:
        self._where = where
        self._options = options
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._close()

    @property
    @abstractmethod
    def done(self) -> float | None:
        """Return how much was read, 0 to 1; None if that is not known."""

    @property
    def rows(self) -> int:
        """Return how many rows were read and taken."""
        return self._rows

    @property
    def where(self) -> str:
        """Return what messages call it."""
        return self._where

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as text columns, named as in `schema`; only once.

        Raises: BadData: it is damaged, a row or cell is wrong, an id is empty, or there is no row.
            RaggedRows: rows differ in length. BoundTableChanged: it changed meanwhile.
            StorageUnreachable: it broke off.
        """
        prefix = new_request_id() if self._options.extend_sid else ""
        if self._options.auto_increasing_sid:
            prefix = ""
        for batch in self.cells():
            if self._options.makes_ids:
                ids = [f"{prefix}{i}" for i in range(self._rows, self._rows + batch.num_rows)]
                columns = [pa.array(ids, pa.string()), *batch.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=list(self.schema.names))
            else:
                self._check_ids(batch.column(0))
            yield batch
        if self._rows == 0:
            raise self._bad("it has no rows")

    def cells(self) -> Iterator[pa.RecordBatch]:
        """Yield the chosen columns as text, checked; ids are neither made nor looked at."""
        for batch in self._file_batches():
            if batch.num_rows == 0:
                continue
            self._check_cells(batch)
            yield batch
            self._rows += batch.num_rows

    @abstractmethod
    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the source's own columns as text without nulls, named as in `schema`."""

    def _close(self) -> None:  # noqa: B027  some have nothing to close
        """Close what reads the rows."""

    @property
    def _file_names(self) -> tuple[str, ...]:
        """Return the names of the source's own columns that are read."""
        return self.schema.names[1 if self._options.makes_ids else 0 :]

    _line_break_hint = ""

    def _check_cells(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(self._file_names, batch.columns, strict=True):
            text = text_of(column).tobytes()
            if b"\n" not in text and b"\r" not in text:
                continue
            row = pc.index(pc.match_substring_regex(column, "[\r\n]"), True).as_py()
            if row >= 0:
                reason = f"holds a line break{self._line_break_hint}"
                raise self._bad(f"row {self._rows + row + 1}, column {name!r} {reason}")

    def _check_ids(self, ids: pa.Array) -> None:
        row = pc.index(pc.utf8_trim_whitespace(ids), "").as_py()
        if row >= 0:
            raise self._bad(f"row {self._rows + row + 1} has an empty id")

    def _bad(self, reason: str) -> BadData:
        return BadData(where=self._where, reason=reason)


class FileSource(RowSource):
    """An open file of rows."""

    _line_break_hint = " (is a quote not closed?)"

    def __init__(self, source: Path | InputFile, options: CsvOptions) -> None:
        """Open the file. Raises: BadData: it cannot be read; others as `InputFile.open`."""
        self._input = local_file(source) if isinstance(source, Path) else source
        super().__init__(self._input.where, options)
        self._file: Any = self._input.open()
        try:
            with self._reading():
                self._kind = kind_of(self._file.read(8))
                self._file.seek(0)
        except BaseException:
            self._file.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, tb)
        self._file.close()

    @property
    def kind(self) -> FileKind:
        """Return what the file is."""
        return self._kind

    @property
    def size_bytes(self) -> int:
        return self._input.size

    @property
    def done(self) -> float | None:
        """Return how much of the file was read, 0 to 1."""
        return min(1.0, self._file.tell() / self._input.size) if self._input.size else 1.0

    def cells(self) -> Iterator[pa.RecordBatch]:
        """Yield as every source does. Raises: BoundTableChanged: the file changed meanwhile."""
        with self._reading():
            yield from super().cells()
        self._input.check_unchanged()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what a file system says into our errors."""
        try:
            yield
        except pa.ArrowException:
            raise
        except OSError as exc:
            if self._input.files is not None:
                raise named(exc, self._where) from exc
            raise self._bad(f"it cannot be read ({exc.strerror or type(exc).__name__})") from exc
