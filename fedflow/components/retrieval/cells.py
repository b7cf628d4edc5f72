"""Rows of texts as bytes of one length, so that a block's size says nothing of what is in it.

A cell is its length (int32, little-endian; -1 = missing) and its UTF-8 bytes, filled up with zeros
to the column's width; a row is its cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.sdk import BadData
from fedflow.sdk.errors import CodecError

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]

LENGTH_BYTES = 4
MAX_WIDTH = 4096  #: bytes of one cell
MISSING = -1


def as_texts(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's cells as texts, numbers as Python's `str` writes them; NaN is null."""
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return pc.cast(column, pa.string()).combine_chunks()
    missing = pc.is_null(column, nan_is_null=True).combine_chunks()
    known = pc.if_else(missing, pa.scalar(0, kind), column.combine_chunks())
    texts = pa.array(known.to_numpy(zero_copy_only=False).astype(str), pa.string())
    return pc.if_else(missing, pa.scalar(None, pa.string()), texts)


def pack(columns: Sequence[pa.Array], *, names: Sequence[str]) -> tuple[Bytes, list[int]]:
    """Return the rows (rows x bytes) and the columns' widths.

    Raises: BadData: a cell is longer than MAX_WIDTH.
    """
    parts, widths = [], []
    for name, column in zip(names, columns, strict=True):
        lengths = pc.fill_null(pc.binary_length(column), MISSING).to_numpy().astype("<i4")
        width = max(0, int(lengths.max(initial=0)))
        if width > MAX_WIDTH:
            long = int((lengths > MAX_WIDTH).sum())
            reason = f"{long} cells are longer than {MAX_WIDTH} bytes"
            raise BadData(where=f"column {name!r}", reason=reason)
        cells = np.zeros((len(column), width), np.uint8)
        filled = np.arange(width) < lengths[:, None]
        cells[filled] = _letters(column)
        head = np.ascontiguousarray(lengths).view(np.uint8).reshape(-1, LENGTH_BYTES)
        parts.append(np.concatenate([head, cells], axis=1))
        widths.append(width)
    return np.concatenate(parts, axis=1), widths


def unpack(data: bytes, widths: Sequence[int], *, rows: int) -> list[pa.Array]:
    """Return the columns of rows that a peer packed. Raises: CodecError: they are damaged."""
    size = sum(widths) + LENGTH_BYTES * len(widths)
    if len(data) != rows * size:
        raise CodecError(reason=f"{rows} rows have {len(data)} bytes, not {rows * size}")
    matrix = np.frombuffer(data, np.uint8).reshape(rows, size)
    columns, start = [], 0
    for width in widths:
        head = np.ascontiguousarray(matrix[:, start : start + LENGTH_BYTES])
        lengths = head.view("<i4").ravel().astype(np.int64)
        start += LENGTH_BYTES
        cells = matrix[:, start : start + width]
        start += width
        if len(lengths) and not (lengths.min() >= MISSING and lengths.max() <= width):
            raise CodecError(reason="a cell's length is beyond its column's width")
        columns.append(_texts(cells, lengths))
    return columns


def _letters(column: pa.Array) -> Bytes:
    """Return the bytes of all texts, one after the other; null has none."""
    joined = "".join(pc.fill_null(column, "").to_pylist()).encode()
    return np.frombuffer(joined, np.uint8)


def _texts(cells: Bytes, lengths: NDArray[np.int64]) -> pa.Array:
    known = np.maximum(lengths, 0)
    letters = cells[np.arange(cells.shape[1]) < known[:, None]].tobytes()
    offsets = np.concatenate([[0], np.cumsum(known)]).astype("<i8")
    array = pa.Array.from_buffers(
        pa.large_string(),
        len(lengths),
        [_validity(lengths), pa.py_buffer(offsets), pa.py_buffer(letters)],
    )
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise CodecError(reason="a cell is no UTF-8 text") from exc
    return array.cast(pa.string())


def _validity(lengths: NDArray[np.int64]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(lengths != MISSING, bitorder="little").tobytes())
