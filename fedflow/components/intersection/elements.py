"""Blinded ids as they travel: one value of fixed width per id, as rows of a byte matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.sdk.errors import CodecError

Elements = npt.NDArray[np.uint8]  #: shape ids x width
Positions = npt.NDArray[np.int64]


def parse_elements(value: object, *, count: int, width: int) -> Elements:
    """Return the `count` values of `width` bytes that another party sent, a view.

    Raises: CodecError: another type or length.
    """
    if not isinstance(value, bytes) or len(value) != count * width:
        size = len(value) if isinstance(value, bytes) else type(value).__name__
        raise CodecError(reason=f"expected {count} blinded ids of {width} bytes, got {size}")
    return np.frombuffer(value, np.uint8).reshape(count, width)


def as_column(elements: Elements) -> pa.Array:
    """Return the values as an Arrow column for matching, a view."""
    count, width = elements.shape
    buffer = pa.py_buffer(np.ascontiguousarray(elements))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, buffer])


def check_distinct(column: pa.Array) -> None:
    """Raise CodecError if a value occurs twice, which distinct ids never give."""
    if pc.count_distinct(column).as_py() != len(column):
        raise CodecError(reason="the received blinded ids contain duplicates")


def secret_order(elements: Elements) -> Positions:
    """Return the order in which to send blinded ids: sorted by value.

    Blinded values look random, so positions in it say nothing about the order of the rows.
    """
    leading = np.ascontiguousarray(elements[:, :8]).view("<u8").ravel()
    return np.argsort(leading, kind="stable")


def places_in(own: pa.Array, theirs: pa.Array) -> Positions:
    """Return for each of `own` its position in `theirs`, -1 if it is not there."""
    found = pc.fill_null(pc.index_in(own, value_set=theirs), -1)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
