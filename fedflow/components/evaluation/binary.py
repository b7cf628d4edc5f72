"""Ranking and threshold measures of scores against two classes.

Everywhere a row counts as predicted positive when its score is greater than the threshold. "Cuts"
are FATE's 100 thresholds; an exact value uses every threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CUTS = 100  #: thresholds of a curve
QUANTILES = 20  #: intervals of the stability index and of quantile precision and recall
EMPTY_SHARE = 1e-6  #: what an empty interval counts as in the stability index

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Points of a drawing; the three arrays have the same length."""

    x: Floats
    y: Floats
    thresholds: Floats


class BinaryScores:
    """Scores sorted once, from which all measures are counted.

    `positive` and `scores` have one entry per row; scores are finite.
    """

    def __init__(self, positive: npt.NDArray[np.bool_], scores: Floats) -> None:
        order = np.argsort(-scores, kind="stable")
        self.scores: Floats = scores[order]  #: descending
        self.rows = len(scores)
        self.positives = int(positive.sum())
        self.negatives = self.rows - self.positives
        self._tp_of_first: Counts = np.concatenate(([0], np.cumsum(positive[order])))
        self._distinct: Floats = np.unique(scores)[::-1]

    @property
    def has_both_classes(self) -> bool:
        """Tell whether AUC, KS and ROC are defined."""
        return self.positives > 0 and self.negatives > 0

    def counts(self, thresholds: Floats) -> tuple[Counts, Counts]:
        """Return true and false positives at each threshold."""
        above = np.searchsorted(-self.scores, -thresholds, side="left")
        tp = self._tp_of_first[above]
        return tp, above - tp

    def auc(self) -> float:
        """Return the exact area under the ROC curve; ties count half.

        Source: Mann-Whitney U / (positives * negatives). Needs both classes.
        """
        tp, fp = self._steps()
        twice_area = int((np.diff(fp) * (tp[1:] + tp[:-1])).sum())
        return twice_area / (2 * self.positives * self.negatives)

    def exact_ks(self) -> float:
        """Return the largest gap of the two rates over all thresholds. Needs both classes."""
        tp, fp = self._steps()
        return float(np.abs(tp / self.positives - fp / self.negatives).max())

    def ks(self) -> tuple[float, Curve, Curve]:
        """Return KS over the cuts, and the curves of false and true positive rate.

        Cut k is at row int(rows * k / 100) of the descending scores, so the value can be below the
        exact one. Needs both classes.
        """
        cuts = np.arange(CUTS) / CUTS
        thresholds = self.scores[(np.arange(CUTS) * self.rows) // CUTS]
        tp, fp = self.counts(thresholds)
        tpr = np.append(tp / self.positives, 1.0)
        fpr = np.append(fp / self.negatives, 1.0)
        cuts = np.append(cuts, 1.0)
        thresholds = np.append(thresholds, self.scores[-1] - 0.001)
        value = float((tpr - fpr).max())
        return (
            value,
            Curve(x=cuts, y=fpr, thresholds=thresholds),
            Curve(x=cuts, y=tpr, thresholds=thresholds),
        )

    def roc(self) -> Curve:
        """Return true over false positive rate at no more than 102 thresholds.

        Points amid equal steps are left out, the rest is evenly thinned; the ends (0, 0) and (1, 1)
        stay. A threshold here is the lowest score that counts as positive. Needs both classes.
        """
        tp, fp = self._steps()
        thresholds = np.concatenate(([self.scores[0] + 0.001], self._distinct))
        bends = np.flatnonzero(np.diff(tp, 2) | np.diff(fp, 2)) + 1
        keep = np.concatenate(([0], bends, [len(tp) - 1]))
        if len(keep) > CUTS + 2:
            keep = keep[np.unique(np.linspace(0, len(keep) - 1, CUTS).round().astype(int))]
        return Curve(
            x=fp[keep] / self.negatives, y=tp[keep] / self.positives, thresholds=thresholds[keep]
        )

    def threshold_cuts(self) -> tuple[Floats, Floats]:
        """Return cuts and thresholds of the curves below.

        Cut k is at index int(size * k / 100) of the distinct scores, descending; the last is below
        all scores.
        """
        index = (np.arange(CUTS) * len(self._distinct)) // CUTS
        thresholds = np.append(self._distinct[index], self._distinct[-1] - 0.001)
        return np.append(np.arange(CUTS) / CUTS, 1.0), thresholds

    def lift_and_gain(self) -> tuple[Curve, Curve]:
        """Return lift and gain over the share of rows predicted positive; both end at (1, 1).

        Lift is precision relative to the share of positives, gain is recall. Equal shares give one
        point. Needs a positive.
        """
        _, thresholds = self.threshold_cuts()
        tp, fp = self.counts(thresholds)
        predicted = tp + fp
        some, first = np.unique(predicted, return_index=True)  # equal counts, equal values
        first = first[some > 0]
        share = predicted[first] / self.rows
        gain = tp[first] / self.positives
        thresholds = thresholds[first]
        return (
            Curve(x=share, y=gain / share, thresholds=thresholds),
            Curve(x=share, y=gain, thresholds=thresholds),
        )

    def accuracy(self) -> Curve:
        """Return the share of right predictions at each cut."""
        cuts, thresholds = self.threshold_cuts()
        tp, fp = self.counts(thresholds)
        return Curve(x=cuts, y=(tp + self.negatives - fp) / self.rows, thresholds=thresholds)

    def precision_and_recall(self) -> tuple[Curve, Curve]:
        """Return both at each cut; precision is 1 where nothing is predicted positive."""
        cuts, thresholds = self.threshold_cuts()
        tp, fp = self.counts(thresholds)
        return (
            Curve(x=cuts, y=_ratio(tp, tp + fp, empty=1.0), thresholds=thresholds),
            Curve(x=cuts, y=_ratio(tp, self.positives, empty=0.0), thresholds=thresholds),
        )

    def confusion(self) -> dict[str, list[Any]]:
        """Return tp, tn, fp, fn at the thresholds 0.00 to 0.99."""
        thresholds = np.arange(CUTS) / CUTS
        tp, fp = self.counts(thresholds)
        return {
            "tp": tp.tolist(),
            "tn": (self.negatives - fp).tolist(),
            "fp": fp.tolist(),
            "fn": (self.positives - tp).tolist(),
            "thresholds": thresholds.tolist(),
        }

    def f1(self) -> Curve:
        """Return the F1 score at the thresholds 0.00 to 0.99; 0 where it is not defined."""
        thresholds = np.arange(CUTS) / CUTS
        tp, fp = self.counts(thresholds)
        scores = _ratio(2 * tp, tp + fp + self.positives, empty=0.0)
        return Curve(x=thresholds, y=scores, thresholds=thresholds)

    def quantile_precision_recall(self) -> tuple[Floats, Floats, Floats]:
        """Return precision and recall of (negative, positive), both 21 x 2, and the thresholds.

        Cut k is at row int(rows * k / 20) of the descending scores, the last one below all.
        """
        index = (np.arange(QUANTILES) * self.rows) // QUANTILES
        thresholds = np.append(self.scores[index], self.scores[-1] - 0.001)
        tp, fp = self.counts(thresholds)
        tn, fn = self.negatives - fp, self.positives - tp
        precision = [_ratio(tn, tn + fn, empty=1.0), _ratio(tp, tp + fp, empty=1.0)]
        recall = [_ratio(tn, tn + fp, empty=0.0), _ratio(tp, tp + fn, empty=0.0)]
        return np.stack(precision, axis=1), np.stack(recall, axis=1), thresholds

    def _steps(self) -> tuple[Counts, Counts]:
        """Return true and false positives after each distinct score, beginning with none."""
        ends = np.flatnonzero(np.append(np.diff(self.scores) != 0, True)) + 1
        tp = np.concatenate(([0], self._tp_of_first[ends]))
        return tp, np.concatenate(([0], ends)) - tp


@dataclass(frozen=True, kw_only=True, slots=True)
class Stability:
    """The population stability index of scores, interval by interval."""

    bounds: Floats  #: inner bounds; intervals are (-inf, b0], (b0, b1], ... (b_last, inf)
    expected: Counts  #: train rows per interval
    actual: Counts  #: validate rows per interval
    expected_positive: Floats  #: share of positive train rows per interval
    actual_positive: Floats  #: share of positive validate rows per interval
    scores: Floats  #: the index's part of each interval

    @property
    def total(self) -> float:
        return float(self.scores.sum())


def stability(
    train: tuple[npt.NDArray[np.bool_], Floats], validate: tuple[npt.NDArray[np.bool_], Floats]
) -> Stability:
    """Return how far validate scores moved from train scores; each is (positive, scores).

    The intervals are 20 quantiles of the train scores (nearest value, duplicates dropped).
    """
    levels = np.arange(1, QUANTILES) / QUANTILES
    bounds = np.unique(np.quantile(train[1], levels, method="nearest"))
    expected, expected_positive = _fill(bounds, *train)
    actual, actual_positive = _fill(bounds, *validate)
    e = np.maximum(expected / expected.sum(), EMPTY_SHARE)
    a = np.maximum(actual / actual.sum(), EMPTY_SHARE)
    return Stability(
        bounds=bounds,
        expected=expected,
        actual=actual,
        expected_positive=expected_positive,
        actual_positive=actual_positive,
        scores=(a - e) * np.log(a / e),
    )


def _fill(bounds: Floats, positive: npt.NDArray[np.bool_], scores: Floats) -> tuple[Counts, Floats]:
    places = np.searchsorted(bounds, scores, side="left")
    rows = np.bincount(places, minlength=len(bounds) + 1)
    hits = np.bincount(places[positive], minlength=len(bounds) + 1)
    return rows, _ratio(hits, rows, empty=0.0)


def _ratio(part: Counts, whole: Counts | int, *, empty: float) -> Floats:
    """Return part / whole, and `empty` where the whole is 0."""
    whole = np.broadcast_to(np.asarray(whole), part.shape)
    result = np.full(part.shape, empty, dtype=np.float64)
    np.divide(part, whole, out=result, where=whole != 0)
    return result
