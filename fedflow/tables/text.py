"""How the cells of a table look as text.

Source: docs/reference/data-formats.md#text-of-outputs: numbers as Python's `str` prints them, a
missing label is `None`, the detail of a prediction is a Python dict with single quotes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedflow.sdk.table import Table, TableKind, TableSchema

DETAIL = "predict_detail"  #: the column of a prediction table with a score per class


def text_rows(table: Table, *, limit: int = -1) -> Iterator[list[str]]:
    """Yield the rows of `table` as text cells in column order; at most `limit` if it is not < 0."""
    left = limit
    for batch in table.to_batches():
        if left == 0:
            return
        if 0 <= left < batch.num_rows:
            batch = batch.slice(0, left)
        left -= batch.num_rows if left > 0 else 0
        yield from map(list, batch_rows(batch, table.schema))


def batch_rows(batch: pa.RecordBatch, schema: TableSchema) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one batch as text cells in column order."""
    columns = [
        column_text(batch.column(i), detail=is_detail(schema, name))
        for i, name in enumerate(schema.names)
    ]
    return zip(*columns, strict=True)


def is_detail(schema: TableSchema, name: str) -> bool:
    """Tell whether column `name` holds the detail of predictions."""
    return schema.kind is TableKind.PREDICTIONS and name == DETAIL


def column_text(column: pa.Array, *, detail: bool = False) -> Iterable[str]:
    """Return every cell of `column` as text."""
    values = column.to_pylist()
    if detail:
        return [_detail_text(v) for v in values]
    return values if pa.types.is_string(column.type) and not column.null_count else map(str, values)


def text_of(column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of all cells of a text column, one after the other, without copying them.

    A slice shares the buffer of its whole column: that must not be looked at for each slice.
    """
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
    ends = np.frombuffer(offsets, wide)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _detail_text(value: Any) -> str:
    """Return a score per class as `{'0': 0.03, '1': 0.97}`, from JSON text, a map or a struct."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, list):
        value = dict(value)
    if isinstance(value, dict):
        value = {str(k): v for k, v in value.items()}
    return str(value)
