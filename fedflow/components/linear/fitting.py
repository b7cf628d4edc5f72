"""A run of a vertical linear model: which inputs mean what, from tables to tables and a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.families import Family
from fedflow.components.linear.keys import PartyKeys, warn_of_arbiter
from fedflow.components.linear.params import LinearParams
from fedflow.components.linear.rows import Rows, classes_of, read_rows, with_targets
from fedflow.components.linear.scoring import score_in_clear
from fedflow.components.linear.stepwise import StepwiseChoice, choose_columns
from fedflow.components.linear.stored import LinearModel, Trained
from fedflow.components.linear.training import Train, Training, check_start, train
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.samples.predictions import (
    write_class_predictions,
    write_predictions,
    write_values,
)
from fedflow.components.training.cross_validation import cross_validate
from fedflow.components.training.one_vs_rest import agree_on_classes, class_context
from fedflow.components.training.plan import Plan
from fedflow.components.training.planned import (
    VALIDATION_PORTS,
    check_no_more_columns,
    input_table,
)
from fedflow.sdk import BadData, Context, Model, NotSupportedYet, Outputs, Role, Table

Floats = NDArray[np.float64]


class Read(Protocol):
    """Reads a stored model, see `LinearModel.from_model`."""

    def __call__(self, model: Model, *, family: Family, where: str) -> LinearModel: ...


class Scorer(Protocol):
    """Returns the score of every row at the guest; None at a host, which sends its part."""

    def __call__(
        self, ctx: Context, trained: Trained, rows: Rows, *, tag: str
    ) -> Floats | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """Who computes what with whom: how models are trained, stored, read and used."""

    train: Train
    read: Read
    write: Callable[[LinearModel, LinearParams], Model]
    score: Scorer


def run_linear_model(ctx: Context, scheme: Scheme | None = None) -> Outputs:
    """Fit if `train_data` is connected, else predict `test_data` with the model given.

    Without a `scheme` an arbiter leads the training.

    Raises: BadParameter, BadData, NotSupportedYet, Diverged, PeerFailed, CodecError.
    """
    params: LinearParams = ctx.params
    scheme = scheme or with_arbiter(PartyKeys())
    if "train_data" not in ctx.inputs.data:
        return _predict(ctx, scheme)
    if params.family.arbiter:
        warn_of_arbiter(ctx)
    if params.cv_param.need_cv:
        _check_all_rows(ctx)
        return cross_validate(
            ctx,
            param=params.cv_param,
            measures=params.callbacks,
            kind=params.family.kind,
            fit=lambda own: _fit(own, scheme),
        )
    if params.stepwise_param.need_stepwise:
        return _fit_stepwise(ctx, scheme)
    return _fit(ctx, scheme)


def _check_all_rows(ctx: Context) -> None:
    """Do nothing if the training rows can be used; a fold would name its own table and counts.

    Raises: BadData.
    """
    family = ctx.params.family
    for rows in _training_parts(ctx, None):
        if ctx.site.role is Role.GUEST:
            with_targets(family, rows, classes=classes_of(family, rows))


def _fit(ctx: Context, scheme: Scheme) -> Outputs:
    earlier = _warm_start(ctx, scheme)
    parts = _training_parts(ctx, earlier)
    classes, count = _classes(ctx, parts)
    if earlier is not None:
        _check_earlier(ctx, earlier, classes=classes, count=count)
    if len(parts) > 1:
        check_same_rows(ctx, parts[1].data, tag="validate")
    if count <= 2:
        with_labels = _with_targets(ctx, parts, classes=classes)
        start = earlier.parts[0] if earlier else None

        def store(trained: Trained) -> Model:
            return scheme.write(_model(ctx, [trained], classes=classes), ctx.params)

        trainings = [scheme.train(ctx, with_labels, start=start, store=store)]
    else:
        trainings = _train_each(ctx, scheme, parts, classes=classes, count=count, earlier=earlier)
    return _outputs(ctx, scheme, parts, trainings, classes=classes)


def _fit_stepwise(ctx: Context, scheme: Scheme) -> Outputs:
    parts = _training_parts(ctx, None)
    classes, count = _classes(ctx, parts)
    if count > 2:
        raise NotSupportedYet(what=f"stepwise selection with {count} classes")
    rows = _with_targets(ctx, parts, classes=classes)
    choice: StepwiseChoice = choose_columns(ctx, rows[0] if rows else None, train=scheme.train)
    kept = [rows[0].select(choice.columns)] if rows else []
    outputs = _outputs(ctx, scheme, kept, [Training(trained=choice.trained)], classes=classes)
    return replace(outputs, summary={**outputs.summary, **choice.steps})


def _train_each(
    ctx: Context,
    scheme: Scheme,
    parts: Sequence[Rows],
    *,
    classes: tuple[Any, ...],
    count: int,
    earlier: LinearModel | None,
) -> list[Training]:
    """Train one model per class against the rest."""
    trainings = []
    if ctx.params.callbacks.callbacks:
        ctx.log.info("several classes: measures are those of each class, and no checkpoints")
    for number in range(count):
        own = class_context(ctx, number, of=count)
        start = earlier.parts[number] if earlier else None
        ctx.log.info("class %s of %s", number + 1, count)
        targets = [
            rows.against_the_rest(classes[number])
            if classes and rows.data.labels is not None
            else rows
            for rows in parts
        ]

        def store(trained: Trained) -> Model:
            return scheme.write(_model(ctx, [trained], classes=()), ctx.params)

        trainings.append(scheme.train(own, targets, start=start, store=store))
        ctx.tracker.progress((number + 1) / count)
    return trainings


def _classes(ctx: Context, parts: Sequence[Rows]) -> tuple[tuple[Any, ...], int]:
    """Return the guest's classes and how many there are; none and 1 if labels are numbers."""
    family = ctx.params.family
    if not family.classifies:
        return (), 1
    if ctx.site.role is not Role.GUEST:
        return (), agree_on_classes(ctx, None)
    classes = classes_of(family, parts[0])
    return classes, agree_on_classes(ctx, len(classes))


