"""Truth values as another party gets them, 8 per byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk.errors import CodecError


def bits_of(values: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return truth values, 8 per byte."""
    return np.packbits(values)


def read_bits(payload: object, *, count: int, message: str) -> NDArray[np.bool_]:
    """Return `count` truth values that another party sent. Raises: CodecError."""
    wanted = (-(-count // 8),)
    if not isinstance(payload, np.ndarray) or payload.dtype != np.uint8 or payload.shape != wanted:
        raise CodecError(reason=f"{message}: not a bit per row")
    bits: NDArray[np.bool_] = np.unpackbits(payload, count=count).astype(np.bool_)
    return bits
