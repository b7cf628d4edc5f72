"""Measures of predicted classes against true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassScores:
    """Measures over all rows and per class, classes in sorted order."""

    classes: tuple[Any, ...]  #: every true or predicted class
    accuracy: float
    precision: npt.NDArray[np.float64]  #: per class; 0 where the class was never predicted
    recall: npt.NDArray[np.float64]  #: per class; 0 where the class never occurs


def class_scores(true: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> ClassScores:
    """Return the measures of two arrays of one type, one entry per row, at least one row."""
    classes, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    true_codes, predicted_codes = codes[: len(true)], codes[len(true) :]
    hits = np.bincount(true_codes[true_codes == predicted_codes], minlength=len(classes))
    occurs = np.bincount(true_codes, minlength=len(classes))
    named = np.bincount(predicted_codes, minlength=len(classes))
    return ClassScores(
        classes=tuple(classes.tolist()),
        accuracy=float(hits.sum() / len(true)),
        precision=hits / np.maximum(named, 1),
        recall=hits / np.maximum(occurs, 1),
    )
