"""Some rows of a table, in any order: what Intersection, splits and samples write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.sdk import Table

WINDOW_ROWS: Final = 131_072  #: gathered at a time, at most
WINDOW_BYTES: Final = 64 << 20  #: of rows of middle size in a window: wide rows are fewer
BATCH_ROWS: Final = 65_536  #: of what is given out

Positions = NDArray[np.int64]


def take_rows(
    table: Table, rows: Positions, *, columns: tuple[str, ...] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at `rows` (from 0, any order, repeats allowed), in batches of bounded size.

    A negative position gives a row of nulls, as in a left join. `columns` picks columns (None =
    all, in the schema's order). The table stays mapped from disk: each part of it is looked at once
    per window, so memory is that of a window. `pyarrow.Table.take` copies all parts of a text
    column together at each call, which for 1e7 rows takes many times as long.

    Raises: IndexError: a position is not within the table. BadData: the table is damaged.
    """
    if len(rows) and int(rows.max()) >= table.count:
        raise IndexError(f"row {rows.max()} of {table.count}")
    names = table.schema.names if columns is None else columns
    source = table.read(names)
    parts = [_none(source.schema), *source.to_batches(max_chunksize=BATCH_ROWS)]
    begins = np.cumsum([0, *(part.num_rows for part in parts)])
    step = _window_rows(source)
    for start in range(0, len(rows), step):
        window = np.asarray(rows[start : start + step], dtype=np.int64)
        yield from _window(parts, begins, window)


def _window_rows(source: pa.Table) -> int:
    row_bytes = int(source.nbytes) // max(1, int(source.num_rows))
    return max(1, min(WINDOW_ROWS, WINDOW_BYTES // max(1, row_bytes)))


def _window(
    parts: list[pa.RecordBatch], begins: Positions, rows: Positions
) -> Iterator[pa.RecordBatch]:
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    cuts = np.searchsorted(ascending, begins)
    found = [
        part.take(pa.array(ascending[low:high] - begin))
        for part, begin, low, high in zip(parts, begins, cuts, cuts[1:])
        if high > low
    ]
    absent = rows < 0
    back = np.zeros(len(rows), dtype=np.int64)
    back[order[cuts[0] :]] = np.arange(len(rows) - cuts[0])
    together = pa.Table.from_batches(found or parts[:1]).combine_chunks()
    for start in range(0, len(rows), BATCH_ROWS):
        at = slice(start, start + BATCH_ROWS)
        taken = together.take(pa.array(back[at], mask=absent[at])).combine_chunks()
        yield from taken.to_batches()


def _none(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows: what rows of nulls are taken from."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
