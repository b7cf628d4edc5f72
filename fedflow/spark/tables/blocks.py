"""How a stored table is cut into blocks of batches, and how a Spark worker reads them.

All values here travel to the workers; they say where the rows are, never the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from fedflow.base.errors.data import BadData
from fedflow.base.values import dataclass
from fedflow.sdk.table import TableSchema
from fedflow.tables.parts import PartFile, TablePart, reading
from fedflow.tables.writer import META, ROWS_FILE, mapped, read_schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The files of one table."""

    uri: str | None  #: folder of parts; None: one Arrow file
    folder: str  #: of the Arrow file, a path
    parts: tuple[TablePart, ...]
    schema: TableSchema
    where: str  #: what messages call the table

    @property
    def batches(self) -> list[TableBatch]:
        """Return all batches that have rows, in stored order."""
        found: list[TableBatch] = []
        start = 0
        for part_number, part in enumerate(self.parts):
            for number, rows in enumerate(part.batches):
                if rows:
                    found.append(
                        TableBatch(part=part_number, number=number, start=start, rows=rows)
                    )
                    start += rows
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class TableBatch:
    """One batch of a table."""

    part: int
    number: int  #: within its part
    start: int  #: position of its first row in the table
    rows: int

    @property
    def end(self) -> int:
        return self.start + self.rows


Block = tuple[TableBatch, ...]
"""Consecutive batches that one Spark task works on."""


def cut(batches: Sequence[TableBatch], count: int) -> list[Block]:
    """Return at most `count` blocks of about equal rows, none of them empty."""
    if not batches:
        return []
    ends = np.array([batch.end for batch in batches])
    goals = ends[-1] * np.arange(1, count + 1) / count
    cuts = np.unique([0, *(np.searchsorted(ends, goals, side="left") + 1)])
    cuts = np.minimum(cuts, len(batches))
    return [tuple(batches[a:b]) for a, b in pairwise(cuts) if b > a]


class SourceReader:
    """Reads batches of a source in a worker; a context manager. It keeps one file open."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._file: PartFile | _ArrowFile | None = None
        self._part = -1

    def __enter__(self) -> SourceReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def batch(self, batch: TableBatch, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return one batch. Raises: BadData: its file is damaged. StorageMissing, ..."""
        file = self._open(batch.part)
        rows = file.batch(batch.number, columns)
        if rows.num_rows != batch.rows:
            raise BadData(where=self._source.where, reason="a batch has other rows than noted")
        return rows

    def batches(
        self, block: Block, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a block."""
        for batch in block:
            yield self.batch(batch, columns)

    def _open(self, number: int) -> PartFile | _ArrowFile:
        if self._file is not None and self._part == number:
            return self._file
        self._close()
        source = self._source
        if source.uri is None:
            self._file = _ArrowFile(source)
        else:
            part = source.parts[number]
            self._file = PartFile(source.uri, part, schema=source.schema, where=source.where)
        self._part = number
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _ArrowFile:
    """The file of a `LocalTable`, mapped by a worker of the same file system."""

    def __init__(self, source: Source) -> None:
        self._where = source.where
        with reading(source.where):
            self._file = mapped(Path(source.folder) / ROWS_FILE)
            self._reader: Any = ipc.open_file(self._file)
        said = read_schema((self._reader.schema.metadata or {}).get(META, b""))
        if said != source.schema:
            raise BadData(where=source.where, reason="its file is another table's")

    def batch(self, number: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        with reading(self._where):
            batch = self._reader.get_batch(number).replace_schema_metadata(None)
            batch = batch if columns is None else batch.select(list(columns))
            batch.validate()
        return batch

    def close(self) -> None:
        self._file.close()


def source_of_file(folder: Path, *, schema: TableSchema, where: str) -> Source:
    """Return the source of a table of this machine. Raises: BadData: its file is damaged."""
    with reading(where), mapped(folder / ROWS_FILE) as file:
        reader = ipc.open_file(file)
        rows = tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    part = TablePart(ROWS_FILE, rows, 0)
    return Source(uri=None, folder=str(folder), parts=(part,), schema=schema, where=where)
