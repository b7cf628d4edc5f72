"""A party's columns as bins, and sums of gradients per candidate split.

A candidate is a column, one of its bins but the last, and where missing values go. Candidates are
numbered by column, bin, then missing values right before left: the lowest number wins a tie. A
column that has no missing value in training has no candidates with them left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.splitting import bin_numbers, quantile_points
from fedflow.components.boosting.criterion import Gradients
from fedflow.sdk import BadData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bins = NDArray[np.uint16]

NEARLY: Final = 1e-8  #: a value goes left up to so much above the split point, as in FATE
RIGHT, LEFT = 1, -1  #: where missing values go

MOST_BINS: Final = 65_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Where a column is cut."""

    column: int  #: index among the party's columns
    point: float
    missing: int  #: RIGHT or LEFT

    def goes_left(self, values: Floats) -> NDArray[np.bool_]:
        """Return which values (NaN where missing) go left."""
        left: NDArray[np.bool_] = values <= self.point + NEARLY
        return left | np.isnan(values) if self.missing == LEFT else left


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """The candidate splits of some columns, in their order."""

    columns: NDArray[np.intp]
    bins: NDArray[np.intp]
    missing: NDArray[np.intp]  #: RIGHT or LEFT

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class BinnedColumns:
    """All rows of one party: the bin of each value, missing values in one after the last."""

    points: tuple[Floats, ...]  #: per column
    numbers: Bins  #: rows x columns
    has_missing: tuple[bool, ...]  #: per column

    @staticmethod
    def of(features: Floats, *, bins: int) -> BinnedColumns:
        """Return columns (rows x columns, NaN where missing) cut at quantiles."""
        columns = range(features.shape[1])
        points = tuple(quantile_points(features[:, c], bins) for c in columns)
        numbers = np.empty(features.shape, dtype=np.uint16, order="F")
        for c in columns:
            numbers[:, c] = bin_numbers(features[:, c], points[c] + NEARLY)
        missing = tuple(bool(np.isnan(features[:, c]).any()) for c in columns)
        return BinnedColumns(points=points, numbers=numbers, has_missing=missing)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of bins per column, with that of missing values, empty or not."""
        return tuple(len(points) + 1 for points in self.points)

    def candidates(self, columns: Sequence[int]) -> Candidates:
        """Return the candidates of some columns, which are ascending."""
        found = [
            (column, place, side)
            for column in columns
            for place in range(len(self.points[column]) - 1)
            for side in ((RIGHT, LEFT) if self.has_missing[column] else (RIGHT,))
        ]
        table = np.array(found, dtype=np.intp).reshape(-1, 3)
        return Candidates(columns=table[:, 0], bins=table[:, 1], missing=table[:, 2])

    def frequent_candidates(
        self, columns: Sequence[int], *, rows: NDArray[np.intp], least: int
    ) -> Candidates:
        """Return the candidates whose sums and their differences are each of `least` rows or more.

        Before the first candidate of a column, between any two and behind the last one are at least
        so many of `rows`. From the left, the first candidate that is far enough is taken. Missing
        values go both ways if so many are missing; else they go right. `least` below 2: all.
        """
        every = self.candidates(columns)
        if least < 2:
            return every
        kept = np.zeros(len(every), dtype=bool)
        for column in columns:
            size = len(self.points[column]) + 1
            *counts, missing = np.bincount(self.numbers[rows, column], minlength=size).tolist()
            both = missing >= least
            places = _far_apart(counts, tail=0 if both else missing, least=least)
            kept |= (every.columns == column) & np.isin(every.bins, places)
            if not both:
                kept &= (every.columns != column) | (every.missing == RIGHT)
        return Candidates(
            columns=every.columns[kept], bins=every.bins[kept], missing=every.missing[kept]
        )

    def split_of(self, candidates: Candidates, number: int) -> Split:
        """Return the split of a candidate."""
        column = int(candidates.columns[number])
        return Split(
            column=column,
            point=float(self.points[column][candidates.bins[number]]),
            missing=int(candidates.missing[number]),
        )

    def left_rows(
        self, candidates: Candidates, number: int, rows: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Return which of some rows a candidate sends left."""
        column = int(candidates.columns[number])
        bins = self.numbers[rows, column]
        left: NDArray[np.bool_] = bins <= candidates.bins[number]
        if candidates.missing[number] == LEFT:
            left = left | (bins == len(self.points[column]))
        return left

    def sums(
        self,
        candidates: Candidates,
        gradients: Gradients,
        nodes: NDArray[np.intp],
        *,
        rows: NDArray[np.intp],
        count: int,
    ) -> Ints:
        """Return what goes left of each candidate in each node (count x candidates x sums).

        Args:
            gradients: of `rows`.
            nodes: the node of each of them, from 0.
            count: of nodes.
        """
        places = 2 * gradients.classes + 1
        found = np.zeros((count, len(candidates), places), dtype=np.int64)
        for column in np.unique(candidates.columns).tolist():
            chosen = np.flatnonzero(candidates.columns == column)
            size = len(self.points[column]) + 1
            cells = nodes * size + self.numbers[rows, column]
            sums = np.stack(
                [
                    np.bincount(cells, weights=weights, minlength=count * size)
                    for weights in (*gradients.values.T, None)
                ],
                axis=-1,
            ).astype(np.int64)
            found[:, chosen] = left_sums(sums.reshape(count, size, places), candidates, chosen)
        return found


def _far_apart(counts: Sequence[int], *, tail: int, least: int) -> list[int]:
    """Return bins with `least` rows or more up to the first, between any two and behind the last.

    Behind the last bin are `tail` rows more.
    """
    found, since, behind = [], 0, sum(counts) + tail
    for place, count in enumerate(counts[:-1]):
        since, behind = since + count, behind - count
        if since >= least and behind >= least:
            found.append(place)
            since = 0
    return found


def left_sums(sums: Ints, candidates: Candidates, chosen: NDArray[np.intp]) -> Ints:
    """Return the sums left of a column's candidates `chosen` (nodes x chosen x sums).

    `sums` are nodes x bins x sums, the last bin that of missing values.
    """
    left = np.cumsum(sums[:, :-1], axis=1)[:, candidates.bins[chosen]]
    with_missing = (candidates.missing[chosen] == LEFT)[None, :, None]
    return np.where(with_missing, left + sums[:, -1:], left)


def features_of(values: Floats, *, use_missing: bool, zero_as_missing: bool, where: str) -> Floats:
    """Return features as trees see them, NaN where missing.

    Raises: BadData: values are missing that must not be.
    """
    if use_missing and zero_as_missing:
        return np.where(values == 0.0, np.nan, values)
    missing = np.isnan(values)
    if not use_missing and missing.any():
        columns = int(missing.any(axis=0).sum())
        raise BadData(
            where=where,
            reason=f"{int(missing.sum())} values of {columns} columns are missing; fill them, or"
            " set use_missing",
        )
    return values
