"""What the cells of raw rows are called: rows of named cells (dense), and rows of tags.

A format gives batches of text columns (tags: perhaps typed already) after the id: the match id and
the label, if there are any, and the features. Raw rows are those of `tables`: split at the upload's
`id_delimiter`, or the id and one text.

Source: docs/reference/data-formats.md#rows and docs/reference/data-formats.md#datatransform.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.features.cells import BadCells
from fedflow.sdk import BadData, Table

CELLS_AT_ONCE: Final = 4_000_000  #: of a batch that is spread over columns

Rows = NDArray[np.int64]


@runtime_checkable
class Delimited(Protocol):
    """A table that knows how its upload was read."""

    @property
    def id_delimiter(self) -> str:
        """Return what stood between the cells."""

    @property
    def is_named(self) -> bool:
        """Tell whether somebody named the columns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseRows:
    """Rows with one cell per column, in the table's columns or in the text of a single one."""

    id: str  #: name of the table's first column
    columns: tuple[str, ...]
    delimitor: str | None  #: between the cells of a text; None: they are the table's columns

    @staticmethod
    def of(table: Table, *, delimitor: str) -> DenseRows:
        """Return how the rows of a table are read.

        Raises: BadData: the header names a column twice, or not at all.
        """
        names = table.schema.columns
        if len(names) == 1 and delimitor:
            names = _names_in(table, names[0], delimitor)
        is_text = len(names) != len(table.schema.columns)
        return DenseRows(
            id=table.schema.id, columns=names, delimitor=delimitor if is_text else None
        )

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a block as text: the id, then `columns`.

        Raises: BadCells: a text has not as many cells as there are columns.
        """
        if self.delimitor is None:
            return batch
        parts = pc.split_pattern(batch.column(1), self.delimitor)
        count = len(self.columns)
        wrong = np.flatnonzero(pc.list_value_length(parts).to_numpy() != count)
        if len(wrong):
            raise BadCells(int(wrong[0]), len(wrong))
        cells = pc.list_flatten(parts)
        at = np.arange(0, batch.num_rows * count, count)
        columns = [cells.take(pa.array(at + i)) for i in range(count)]
        return pa.RecordBatch.from_arrays(
            [batch.column(0), *columns], names=[self.id, *self.columns]
        )


def _names_in(table: Table, name: str, delimitor: str) -> tuple[str, ...]:
    """Return the columns of the only column `name`, which may hold several cells."""
    named = not isinstance(table, Delimited) or table.is_named
    if named:
        names = [part.strip() for part in name.split(delimitor)]
    else:
        (cell,) = table.head(1).column(name).to_pylist() or [""]
        names = [f"x{i}" for i in range(len(cell.split(delimitor)))]
    if len(names) == 1:
        return (name,)
    if "" in names or len({*names, table.schema.id}) <= len(names):
        where = f"table {table.name}"
        raise BadData(where=where, reason="its header names a column twice, or not at all")
    return tuple(names)


class Items:
    """The items of some rows: text between delimiters, white space around it and empty ones left
    out, after a number of leading ones.
    """

    def __init__(self, rows: Rows, texts: pa.Array, leading: Sequence[pa.Array]) -> None:
        self.rows = rows  #: of each item, from 0 in the batch
        self.texts = texts
        self.leading = leading  #: one text per row each; null where a row is too short


def items_of(batch: pa.RecordBatch, *, joined: str, delimitor: str, leading: int) -> Items:
    """Return the items of a raw batch, whose columns are joined by `joined` first."""
    columns = batch.columns[1:] or [pa.array([""] * batch.num_rows, pa.string())]
    text = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, joined)
    parts = pc.split_pattern(text, delimitor)
    lengths = pc.list_value_length(parts).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = pc.utf8_trim_whitespace(pc.list_flatten(parts))
    begins = np.cumsum(lengths) - lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(rows)) - begins[rows]
    firsts = []
    for i in range(leading):
        at = np.where(lengths > i, begins + i, 0)
        firsts.append(texts.take(pa.array(at, mask=lengths <= i)))
    kept = np.flatnonzero((position >= leading) & (pc.binary_length(texts).to_numpy() > 0))
    return Items(rows[kept], texts.take(pa.array(kept)), firsts)


def spread(
    rows: Rows, places: Rows, values: pa.Array, *, count: int, columns: int, absent: pa.Scalar
) -> list[pa.Array]:
    """Return `columns` arrays of `count` cells: `values` at (rows, places), else `absent`.

    Of several values for one cell the last one counts.
    """
    where = np.zeros((columns, count), dtype=np.int64)
    where[places, rows] = np.arange(1, len(values) + 1)
    all_values = pa.concat_arrays([pa.array([absent.as_py()], values.type), values])
    return [all_values.take(pa.array(line)) for line in where]


def slices(batch: pa.RecordBatch, columns: int) -> Iterator[pa.RecordBatch]:
    """Yield parts of a batch, at least one, that are small enough to be spread over `columns`."""
    step = max(1, CELLS_AT_ONCE // max(1, columns))
    for start in range(0, max(1, batch.num_rows), step):
        yield batch.slice(start, step)
