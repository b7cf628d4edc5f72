"""Reads a text file as batches of text columns, in memory that does not grow with the file.

UTF-8, one row per line. A cell may stand in double quotes if it holds the delimiter, but not a line
break. Rows are counted without the header and without blank lines.

Rows of a file without a head may differ in length (tags, svmlight). Such a file is read again
from its beginning with `CsvOptions.whole`: the id, and the rest of the line as one text, in which
quotes mean nothing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from fedflow.base.errors.data import BadData
from fedflow.tables.csv_header import LINE_BYTES, CsvOptions, FileKind, header_of
from fedflow.tables.input_files import InputFile
from fedflow.tables.row_source import FileSource

BLOCK_BYTES = 1 << 20  #: read at a time; more if the first line says that rows are long
_NO_CELL_HAS_IT: Final = "\x1f"  #: the delimiter by which whole lines are read
_AT_ROW = re.compile(r"Row #(\d+)")
_WRONG_ROW = re.compile(r"Row #(\d+): Expected \d+ columns, got (\d+)")
_AT_COLUMN = re.compile(r"CSV column #(\d+)")


class RaggedRows(Exception):
    """A row of a file without a head has more or fewer cells than the first one."""


class CsvSource(FileSource):
    """An open text file; closes with its `with` block."""

    def __init__(self, source: Path | InputFile, options: CsvOptions) -> None:
        """Open the file and read its header.

        Raises: BadData: it cannot be opened, has no header or no rows, or the header is wrong.
        """
        super().__init__(source, options)
        try:
            if self._kind is not FileKind.TEXT:
                raise self._bad(f"it is a {self._kind.value} file, no text")
            with self._reading(), self._input.open() as raw:
                text = cast(IO[bytes], io.BufferedReader(raw))
                header = header_of(text, options, where=self._where)
                self._file.seek(header.rows_at)
        except BaseException:
            self._file.close()
            raise
        self.schema = header.schema
        self.names = header.names
        self.doubts = header.doubts
        self._reader: Any = None
        self._block_bytes = max(BLOCK_BYTES, 4 * header.first_bytes)
        if options.whole:
            self._block_bytes = max(self._block_bytes, LINE_BYTES)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            self._reader = self._open_reader()
            while True:
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return
                yield self._parted(batch) if self._options.whole else batch
        except pa.ArrowInvalid as exc:
            if "Empty CSV file" in str(exc):
                return
            raise self._translated(str(exc)) from None  # Arrow's message repeats the row

    def _parted(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        """Return lines as id and rest; with made ids they stay as they are."""
        if self._options.makes_ids:
            return lines
        delimiter = self._options.id_delimiter
        text = lines.column(0)
        alone = pc.invert(pc.match_substring(text, delimiter))
        if pc.any(alone).as_py():
            text = pc.if_else(alone, pc.binary_join_element_wise(text, "", delimiter), text)
        parts = pc.split_pattern(text, delimiter, max_splits=1)
        cells = [pc.list_element(parts, 0), pc.list_element(parts, 1)]
        return pa.RecordBatch.from_arrays(cells, names=list(self._file_names))

    def _open_reader(self) -> Any:
        whole = self._options.whole
        names = ["line"] if whole else list(self.names)
        return arrow_csv.open_csv(
            self._file,
            read_options=arrow_csv.ReadOptions(
                column_names=names,
                block_size=self._block_bytes,
                use_threads=False,  # row numbers are known only so
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=_NO_CELL_HAS_IT if whole else self._options.id_delimiter,
                quote_char=False if whole else '"',
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=names if whole else list(self._file_names),
                strings_can_be_null=False,
            ),
        )

    def _translated(self, message: str) -> BadData | RaggedRows:
        """Return Arrow's complaint without the data that it quotes."""
        if wrong := _WRONG_ROW.search(message):
            row, cells = wrong.groups()
            if self._options.whole:
                return self._bad(f"row {row} holds control characters")
            if not self._options.head and self._options.names is None:
                return RaggedRows()
            return self._bad(f"row {row} has {cells} cells, not {len(self.names)}")
        at_row, at_column = _AT_ROW.search(message), _AT_COLUMN.search(message)
        if "UTF8" in message and at_row and at_column:
            name = self.names[min(int(at_column[1]), len(self.names) - 1)]
            return self._bad(f"row {at_row[1]}, column {name!r} is not UTF-8 text")
        if "straddling" in message:
            return self._bad(
                f"a row after row {self._rows} is longer than {self._block_bytes} bytes"
            )
        return self._bad(f"a row after row {self._rows} is not CSV (is a quote not closed?)")
