"""One data party's weights, during training and afterwards as a stored model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors import CodecError
from fedflow.base.reading import read_as
from fedflow.components.linear.optimizer import initial_weights, penalty_norm, shrink
from fedflow.components.linear.params import HeteroLRParams
from fedflow.sdk import BadData, Diverged, Model, NotSupportedYet

Floats = NDArray[np.float64]

META_NAME = "HeteroLogisticRegressionMeta"
PARAM_NAME = "HeteroLogisticRegressionParam"


class WeightShare:
    """The weights of one party, changed by the arbiter's updates."""

    def __init__(
        self,
        params: HeteroLRParams,
        *,
        columns: tuple[str, ...],
        intercept: bool,
        start: FittedShare | None = None,
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

    def norm(self) -> float:
        """Return what the penalty of this party's weights adds to the loss."""
        with np.errstate(over="ignore"):
            return penalty_norm(self.coef, kind=self._params.penalty_kind, alpha=self._params.alpha)

    def apply(self, update: object, *, iteration: int) -> None:
        """Subtract the arbiter's update; with an L1 penalty shrink the coefficients.

        Raises: CodecError: it is not one number per weight. Diverged: one is not finite.
        """
        if not isinstance(update, np.ndarray) or update.dtype != np.float64:
            raise CodecError(reason="the update is not an array of numbers")
        if update.shape != self._weights.shape:
            raise CodecError(reason=f"{update.shape} updates for {self.size} weights")
        weights = self._weights - update
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
class Progress:
    """How a training went."""

    iterations: int
    converged: bool
    losses: tuple[float, ...] = ()  #: per iteration; only the arbiter knows them
    best_iteration: int = -1  #: which iteration's weights the model has, from 0; -1 = the last's
    optimizer: Mapping[str, Any] = field(default_factory=dict)  #: `Optimizer.state`, at the arbiter


class _StoredShare(msgspec.Struct, frozen=True, kw_only=True):
    """What prediction needs of a stored model."""

    header: list[str]
    weight: dict[str, float]
    intercept: float = 0.0
    classes: list[int | float | str | bool] = field(default_factory=lambda: [0, 1])
    iters: int = 0
    is_converged: bool = False
    loss_history: list[float] = field(default_factory=list)
    need_one_vs_rest: bool = False
    optimizer_state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedShare:
    """One party's part of a trained model."""

    columns: tuple[str, ...]
    coef: Floats
    intercept: float = 0.0
    classes: tuple[Any, ...] = field(default=(0, 1))  #: the two label values; of use at the guest

    def scores(self, features: Floats) -> Floats:
        """Return this party's part of every row's score; features in the order of `columns`."""
        return features @ self.coef + self.intercept

    def summary(self, progress: Progress) -> dict[str, Any]:
        """Return the component's summary."""
        return {
            "coef": dict(zip(self.columns, self.coef.tolist(), strict=True)),
            "intercept": self.intercept,
            "is_converged": progress.converged,
            "best_iteration": progress.best_iteration,
            "one_vs_rest": False,
        }

    @staticmethod
    def from_model(model: Model, *, where: str) -> FittedShare:
        """Return the share that `store_model` stored.

        Raises: BadData: not one of HeteroLR. NotSupportedYet: one of several classes.
        """
        stored = _read(model, where=where)
        try:
            coef = np.array([stored.weight[name] for name in stored.header], dtype=np.float64)
        except KeyError as exc:
            reason = f"the model is not one of HeteroLR: no weight of {exc}"
            raise BadData(where=where, reason=reason) from exc
        if not (np.isfinite(coef).all() and math.isfinite(stored.intercept)):
            raise BadData(where=where, reason="the model has weights that are not finite")
        return FittedShare(
            columns=tuple(stored.header),
            coef=coef,
            intercept=stored.intercept,
            classes=tuple(stored.classes),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Where a training begins: anew, or where an earlier one ended."""

    progress: Progress = Progress(iterations=0, converged=False)
    share: FittedShare | None = None  #: None: initial weights; the arbiter has none

    @staticmethod
    def from_model(model: Model, *, where: str) -> Start:
        """Return where a stored model's training ended. Raises: as `FittedShare.from_model`."""
        stored = _read(model, where=where)
        if stored.iters < 0:
            raise BadData(where=where, reason="the model has a negative number of iterations")
        progress = Progress(
            iterations=stored.iters,
            converged=stored.is_converged,
            losses=tuple(stored.loss_history),
            optimizer=stored.optimizer_state,
        )
        return Start(progress=progress, share=FittedShare.from_model(model, where=where))


def _read(model: Model, *, where: str) -> _StoredShare:
    try:
        stored = read_as(dict(model.param), _StoredShare)
    except msgspec.ValidationError as exc:
        raise BadData(where=where, reason=f"the model is not one of HeteroLR ({exc})") from exc
    if stored.need_one_vs_rest:
        raise NotSupportedYet(what="HeteroLR with a model of several classes (one_vs_rest)")
    return stored


def store_model(params: HeteroLRParams, progress: Progress, *, share: FittedShare | None) -> Model:
    """Return the model object; the arbiter has no share, its header and weights are empty.

    Source: components.md section 8; `classes` (the two label values) and, at the arbiter,
    `optimizer_state` are fedflow's additions.
    """
    columns = share.columns if share else ()
    coef = share.coef.tolist() if share else []
    param: dict[str, Any] = {
        "iters": progress.iterations,
        "loss_history": list(progress.losses),
        "is_converged": progress.converged,
        "weight": dict(zip(columns, coef, strict=True)),
        "intercept": share.intercept if share else 0.0,
        "header": list(columns),
        "need_one_vs_rest": False,
        "one_vs_rest_result": {"completed_models": [], "one_vs_rest_classes": []},
        "best_iteration": progress.best_iteration,
        "encrypted_weight": {},
        "classes": list(share.classes) if share else [],
    }
    if share is None:
        param["optimizer_state"] = dict(progress.optimizer)
    return Model(meta_name=META_NAME, param_name=PARAM_NAME, meta=_meta(params), param=param)


def _meta(params: HeteroLRParams) -> Mapping[str, Any]:
    return {
        "penalty": params.penalty or "NONE",
        "tol": params.tol,
        "alpha": params.alpha,
        "optimizer": params.optimizer,
        "party_weight": 0.0,
        "batch_size": params.batch_size,
        "learning_rate": params.learning_rate,
        "max_iter": params.max_iter,
        "early_stop": params.early_stop,
        "re_encrypt_batches": 0,
        "fit_intercept": params.init_param.fit_intercept,
        "need_one_vs_rest": False,
        "predict_param": {"threshold": params.predict_param.threshold},
        "reveal_strategy": "",
        "module": "HeteroLR",
    }
