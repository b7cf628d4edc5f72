"""What is shown of a training while it runs: its loss, and measures of predictions."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

from numpy.typing import NDArray

from fedflow.components.evaluation.binary import BinaryScores
from fedflow.components.evaluation.metrics import MULTI, REGRESSION, written
from fedflow.components.evaluation.recorder import Recorder, record_binary, record_classes
from fedflow.components.evaluation.regression import regression_scores
from fedflow.sdk import Context, Site

#: measures that are one number, by kind of evaluation: a summary lists them
SINGLE_VALUED: Final = {"binary": ("auc", "ks"), "multi": MULTI, "regression": REGRESSION}

_ERRORS = frozenset(name for name in REGRESSION if name.endswith("_error"))


def larger_is_better(name: str) -> bool:
    """Tell whether a larger value of the measure `name` is better: not that of an error."""
    return name not in _ERRORS


def record_measures(
    recorder: Recorder,
    kind: str,
    chosen: AbstractSet[str],
    *,
    true: NDArray[Any],
    predicted: NDArray[Any],
) -> dict[str, float]:
    """Record the curves of the `chosen` measures, and return those of one value; one row each.

    Args:
        kind: `binary` (`true` are booleans, `predicted` probabilities), `multi` (both are classes)
            or `regression` (both are finite numbers).
    """
    if kind == "binary":
        return record_binary(recorder, set(chosen), BinaryScores(true, predicted))
    if kind == "multi":
        return record_classes(recorder, [name for name in MULTI if name in chosen], true, predicted)
    values = regression_scores(true, predicted)
    return {name: written(values[name]) for name in REGRESSION if name in chosen}


def record_start(ctx: Context, iterations: int) -> None:
    """Show how many iterations the model has had before."""
    ctx.tracker.metric(
        "train",
        "init_iter",
        metric_type="init_iter",
        points=[("init_iter", iterations)],
        meta={"name": "init_iter", "metric_type": "init_iter", "unit_name": "iters"},
    )


def record_loss(ctx: Context, iteration: int, loss: float) -> None:
    """Record the loss of `iteration` (from 0) as FATE Board shows it."""
    ctx.tracker.metric(
        "train",
        "loss",
        metric_type="LOSS",
        points=[(iteration, loss)],
        meta={
            "name": "train",
            "metric_type": "LOSS",
            "unit_name": "iters",
            "curve_name": "loss",
        },
    )


def record_seconds(
    ctx: Context, iteration: int, seconds: float, *, of: int | None = None,
    loss_at: Site | None = None,
) -> None:  # fmt: skip
    """Record how long `iteration` (from 0) took here, waiting for other parties included.

    Args:
        of: so many iterations there are at most.
        loss_at: the site that learns the loss, if that is another one.
    """
    more = {"of": of, "loss_at": None if loss_at is None else loss_at.key}
    ctx.tracker.metric(
        "train",
        "round_seconds",
        metric_type="ROUND_SECONDS",
        points=[(iteration, round(seconds, 3))],
        meta={
            "name": "round_seconds",
            "metric_type": "ROUND_SECONDS",
            "unit_name": "s",
            **{name: value for name, value in more.items() if value is not None},
        },
    )
