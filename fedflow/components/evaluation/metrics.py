"""Names of the measures per kind of evaluation, and how numbers are written down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

BINARY: Final = (
    "auc",
    "ks",
    "lift",
    "gain",
    "accuracy",
    "precision",
    "recall",
    "roc",
    "confusion_mat",
    "psi",
    "f1_score",
    "quantile_pr",
)
MULTI: Final = ("accuracy", "precision", "recall")
REGRESSION: Final = (
    "explained_variance",
    "mean_absolute_error",
    "mean_squared_error",
    "median_absolute_error",
    "r2_score",
    "root_mean_squared_error",
)
LOGARITHMIC: Final = "mean_squared_log_error"  #: of regression, by Evaluation when asked for
CLUSTERING: Final = (
    "jaccard_similarity_score",
    "fowlkes_mallows_score",
    "adjusted_rand_score",
    "davies_bouldin_index",
    "distance_measure",
    "contingency_matrix",
)
METRICS_OF: Final = {
    "binary": BINARY,
    "multi": MULTI,
    "regression": REGRESSION,
    "clustering": CLUSTERING,
}  #: by eval_type, in the order in which values are written
ALIASES: Final = {
    "l1": "mean_absolute_error",
    "mae": "mean_absolute_error",
    "regression_l1": "mean_absolute_error",
    "l2": "mean_squared_error",
    "mse": "mean_squared_error",
    "regression_l2": "mean_squared_error",
    "regression": "mean_squared_error",
    "l2_root": "root_mean_squared_error",
    "rmse": "root_mean_squared_error",
    "msle": LOGARITHMIC,
    "r2": "r2_score",
    "acc": "accuracy",
    "jaccard": "jaccard_similarity_score",
    "fmi": "fowlkes_mallows_score",
    "ri": "adjusted_rand_score",
    "dbi": "davies_bouldin_index",
}
INFINITE: Final = -9999999  #: stands for infinity, as in FATE


def choose_metrics(
    eval_type: str, asked: Sequence[str] | None, *, logarithmic: bool = False
) -> tuple[str, ...]:
    """Return the measures to make, in the order in which they are written (auc before ks).

    None asks for all. Names that belong to another kind of evaluation are dropped; precision and
    recall go together. LOGARITHMIC is known with `logarithmic` only. Raises: ValueError: an unknown
    name, or nothing is left.
    """
    allowed = METRICS_OF[eval_type]
    if asked is None:
        return allowed
    names = {ALIASES.get(name.lower(), name.lower()) for name in asked}
    extra = (LOGARITHMIC,) if logarithmic else ()
    unknown = names - {name for kind in (*METRICS_OF.values(), extra) for name in kind}
    if unknown:
        known = ", ".join(allowed)
        raise ValueError(f"metrics: unknown {', '.join(sorted(unknown))}; known are {known}")
    if names & {"precision", "recall"}:
        names |= {"precision", "recall"}
    possible = (*allowed, *extra) if eval_type == "regression" else allowed
    chosen = tuple(name for name in possible if name in names)
    if not chosen:
        raise ValueError(f"metrics: none of them fits eval_type {eval_type}")
    return chosen


def fits(name: str, eval_type: str) -> bool:
    """Tell whether a known measure, by name or alias, belongs to a kind of evaluation."""
    full = ALIASES.get(name.lower(), name.lower())
    return full in METRICS_OF[eval_type] or (full == LOGARITHMIC and eval_type == "regression")


def written(value: float) -> float:
    """Return `value` rounded to 6 decimals; an infinity becomes INFINITE, NaN 0."""
    if math.isnan(value):
        return 0.0
    return INFINITE if math.isinf(value) else round(float(value), 6)


def written_all(values: Iterable[float]) -> list[float]:
    """Return each value as `written` gives it."""
    return [written(value) for value in values]
