"""Optimal binning: neighbouring fine buckets are merged as long as that is needed.

Each merge takes the pair that costs least of the measure. Three passes: with `mixture`, until every
bin has rows of both classes; until no bin is smaller than the least size; until there are no more
than the wanted bins. (With the last one first, small bins would be merged at the end, and fewer
bins with less information be left.) A pair that together has more than the greatest size is never
merged, so a pass may end before its aim. Which pair costs least:

| measure | cost of merging bins a and b |
|---|---|
| `iv` | iv_a + iv_b - iv_ab, information values as in `statistics` |
| `gini` | growth of the summed impurity 2 e n / (e + n) of e events and n others |
| `ks` | Kolmogorov-Smirnov distance of the two classes within the pair, times its share of rows |
| `chi_square` | chi-square of bin against class in the pair |

Sources: Kerber 1992, "ChiMerge: Discretization of Numeric Attributes" (merging upwards by
chi-square); docs/reference/components.md#binning (measures and limits).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.params import OptimalBinningParam
from fedflow.components.binning.statistics import statistics_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class MergedBins:
    """Which buckets stay the last one of a bin, and the measure of every bin."""

    last: Ints  #: ascending indexes of buckets; the last one is the last bucket
    metric: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """When merging ends."""

    bins: int  #: at most so many
    metric: str  #: `iv`, `gini`, `ks` or `chi_square`
    mixture: bool
    least: float  #: rows of a bin
    most: float  #: rows of a merged bin
    adjustment: float  #: as in `statistics`

    @staticmethod
    def of(params: OptimalBinningParam, *, bins: int, rows: int, adjustment: float) -> Aim:
        """Return the aim for a column that has `rows` rows with a value."""
        return Aim(
            bins=bins,
            metric=params.metric,
            mixture=params.mixture,
            least=params.min_bin_pct * rows,
            most=params.max_bin_pct * rows,
            adjustment=adjustment,
        )


def merge_buckets(events: Ints, others: Ints, aim: Aim) -> MergedBins:
    """Return the bins that buckets with these counts of rows are merged to."""
    bins = _Bins(events, others, aim)
    if aim.mixture:
        bins.merge_lacking(lambda b: (b.events == 0) | (b.others == 0))
    bins.merge_lacking(lambda b: b.events + b.others < aim.least)
    while len(bins.last) > aim.bins and bins.merge(bins.costs):
        pass
    return MergedBins(last=bins.last, metric=bins.metric())


class _Bins:
    """The bins as they are, and what merging each with the next would cost."""

    def __init__(self, events: Ints, others: Ints, aim: Aim) -> None:
        self.events, self.others = events.astype(np.int64), others.astype(np.int64)
        self.last = np.arange(len(events), dtype=np.int64)
        self._aim = aim
        self._all_events = max(1, int(events.sum()))
        self._all_others = max(1, int(others.sum()))
        self.costs = self._costs(0, len(events) - 1)

    def merge(self, costs: Floats) -> bool:
        """Merge the cheapest pair; False: there is none that may be merged."""
        if costs.size == 0:
            return False
        at = int(np.argmin(costs))
        if not np.isfinite(costs[at]):
            return False
        for counts in (self.events, self.others):
            counts[at + 1] += counts[at]
        self.events = np.delete(self.events, at)
        self.others = np.delete(self.others, at)
        self.last = np.delete(self.last, at)
        self.costs = np.delete(self.costs, at)
        start, stop = max(0, at - 1), min(at + 1, len(self.costs))
        self.costs[start:stop] = self._costs(start, stop)
        return True

    def merge_lacking(self, lacking: Callable[[_Bins], Bools]) -> None:
        """Merge pairs of which one bin is `lacking`, until no bin is or no such pair may be."""
        while True:
            lacks = lacking(self)
            touched = lacks[:-1] | lacks[1:]
            if not self.merge(np.where(touched, self.costs, np.inf)):
                return

    def metric(self) -> Floats:
        """Return the measure of every bin."""
        e, n = self.events.astype(np.float64), self.others.astype(np.float64)
        match self._aim.metric:
            case "iv":
                return self._ivs(self.events, self.others)
            case "gini":
                return _ratio(2.0 * e * n, (e + n) ** 2)
            case "ks":
                return np.abs(np.cumsum(e) / self._all_events - np.cumsum(n) / self._all_others)
            case _:
                return np.append(_chi_square(e[:-1], n[:-1], e[1:], n[1:]), 0.0)

    def _costs(self, start: int, stop: int) -> Floats:
        """Return the costs of the pairs `start` to `stop`, a pair being a bin and the next one."""
        if stop <= start:
            return np.empty(0)
        a, b = slice(start, stop), slice(start + 1, stop + 1)
        e, n = self.events, self.others
        match self._aim.metric:
            case "iv":
                joint = self._ivs(e[a] + e[b], n[a] + n[b])
                costs = self._ivs(e[a], n[a]) + self._ivs(e[b], n[b]) - joint
            case "gini":
                costs = _impurity(e[a] + e[b], n[a] + n[b])
                costs -= _impurity(e[a], n[a]) + _impurity(e[b], n[b])
            case "ks":
                both = e[a] + e[b], n[a] + n[b]
                distance = np.abs(_ratio(e[a], both[0]) - _ratio(n[a], both[1]))
                costs = np.where((both[0] == 0) | (both[1] == 0), 0.0, distance)
                costs *= both[0] + both[1]
            case _:
                costs = _chi_square(e[a], n[a], e[b], n[b])
        sizes = (e[a] + n[a] + e[b] + n[b]).astype(np.float64)
        return np.where(sizes > self._aim.most, np.inf, costs)

    def _ivs(self, events: Ints, others: Ints) -> Floats:
        totals = (self._all_events, self._all_others)
        return statistics_of(events, others, adjustment=self._aim.adjustment, totals=totals).ivs


def _impurity(events: Ints, others: Ints) -> Floats:
    return _ratio(2.0 * events * others, events + others)


def _chi_square(
    e1: NDArray[np.generic],
    n1: NDArray[np.generic],
    e2: NDArray[np.generic],
    n2: NDArray[np.generic],
) -> Floats:
    """Return chi-square of tables of two bins and two classes; 0 where a row or column is empty."""
    a, b, c, d = (np.asarray(x, dtype=np.float64) for x in (e1, n1, e2, n2))
    product = (a + b) * (c + d) * (a + c) * (b + d)
    return _ratio((a + b + c + d) * (a * d - b * c) ** 2, product)


def _ratio(above: NDArray[np.generic], below: NDArray[np.generic]) -> Floats:
    """Return above / below as float64, 0 where `below` is 0."""
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
