"""HeteroLR in the clear: the same updates on the joined columns, which an encrypted run must equal.

Independent of `components.linear`: numpy only, float64. Labels are -1 and 1, the sigmoid is
linearised, no weights but the rows' own. Source: accuracy.md section 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleSettings:
    """The parameters of one training, with HeteroLR's meaning."""

    iterations: int
    optimizer: str = "rmsprop"
    learning_rate: float = 0.15
    alpha: float = 0.01
    penalty: str = "L2"
    batch_size: int = -1
    decay: float = 1.0
    decay_sqrt: bool = True
    intercept: bool = True
    stop: str = "none"  #: none, diff, weight_diff, abs
    tol: float = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleRun:
    """What a training in the clear gives."""

    losses: list[float]  #: per iteration, before its update; the mean over batches
    coef: Floats
    intercept: float
    converged: bool
    scores_per_iteration: list[Floats] = field(repr=False)  #: of all rows, after each update


def train_in_clear(
    features: Floats,
    labels: Floats,
    settings: OracleSettings,
    *,
    weights: Floats | None = None,
    batches: Sequence[Rows] | None = None,
) -> OracleRun:
    """Return the run from zero weights.

    Args:
        features: rows x columns, all parties' columns side by side.
        labels: -1.0 and 1.0.
        weights: of the rows; scaled to mean 1. They change the gradient, not the loss.
        batches: row numbers of each batch; None = consecutive rows in stored order.
    """
    rows, columns = features.shape
    joined = np.column_stack((features, np.ones(rows))) if settings.intercept else features
    penalised = np.arange(joined.shape[1]) < columns
    scale = np.ones(rows) if weights is None else weights * (rows / weights.sum())
    size = rows if settings.batch_size == -1 else settings.batch_size
    cut = batches or [np.arange(i, min(i + size, rows)) for i in range(0, rows, size)]
    model = np.zeros(joined.shape[1])
    state: dict[str, Floats | float] = {}
    run = OracleRun(
        losses=[], coef=model[:columns], intercept=0.0, converged=False, scores_per_iteration=[]
    )
    converged = False
    for iteration in range(settings.iterations):
        growth = 1.0 + settings.decay * iteration
        rate = settings.learning_rate / (math.sqrt(growth) if settings.decay_sqrt else growth)
        total = np.zeros_like(model)
        losses = []
        for batch in cut:
            x, y = joined[batch], labels[batch]
            z = x @ model
            losses.append(_loss(z, y) + _norm(model[penalised], settings))
            residual = scale[batch] * (0.25 * z - 0.5 * y)
            gradient = x.T @ residual / len(batch)
            if settings.penalty == "L2":
                gradient = gradient + settings.alpha * np.where(penalised, model, 0.0)
            update = _update(settings.optimizer, gradient, rate=rate, state=state)
            total += update
            model = model - update
            if settings.penalty == "L1":
                by = settings.alpha * settings.learning_rate / math.sqrt(iteration + 1)
                shrunk = np.sign(model) * np.maximum(np.abs(model) - by, 0.0)
                model = np.where(penalised, shrunk, model)
        run.losses.append(sum(losses) / len(losses))
        run.scores_per_iteration.append(joined @ model)
        converged = _stops(settings, run.losses, total)
        if converged:
            break
    return OracleRun(
        losses=run.losses,
        coef=model[:columns],
        intercept=float(model[-1]) if settings.intercept else 0.0,
        converged=converged,
        scores_per_iteration=run.scores_per_iteration,
    )


def _loss(z: Floats, y: Floats) -> float:
    return math.log(2) - 0.5 * float(np.mean(y * z)) + 0.125 * float(np.mean(z * z))


def _norm(coef: Floats, settings: OracleSettings) -> float:
    if settings.penalty == "L2":
        return 0.5 * settings.alpha * float(np.sum(coef**2))
    return settings.alpha * float(np.sum(np.abs(coef))) if settings.penalty == "L1" else 0.0


def _update(optimizer: str, g: Floats, *, rate: float, state: dict[str, Floats | float]) -> Floats:
    if optimizer == "sgd":
        return rate * g
    if optimizer == "rmsprop":
        state["m"] = 0.99 * state.get("m", 0.0) + 0.01 * g * g
        return rate * g / np.sqrt(state["m"] + 1e-6)
    if optimizer == "adagrad":
        state["m"] = state.get("m", 0.0) + g * g
        return rate * g / (np.sqrt(state["m"]) + 1e-7)
    if optimizer == "adam":
        state["t"] = state.get("t", 0.0) + 1.0
        state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g * g
        mean = state["m"] / (1 - 0.9 ** state["t"])
        return rate * mean / (np.sqrt(state["v"] / (1 - 0.999 ** state["t"])) + 1e-8)
    if optimizer == "nesterov_momentum_sgd":
        old = state.get("m", 0.0)
        new = 0.9 * old - rate * g
        state["m"] = new
        return 0.9 * old - 1.9 * new
    raise ValueError(f"no optimizer {optimizer!r}")


def _stops(settings: OracleSettings, losses: list[float], update: Floats) -> bool:
    if settings.stop == "diff":
        return len(losses) > 1 and abs(losses[-1] - losses[-2]) < settings.tol
    if settings.stop == "weight_diff":
        return float(np.linalg.norm(update)) < settings.tol
    return settings.stop == "abs" and losses[-1] <= settings.tol
