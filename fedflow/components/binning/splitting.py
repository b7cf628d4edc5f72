"""Split points of a column, and the bin of each value.

Split points s_0 < ... < s_k cut values into bins (-inf, s_0], (s_0, s_1], ..., (s_{k-1}, inf): the
last point is the largest value seen and separates nothing. A missing value is in a further, last
bin. Values are float64, missing ones NaN. Source: docs/reference/components.md#binning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk import BadData

COMPARED_POINTS = 32  #: so many are compared one after the other, six times faster than searched
MAX_CATEGORIES = 10_000  #: different values of a column of categories, each of which is a bin

Floats = NDArray[np.float64]
BinNumbers = NDArray[np.intp]


def quantile_points(values: Floats, bins: int) -> Floats:
    """Return the values of rank ceil(i / bins * n), i = 1 ... bins, each once.

    Missing values do not count; without others there are no points.
    """
    ordered = np.sort(values)  # NaN last
    count = len(ordered) - int(np.count_nonzero(np.isnan(values)))
    if count == 0:
        return np.empty(0)
    ranks = -(-np.arange(1, bins + 1) * count // bins)
    return np.unique(ordered[ranks - 1])


def bucket_points(values: Floats, bins: int) -> Floats:
    """Return the upper ends of `bins` intervals of equal width between least and largest value."""
    present = values[~np.isnan(values)]
    if present.size == 0:
        return np.empty(0)
    low, high = float(present.min()), float(present.max())
    if low == high:
        return np.array([high])
    steps = np.arange(1, bins + 1) / bins
    points = low * (1.0 - steps) + high * steps  # no overflow in high - low
    points[-1] = high
    return np.unique(np.minimum(points, high))


def category_points(values: Floats, *, name: str, where: str) -> Floats:
    """Return every different value.

    Raises: BadData: there are more than MAX_CATEGORIES.
    """
    points = np.unique(values[~np.isnan(values)])
    if points.size > MAX_CATEGORIES:
        raise BadData(
            where=where,
            reason=f"column {name!r} has {points.size} different values in {len(values)} rows; a "
            f"column of categories may have {MAX_CATEGORIES}",
        )
    return points


def bin_numbers(values: Floats, points: Floats | Sequence[float]) -> BinNumbers:
    """Return the bin of each value: the number of split points but the last that are below it.

    A missing value gets the number of points, one more than the last bin's.
    """
    cuts = np.asarray(points, dtype=np.float64)
    if len(cuts) <= COMPARED_POINTS:
        counts = np.zeros(len(values), dtype=np.uint8)
        for cut in cuts[:-1]:
            counts += values > cut
        found = counts.astype(np.intp)
    else:
        found = np.searchsorted(cuts[:-1], values, side="left")
    missing = np.isnan(values)
    if missing.any():
        found[missing] = len(cuts)
    return found
