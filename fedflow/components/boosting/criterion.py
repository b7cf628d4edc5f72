"""When a split is good, and what a leaf weighs: the arithmetic of a node's sums.

Sums are those of the first derivatives by each class of the tree, then of the second ones, then the
number of rows. A tree has one class, or with vector leaves all of them: gains add up over these.

Gradients are integers here: multiples of a power of two that suits the largest one, so that sums
are exact, in any order and under encryption. Gains and weights are float64, cut down to ten
decimals. Source: Chen and Guestrin 2016, equations 5 to 7; docs/reference/boosting.md#numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FRACTION_BITS: Final = 30  #: of the largest gradient; fewer with more than 2**22 rows
TIE: Final = 1e-8  #: gains so near to the best one are as good

ROWS: Final = -1  #: place in sums; before it G and H of all classes

_EXACT_BITS: Final = 52  #: sums of so many bits are exact as float64, too
_LEAST_EXPONENT: Final = -1000  #: a unit is not so small that it is 0
_DECIMALS: Final = 1e10


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradients:
    """The derivatives of one tree's rows as integers, and how large their unit is."""

    values: Ints  #: rows x 2 classes: all first derivatives, then all second ones
    units: Floats  #: per column, what an integer 1 stands for: powers of two
    bits: int  #: every |value| is at most 2**bits

    @staticmethod
    def of(first: Floats, second: Floats) -> Gradients:
        """Return derivatives (each rows x classes, finite) rounded to integers."""
        bits = min(FRACTION_BITS, _EXACT_BITS - max(1, len(first)).bit_length())
        columns, units = [], []
        for column in (*first.T, *second.T):
            largest = float(np.abs(column).max(initial=0.0))
            _, exponent = np.frexp(largest)  # largest <= 2**exponent
            unit = 2.0 ** max(int(exponent) - bits, _LEAST_EXPONENT) if largest else 1.0
            columns.append(np.rint(column / unit).astype(np.int64))
            units.append(unit)
        return Gradients(values=np.column_stack(columns), units=np.array(units), bits=bits)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def classes(self) -> int:
        """Return how many classes the tree has."""
        return len(self.units) // 2

    @property
    def total(self) -> Ints:
        """Return the sums of all rows (2 classes + 1)."""
        return np.array([*self.values.sum(axis=0), len(self)], dtype=np.int64)

    def select(self, rows: NDArray[np.intp]) -> Gradients:
        """Return those of some rows, in the same unit."""
        return Gradients(values=self.values[rows], units=self.units, bits=self.bits)


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """The rules for splits and leaves."""

    l2: float = 0.1
    l1: float = 0.0
    min_rows_to_split: int = 2
    min_leaf_rows: int = 1
    min_gain: float = 1e-3
    min_child_weight: float = 0.0

    def gains(self, left: Ints, total: Ints, *, units: Floats) -> Floats:
        """Return the gain of every candidate (nodes x candidates), -inf where it is not allowed.

        Args:
            left: sums of the rows that go left (nodes x candidates x sums).
            total: sums of the nodes (nodes x sums).
            units: of the gradients.
        """
        whole = total[:, None, :]
        right = whole - left
        found = truncated(
            self._score(left, units) + self._score(right, units) - self._score(whole, units)
        )
        allowed = (
            (left[..., ROWS] >= self.min_leaf_rows)
            & (right[..., ROWS] >= self.min_leaf_rows)
            & (_curve(left, units) >= self.min_child_weight)
            & (_curve(right, units) >= self.min_child_weight)
            & (whole[..., ROWS] >= self.min_rows_to_split)
            & (found > self.min_gain)
        )
        return np.where(allowed, found, -np.inf)

    def weights(self, total: Ints, *, units: Floats) -> Floats:
        """Return the weights of leaves with these sums (leaves x classes)."""
        slope, curve = _real(total, units)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = -self._shrunk(slope) / (curve + self.l2)
        return truncated(np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0))

    def _score(self, sums: Ints, units: Floats) -> Floats:
        slope, curve = _real(sums, units)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.square(self._shrunk(slope)) / (curve + self.l2)
        score = np.nan_to_num(score, nan=0.0, posinf=0.0, neginf=0.0)
        return truncated(score.sum(axis=-1))

    def _shrunk(self, slope: Floats) -> Floats:
        if not self.l1:
            return slope
        shrunk: Floats = np.sign(slope) * np.maximum(np.abs(slope) - self.l1, 0.0)
        return shrunk


def _real(sums: Ints, units: Floats) -> tuple[Floats, Floats]:
    """Return the sums of first and second derivatives as numbers (each ... x classes)."""
    values = sums[..., :ROWS] * units
    classes = len(units) // 2
    return values[..., :classes], values[..., classes:]


def _curve(sums: Ints, units: Floats) -> Floats:
    """Return the second derivatives of all classes together."""
    curve: Floats = _real(sums, units)[1].sum(axis=-1)
    return curve


def truncated(values: Floats) -> Floats:
    """Return numbers cut down to ten decimals, towards minus infinity."""
    cut: Floats = np.floor(values * _DECIMALS) / _DECIMALS
    return cut