def _with_targets(ctx: Context, parts: Sequence[Rows], *, classes: tuple[Any, ...]) -> list[Rows]:
    """Return the parts, at the guest with targets; only measured rows need labels."""
    if ctx.site.role is not Role.GUEST:
        return list(parts)
    measured = Plan.of(ctx, start=0).validates
    return [
        with_targets(ctx.params.family, rows, classes=classes)
        if rows.kind == "train" or (measured and rows.data.labels is not None)
        else rows
        for rows in parts
    ]


def _model(ctx: Context, parts: Sequence[Trained], *, classes: tuple[Any, ...]) -> LinearModel:
    return LinearModel(parts=tuple(parts), classes=classes, exposure=ctx.params.exposure)


def _outputs(
    ctx: Context,
    scheme: Scheme,
    parts: Sequence[Rows],
    trainings: Sequence[Training],
    *,
    classes: tuple[Any, ...],
) -> Outputs:
    """Return the predictions of all parts, the model and the summary."""
    model = _model(ctx, [t.trained for t in trainings], classes=classes)
    table = _score(ctx, scheme, model, parts) if parts else None
    return Outputs(
        data=() if table is None else (table,),
        model=scheme.write(model, ctx.params),
        summary=model.summary([t.measured for t in trainings], family=ctx.params.family),
    )


def _warm_start(ctx: Context, scheme: Scheme) -> LinearModel | None:
    """Return the model on the model input, None if there is none."""
    if not ctx.inputs.model:
        return None
    stored = next(iter(ctx.inputs.model.values()))
    where = f"model of {ctx.component}"
    model = scheme.read(stored, family=ctx.params.family, where=where)
    # If it is a checkpoint: what that training watched is no matter of this one.
    parts = [replace(part, progress=replace(part.progress, resume={})) for part in model.parts]
    return replace(model, parts=tuple(parts))


def _check_earlier(
    ctx: Context, earlier: LinearModel, *, classes: tuple[Any, ...], count: int
) -> None:
    """Do nothing if training can go on from the model `earlier`."""
    where = f"model of {ctx.component}"
    if len(earlier.parts) != (count if count > 2 else 1) or (
        classes and earlier.classes != classes
    ):
        raise BadData(where=where, reason="it was trained for other classes")
    for part in earlier.parts:
        check_start(ctx, part)


