"""Reads a Parquet or Arrow file as batches of text columns, as if it were a CSV file of its rows.

Numbers become the shortest text that reads back as the same number, a null or NaN an empty cell,
so that everything after the upload is the same for all kinds of files (decision 0021).

A small file may stand for a great many bytes (compression, dictionaries). What it says of that is
looked at first, rows are unpacked a few MiB at a time, and there is a bound for all of them; a file
that lies of the size of a part meets the executor's memory limit (`executor.memory_mib`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import ipc

from fedflow.tables.csv_header import (
    COLUMN_LIMIT,
    LINE_BYTES,
    CsvOptions,
    FileKind,
    check_names,
    raw_schema,
)
from fedflow.tables.file_errors import named
from fedflow.tables.input_files import InputFile
from fedflow.tables.row_source import FileSource

BATCH_ROWS: Final = 16_384  #: decoded at a time
BATCH_BYTES: Final = 16 << 20  #: of text in them
BUFFER_BYTES: Final = 1 << 18  #: of each Parquet column; else whole row groups are held
FAR_GROUP_BYTES: Final = 128 << 20  #: of one in an object store that is fetched at once
GROUP_BYTES: Final = 256 << 20  #: a Parquet row group of more must not be packed too tightly
_BEYOND: Final = "<value out of range"  #: how Arrow prints a time of no calendar
PACKED_TIMES: Final = 100  #: that is, its file must have this part of its size
TEXT_BYTES: Final = 1 << 30  #: of a file whose rows become more text than this ...
TEXT_TIMES: Final = 1000  #: ... so many times its size is refused


class ArrowSource(FileSource):
    """An open Parquet file, Arrow file or Arrow stream; closes with its `with` block."""

    def __init__(self, source: Path | InputFile, options: CsvOptions) -> None:
        """Open the file and read its schema.

        Raises: BadData: it is damaged, or a column's name or type cannot be used.
        """
        super().__init__(source, options)
        self._row_bound = 1
        try:
            self._open()
            self.names = tuple(name.strip() for name in self._columns.names)  # may be no UTF-8
        except MemoryError:  # Arrow's is an ArrowException too
            self._file.close()
            raise
        except (pa.ArrowException, OSError, ValueError) as exc:
            self._file.close()
            if self._input.files is not None and not isinstance(exc, pa.ArrowException):
                raise named(exc, self._where) from exc
            raise self._bad(f"it begins as {self._kind.value}, but is damaged") from None
        try:
            if not 1 <= len(self.names) <= COLUMN_LIMIT:
                raise self._bad(f"it has {len(self.names)} columns, not 1 to {COLUMN_LIMIT}")
            check_names(self.names, where=self._where, place="in its schema")
            self.schema = raw_schema(self.names, options, where=self._where)
            self._check_types()
        except BaseException:
            self._file.close()
            raise

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types of the chosen columns, dictionaries as what they stand for."""
        places = {name: i for i, name in enumerate(self.names)}
        found = {name: self._columns.field(places[name]).type for name in self._file_names}
        is_dictionary = pa.types.is_dictionary
        return {n: kind.value_type if is_dictionary(kind) else kind for n, kind in found.items()}

    @property
    def done(self) -> float | None:
        """Return how many of the rows were read, 0 to 1."""
        return (
            min(1.0, self._rows / self._row_bound)
            if self._kind is FileKind.PARQUET
            else super().done
        )

    def _open(self) -> None:
        if self._kind is FileKind.PARQUET:
            from pyarrow import parquet  # not loaded with the components

            # Far away, each read costs a round trip, so those of a row group go together.
            whole_groups = self._input.files is not None and self._has_small_groups(parquet)
            self._file.seek(0)
            self._reader: Any = parquet.ParquetFile(
                self._file,
                pre_buffer=whole_groups,
                buffer_size=0 if whole_groups else BUFFER_BYTES,
            )
            self._columns: Any = self._reader.schema_arrow
            self._row_bound = max(1, self._reader.metadata.num_rows)
            self._check_packing(self._reader.metadata)
        elif self._kind is FileKind.ARROW:
            if self._input.files is None:
                self._file.close()
                self._file = pa.memory_map(self._input.path, "r")  # a batch may be the whole file
            self._reader = ipc.open_file(self._file)
            self._columns = self._reader.schema
        else:
            self._reader = ipc.open_stream(self._file)
            self._columns = self._reader.schema

    def _has_small_groups(self, parquet: Any) -> bool:
        """Tell whether each row group may be held in memory as it lies in the file."""
        metadata = parquet.read_metadata(self._file)
        if not metadata.num_columns:
            return True
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        ends = [*(_begin(group) for group in groups[1:]), self._input.size]
        sizes = [end - _begin(group) for group, end in zip(groups, ends, strict=True)]
        return all(0 <= size <= FAR_GROUP_BYTES for size in sizes)

    def _check_packing(self, metadata: Any) -> None:
        most = max(GROUP_BYTES, PACKED_TIMES * self._input.size)
        for i in range(metadata.num_row_groups):
            if (size := metadata.row_group(i).total_byte_size) > most:
                self._file.close()
                raise self._bad(f"its row group {i + 1} unpacks to {size >> 20} MiB")

    def _check_types(self) -> None:
        taken = set(self._file_names)
        for number, field in enumerate(self._columns, start=1):
            if field.name.strip() in taken and not _is_plain(field.type):
                raise self._bad(f"column {number} is of the type {str(field.type)[:50]}")

    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        most, unpacked = max(TEXT_BYTES, TEXT_TIMES * self._input.size), 0
        try:
            for batch in self._typed_batches():
                batch.validate(full=True)
                for part in self._parts(batch):
                    cells = [self._as_text(column, i) for i, column in enumerate(part.columns)]
                    text = pa.RecordBatch.from_arrays(cells, names=list(self._file_names))
                    unpacked += text.nbytes
                    if unpacked > most:
                        reason = f"its rows are more than {TEXT_TIMES} times as large as the file"
                        raise self._bad(reason)
                    yield text
        except MemoryError:  # Arrow's is an ArrowException too
            raise
        except (pa.ArrowException, OSError) as exc:
            if self._input.files is not None and not isinstance(exc, pa.ArrowException):
                raise named(exc, self._where) from exc
            raise self._bad(f"it is damaged after row {self._rows}") from None

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield parts of a batch whose text is small. Raises: BadData: a row is too long."""
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, BATCH_ROWS)
            sizes = _text_bytes(part)
            if (sizes > LINE_BYTES).any():
                row = self._rows + int(np.argmax(sizes > LINE_BYTES)) + 1
                raise self._bad(f"row {row} is longer than {LINE_BYTES} bytes")
            rows = max(1, int(np.searchsorted(np.cumsum(sizes), BATCH_BYTES, side="right")))
            yield part.slice(0, rows)
            start += min(rows, part.num_rows)

    def _as_text(self, column: pa.Array, index: int) -> pa.Array:
        text = as_text(column)
        if pa.types.is_temporal(column.type):
            beyond = pc.index(pc.starts_with(text, _BEYOND), True).as_py()
            if beyond >= 0:
                name = self._file_names[index]
                raise self._bad(f"row {self._rows + beyond + 1}, column {name!r} is no such time")
        return text

    def _typed_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the chosen columns in their order."""
        as_stored = dict(zip(self.names, self._columns.names, strict=True))
        taken = [as_stored[name] for name in self._file_names]
        batches: Iterator[pa.RecordBatch]
        if self._kind is FileKind.PARQUET:
            groups = range(self._reader.num_row_groups)
            batches = chain.from_iterable(self._group(group, taken) for group in groups)
        elif self._kind is FileKind.ARROW:
            count = self._reader.num_record_batches
            batches = (self._reader.get_batch(i) for i in range(count))
        else:
            batches = self._reader
        for batch in batches:
            yield batch.select(taken)

    def _group(self, group: int, taken: list[str]) -> Iterator[pa.RecordBatch]:
        """Return the batches of a row group of a Parquet file."""
        batches: Iterator[pa.RecordBatch] = self._reader.iter_batches(
            batch_size=BATCH_ROWS, row_groups=[group], columns=taken, use_threads=False
        )
        return batches


def _begin(group: Any) -> int:
    """Return where the first column of a row group begins in its file."""
    column = group.column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def as_text(column: pa.Array) -> pa.Array:
    """Return a column as text without nulls, as CSV files show it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_float16(kind):
        column = pc.cast(column, pa.float32())
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if not pa.types.is_string(kind):
        column = pc.cast(column, pa.string())
    return pc.fill_null(column, "") if column.null_count else column


def _text_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return how many bytes the text of each row takes, without unpacking it."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
            lengths = np.append(_lengths(column.dictionary), 0)
            sizes += lengths[pc.fill_null(column.indices, len(lengths) - 1).to_numpy()]
        elif _is_text(column.type):
            sizes += _lengths(column)
    return sizes


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each text; what a null says does not matter."""
    if pa.types.is_string_view(column.type):
        views = np.frombuffer(column.buffers()[1], dtype=np.int32).reshape(-1, 4)
        return views[column.offset : column.offset + len(column), 0].astype(np.int64)
    lengths = pc.fill_null(pc.binary_length(column), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Tell whether cells of a type have a text."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or _is_text(kind)
    )
