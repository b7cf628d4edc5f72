"""Quantiles of rows that lie at several parties, from sums of ranks alone.

The rank of a point in a column is the number of values that are not above it. Ranks of several
parties' rows are added, and the sum is the rank in all rows. A search asks for the ranks of a grid
of points and goes on between two of them. Points are float64, searched in their order: at most 14
rounds lead from all numbers to the very value of a rank.

Shapes: columns x targets x grid. Source: docs/reference/components.md#binning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.uint64]

#: points of one column that one round asks for: more make fewer rounds and longer vectors
COLUMN_POINTS: Final = 512

_SIGN = np.uint64(1 << 63)
_LARGEST = float(np.finfo(np.float64).max)


def order_of(values: Floats) -> Places:
    """Return for each finite float64 a whole number, in the same order."""
    bits = (values + 0.0).view(np.uint64)  # so -0.0 is 0.0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def value_of(places: Places) -> Floats:
    """Return the float64 of each number that `order_of` gives."""
    bits = np.where(places & _SIGN, places & ~_SIGN, ~places)
    return bits.view(np.float64)


#: the ends of all searches; the lowest is taken to be below all values
LOWEST: Final = order_of(np.array([-_LARGEST]))[0]
HIGHEST: Final = order_of(np.array([_LARGEST]))[0]


@dataclass(frozen=True, slots=True)
class SortedColumn:
    """One column's values at one party, in order, without the missing ones."""

    values: Floats

    @staticmethod
    def of(values: Floats) -> SortedColumn:
        """Return a column with NaN where a value is missing."""
        return SortedColumn(np.sort(values[~np.isnan(values)]))

    def ranks(self, points: Floats) -> Ints:
        """Return how many values are not above each point."""
        return self.values.searchsorted(points, side="right").astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSearch:
    """Looks for the values of given ranks in several columns at once; a round makes the next one.

    Each rank has an interval (low, high] with rank(low) < target <= rank(high). A party that joins
    or leaves between two rounds changes the ranks: where that breaks an interval, its search begins
    again.
    """

    shares: Floats  #: ranks to look for, of the rows: above 0, ascending; the last is found exactly
    #: how far above its target a rank may be, as a share of the rows: with 0 a point between two
    #: values counts; None: the values themselves
    error: float | None = None
    low: Floats  #: columns x targets
    high: Floats  #: columns x targets: what is found, or the least point known to reach the rank
    found: NDArray[np.bool_]  #: columns x targets

    @staticmethod
    def of(columns: int, shares: Floats, *, error: float | None = None) -> RankSearch:
        """Return a search that has not begun."""
        shape = (columns, len(shares))
        return RankSearch(
            shares=shares,
            error=error,
            low=np.full(shape, -_LARGEST),
            high=np.full(shape, _LARGEST),
            found=np.zeros(shape, dtype=np.bool_),
        )

    @property
    def ended(self) -> bool:
        """Tell whether every value is found."""
        return bool(self.found.all())

    @property
    def grid(self) -> int:
        """Return how many points there are per column and target."""
        return max(2, COLUMN_POINTS // max(1, len(self.shares))) + 1

    def points(self) -> Floats:
        """Return the points to ask for: columns x targets x grid, ascending, both ends included."""
        return value_of(self._grid())

    def after(self, ranks: Ints, rows: Ints) -> RankSearch:
        """Return the search after a round, of the ranks of `points()` and the rows per column.

        A column without rows is found: it has no value. Ranks must not descend along the grid and
        be 0 to rows; the caller has checked them.
        """
        targets = np.maximum(np.ceil(self.shares * rows[:, None] - 1e-9), 1).astype(np.int64)
        grid = self._grid()
        ranks = np.where(grid == LOWEST, 0, ranks)
        broken = (ranks[..., 0] >= targets) | (ranks[..., -1] < targets)
        first = np.argmax(ranks >= targets[..., None], axis=-1)[..., None]
        low = np.take_along_axis(grid, np.maximum(first - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(grid, first, axis=-1)[..., 0]
        rank = np.take_along_axis(ranks, first, axis=-1)[..., 0]
        near = rank - targets <= (-1.0 if self.error is None else self.error * rows[:, None])
        near[:, -1] = False  # the largest value itself, not a number above it
        low[broken], high[broken] = LOWEST, HIGHEST
        found = ~broken & ((high - low <= 1) | near)
        found[rows == 0] = True
        return replace(self, low=value_of(low), high=value_of(high), found=found)

    def _grid(self) -> Places:
        """Return for each target places from low to high."""
        steps = np.arange(self.grid, dtype=np.uint64)
        ways = np.uint64(self.grid - 1)
        low = order_of(self.low)[..., None]
        width = order_of(self.high)[..., None] - low
        grid: Places = low + width // ways * steps + width % ways * steps // ways
        return grid


def interpolated_points(points: Floats, ranks: Ints, rows: int, bins: int) -> Floats:
    """Return split points of one column, between points whose ranks in all rows are known.

    A split point is within the same two points as the value of its rank, so it is at most one
    step of the points away from it. The last is the last point.

    Args:
        points: ascending, from the least value to the largest.
        ranks: of `points`, not descending, the last one is `rows`.
    """
    targets = -(-np.arange(1, bins + 1) * rows // bins)
    after = ranks.searchsorted(targets, side="left")
    before = np.maximum(after - 1, 0)
    between = ranks[after] - ranks[before]
    part = np.where(between > 0, (targets - ranks[before]) / np.maximum(between, 1), 1.0)
    found = points[before] * (1.0 - part) + points[after] * part
    found[-1] = points[-1]
    return np.unique(np.minimum(np.maximum.accumulate(found), points[-1]))


def even_points(low: float, high: float, count: int) -> Floats:
    """Return `count` + 1 points of equal distance from `low` to `high`."""
    steps = np.arange(count + 1) / count
    points = low * (1.0 - steps) + high * steps  # no overflow in high - low
    points[0], points[-1] = low, high
    return np.minimum(np.maximum.accumulate(points), high)
