"""Tables as CSV files."""

from __future__ import annotations

from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.sdk.table import Table, TableSchema
from fedflow.tables.text import column_text, is_detail, text_of

_IN_NUMBERS = frozenset("0123456789+-.einfaNoTrueFalse")


def write_csv(
    table: Table,
    target: IO[bytes],
    *,
    head: bool = True,
    delimiter: str = ",",
    limit: int = -1,
) -> int:
    """Write `table` to `target` as UTF-8 lines and return the number of rows written.

    Cells are joined by `delimiter`; a text cell that holds the delimiter, a quote or a line break
    is quoted as CSV does it, and the detail of a prediction always is, because FATE's clients
    expect its outer quotes. `limit` < 0 means all rows. Memory stays within one batch.
    """
    if head:
        names = [_quoted(n, delimiter) for n in table.schema.names]
        target.write((delimiter.join(names) + "\n").encode())
    written = 0
    for batch in table.to_batches():
        if limit >= 0:
            batch = batch.slice(0, limit - written)
        if batch.num_rows == 0:
            break
        target.write(_lines(batch, table.schema, delimiter))
        written += batch.num_rows
    return written


def _lines(batch: pa.RecordBatch, schema: TableSchema, delimiter: str) -> Any:
    """Return the rows of `batch` as lines: cells joined by `delimiter`, each ended by a line feed.

    They are joined by Arrow: the bytes of its result are the lines.
    """
    columns = [_cells(batch.column(i), schema, i, delimiter) for i in range(batch.num_columns)]
    ends = pa.array(["\n"], pa.large_string()).take(pa.array(np.zeros(batch.num_rows, np.int64)))
    lines = columns[0]
    if len(columns) > 1:
        lines = pc.binary_join_element_wise(*columns, pa.scalar(delimiter, pa.large_string()))
    lines = pc.binary_join_element_wise(lines, ends, pa.scalar("", pa.large_string()))
    return text_of(lines).data


def _cells(column: pa.Array, schema: TableSchema, index: int, delimiter: str) -> pa.Array:
    """Return a column as text ready to be joined."""
    kind = column.type
    detail = is_detail(schema, schema.names[index])
    if pa.types.is_string(kind) and not column.null_count and not detail:
        if _has_none(column, f'{delimiter}"\n\r'):
            return pc.cast(column, pa.large_string())
        return pa.array([_quoted(c, delimiter) for c in column.to_pylist()], pa.large_string())
    if pa.types.is_integer(kind) and not column.null_count and delimiter not in _IN_NUMBERS:
        return pc.cast(column, pa.large_string())
    cells = column_text(column, detail=detail)
    if detail:
        cells = ('"' + c.replace('"', '""') + '"' for c in cells)
    elif not pa.types.is_primitive(kind) or delimiter in _IN_NUMBERS:
        cells = (_quoted(c, delimiter) for c in cells)
    return pa.array(cells, pa.large_string())


def _has_none(column: pa.Array, characters: str) -> bool:
    """Tell whether no cell has one of some ASCII characters; False if that takes a closer look."""
    text = text_of(column).tobytes()
    return not any(c.encode() in text for c in characters)


def _quoted(text: str, delimiter: str) -> str:
    if '"' in text or delimiter in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text