def _training_parts(ctx: Context, earlier: LinearModel | None) -> list[Rows]:
    """Return the rows of the training ports, the columns in the model's order if there is one.

    Validation data are read before training, so that a mistake in them shows at once. Raises:
    BadData: other columns than the model's; a host without columns.
    """
    if ctx.site.role is Role.ARBITER:
        return []
    exposure = ctx.params.exposure
    table = input_table(ctx, "train_data")
    columns = None
    if earlier is not None and earlier.parts[0].share is not None:
        columns = earlier.parts[0].share.columns
    rows = read_rows(ctx, table, kind="train", columns=columns, exposure=exposure)
    check_no_more_columns(table, known=len(rows.data.columns) + (rows.offset is not None))
    if ctx.site.role is Role.HOST and not rows.data.columns:
        raise BadData(where=f"{ctx.site}'s data", reason="has no feature columns")
    parts = [rows]
    if any(port in ctx.inputs.data for port in VALIDATION_PORTS):
        given = input_table(ctx, *VALIDATION_PORTS)
        columns = rows.data.columns
        parts.append(read_rows(ctx, given, kind="validate", columns=columns, exposure=exposure))
    return parts


def _predict(ctx: Context, scheme: Scheme) -> Outputs:
    if ctx.site.role is Role.ARBITER:
        return Outputs()
    model = _warm_start(ctx, scheme)
    if model is None or model.parts[0].share is None:
        raise BadData(where=f"model of {ctx.component}", reason="it has no weights")
    rows = read_rows(
        ctx,
        input_table(ctx, "test_data", "eval_data"),
        kind="predict",
        columns=model.parts[0].share.columns,
        exposure=model.exposure,
    )
    check_same_rows(ctx, rows.data, tag="predict")
    table = _score(ctx, scheme, model, [rows])
    return Outputs(data=() if table is None else (table,))


def _score(ctx: Context, scheme: Scheme, model: LinearModel, parts: Sequence[Rows]) -> Table | None:
    """Return the prediction table at the guest, None at a host, which sends its scores."""
    contexts = [ctx]
    if model.one_vs_rest:
        count = len(model.parts)
        contexts = [class_context(ctx, number, of=count) for number in range(count)]
    scored = []
    for rows in parts:
        found = [
            _predictions(own, scheme, part, rows)
            for own, part in zip(contexts, model.parts, strict=True)
        ]
        if ctx.site.role is Role.GUEST:
            scores = np.column_stack(found) if model.one_vs_rest else found[0]
            scored.append((rows.kind, rows.data, scores))
    if ctx.site.role is Role.HOST:
        return None
    if not ctx.params.family.classifies:
        return write_values(ctx, scored)
    if model.one_vs_rest:
        return write_class_predictions(ctx, scored, classes=model.labels)
    threshold = ctx.params.predict_param.threshold
    return write_predictions(ctx, scored, classes=model.labels, threshold=threshold)


def _predictions(ctx: Context, scheme: Scheme, trained: Trained, rows: Rows) -> Floats:
    """Return the guest's predictions; a host sends its scores.

    Raises: BadData: a prediction is not a finite number.
    """
    scores = scheme.score(ctx, trained, rows, tag=rows.kind)
    if scores is None:
        return np.empty(0)
    predicted: Floats = ctx.params.family.mean(scores)
    bad = int(np.count_nonzero(~np.isfinite(predicted)))
    if bad:
        raise BadData(
            where=f"{rows.kind} data of {ctx.component}",
            reason=f"the predictions of {bad} rows are no finite numbers",
        )
    return predicted


def with_arbiter(keys: PartyKeys) -> Scheme:
    """Return the scheme in which an arbiter leads; all trainings of a run have the same `keys`."""
    return Scheme(
        train=partial(train, keys=keys),
        read=LinearModel.from_model,
        write=LinearModel.to_model,
        score=score_in_clear,
    )
