"""HomoLR: logistic regression over the rows of several parties with the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from fedflow.components.evaluation.recorder import Recorder
from fedflow.components.horizontal.driving import (
    rules_of,
    run_aggregator,
    run_member,
    without_elasticity,
)
from fedflow.components.horizontal.labels import warn_of_missing
from fedflow.components.horizontal.local_sgd import LocalTraining
from fedflow.components.horizontal.lr_params import FAMILY, HomoLRParams
from fedflow.components.horizontal.lr_rounds import (
    Averaging,
    Contributing,
    digest_of,
    first_state,
)
from fedflow.components.horizontal.messages import MESSAGES
from fedflow.components.horizontal.packing import Floats
from fedflow.components.horizontal.privacy import record_budget
from fedflow.components.horizontal.rounds import HISTORY, Newcomer, RoundRules, RoundState
from fedflow.components.linear.party_weights import FittedWeights, TrainingProgress
from fedflow.components.linear.stored import LinearModel, Trained
from fedflow.components.samples.decoding import Instances, is_class, read_instances
from fedflow.components.samples.labels import read_labels
from fedflow.components.samples.predictions import (
    sigmoid,
    write_class_predictions,
    write_predictions,
)
from fedflow.components.samples.stored import own_model
from fedflow.components.training.cross_validation import cross_validate
from fedflow.components.training.measures import record_measures, record_start
from fedflow.components.training.plan import Plan, save_step
from fedflow.components.training.planned import (
    VALIDATION_PORTS,
    check_no_more_columns,
    input_table,
)
from fedflow.sdk import BadData, Context, Model, Outputs, Role, Table, component
from fedflow.sdk.decoding import read_as

RESUME: Final = "resume_state"  #: in the parameters of a checkpoint's model


@component(
    "HomoLR",
    roles=("guest", "host", "arbiter"),
    params=HomoLRParams,
    param_name="HomoLogisticParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    absence="rounds",
    messages=MESSAGES,
)
class HomoLR:
    """Trains one logistic regression on the rows of several parties with the same columns.

    Guest and hosts have rows with labels, the arbiter has none. In each round every party trains on
    its own rows, `aggregate_iters` epochs from the common weights. Then the arbiter gets the sum of
    all weights, each times its party's rows, and gives the mean back. Weights and losses of a party
    are masked, so the arbiter sees sums alone. All parties must have the same columns in the same
    order; scale them first.

    Every party scores its own rows and stores the same model; the arbiter stores none. With
    `test_data` and a model it predicts, without any message.

    With more than two classes there is a model for each class against the rest. The classes are
    those of all parties together. With a model beside `train_data` training goes on from it, by
    `max_iter` further epochs. Measures of callbacks are of a party's own rows. EarlyStopping looks
    at the loss of the `validate_data` of all parties, and keeps the best round. A repeated attempt
    goes on from the latest checkpoint of any party.

    In a job with `elastic` settings a party may be lost: it is left out of rounds. When it is back
    it takes part again, see docs/horizontal.md. `strategy` says how weights become the next ones.

    Model: `HomoLogisticRegressionMeta`, `HomoLogisticRegressionParam`, with HeteroLR's fields;
    `rounds` in the meta says who took part in which. Metrics: `train` / `loss` of the own rows by
    epoch, at the arbiter of all by round; `train` / `loss_of_all` beside the own one; `train` /
    `participation`. Summary: HeteroLR's, and `local_loss_history`, `rounds`.

    Unlike FATE: losses travel masked too. EarlyStopping works. L1 is a subgradient, and weights of
    rows count in the loss.
    """

    def run(self, ctx: Context) -> Outputs:
        """Train if `train_data` is connected, else predict `test_data` with the model given.

        Raises: BadParameter, BadData, Diverged, PeerFailed, TooFewInRound, RoundsFailed,
            DishonestParty, RefusedByAggregator.
        """
        params: HomoLRParams = ctx.params
        if "train_data" not in ctx.inputs.data:
            return _predict(ctx)
        rules = rules_of(ctx, secure=params.secure_aggregate)
        if not params.cv_param.need_cv:
            return _fit(ctx, rules)
        alone = without_elasticity(ctx, rules)
        return cross_validate(
            ctx,
            param=params.cv_param,
            measures=params.callbacks,
            kind=FAMILY.kind,
            fit=lambda own: _fit(own, alone),
            apart=True,
        )


def _fit(ctx: Context, rules: RoundRules) -> Outputs:
    return _lead(ctx, rules) if ctx.site.role is Role.ARBITER else _take_part(ctx, rules)


# --- the arbiter ----------------------------------------------------------------------------------


def _lead(ctx: Context, rules: RoundRules) -> Outputs:
    params: HomoLRParams = ctx.params

    def record(number: int, losses: Sequence[float | None]) -> None:
        if len(losses) == 1 and losses[0] is not None:
            _record_loss(ctx, number, losses[0], unit="aggregate_round")
        ctx.tracker.progress(min(1.0, (number + 1) / params.rounds))

    combiner = Averaging(params, Plan.of(ctx, start=0), record=record)
    if combiner.needs_singles:
        ctx.log.warning("the strategy looks at each party's weights: they are not masked")
    state = run_aggregator(ctx, combiner, rules=rules)
    notes = state.notes
    summary: dict[str, Any] = {
        "loss_history": _by_model(notes["losses"]),
        "is_converged": all(notes["converged"]),
        "best_iteration": notes["best_round"],
        "rounds": notes.get(HISTORY, []),
    }
    if "epsilon" in notes:
        summary["epsilon"] = notes["epsilon"]
        record_budget(ctx, state.round - 1, notes["epsilon"])
    return Outputs(summary=summary)


def _by_model(losses: Sequence[Sequence[float | None]]) -> Any:
    """Return the losses per round; with several classes a list of them per class."""
    if not losses or len(losses[0]) == 1:
        return [one[0] for one in losses]
    return [[one[k] for one in losses if one[k] is not None] for k in range(len(losses[0]))]


def _record_loss(ctx: Context, number: int, loss: float, *, unit: str, name: str = "loss") -> None:
    ctx.tracker.metric(
        "train",
        name,
        metric_type="LOSS",
        points=[(number, loss)],
        meta={
            "name": "train",
            "metric_type": "LOSS",
            "unit_name": unit,
            "curve_name": name.replace("_", " "),
        },
    )


# --- guest and hosts ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Rows to train, measure or predict: `kind` is train, validate or predict."""

    kind: str
    data: Instances


