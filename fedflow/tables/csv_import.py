"""Reads a CSV file as batches of text columns, in memory that does not grow with the file.

Rules (reference/components.md section 4.1): UTF-8, one row per line, the first column is the sample
id. A cell may stand in double quotes if it holds the delimiter, but not a line break. Rows in
messages are counted from 1, without the header and without blank lines. No message repeats a cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from fedflow.base.errors import BadData
from fedflow.base.ids import new_request_id
from fedflow.tables.csv_header import CsvOptions, read_header

BLOCK_BYTES = 1 << 20  #: read at a time; more if the first line says that rows are long
_AT_ROW = re.compile(r"Row #(\d+)")
_AT_COLUMN = re.compile(r"CSV column #(\d+)")


class CsvSource:
    """An open CSV file; closes with its `with` block."""

    def __init__(self, path: Path, options: CsvOptions) -> None:
        """Open the file and read its header.

        Raises: BadData: it cannot be opened, has no header or no rows, or the header is wrong.
        """
        self._where = f"file {path.name}"
        self._options = options
        self._rows = 0
        self._wrong: list[tuple[int, int]] = []  # (row, cells) of a row with too few or too many
        self._reader: Any = None
        header = read_header(path, options)
        self._names, self.schema = header.names, header.schema
        self._block_bytes = max(BLOCK_BYTES, 4 * header.first_bytes)
        try:
            self._size = path.stat().st_size
            self._file = pa.OSFile(str(path), "rb")
        except OSError as exc:
            raise self._bad(f"it cannot be read ({exc.strerror or type(exc).__name__})") from exc
        self._file.seek(header.rows_at)

    def __enter__(self) -> CsvSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            self._reader.close()
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

        Raises: BadData: a row has a wrong number of cells, a cell is not UTF-8 or holds a line
            break, an id is empty, or there is no row.
        """
        prefix = new_request_id() if self._options.extend_sid else ""
        if self._options.auto_increasing_sid:
            prefix = ""
        for batch in self._file_batches():
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

    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            self._reader = self._open_reader()
            while True:
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return
                if batch.num_rows:
                    yield batch
        except pa.ArrowInvalid as exc:
            if "Empty CSV file" in str(exc):
                return
            raise self._translated(str(exc)) from None  # Arrow's message repeats the row

    def _open_reader(self) -> Any:
        return arrow_csv.open_csv(
            self._file,
            read_options=arrow_csv.ReadOptions(
                column_names=list(self._names),
                block_size=self._block_bytes,
                use_threads=False,  # row numbers are known only so
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._options.id_delimiter, invalid_row_handler=self._note_wrong_row
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in self._names},
                strings_can_be_null=False,
            ),
        )

    def _note_wrong_row(self, row: Any) -> str:
        self._wrong.append((row.number, row.actual_columns))
        return "error"

    def _translated(self, message: str) -> BadData:
        """Return Arrow's complaint without the data that it quotes."""
        if self._wrong:
            row, cells = self._wrong[0]
            return self._bad(f"row {row} has {cells} cells, not {len(self._names)}")
        at_row, at_column = _AT_ROW.search(message), _AT_COLUMN.search(message)
        if "UTF8" in message and at_row and at_column:
            name = self._names[int(at_column[1])]
            return self._bad(f"row {at_row[1]}, column {name!r} is not UTF-8 text")
        if "straddling" in message:
            return self._bad(
                f"a row after row {self._rows} is longer than {self._block_bytes} bytes"
            )
        return self._bad(f"a row after row {self._rows} is not CSV (is a quote not closed?)")

    def _check_cells(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(self._names, batch.columns, strict=True):
            data = column.buffers()[2]
            raw = b"" if data is None else data.to_pybytes()
            if b"\n" not in raw and b"\r" not in raw:
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
