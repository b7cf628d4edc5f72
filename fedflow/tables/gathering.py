"""Some rows of a table, in any order: what Intersection, splits and samples write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.sdk.table import Table, TableSchema

WINDOW_ROWS: Final = 131_072  #: gathered at a time, at most
WINDOW_BYTES: Final = 64 << 20  #: of rows of middle size in a window: wide rows are fewer
BATCH_ROWS: Final = 65_536  #: of what is given out

Positions = NDArray[np.int64]


def check_positions(rows: Positions, *, count: int, made: pa.Table | None) -> None:
    """Do nothing if `rows` are positions in a table of `count` rows, and `made` has one row each.

    Raises: IndexError: a position is not in the table. ValueError: `made` has another number.
    """
    if len(rows) and int(rows.max()) >= count:
        raise IndexError(f"row {rows.max()} of {count}")
    if made is not None and made.num_rows != len(rows):
        raise ValueError(f"{made.num_rows} made rows for {len(rows)} positions")


def chosen_rows(
    table: Table, rows: Positions, *, schema: TableSchema, made: pa.Table | None
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield what `Table.take` writes: first no rows, for the types, then those at `rows`.

    Raises: BadData: a column of `schema` is neither in the table nor in `made`.
    """
    new = () if made is None else tuple(n for n in schema.names if n in made.column_names)
    old = tuple(name for name in schema.names if name not in new)
    none = table.read(old).schema.empty_table()
    yield _with(none, made, new, start=0).select(list(schema.names))
    if not old and made is not None:
        yield made.select(list(schema.names))
        return
    done = 0
    for batch in take_rows(table, rows, columns=old):
        block = _with(pa.Table.from_batches([batch]), made, new, start=done)
        yield block.select(list(schema.names))
        done += batch.num_rows


def _with(block: pa.Table, made: pa.Table, names: tuple[str, ...], *, start: int) -> pa.Table:
    """Return the block with the rows from `start` of some columns of `made`."""
    for name in names:
        block = block.append_column(name, made.column(name).slice(start, block.num_rows))
    return block


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
    parts = [empty_batch(source.schema), *source.to_batches(max_chunksize=BATCH_ROWS)]
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
    if rows[0] >= 0 and (np.diff(rows) == 1).all():
        yield from _run(parts, begins, int(rows[0]), int(rows[-1]) + 1)
        return
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


def _run(
    parts: list[pa.RecordBatch], begins: Positions, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows that follow each other: nothing is copied."""
    for part, begin in zip(parts, begins.tolist()):
        low, high = max(start, begin), min(stop, begin + part.num_rows)
        if low < high:
            yield part.slice(low - begin, high - low)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows: what rows of nulls are taken from, or types are learnt of."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