class _Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint stores beside the model: the state, and what the optimizer remembers."""

    round: int
    ended: bool
    notes: dict[str, Any]
    arrays: dict[str, Any]
    memory: dict[str, Any]


def _take_part(ctx: Context, rules: RoundRules) -> Outputs:
    params: HomoLRParams = ctx.params
    earlier = _earlier(ctx)
    parts = _parts(ctx, earlier)
    party = _Party(ctx, parts, earlier)
    state = run_member(ctx, party.worker, rules=rules, state=party.start)
    trained = _trained(params, state, columns=parts[0].data.columns)
    table = _score(ctx, trained, parts)
    summary = trained.summary([party.measured] * len(trained.parts), family=FAMILY)
    summary["local_loss_history"] = party.losses
    summary["rounds"] = state.notes.get(HISTORY, [])
    if "epsilon" in state.notes:
        summary["epsilon"] = state.notes["epsilon"]
    ctx.tracker.progress(1.0)
    return Outputs(data=(table,), model=_stored(params, trained, state), summary=summary)


class _Party:
    """One party in a training: its rows, measures, checkpoints."""

    def __init__(self, ctx: Context, parts: Sequence[_Part], earlier: LinearModel | None) -> None:
        """Raises: BadData: the labels are none, or unknown to the earlier model."""
        params: HomoLRParams = ctx.params
        self._ctx = ctx
        self._params = params
        self._parts = parts
        self._plan = Plan.of(ctx, start=0)
        self._trainings = {part.kind: _training(params, part.data) for part in parts}
        self._classes: Sequence[Any] = ()
        self.losses: Any = []
        self._recorded = 0  # rounds whose loss of all parties is a metric
        self.measured: dict[str, dict[str, list[float]]] = {}
        own = sorted(read_labels(parts[0].data.table, needed_by="training").unique().to_pylist())
        columns = list(parts[0].data.columns)
        about: dict[str, Any] = {
            "columns": digest_of(columns),
            "count": len(columns),
            "classes": own,
            "model": "",
        }
        start = None
        if earlier is not None:
            start = _start(params, earlier, columns=about["columns"])
            about["model"] = start.notes["model"]
            if unknown := [one for one in own if one not in start.notes["classes"]]:
                reason = (
                    f"has the label {unknown[0]!r}, which the model to start from does not know"
                )
                raise BadData(where=f"train data of {ctx.component}", reason=reason)
            record_start(ctx, start.notes["start"])
        self.start = self._resumed(start)
        rows = 1 if params.dp_param.need_dp else parts[0].data.rows
        self.worker = Contributing(
            params,
            self._trainings["train"],
            newcomer=Newcomer(rows=rows, about=about),
            validated=self._trainings.get("validate"),
            targets_for=self._targets_for,
            took=self._took,
            record=self._record,
        )

    def _resumed(self, start: RoundState | None) -> RoundState | None:
        """Return the state of the latest checkpoint of an earlier attempt, else `start`."""
        if self._plan.save_every is None or not self._ctx.task_version:
            return start
        step = self._ctx.checkpoints.latest()
        if step is None:
            return start
        where = f"checkpoint {step.step_index} of {self._ctx.component}"
        try:
            found = read_as(dict(step.model.param.get(RESUME, {})), _Checkpoint)
            arrays = {name: np.array(one, dtype=np.float64) for name, one in found.arrays.items()}
        except (msgspec.ValidationError, TypeError, ValueError) as exc:
            raise BadData(where=where, reason=str(exc)) from exc
        shape = arrays["weights"].shape if "weights" in arrays else ()
        self._trainings["train"].restore(found.memory, shape=shape)
        self._ctx.log.info("an earlier attempt ended after round %s here", found.round - 1)
        return RoundState(round=found.round, arrays=arrays, notes=found.notes, ended=found.ended)

    def _targets_for(self, classes: Sequence[Any]) -> None:
        self._classes = classes
        warn_of_missing(self._ctx, self.worker.newcomer.about["classes"], classes)
        positives = classes if len(classes) > 2 else classes[1:]
        for part in self._parts:
            if part.data.labels is not None:
                targets = np.stack([is_class(part.data, one) for one in positives])
                self._trainings[part.kind].targets = targets.astype(np.float64)

    def _record(self, epoch: int, losses: Floats) -> None:
        if len(losses) == 1:
            _record_loss(self._ctx, epoch, float(losses[0]), unit="epochs")
            self.losses.append(float(losses[0]))
        else:
            self.losses.append(losses.tolist())

    def _took(self, state: RoundState) -> None:
        self._ctx.tracker.progress(min(1.0, state.round / self._params.rounds))
        number = state.round - 1
        if number < 0:
            return
        self._record_loss_of_all(state)
        history = state.notes.get(HISTORY, [])
        if history:
            last = history[-1]
            self._ctx.log.info(
                "round %s: %s took part, left out: %s",
                number,
                ", ".join(last["counted"]),
                "; ".join(f"{who} ({why})" for who, why in last["left_out"].items()) or "nobody",
            )
        if self._plan.validates_after(number):
            self._measure(state, number)
        if self._plan.saves_after(number):
            save_step(self._ctx, number, self._checkpoint(state))

    def _record_loss_of_all(self, state: RoundState) -> None:
        """Record the losses of all parties since the last state, at each round's first epoch."""
        losses = state.notes["losses"]
        for number in range(self._recorded, len(losses)):
            if len(losses[number]) == 1 and losses[number][0] is not None:
                epoch = number * self._params.aggregate_iters
                _record_loss(self._ctx, epoch, losses[number][0], unit="epochs", name="loss_of_all")
        self._recorded = len(losses)

    def _checkpoint(self, state: RoundState) -> Model:
        columns = self._parts[0].data.columns
        model = _stored(self._params, _trained(self._params, state, columns=columns), state)
        kept = {
            "round": state.round,
            "ended": state.ended,
            "notes": dict(state.notes),
            "arrays": {name: one.tolist() for name, one in state.arrays.items()},
            "memory": self._trainings["train"].memory(),
        }
        return replace(model, param={**model.param, RESUME: kept})

    def _measure(self, state: RoundState, number: int) -> None:
        """Measure the weights of a round on this party's own rows."""
        classes = state.notes["classes"]
        kind = "multi" if len(classes) > 2 else "binary"
        try:
            chosen = set(self._params.callbacks.measures_of(kind))
        except ValueError:  # those named are of two classes
            chosen = set(_usual_measures(self._params, kind))
        for part in self._parts:
            if part.data.labels is None:
                continue
            scores = _scores(state.arrays["weights"], part.data.features)
            true: Any = is_class(part.data, classes[1])
            predicted: Any = sigmoid(scores[:, 0])
            if kind == "multi":
                true = part.data.labels.to_numpy(zero_copy_only=False)
                predicted = np.array(classes)[scores.argmax(axis=1)]
            recorder = Recorder(self._ctx, f"iteration_{number}", part.kind)
            values = record_measures(recorder, kind, chosen, true=true, predicted=predicted)
            if values:
                recorder.scalars(values)
            measured = self.measured.setdefault(part.kind, {})
            for name, value in values.items():
                measured.setdefault(name, []).append(value)


