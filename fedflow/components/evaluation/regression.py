"""Measures of predicted numbers against true ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def regression_scores(
    true: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Return every measure by FATE's name, for at least one row.

    A constant truth gives 1 for a perfect prediction and 0 otherwise in the two measures that
    divide by its variance.
    """
    error = true - predicted
    squared = float(np.mean(error**2))
    spread = float(np.mean((true - true.mean()) ** 2))
    return {
        "explained_variance": _explained(float(np.var(error)), spread),
        "mean_absolute_error": float(np.mean(np.abs(error))),
        "mean_squared_error": squared,
        "median_absolute_error": float(np.median(np.abs(error))),
        "r2_score": _explained(squared, spread),
        "root_mean_squared_error": math.sqrt(squared),
    }


def mean_squared_log_error(
    true: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]
) -> float:
    """Return the mean of (log(1 + true) - log(1 + predicted))^2; both are at least 0."""
    return float(np.mean((np.log1p(true) - np.log1p(predicted)) ** 2))


def _explained(unexplained: float, spread: float) -> float:
    if spread:
        return 1.0 - unexplained / spread
    return 0.0 if unexplained else 1.0
