"""What the scores of a model mean: probabilities, classes, numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedflow.serving.scoring.batch import Flags, Floats, Score


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicted:
    """How the scores of rows become predictions, as in a prediction table."""

    mean: Callable[[Floats], Floats]
    """Of rows x width: one number per row, or one per row and class."""
    labels: tuple[Any, ...] = ()  #: the classes in order; none: numbers are predicted
    threshold: float = 0.5  #: of two classes, the second is predicted above it
    credit: Callable[[Floats], Floats] | None = None  #: credit scores of probabilities

    def scores(self, values: Floats, errors: Mapping[int, str]) -> list[Score]:
        """Return what is predicted for each row; rows with an error have nothing else."""
        errors = dict(errors)
        with np.errstate(over="ignore", invalid="ignore"):
            means = self.mean(values)
            finite: Flags = np.isfinite(means if means.ndim == 1 else means.sum(axis=1))
        for row in np.flatnonzero(~finite).tolist():
            errors.setdefault(row, "its prediction is no finite number")
        labels = self._labels(means)
        credits: list[float] | list[None] = [None] * len(values)
        if self.credit is not None:
            credits = self.credit(np.where(finite, means, 0.5)).tolist()
        found = zip(means.tolist(), labels, credits, strict=True)
        return [
            Score(score=None, error=errors[row])
            if row in errors
            else Score(score=mean, label=label, credit_score=credit)
            for row, (mean, label, credit) in enumerate(found)
        ]

    def _labels(self, means: Floats) -> list[Any]:
        if not self.labels:
            return [None] * len(means)
        if means.ndim == 1:
            chosen = (means > self.threshold).astype(np.intp)
        else:
            chosen = means.argmax(axis=1)
        return [self.labels[place] for place in chosen.tolist()]