def _usual_measures(params: HomoLRParams, kind: str) -> Sequence[str]:
    """Return the measures of a kind if none are named."""
    return msgspec.structs.replace(params.callbacks, metrics=None).measures_of(kind)


def _training(params: HomoLRParams, data: Instances) -> LocalTraining:
    return LocalTraining(
        params,
        features=data.features,
        targets=np.zeros((1, data.rows)),
        row_weights=data.weights,
    )


def _scores(weights: Floats, features: Floats) -> Floats:
    """Return scores, rows x classes; the last weight is the intercept, if there is one more."""
    columns = features.shape[1]
    scores = features @ weights[:, :columns].T
    return scores + weights[:, columns] if weights.shape[1] > columns else scores


def _start(params: HomoLRParams, earlier: LinearModel, *, columns: str) -> RoundState:
    """Return the state that begins with a model's weights."""
    rows = []
    for part in earlier.parts:
        if part.share is None:
            raise BadData(where="the model input", reason="it has no weights")
        intercept = [part.share.intercept] if params.init_param.fit_intercept else []
        rows.append(np.append(part.share.coef, intercept))
    weights = np.stack(rows)
    return first_state(
        params,
        weights=weights,
        classes=earlier.classes,
        columns=columns,
        model=digest_of([weights.tolist(), list(earlier.classes)]),
        start=earlier.parts[0].progress.iterations,
    )


