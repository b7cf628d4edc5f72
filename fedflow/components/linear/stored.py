"""A linear model as it is stored: one party's weights, for two classes, numbers, or per class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fedflow.components.linear.families import Family
from fedflow.components.linear.params import HeteroPoissonParams, LinearParams
from fedflow.components.linear.party_weights import FittedWeights, TrainingProgress
from fedflow.sdk import BadData, Model
from fedflow.sdk.decoding import read_as


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """The end of one training at one party; the arbiter has no share."""

    progress: TrainingProgress
    share: FittedWeights | None = None

    def summary(self, *, classifies: bool) -> dict[str, Any]:
        """Return what the component's summary says of it."""
        summary: dict[str, Any] = {
            "is_converged": self.progress.converged,
            "best_iteration": self.progress.best_iteration,
        }
        if self.share is None:
            return {"loss_history": list(self.progress.losses), **summary}
        coef = dict(zip(self.share.columns, self.share.coef.tolist(), strict=True))
        summary = {"coef": coef, "intercept": self.share.intercept, **summary}
        return {**summary, "one_vs_rest": False} if classifies else summary


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearModel:
    """One party's part of a model: one training, or with several classes one for each."""

    parts: tuple[Trained, ...]
    classes: tuple[Any, ...] = ()  #: the label values in order, at the guest
    exposure: str | None = None  #: the guest's exposure column

    @property
    def one_vs_rest(self) -> bool:
        """Tell whether there is a training for each class."""
        return len(self.parts) > 1

    @property
    def labels(self) -> tuple[Any, ...]:
        """Return what a model of classes predicts: their numbers where it does not know them."""
        return self.classes or tuple(range(max(2, len(self.parts))))

    def names(self) -> list[str]:
        """Return how the trainings are named: by class, at the others by number."""
        return [str(c) for c in self.classes or range(len(self.parts))]

    def summary(self, measured: Sequence[Mapping[str, Any]], *, family: Family) -> dict[str, Any]:
        """Return the component's summary; `measured` are validation metrics per training."""
        found = []
        for part, values in zip(self.parts, measured, strict=True):
            extra = {"validation_metrics": dict(values)} if values else {}
            found.append({**part.summary(classifies=family.classifies), **extra})
        return dict(zip(self.names(), found, strict=True)) if self.one_vs_rest else found[0]

    def to_model(self, params: LinearParams) -> Model:
        """Return the model's objects.

        Source: docs/reference/models.md#linear-models; `classes` (the label values) and, at the
        arbiter, `optimizer_state` are fedflow's additions.
        """
        family = params.family
        first = self.parts[0].share
        if self.one_vs_rest:
            param = _single(
                Trained(progress=TrainingProgress(iterations=0, converged=False)), family
            )
            param["header"] = list(first.columns) if first else []
        else:
            param = _single(self.parts[0], family)
        if family.classifies:
            models = [_single(part, family) for part in self.parts] if self.one_vs_rest else []
            param["need_one_vs_rest"] = self.one_vs_rest
            param["one_vs_rest_result"] = {
                "completed_models": models,
                "one_vs_rest_classes": self.names() if self.one_vs_rest else [],
            }
            param["classes"] = list(self.classes)
        return Model(
            meta_name=family.meta_name,
            param_name=family.param_name,
            meta=_meta(params, one_vs_rest=self.one_vs_rest),
            param=param,
        )

    @staticmethod
    def from_model(model: Model, *, family: Family, where: str) -> LinearModel:
        """Return the model that `to_model` stored. Raises: BadData: not one of the family."""
        foreign = f"the model is not one of {family.module}"
        if model.param_name != family.param_name:
            raise BadData(where=where, reason=f"{foreign} but a {model.param_name}")
        try:
            stored = read_as(dict(model.param), _Stored)
        except msgspec.ValidationError as exc:
            raise BadData(where=where, reason=f"{foreign} ({exc})") from exc
        parts = stored.one_vs_rest_result.completed_models if stored.need_one_vs_rest else [stored]
        if stored.need_one_vs_rest and len(parts) < 3:
            raise BadData(where=where, reason=f"{foreign}: it has {len(parts)} classes")
        if stored.need_one_vs_rest and len(stored.classes) not in {0, len(parts)}:
            raise BadData(where=where, reason=f"{foreign}: {len(stored.classes)} labels")
        exposure = model.meta.get("exposure_colname")
        return LinearModel(
            parts=tuple(_trained(part, where=where, foreign=foreign) for part in parts),
            classes=tuple(stored.classes),
            exposure=exposure if isinstance(exposure, str) and exposure else None,
        )


