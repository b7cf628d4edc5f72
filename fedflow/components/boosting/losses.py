"""Losses of boosted trees: first scores, gradients, the loss itself, what scores mean.

Labels and scores are float64. Scores are rows x width; the width is 1, or the number of classes.
Source: docs/reference/boosting.md#losses; Friedman 2001, Chen and Guestrin 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.params import REGRESSION, HeteroSecureBoostParams
from fedflow.components.samples.predictions import sigmoid

Floats = NDArray[np.float64]

_EQUAL: Final = 1e-8  #: a residual of `lae` that counts as none
_LEAST: Final = 1e-300  #: a probability in a logarithm is not 0


class Loss(Protocol):
    """A differentiable loss of scores."""

    @property
    def width(self) -> int:
        """Return how many scores a row has."""

    def start(self, labels: Floats) -> Floats:
        """Return the score of every row before the first tree: one number per class."""

    def gradients(self, labels: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Return first and second derivatives, each rows x width."""

    def value(self, labels: Floats, scores: Floats) -> float:
        """Return the mean loss of all rows."""

    def mean(self, scores: Floats) -> Floats:
        """Return what is predicted: a probability, one per class (rows x width), or a number."""


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropy:
    """Two classes; labels are 0 and 1."""

    width: int = 1

    def start(self, labels: Floats) -> Floats:
        return np.zeros(1)

    def gradients(self, labels: Floats, scores: Floats) -> tuple[Floats, Floats]:
        chance = sigmoid(scores)
        return chance - labels[:, None], chance * (1.0 - chance)

    def value(self, labels: Floats, scores: Floats) -> float:
        own = scores[:, 0]
        return float(np.mean(np.logaddexp(0.0, own) - labels * own))

    def mean(self, scores: Floats) -> Floats:
        return sigmoid(scores[:, 0])


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Several classes; labels are their numbers from 0."""

    width: int

    def start(self, labels: Floats) -> Floats:
        return np.zeros(self.width)

    def gradients(self, labels: Floats, scores: Floats) -> tuple[Floats, Floats]:
        chances = self.mean(scores)
        is_class = labels[:, None] == np.arange(self.width)
        return chances - is_class, chances * (1.0 - chances)

    def value(self, labels: Floats, scores: Floats) -> float:
        chosen = self.mean(scores)[np.arange(len(labels)), labels.astype(np.intp)]
        return float(-np.mean(np.log(np.maximum(chosen, _LEAST))))

    def mean(self, scores: Floats) -> Floats:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances: Floats = powers / powers.sum(axis=1, keepdims=True)
        return chances


_Derivatives = Callable[[Floats, float], tuple[Floats, Floats]]
_Value = Callable[[Floats, float], Floats]


@dataclass(frozen=True, slots=True)
class Regression:
    """Losses of the residual: score minus label."""

    derivatives: _Derivatives
    values: _Value
    first: Callable[[Floats], np.floating]
    parameter: float = 0.0
    width: int = 1

    def start(self, labels: Floats) -> Floats:
        return np.array([float(self.first(labels))])

    def gradients(self, labels: Floats, scores: Floats) -> tuple[Floats, Floats]:
        first, second = self.derivatives(scores[:, 0] - labels, self.parameter)
        return first[:, None], second[:, None]

    def value(self, labels: Floats, scores: Floats) -> float:
        return float(np.mean(self.values(scores[:, 0] - labels, self.parameter)))

    def mean(self, scores: Floats) -> Floats:
        return scores[:, 0]


@dataclass(frozen=True, slots=True)
class Tweedie:
    """Labels from 0 on, with many zeros; what is predicted is exp(score)."""

    power: float  #: 1 to below 2
    width: int = 1

    def start(self, labels: Floats) -> Floats:
        return np.zeros(1)

    def gradients(self, labels: Floats, scores: Floats) -> tuple[Floats, Floats]:
        one, two = 1.0 - self.power, 2.0 - self.power
        with np.errstate(over="ignore"):  # the caller refuses what is not finite
            of_score = np.exp(two * scores)
            of_label = labels[:, None] * np.exp(one * scores)
        return of_score - of_label, two * of_score - one * of_label

    def value(self, labels: Floats, scores: Floats) -> float:
        one, two = 1.0 - self.power, 2.0 - self.power
        own = scores[:, 0]
        of_label = labels * (np.exp(one * own) / one if one else own)
        return float(np.mean(np.exp(two * own) / two - of_label))

    def mean(self, scores: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(scores[:, 0])


def loss_of(params: HeteroSecureBoostParams, classes: Sequence[object]) -> Loss:
    """Return the loss that parameters ask for; `classes` are the label values in order."""
    if params.task == REGRESSION:
        objective = params.objective_param
        return regression_loss(objective.kind, objective.params or ())
    return CrossEntropy(len(classes)) if len(classes) > 2 else BinaryCrossEntropy()


def regression_loss(objective: str, parameters: Sequence[float]) -> Loss:
    """Return the loss of an objective of numbers; `parameters` are those of `objective_param`.

    Raises: KeyError: there is no such objective.
    """
    if objective == "tweedie":
        return Tweedie(parameters[0])
    derivatives, values, first = _REGRESSIONS[objective]
    return Regression(derivatives, values, first, parameters[0] if parameters else 0.0)


# --- derivatives and values by residual -----------------------------------------------------------


def _square(r: Floats, _: float) -> tuple[Floats, Floats]:
    return 2.0 * r, np.full_like(r, 2.0)


def _absolute(r: Floats, _: float) -> tuple[Floats, Floats]:
    return np.where(np.abs(r) <= _EQUAL, 0.0, np.sign(r)), np.ones_like(r)


def _huber(r: Floats, delta: float) -> tuple[Floats, Floats]:
    stretched = 1.0 + np.square(r / delta)
    return r / np.sqrt(stretched), stretched**-1.5


def _huber_value(r: Floats, delta: float) -> Floats:
    value: Floats = delta * delta * (np.sqrt(1.0 + np.square(r / delta)) - 1.0)
    return value


def _fair(r: Floats, c: float) -> tuple[Floats, Floats]:
    size = np.abs(r) + c
    return c * r / size, np.square(c / size)


def _fair_value(r: Floats, c: float) -> Floats:
    size = np.abs(r)
    value: Floats = c * size - c * c * np.log(size / c + 1.0)
    return value


def _log_cosh(r: Floats, _: float) -> tuple[Floats, Floats]:
    slope = np.tanh(r)
    return slope, 1.0 - np.square(slope)


def _log_cosh_value(r: Floats, _: float) -> Floats:
    value: Floats = np.logaddexp(r, -r) - np.log(2.0)
    return value


_REGRESSIONS: Final[Mapping[str, tuple[_Derivatives, _Value, Callable[[Floats], np.floating]]]] = {
    "lse": (_square, lambda r, _: np.square(r), np.mean),
    "lae": (_absolute, lambda r, _: np.abs(r), np.median),
    "huber": (_huber, _huber_value, np.mean),
    "fair": (_fair, _fair_value, np.mean),
    "log_cosh": (_log_cosh, _log_cosh_value, np.mean),
}