def _trained(params: HomoLRParams, state: RoundState, *, columns: Sequence[str]) -> LinearModel:
    """Return the model of a state."""
    notes, parts = state.notes, []
    for number, weights in enumerate(state.arrays["weights"]):
        losses = [one[number] for one in notes["losses"] if one[number] is not None]
        epochs = min(params.max_iter, state.round * params.aggregate_iters)
        progress = TrainingProgress(
            iterations=notes["start"] + epochs,
            converged=bool(notes["converged"][number]),
            losses=tuple(losses),
            best_iteration=notes["best_round"] if "best" in state.arrays else -1,
        )
        intercept = float(weights[-1]) if params.init_param.fit_intercept else 0.0
        share = FittedWeights(
            columns=tuple(columns), coef=weights[: len(columns)].copy(), intercept=intercept
        )
        parts.append(Trained(progress=progress, share=share))
    return LinearModel(parts=tuple(parts), classes=tuple(notes["classes"]))


def _stored(params: HomoLRParams, trained: LinearModel, state: RoundState) -> Model:
    model = trained.to_model(params)
    rounds = [dict(one) for one in state.notes.get(HISTORY, [])]
    about: Mapping[str, Any] = {**model.meta, "strategy": params.strategy.name, "rounds": rounds}
    return replace(model, meta=about)


def _earlier(ctx: Context) -> LinearModel | None:
    """Return the model on the model input, None if there is none. Raises: BadData."""
    model = own_model(ctx, FAMILY.param_name)
    if model is None:
        return None
    where = f"model of {ctx.component}"
    found = LinearModel.from_model(model, family=FAMILY, where=where)
    if not found.classes:
        raise BadData(where=where, reason="it names no classes")
    return found


def _parts(ctx: Context, earlier: LinearModel | None) -> list[_Part]:
    """Return the rows of the training ports. Raises: BadData."""
    table = input_table(ctx, "train_data")
    share = earlier.parts[0].share if earlier else None
    columns = share.columns if share else None
    parts = [_Part(kind="train", data=read_instances(table, columns=columns))]
    if not parts[0].data.columns:
        raise BadData(where=f"table {table.namespace}.{table.name}", reason="has no features")
    check_no_more_columns(table, known=len(parts[0].data.columns))
    if any(port in ctx.inputs.data for port in VALIDATION_PORTS):
        given = input_table(ctx, *VALIDATION_PORTS)
        data = read_instances(given, columns=parts[0].data.columns)
        parts.append(_Part(kind="validate", data=data))
    return parts


def _predict(ctx: Context) -> Outputs:
    if ctx.site.role is Role.ARBITER:
        return Outputs()
    model = _earlier(ctx)
    if model is None or model.parts[0].share is None:
        raise BadData(where=f"model of {ctx.component}", reason="it has no weights")
    table = input_table(ctx, "test_data", "eval_data")
    data = read_instances(table, columns=model.parts[0].share.columns)
    return Outputs(data=(_score(ctx, model, [_Part(kind="predict", data=data)]),))


def _score(ctx: Context, model: LinearModel, parts: Sequence[_Part]) -> Table:
    """Return a new table of the predictions of this party's rows."""
    scored = []
    for part in parts:
        columns = [
            sigmoid(one.share.scores(part.data.features)) for one in model.parts if one.share
        ]
        scores = np.column_stack(columns) if model.one_vs_rest else columns[0]
        scored.append((part.kind, part.data, scores))
    if model.one_vs_rest:
        return write_class_predictions(ctx, scored, classes=model.classes)
    threshold = ctx.params.predict_param.threshold
    return write_predictions(ctx, scored, classes=model.classes, threshold=threshold)
