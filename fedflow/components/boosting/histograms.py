"""Histograms of gradients of rows that lie at several parties: what HomoSecureBoost adds up.

All parties cut their columns at the same points (HomoFeatureBinning finds them). A histogram has,
per node of a level and bin of every column, the sums of the derivatives and the number of rows. The
sum of all parties' histograms is that of all rows; as the contribution to a round it is masked.

Shapes: nodes x bins of all columns, one column after the other x (2 classes + 1), see `criterion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.splitting import bin_numbers
from fedflow.components.boosting.bins import LEFT, NEARLY, BinnedColumns, Candidates

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_NODE = -1  #: the node of a row that is in none of a level


def binned_at(
    features: Floats, points: Sequence[Floats], *, missing: Sequence[bool]
) -> BinnedColumns:
    """Return a party's rows (rows x columns, NaN where missing) cut at common points.

    `missing` tells which columns have missing values at any party.
    """
    numbers = np.empty(features.shape, dtype=np.uint16, order="F")
    for column, cuts in enumerate(points):
        numbers[:, column] = bin_numbers(features[:, column], cuts + NEARLY)
    return BinnedColumns(points=tuple(points), numbers=numbers, has_missing=tuple(missing))


@dataclass(frozen=True, kw_only=True, slots=True)
class Histograms:
    """The histograms of the nodes of one level."""

    sums: Floats  #: nodes x bins of all columns x (2 classes + 1)
    starts: Ints  #: the first bin of each column, and the end of the last one

    @staticmethod
    def of(binned: BinnedColumns, derivatives: Floats, nodes: Ints, *, count: int) -> Histograms:
        """Return those of one party's rows.

        Args:
            derivatives: rows x 2 classes: all first ones, then all second ones.
            nodes: of each row, 0 to count - 1, or NO_NODE.
        """
        starts = starts_of(binned.sizes)
        inside = np.flatnonzero(nodes != NO_NODE)
        values = np.column_stack((derivatives[inside], np.ones(len(inside))))
        length = int(starts[-1])
        sums = np.zeros((count * length, values.shape[1]))
        for column, start in enumerate(starts[:-1]):
            places = nodes[inside] * length + start + binned.numbers[inside, column]
            for number in range(values.shape[1]):
                sums[:, number] += np.bincount(
                    places, weights=values[:, number], minlength=len(sums)
                )
        return Histograms(sums=sums.reshape(count, length, -1), starts=starts)

    @staticmethod
    def added(sums: Floats, sizes: Sequence[int]) -> Histograms:
        """Return those of all parties' rows, from the sums of a round.

        Raises: ValueError: they are of other bins, or rows of a node differ from column to column.
        """
        found = Histograms(sums=sums, starts=starts_of(sizes))
        if sums.ndim != 3 or sums.shape[1] != found.starts[-1]:
            raise ValueError("the histograms are of other bins")
        rows = np.add.reduceat(sums[..., -1], found.starts[:-1], axis=1)
        if (np.abs(rows - np.rint(rows)) > 1e-3).any() or (np.ptp(rows, axis=1) > 1e-3).any():
            raise ValueError("a node has not the same rows in all columns")
        return found

    @property
    def totals(self) -> Floats:
        """Return the sums of each node: nodes x (2 classes + 1)."""
        total: Floats = self.sums[:, : self.starts[1]].sum(axis=1)
        return total

    def left(self, candidates: Candidates) -> Floats:
        """Return what goes left by each candidate: nodes x candidates x (2 classes + 1)."""
        parts = np.empty((len(self.sums), len(candidates), self.sums.shape[2]))
        for column in np.unique(candidates.columns):
            own = np.flatnonzero(candidates.columns == column)
            bins = self.sums[:, self.starts[column] : self.starts[column + 1]]
            upto = bins[:, :-1].cumsum(axis=1)
            parts[:, own] = upto[:, candidates.bins[own]]
            with_missing = own[candidates.missing[own] == LEFT]
            parts[:, with_missing] += bins[:, -1:]
        return parts

    def sibling(self, child: Histograms) -> Histograms:
        """Return the histograms of the other children, where these are the parents'."""
        return Histograms(sums=self.sums - child.sums, starts=self.starts)


def starts_of(sizes: Sequence[int]) -> Ints:
    """Return where the bins of each column begin, and the end of the last."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
