"""Named arrays as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, Floats]
Layout: TypeAlias = Mapping[str, tuple[int, ...]]
"""Names and shapes of arrays; a vector has them one after the other, in this order."""


def layout_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of arrays."""
    return {name: tuple(np.shape(array)) for name, array in arrays.items()}


def length_of(layout: Layout) -> int:
    """Return how many numbers a vector has."""
    return sum(math.prod(shape) for shape in layout.values())


def pack(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> Floats:
    """Return the arrays of `layout` as one vector (float64).

    Raises: ValueError: other names or shapes, or a number that is not finite.
    """
    if set(arrays) != set(layout):
        raise ValueError(f"arrays {', '.join(sorted(arrays))}; due: {', '.join(sorted(layout))}")
    vector = np.empty(length_of(layout), dtype=np.float64)
    start = 0
    for name, shape in layout.items():
        array = np.asarray(arrays[name], dtype=np.float64)
        if array.shape != tuple(shape):
            raise ValueError(f"array {name!r} has the shape {array.shape}, not {tuple(shape)}")
        if not np.isfinite(array).all():
            raise ValueError(f"array {name!r} has a number that is not finite")
        vector[start : start + array.size] = array.reshape(-1)
        start += array.size
    return vector


def unpack(vector: Floats, layout: Layout) -> dict[str, Floats]:
    """Return views of a vector by name. Raises: ValueError: it has another length."""
    if vector.shape != (length_of(layout),):
        raise ValueError(f"{vector.shape} numbers; due: {length_of(layout)}")
    arrays: dict[str, Floats] = {}
    start = 0
    for name, shape in layout.items():
        size = math.prod(shape)
        arrays[name] = vector[start : start + size].reshape(shape)
        start += size
    return arrays
