"""Linear models in the clear: the same updates on joined columns, which encrypted runs must equal.

Independent of `components.linear`: numpy only, float64. With two classes labels are -1 and 1 and
the sigmoid is linearised. Source: docs/reference/numerics.md#linear-models; for `sqn` Byrd et al.
2016, algorithms 1 and 2, with explicit matrices.
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
    family: str = "logistic"  #: logistic, linear, poisson
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
    interval: int = 3  #: of `sqn`, batches between two curvature pairs
    memory: int = 5  #: of `sqn`, pairs


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
    offset: Floats | float = 0.0,
) -> OracleRun:
    """Return the run from zero weights.

    Args:
        features: rows x columns, all parties' columns side by side.
        labels: -1.0 and 1.0, or the numbers to predict.
        weights: of the rows; scaled to mean 1. They change the gradient, not the loss.
        batches: row numbers of each batch; None = consecutive rows in stored order.
        offset: what is added to each row's score, with poisson: the log of the exposure.
    """
    rows, columns = features.shape
    joined = np.column_stack((features, np.ones(rows))) if settings.intercept else features
    penalised = np.arange(joined.shape[1]) < columns
    scale = np.ones(rows) if weights is None else weights * (rows / weights.sum())
    size = rows if settings.batch_size == -1 else settings.batch_size
    cut = batches or [np.arange(i, min(i + size, rows)) for i in range(0, rows, size)]
    offsets = np.broadcast_to(np.asarray(offset, dtype=np.float64), (rows,))
    newton = _Newton(settings)
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
            z = x @ model + offsets[batch]
            losses.append(_loss(z, y, settings) + _norm(model[penalised], settings))
            residual = scale[batch] * _residual(z, y, settings)
            gradient = x.T @ residual / len(batch)
            if settings.penalty == "L2":
                gradient = gradient + settings.alpha * np.where(penalised, model, 0.0)
            if settings.optimizer == "sqn":
                newton.visit(model)
                update = rate * newton.inverse(len(model)) @ gradient
            else:
                update = _update(settings.optimizer, gradient, rate=rate, state=state)
            total += update
            model = model - update
            if settings.optimizer == "sqn":
                curve = joined.T @ (joined * (scale * _slope(settings))[:, None]) / rows
                newton.learn(curve + settings.alpha * np.diag(penalised.astype(np.float64)))
            if settings.penalty == "L1":
                by = settings.alpha * settings.learning_rate / math.sqrt(iteration + 1)
                shrunk = np.sign(model) * np.maximum(np.abs(model) - by, 0.0)
                model = np.where(penalised, shrunk, model)
        run.losses.append(sum(losses) / len(losses))
        run.scores_per_iteration.append(joined @ model + offsets)
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


def _loss(z: Floats, y: Floats, settings: OracleSettings) -> float:
    if settings.family == "linear":
        return 0.5 * float(np.mean((z - y) ** 2))
    if settings.family == "poisson":
        return float(np.mean(np.exp(z) - y * z))
    return math.log(2) - 0.5 * float(np.mean(y * z)) + 0.125 * float(np.mean(z * z))


def _residual(z: Floats, y: Floats, settings: OracleSettings) -> Floats:
    if settings.family == "linear":
        return z - y
    return np.exp(z) - y if settings.family == "poisson" else 0.25 * z - 0.5 * y


def _slope(settings: OracleSettings) -> float:
    return 1.0 if settings.family == "linear" else 0.25


class _Newton:
    """The quasi-Newton matrix, from products of the full Hessian with ways of the average."""

    def __init__(self, settings: OracleSettings) -> None:
        self._settings = settings
        self._visited: list[Floats] = []
        self._average: Floats | None = None
        self._pairs: list[tuple[Floats, Floats]] = []

    def visit(self, model: Floats) -> None:
        """Count the weights before a step in."""
        self._visited.append(model)

    def learn(self, hessian: Floats) -> None:
        """Make a pair if it is time; with an L2 penalty `hessian` includes it."""
        if len(self._visited) < self._settings.interval:
            return
        average = np.mean(self._visited, axis=0)
        if self._average is not None:
            s = average - self._average
            self._pairs = [*self._pairs, (s, hessian @ s)][-self._settings.memory :]
        self._average, self._visited = average, []

    def inverse(self, size: int) -> Floats:
        """Return the approximate inverse Hessian, the identity without a pair."""
        eye: Floats = np.eye(size)
        if not self._pairs:
            return eye
        s, y = self._pairs[-1]
        inverse = eye * (s @ y) / (y @ y)
        for s, y in self._pairs:
            left = eye - np.outer(s, y) / (y @ s)
            inverse = left @ inverse @ left.T + np.outer(s, s) / (y @ s)
        return inverse


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
