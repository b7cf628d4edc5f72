"""A trained LocalBaseline: probabilities, and how it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.local.params import LocalBaselineParams
from fedflow.components.samples.predictions import sigmoid
from fedflow.sdk import BadData, Model
from fedflow.sdk.decoding import read_as

Floats = NDArray[np.float64]

META, PARAM = "LocalBaselineMeta", "LocalBaselineParam"


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedBaseline:
    """A trained model."""

    header: tuple[str, ...]
    classes: tuple[Any, ...]
    coef: Floats  #: 1 x columns for two classes, else classes x columns
    intercept: Floats  #: 1, or one per class
    iters: int
    converged: bool
    one_vs_rest: bool  #: several classes have a model each

    @property
    def several(self) -> bool:
        return len(self.classes) > 2

    def probabilities(self, features: Floats) -> Floats:
        """Return the second class's probability per row, or rows x classes."""
        scores = features @ self.coef.T + self.intercept
        if not self.several:
            return sigmoid(scores[:, 0])
        each = sigmoid(scores) if self.one_vs_rest else _exponentials(scores)
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / each.shape[1])

    def summary(self) -> dict[str, Any]:
        """Return the component's summary."""
        found = [
            {
                "coef": dict(zip(self.header, coef.tolist(), strict=True)),
                "intercept": float(intercept),
                "is_converged": self.converged,
                "iters": self.iters,
            }
            for coef, intercept in zip(self.coef, self.intercept, strict=True)
        ]
        if not self.several:
            return {**found[0], "one_vs_rest": False}
        names = [str(c) for c in self.classes]
        return {**dict(zip(names, found, strict=True)), "one_vs_rest": True}

    def to_model(self, params: LocalBaselineParams) -> Model:
        """Return the model's objects; `classes` and `multi_class` are fedflow's additions."""
        options = params.options
        singles = [self._single(i) for i in range(len(self.coef))]
        empty: dict[str, Any] = {"completed_models": [], "one_vs_rest_classes": []}
        several = {
            "completed_models": singles,
            "one_vs_rest_classes": [str(c) for c in self.classes],
        }
        one = singles[0] if not self.several else {"header": list(self.header)}
        return Model(
            meta_name=META,
            param_name=PARAM,
            meta={
                "penalty": options.punishes,
                "tol": options.tol,
                "optimizer": options.solver,
                "fit_intercept": options.fit_intercept,
                "max_iter": options.max_iter,
                "need_one_vs_rest": self.several,
                "predict_param": {"threshold": params.predict_param.threshold},
                "multi_class": "ovr" if self.one_vs_rest else "multinomial",
            },
            param={
                **one,
                "need_one_vs_rest": self.several,
                "one_vs_rest_result": several if self.several else empty,
                "classes": list(self.classes),
            },
        )

    def _single(self, index: int) -> dict[str, Any]:
        return {
            "iters": self.iters,
            "loss_history": [],
            "is_converged": self.converged,
            "weight": dict(zip(self.header, self.coef[index].tolist(), strict=True)),
            "intercept": float(self.intercept[index]),
            "header": list(self.header),
            "best_iteration": -1,
        }

    @staticmethod
    def from_model(model: Model) -> FittedBaseline:
        """Return what is stored. Raises: BadData: it is not of LocalBaseline."""
        try:
            stored = read_as(dict(model.param), _Stored)
            several = stored.need_one_vs_rest
            singles = stored.one_vs_rest_result.completed_models if several else [stored]
            names: list[Any] = list(stored.one_vs_rest_result.one_vs_rest_classes)
            classes = tuple(stored.classes or (names if several else (0, 1)))
            if len(singles) != (len(classes) if several else 1) or len(classes) < 2:
                raise ValueError(f"{len(singles)} models for {len(classes)} classes")
            header = tuple(stored.header)
            coef = np.array([[s.weight[name] for name in header] for s in singles], np.float64)
            intercept = np.array([s.intercept for s in singles], np.float64)
            if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
                raise ValueError("a weight is not finite")
        except (msgspec.ValidationError, KeyError, ValueError) as exc:
            reason = f"it is not of LocalBaseline ({exc})"
            raise BadData(where="the model input", reason=reason) from exc
        return FittedBaseline(
            header=header,
            classes=classes,
            coef=coef,
            intercept=intercept,
            iters=stored.iters,
            converged=stored.is_converged,
            one_vs_rest=model.meta.get("multi_class", "ovr") == "ovr",
        )


class _Single(msgspec.Struct, kw_only=True):
    """One set of weights in a stored model."""

    weight: dict[str, float] = msgspec.field(default_factory=dict)
    intercept: float = 0.0
    header: list[str] = msgspec.field(default_factory=list)
    iters: int = 0
    is_converged: bool = False


class _PerClass(msgspec.Struct, kw_only=True):
    """The weights of several classes in a stored model."""

    completed_models: list[_Single] = msgspec.field(default_factory=list)
    one_vs_rest_classes: list[str] = msgspec.field(default_factory=list)


class _Stored(_Single, kw_only=True):
    """A stored model's param object."""

    need_one_vs_rest: bool = False
    one_vs_rest_result: _PerClass = msgspec.field(default_factory=_PerClass)
    classes: list[int | float | str | bool] = msgspec.field(default_factory=list)


def _exponentials(scores: Floats) -> Floats:
    """Return exp(score), less the row's greatest, which drops out of the shares."""
    shares: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares
