"""One party's training between two sums: epochs of gradient descent on its own rows.

All classes are trained beside each other, a row of weights for each, the intercept last. The rules
are those of torch's optimizers: weight decay is part of the gradient, and counts for the intercept
too. The learning rate decays by steps, that is by batches, over the whole training.

Source: docs/reference/numerics.md#linear-models; the rules as PyTorch documents them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.horizontal.lr_params import HomoLRParams
from fedflow.components.horizontal.packing import Floats
from fedflow.components.samples.predictions import sigmoid
from fedflow.sdk import BadData, Diverged

Targets = NDArray[np.float64]  #: classes x rows, 0 or 1


class LocalTraining:
    """A party's rows, and what its optimizer remembers between rounds."""

    def __init__(
        self,
        params: HomoLRParams,
        *,
        features: Floats,
        targets: Targets,
        row_weights: Floats | None,
    ) -> None:
        """`features` are rows x columns; `row_weights` have the mean 1."""
        self._params = params
        ones = np.ones((len(features), 1))
        self._features = np.hstack([features, ones]) if fits_intercept(params) else features
        self.targets = targets
        self._row_weights = np.ones(len(features)) if row_weights is None else row_weights
        self._step = _RULES[params.optimizer_kind]
        self._memory: dict[str, Floats] = {}

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of batches."""
        rows, size = len(self._features), self._params.batch_size
        return 1 if size == -1 else -(-rows // size)

    def losses(self, weights: Floats) -> Floats:
        """Return the mean loss of all rows for each class, without penalty."""
        return bce(self._features @ weights.T, self.targets.T, self._row_weights)

    def train(
        self, weights: Floats, *, epochs: int, done: int, proximal: float = 0.0
    ) -> tuple[Floats, list[Floats]]:
        """Return the weights after further epochs, and the losses per epoch and class.

        Args:
            weights: classes x weights, the intercept last.
            done: epochs before these.
            proximal: strength of what holds the weights at those given.

        Raises: Diverged: a weight is not finite.
        """
        anchor, now, history = weights, weights.copy(), []
        for epoch in range(done, done + epochs):
            losses = np.zeros(len(weights))
            for number, batch in enumerate(self._batches()):
                gradient, batch_losses = self._gradient(now, batch)
                if proximal:
                    gradient += proximal * (now - anchor)
                steps = epoch * self.steps_per_epoch + number
                now = now - self._step(self._memory, gradient, self._rate(steps))
                losses += batch_losses * len(self._features[batch])
            history.append(losses / len(self._features))
            if not np.isfinite(now).all():
                raise Diverged(iteration=epoch, reason="a weight is not finite")
        return now, history

    def _batches(self) -> list[slice]:
        rows, size = len(self._features), self._params.batch_size
        size = rows if size == -1 else size
        return [slice(start, start + size) for start in range(0, rows, size)]

    def _gradient(self, weights: Floats, batch: slice) -> tuple[Floats, Floats]:
        features, targets = self._features[batch], self.targets[:, batch].T
        row_weights = self._row_weights[batch]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = features @ weights.T
            residuals = (sigmoid(scores) - targets) * row_weights[:, None]
            gradient: Floats = residuals.T @ features / len(features)
        kind, alpha = self._params.penalty_kind, self._params.alpha
        if kind == "l2":
            gradient = gradient + alpha * weights
        elif kind == "l1":
            gradient = gradient + alpha * np.sign(weights)
        return gradient, bce(scores, targets, row_weights)

    def _rate(self, steps: int) -> float:
        growth = 1.0 + self._params.decay * steps
        return self._params.learning_rate / (
            math.sqrt(growth) if self._params.decay_sqrt else growth
        )

    def memory(self) -> dict[str, Any]:
        """Return what the optimizer remembers, as plain JSON."""
        return {name: value.tolist() for name, value in self._memory.items()}

    def restore(self, memory: Mapping[str, Any], *, shape: tuple[int, ...]) -> None:
        """Go on from what it remembered. Raises: BadData: it is of other weights."""
        found = {name: np.array(value, dtype=np.float64) for name, value in memory.items()}
        if any(one.shape not in {shape, ()} for one in found.values()):
            raise BadData(where="checkpoint", reason="the optimizer's state is of other weights")
        self._memory = found


def fits_intercept(params: HomoLRParams) -> bool:
    """Tell whether the last weight is an intercept."""
    return params.init_param.fit_intercept


def bce(scores: Floats, targets: Floats, row_weights: Floats) -> Floats:
    """Return the mean binary cross entropy by column of scores (rows x classes)."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.logaddexp(0.0, scores) - targets * scores
    mean: Floats = (single * row_weights[:, None]).mean(axis=0)
    return mean


def log_odds(targets: Targets) -> Floats:
    """Return ln(positives / negatives) of each class; a half stands for none."""
    positives = targets.sum(axis=1)
    negatives = targets.shape[1] - positives
    odds: Floats = np.log(np.maximum(positives, 0.5) / np.maximum(negatives, 0.5))
    return odds


Memory = dict[str, Floats]


def _sgd(memory: Memory, gradient: Floats, rate: float) -> Floats:
    return rate * gradient


def _nesterov(memory: Memory, gradient: Floats, rate: float) -> Floats:
    known = memory.get("momentum")
    memory["momentum"] = gradient if known is None else 0.9 * known + gradient
    return rate * (gradient + 0.9 * memory["momentum"])


def _rmsprop(memory: Memory, gradient: Floats, rate: float) -> Floats:
    memory["square"] = 0.99 * memory.get("square", np.zeros_like(gradient)) + 0.01 * gradient**2
    return rate * gradient / (np.sqrt(memory["square"]) + 1e-8)


def _adagrad(memory: Memory, gradient: Floats, rate: float) -> Floats:
    memory["square"] = memory.get("square", np.zeros_like(gradient)) + gradient**2
    return rate * gradient / (np.sqrt(memory["square"]) + 1e-10)


def _adam(memory: Memory, gradient: Floats, rate: float) -> Floats:
    nothing = np.zeros_like(gradient)
    steps = memory["steps"] = memory.get("steps", np.array(0.0)) + 1.0
    memory["mean"] = 0.9 * memory.get("mean", nothing) + 0.1 * gradient
    memory["square"] = 0.999 * memory.get("square", nothing) + 0.001 * gradient**2
    mean = memory["mean"] / (1.0 - 0.9**steps)
    square = memory["square"] / (1.0 - 0.999**steps)
    return rate * mean / (np.sqrt(square) + 1e-8)


_RULES: Final[Mapping[str, Callable[[Memory, Floats, float], Floats]]] = {
    "sgd": _sgd,
    "nesterov_momentum_sgd": _nesterov,
    "rmsprop": _rmsprop,
    "adagrad": _adagrad,
    "adam": _adam,
}
