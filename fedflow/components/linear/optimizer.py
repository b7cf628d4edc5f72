"""How gradients become updates, when training stops, and what the weights start from."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.params import LinearParams
from fedflow.components.linear.sqn import QuasiNewton
from fedflow.components.training.params import InitParam

Floats = NDArray[np.float64]


class _Rule(Protocol):
    """One way to step. Its fields are what it remembers: numbers, or arrays like the gradient."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def step(self, gradient: Floats, rate: float) -> Floats:
        """Return the update that the weights are to be reduced by."""


class Optimizer:
    """Turns the gradient of all parties' weights into updates; keeps the moments between steps.

    Source: FATE's update rules, in `docs/reference/numerics.md#linear-models`.
    """

    def __init__(self, params: LinearParams) -> None:
        self._params = params
        self._rule: _Rule
        if params.sqn is not None:
            self._rule = QuasiNewton(params.sqn)
        else:
            self._rule = _RULES[params.optimizer_kind]()

    @property
    def quasi_newton(self) -> QuasiNewton | None:
        """Return the rule if it wants to know curvature."""
        return self._rule if isinstance(self._rule, QuasiNewton) else None

    def state(self) -> dict[str, Any]:
        """Return what it remembers, as plain JSON."""
        values = {name: getattr(self._rule, name) for name in _memory(self._rule)}
        plain = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in values.items()}
        return {"optimizer": self._params.optimizer_kind, **plain}

    def restore(self, state: Mapping[str, Any], *, size: int) -> bool:
        """Go on from an earlier training's state; False if it does not fit, and nothing is done.

        It fits if it is of the same optimizer, and for `size` weights.
        """
        names = _memory(self._rule)
        if state.get("optimizer") != self._params.optimizer_kind or not set(names) <= set(state):
            return False
        values: dict[str, Any] = {}
        for name in names:
            value = state[name]
            if isinstance(value, list):
                try:
                    value = np.array(value, dtype=np.float64)
                except (TypeError, ValueError):
                    return False
                if value.ndim not in {1, 2} or value.shape[-1] != size:
                    return False
                if not np.isfinite(value).all():
                    return False
            elif isinstance(value, bool) or not isinstance(value, int | float):
                return False
            values[name] = value
        for name, value in values.items():
            setattr(self._rule, name, value)
        return True

    def step(self, gradient: Floats, *, iteration: int) -> Floats:
        """Return the update, same shape as `gradient`; `iteration` counts from 0."""
        return self._rule.step(gradient, self.rate(iteration))

    def rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration, counted from 0."""
        growth = 1.0 + self._params.decay * iteration
        return self._params.learning_rate / (
            math.sqrt(growth) if self._params.decay_sqrt else growth
        )


def _memory(rule: _Rule) -> list[str]:
    """Return the names of what a rule remembers."""
    return [f.name for f in fields(rule) if f.init]


class Convergence:
    """Decides after each iteration whether training is done."""

    def __init__(self, *, kind: str, tol: float, previous: float | None = None) -> None:
        self._kind = kind
        self._tol = tol
        self._previous = previous  #: loss of the iteration before

    def reached(self, *, loss: float | None, updates: Floats) -> bool:
        """Tell whether to stop; `updates` is the sum of this iteration's updates of all weights.

        Raises: ValueError: the rule needs a loss, but there is none.
        """
        if self._kind == "weight_diff":
            return float(np.linalg.norm(updates)) < self._tol
        if loss is None:
            raise ValueError(f"early_stop {self._kind!r} needs a loss")
        if self._kind == "abs":
            return loss <= self._tol
        previous, self._previous = self._previous, loss
        return previous is not None and abs(loss - previous) < self._tol


def initial_weights(param: InitParam, count: int) -> Floats:
    """Return `count` start weights.

    Random ones come from numpy's legacy generator, because FATE's do: the same seed gives the same.
    """
    method = param.init_method.lower()
    if method == "zeros":
        return np.zeros(count)
    if method == "ones":
        return np.ones(count)
    if method == "const":
        return np.full(count, float(param.init_const))
    seed = secrets.randbits(32) if param.random_seed is None else param.random_seed
    generator = np.random.RandomState(seed)
    return generator.rand(count) if method == "random_uniform" else generator.randn(count)


def penalty_norm(coef: Floats, *, kind: str, alpha: float) -> float:
    """Return what the penalty adds to the loss."""
    if kind == "l2":
        return 0.5 * alpha * float(coef @ coef)
    return alpha * float(np.abs(coef).sum()) if kind == "l1" else 0.0


def shrink(coef: Floats, *, alpha: float, learning_rate: float, iteration: int) -> Floats:
    """Return `coef` after the L1 step: every weight moves by alpha * rate towards 0, not past it.

    The rate is learning_rate / sqrt(iteration + 1), whatever `decay` says (FATE divides by
    sqrt(iteration), which fails in its first one).
    """
    by = alpha * learning_rate / math.sqrt(iteration + 1)
    return np.sign(coef) * np.maximum(0.0, np.abs(coef) - by)


@dataclass(slots=True)
class _Sgd:
    def step(self, gradient: Floats, rate: float) -> Floats:
        return rate * gradient


@dataclass(slots=True)
class _RmsProp:
    square: Floats | float = 0.0

    def step(self, gradient: Floats, rate: float) -> Floats:
        self.square = 0.99 * self.square + 0.01 * gradient**2
        return rate * gradient / np.sqrt(self.square + 1e-6)


@dataclass(slots=True)
class _AdaGrad:
    square: Floats | float = 0.0

    def step(self, gradient: Floats, rate: float) -> Floats:
        self.square = self.square + gradient**2
        return rate * gradient / (np.sqrt(self.square) + 1e-7)


@dataclass(slots=True)
class _Adam:
    mean: Floats | float = 0.0
    square: Floats | float = 0.0
    steps: int = 0

    def step(self, gradient: Floats, rate: float) -> Floats:
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean = self.mean / (1.0 - 0.9**self.steps)
        square = self.square / (1.0 - 0.999**self.steps)
        return rate * mean / (np.sqrt(square) + 1e-8)


@dataclass(slots=True)
class _Nesterov:
    momentum: Floats | float = 0.0

    def step(self, gradient: Floats, rate: float) -> Floats:
        velocity = 0.9 * self.momentum - rate * gradient
        update = 0.9 * self.momentum - 1.9 * velocity
        self.momentum = velocity
        return update


_RULES: Final[dict[str, Callable[[], _Rule]]] = {
    "sgd": _Sgd,
    "rmsprop": _RmsProp,
    "adagrad": _AdaGrad,
    "adam": _Adam,
    "nesterov_momentum_sgd": _Nesterov,
}
