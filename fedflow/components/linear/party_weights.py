"""One data party's weights, during training and afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.optimizer import initial_weights, penalty_norm, shrink
from fedflow.components.linear.params import LinearParams
from fedflow.sdk import Diverged
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]


class PartyWeights:
    """The weights of one party, changed by the arbiter's updates."""

    def __init__(
        self,
        params: LinearParams,
        *,
        columns: tuple[str, ...],
        intercept: bool,
        start: FittedWeights | None = None,
    ) -> None:
        self.columns = columns
        self.has_intercept = intercept
        self._params = params
        if start is None:
            self._weights = initial_weights(params.init_param, len(columns) + intercept)
        else:
            self._weights = np.append(start.coef, [start.intercept] * intercept)

    @property
    def size(self) -> int:
        """Return the number of weights, the intercept included."""
        return len(self._weights)

    @property
    def weights(self) -> Floats:
        """All weights, the intercept last; replaced, never changed in place."""
        return self._weights

    @weights.setter
    def weights(self, weights: Floats) -> None:
        self._weights = weights

    def fitted(self) -> FittedWeights:
        """Return the weights as they are now."""
        return FittedWeights(columns=self.columns, coef=self.coef.copy(), intercept=self.intercept)

    @property
    def coef(self) -> Floats:
        return self._weights[: len(self.columns)]

    @property
    def intercept(self) -> float:
        return float(self._weights[-1]) if self.has_intercept else 0.0

    def scores(self, features: Floats) -> Floats:
        """Return this party's part of every row's score."""
        with np.errstate(over="ignore", invalid="ignore"):  # found by the encoding's range check
            return features @ self.coef + self.intercept

    def sums(self, features: Floats, residuals: Floats | None, *, rows: int) -> Floats:
        """Return this party's plaintext part of its gradient sums, the intercept last.

        That is residuals @ features (none if `residuals` is None), and `rows` times the penalty's
        gradient.
        """
        sums = np.zeros(self.size)
        if residuals is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                sums[: len(self.columns)] = residuals @ features
                if self.has_intercept:
                    sums[-1] = residuals.sum()
        if self._params.penalty_kind == "l2":
            sums[: len(self.columns)] += rows * self._params.alpha * self.coef
        return sums

    def along(self, direction: object) -> PartyWeights:
        """Return a share with `direction` for the weights.

        Raises: CodecError: it is not one finite number per weight.
        """
        share = copy(self)
        share._weights = _checked(direction, self.size, what="the direction")
        if not np.isfinite(share._weights).all():
            raise CodecError(reason="the direction is not finite")
        return share

    def norm(self) -> float:
        """Return what the penalty of this party's weights adds to the loss."""
        with np.errstate(over="ignore"):
            return penalty_norm(self.coef, kind=self._params.penalty_kind, alpha=self._params.alpha)

    def apply(self, update: object, *, iteration: int) -> None:
        """Subtract the arbiter's update; with an L1 penalty shrink the coefficients.

        Raises: CodecError: it is not one number per weight. Diverged: one is not finite.
        """
        weights = self._weights - _checked(update, self.size, what="the update")
        if not np.isfinite(weights).all():
            raise Diverged(iteration=iteration, reason="a weight is not finite")
        if self._params.penalty_kind == "l1":
            weights[: len(self.columns)] = shrink(
                weights[: len(self.columns)],
                alpha=self._params.alpha,
                learning_rate=self._params.learning_rate,
                iteration=iteration,
            )
        self._weights = weights


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingProgress:
    """How a training went."""

    iterations: int
    converged: bool
    losses: tuple[float, ...] = ()  #: per iteration; only the arbiter knows them
    best_iteration: int = -1  #: which iteration's weights the model has, from 0; -1 = the last's
    optimizer: Mapping[str, Any] = field(default_factory=dict)  #: `Optimizer.state`, at the arbiter
    resume: Mapping[str, Any] = field(default_factory=dict)  #: of a checkpoint: a `ResumeState`


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedWeights:
    """One party's weights after training."""

    columns: tuple[str, ...]
    coef: Floats
    intercept: float = 0.0

    def scores(self, features: Floats) -> Floats:
        """Return this party's part of every row's score; features in the order of `columns`."""
        return features @ self.coef + self.intercept


def _checked(values: object, size: int, *, what: str) -> Floats:
    """Return one number per weight that the arbiter sent. Raises: CodecError: it is none."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        raise CodecError(reason=f"{what} is not an array of numbers")
    if values.shape != (size,):
        raise CodecError(reason=f"{what} has the shape {values.shape} for {size} weights")
    return values
