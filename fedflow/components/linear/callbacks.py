"""What happens between the iterations of a training: measures, early stopping, checkpoints.

All parties take the same steps at the same iterations (`training/plan.py`). Validating shows the
guest every host's part of the scores as it is at that iteration, as prediction does at the end; the
arbiter sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace

from fedflow.components.evaluation.recorder import Recorder
from fedflow.components.linear.best import CandidateWeights
from fedflow.components.linear.families import Family
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.resuming import ResumeState
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.scoring import send_scores, total_scores
from fedflow.components.training.measures import record_measures
from fedflow.components.training.params import CallbackParam
from fedflow.components.training.plan import Plan, save_step
from fedflow.components.training.watch import watch_of
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context, Diverged, Model, Role, Site
from fedflow.sdk.errors import CodecError


class Callbacks(Protocol):
    """One party's share of what happens between iterations."""

    def after(self, iteration: int, *, converged: bool = False) -> bool:
        """Do what is due after `iteration` (from 0); tell whether training stops early.

        `converged` tells that it ends anyway, which a checkpoint keeps.
        """

    def restore(self, state: Mapping[str, Any]) -> ResumeState:
        """Go on from what a checkpoint kept, and return it. Raises: BadData: it is damaged."""

    def finish(self) -> int:
        """Return which iteration gave the model to keep, -1 for the last; weights are then its."""


class ArbiterCallbacks:
    """Follows the guest; stores the arbiter's checkpoints."""

    def __init__(self, ctx: Context, plan: Plan, *, model: Callable[[int], Model]) -> None:
        self._ctx = ctx
        self._plan = plan
        self._model = model
        self._best = -1

    def after(self, iteration: int, *, converged: bool = False) -> bool:
        """See `Callbacks`. Raises: CodecError."""
        stop = False
        if self._plan.validates_after(iteration):
            stop = self._measure(iteration)
        if self._plan.saves_after(iteration):
            state = replace(self._state(), ended=converged or stop, converged=converged)
            model = state.into(self._model(iteration + 1))
            save_step(self._ctx, iteration, model)
        return stop

    def restore(self, state: Mapping[str, Any]) -> ResumeState:
        """See `Callbacks`. Raises: BadData."""
        found = ResumeState.read(state)
        self._best = found.best
        return found

    def _state(self) -> ResumeState:
        return ResumeState(best=self._best)

    def finish(self) -> int:
        """See `Callbacks`."""
        return self._best

    def _measure(self, iteration: int) -> bool:
        """Hear from the guest whether to stop, if that may be."""
        if self._plan.patience is None:
            return False
        guest = self._ctx.only(Role.GUEST)
        told = wait_for(self._ctx, "validation_status", guest, tag=str(iteration))
        if not isinstance(told, dict) or type(told.get("best")) is not int:
            raise CodecError(reason=f"{guest} sent no validation_status")
        self._best = told["best"]
        return told.get("stop") is True


class HostCallbacks(ArbiterCallbacks):
    """Gives the guest this party's scores, and keeps the weights of the best iteration."""

    def __init__(
        self,
        ctx: Context,
        plan: Plan,
        *,
        model: Callable[[int], Model],
        share: PartyWeights,
        parts: Sequence[Rows],
    ) -> None:
        super().__init__(ctx, plan, model=model)
        self._parts = parts
        self._kept = CandidateWeights(share)

    def restore(self, state: Mapping[str, Any]) -> ResumeState:
        """See `Callbacks`. Raises: BadData."""
        found = super().restore(state)
        self._kept.read(found.kept)
        return found

    def _state(self) -> ResumeState:
        return replace(super()._state(), kept=self._kept.plain())

    def finish(self) -> int:
        """See `Callbacks`. Raises: CodecError: the guest named an iteration it never measured."""
        self._kept.restore(self._best)
        return self._best

    def _measure(self, iteration: int) -> bool:
        for part in self._parts:
            tag = _tag(part, iteration)
            send_scores(self._ctx, self._kept.share, part, tag=tag)
        stop = super()._measure(iteration)
        self._kept.keep(iteration, patience=self._plan.patience)
        return stop


class GuestCallbacks(ArbiterCallbacks):
    """Measures, and decides when to stop."""

    def __init__(
        self,
        ctx: Context,
        plan: Plan,
        *,
        model: Callable[[int], Model],
        share: PartyWeights,
        parts: Sequence[Rows],
        family: Family,
    ) -> None:
        super().__init__(ctx, plan, model=model)
        asked: CallbackParam = ctx.params.callbacks
        measures = asked.measures_of(family.kind) if plan.validates else []
        self._family = family
        self._parts = parts
        self._kept = CandidateWeights(share)
        self._chosen = set(measures)
        self._others: tuple[Site, ...] = (
            *ctx.sites_of(Role.HOST),
            *ctx.sites_of(Role.ARBITER),
        )
        self._history: dict[str, dict[str, list[float]]] = {}
        self._watch = watch_of(asked, measures, family.kind, stops=plan.patience is not None)

    @property
    def history(self) -> Mapping[str, Mapping[str, Sequence[float]]]:
        """Return part -> measure -> its value at each validation."""
        return self._history

    def restore(self, state: Mapping[str, Any]) -> ResumeState:
        """See `Callbacks`. Raises: BadData."""
        found = super().restore(state)
        self._kept.read(found.kept)
        self._watch.restore(found.watch, best=found.best)
        self._history = {part: dict(values) for part, values in found.history.items()}
        return found

    def _state(self) -> ResumeState:
        return replace(
            super()._state(),
            kept=self._kept.plain(),
            watch=self._watch.state(),
            history=self._history,
        )

    def finish(self) -> int:
        """See `Callbacks`."""
        self._kept.restore(self._best)
        return self._best

    def _measure(self, iteration: int) -> bool:
        for part in self._parts:
            self._measure_part(part, iteration)
        patience = self._plan.patience
        if patience is None:
            return False
        values = {name: values[-1] for name, values in self._history["validate"].items()}
        stop = self._watch.stops(values, iteration, patience=patience)
        self._best = self._watch.best
        self._kept.keep(iteration, patience=patience)
        status = {"stop": stop, "best": self._best}
        self._ctx.federation.send("validation_status", status, to=self._others, tag=str(iteration))
        if stop:
            self._ctx.log.info("no better value in %s validations: training stops", patience)
        return stop

    def _measure_part(self, part: Rows, iteration: int) -> None:
        tag = _tag(part, iteration)
        scores = total_scores(self._ctx, self._kept.share, part, tag=tag)
        predicted = self._family.mean(scores)
        if not np.isfinite(predicted).all():
            raise Diverged(iteration=iteration, reason="a prediction is not finite")
        recorder = Recorder(self._ctx, f"iteration_{iteration}", part.kind)
        values = record_measures(
            recorder,
            self._family.kind,
            self._chosen,
            true=part.known_targets > 0 if self._family.classifies else part.known_targets,
            predicted=predicted,
        )
        if self._plan.patience is not None and part.kind == "validate" and not values:
            raise BadData(
                where=f"validate data of {self._ctx.component}",
                reason="the labels are of one class, so EarlyStopping has nothing to look at",
            )
        if values:
            recorder.scalars(values)
        measured = self._history.setdefault(part.kind, {})
        for name, value in values.items():
            measured.setdefault(name, []).append(value)


def _tag(part: Rows, iteration: int) -> str:
    return f"{part.kind}.{iteration}"