class _StoredPart(msgspec.Struct, frozen=True, kw_only=True):
    """What prediction, and training that goes on, need of one training."""

    header: list[str]
    weight: dict[str, float]
    intercept: float = 0.0
    iters: int = 0
    is_converged: bool = False
    loss_history: list[float] = msgspec.field(default_factory=list)
    optimizer_state: dict[str, Any] = msgspec.field(default_factory=dict)
    resume_state: dict[str, Any] = msgspec.field(default_factory=dict)


class _OneVsRest(msgspec.Struct, frozen=True, kw_only=True):
    completed_models: list[_StoredPart] = msgspec.field(default_factory=list)


class _Stored(_StoredPart, frozen=True, kw_only=True):
    classes: list[int | float | str | bool] = msgspec.field(default_factory=list)
    need_one_vs_rest: bool = False
    one_vs_rest_result: _OneVsRest = msgspec.field(default_factory=_OneVsRest)


def _trained(stored: _StoredPart, *, where: str, foreign: str) -> Trained:
    try:
        coef = np.array([stored.weight[name] for name in stored.header], dtype=np.float64)
    except KeyError as exc:
        raise BadData(where=where, reason=f"{foreign}: no weight of {exc}") from exc
    if not (np.isfinite(coef).all() and math.isfinite(stored.intercept)):
        raise BadData(where=where, reason="the model has weights that are not finite")
    if stored.iters < 0:
        raise BadData(where=where, reason="the model has a negative number of iterations")
    return Trained(
        progress=TrainingProgress(
            iterations=stored.iters,
            converged=stored.is_converged,
            losses=tuple(stored.loss_history),
            optimizer=stored.optimizer_state,
            resume=stored.resume_state,
        ),
        share=FittedWeights(columns=tuple(stored.header), coef=coef, intercept=stored.intercept),
    )


def _single(trained: Trained, family: Family) -> dict[str, Any]:
    share, progress = trained.share, trained.progress
    columns = share.columns if share else ()
    coef = share.coef.tolist() if share else []
    param: dict[str, Any] = {
        "iters": progress.iterations,
        "loss_history": list(progress.losses),
        "is_converged": progress.converged,
        "weight": dict(zip(columns, coef, strict=True)),
        "intercept": share.intercept if share else 0.0,
        "header": list(columns),
        "best_iteration": progress.best_iteration,
    }
    if family.quadratic:
        param["encrypted_weight"] = {}
    if share is None:
        param["optimizer_state"] = dict(progress.optimizer)
    return param


def _meta(params: LinearParams, *, one_vs_rest: bool) -> Mapping[str, Any]:
    meta = {
        "penalty": params.penalty or "NONE",
        "tol": params.tol,
        "alpha": params.alpha,
        "optimizer": params.optimizer,
        "batch_size": params.batch_size,
        "learning_rate": params.learning_rate,
        "max_iter": params.max_iter,
        "early_stop": params.early_stop,
        "fit_intercept": params.init_param.fit_intercept,
    }
    if isinstance(params, HeteroPoissonParams):
        return {**meta, "exposure_colname": params.exposure_colname or ""}
    if not params.family.classifies:
        return {**meta, "reveal_strategy": ""}
    return {
        **meta,
        "party_weight": 0.0,
        "re_encrypt_batches": 0,
        "need_one_vs_rest": one_vs_rest,
        "predict_param": {"threshold": params.predict_param.threshold},
        "reveal_strategy": "",
        "module": params.family.module,
    }
