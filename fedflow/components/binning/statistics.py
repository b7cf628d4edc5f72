"""What bins tell about two classes: weights of evidence and information values.

For bin b with e_b events of E and n_b others of N: woe_b = ln((e_b / E) / (n_b / N)) and
iv_b = (e_b / E - n_b / N) * woe_b. If e_b or n_b is 0, both get the adjustment factor added before
the division. A class without any row counts as one of one row. Source:
docs/reference/components.md#binning; Siddiqi 2006, "Credit Risk Scorecards", chapter 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Shape = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class BinStatistics:
    """One column's bins, arrays with one entry per bin, that of missing values last."""

    events: Ints
    others: Ints
    event_rates: Floats
    other_rates: Floats
    woe: Floats
    ivs: Floats

    @property
    def iv(self) -> float:
        """Return the information value of the column."""
        return float(self.ivs.sum())

    @property
    def is_monotonic(self) -> bool:
        """Tell whether the weights of evidence never fall, or never rise, from bin to bin."""
        steps = np.diff(self.woe)
        return bool((steps >= 0).all() or (steps <= 0).all())


def statistics_of(
    events: Ints, others: Ints, *, adjustment: float, totals: tuple[int, int] | None = None
) -> BinStatistics:
    """Return the statistics of bins with these counts of rows.

    `totals` are E and N, None: the sums of the counts.
    """
    all_events, all_others = totals or (int(events.sum()), int(others.sum()))
    lacks = (events == 0) | (others == 0)
    extra = np.where(lacks, adjustment, 0.0)
    event_rates = (events + extra) / max(1, all_events)
    other_rates = (others + extra) / max(1, all_others)
    woe = np.log(event_rates / other_rates)
    return BinStatistics(
        events=events,
        others=others,
        event_rates=event_rates,
        other_rates=other_rates,
        woe=woe,
        ivs=(event_rates - other_rates) * woe,
    )


def counts_per_bin(bins: NDArray[np.intp], classes: NDArray[np.intp], *, shape: Shape) -> Ints:
    """Return how many rows are in each bin and of each class, `shape` = (bins, classes)."""
    joint = bins * shape[1] + classes
    counts = np.bincount(joint, minlength=shape[0] * shape[1])
    return counts.reshape(shape).astype(np.int64, copy=False)


def against_rest(counts: Ints, number: int) -> tuple[Ints, Ints]:
    """Return per bin the rows of class `number`, and those of all others."""
    events = counts[:, number]
    return events, counts.sum(axis=1) - events
