"""HeteroLR: logistic regression over the columns of several parties with the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.instances.alignment import check_same_rows
from fedflow.components.instances.predictions import write_predictions
from fedflow.components.instances.reading import (
    Instances,
    read_instances,
    two_classes,
)
from fedflow.components.linear.arbiter import train_arbiter
from fedflow.components.linear.callbacks import (
    GuestCallbacks,
    HostCallbacks,
    Part,
    Plan,
    agree_on_plan,
    common_step,
)
from fedflow.components.linear.guest import train_guest
from fedflow.components.linear.host import train_host
from fedflow.components.linear.params import HeteroLRParams, check_hosts, reject_unsupported
from fedflow.components.linear.scoring import send_scores, total_scores
from fedflow.components.linear.share import (
    FittedShare,
    Progress,
    Start,
    WeightShare,
    store_model,
)
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Model,
    Outputs,
    Role,
    Table,
    component,
)

Floats = NDArray[np.float64]


@component(
    "HeteroLR",
    roles=("guest", "host", "arbiter"),
    params=HeteroLRParams,
    param_name="HeteroLogisticParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
)
class HeteroLR:
    """Trains a logistic regression on vertically split rows under Paillier encryption, or predicts.

    One guest with the labels (two classes), one or more hosts with features, one arbiter without
    data. All data parties must have the same ids in the same order: put Intersection before it. The
    sigmoid is linearised in training (Hardy et al. 2017), exact in prediction: scale the features.

    With `train_data` it trains, scores the training rows (and those of `validate_data`), and stores
    a model share at each party; with `test_data` and a model it predicts. Predictions (columns
    `label`, `predict_result`, `predict_score`, `predict_detail`, `type`) exist at the guest only.

    With a model beside `train_data` training goes on where the model's ended, up to `max_iter`
    iterations in all; columns and classes must be the model's. Callbacks measure between
    iterations, stop when measures of `validate_data` get no better (the best iteration's weights
    are kept then), and store checkpoints, from which a repeated attempt goes on. Each validation
    shows the guest one more weighting of every host's columns.

    Model: `HeteroLogisticRegressionMeta`, `HeteroLogisticRegressionParam`. Summary: `coef`,
    `intercept`, `is_converged`, `best_iteration`, `one_vs_rest`, at the guest `validation_metrics`;
    at the arbiter `loss_history`. Metric `train` / `loss` at the arbiter, one point per iteration,
    with a single host only: with several there is no loss, and `early_stop` must be `weight_diff`.
    Metrics `train` or `validate` / `iteration_<n>` at the guest.

    Not yet: cross validation, stepwise selection, `sqn`, more than two classes.

    Unlike FATE: training without encryption is refused; guest and hosts refuse a key shorter than
    their own `key_length`; every ciphertext that leaves a party has a fresh blinding; every number
    has one fixed scale, so no exponent is sent in clear; sums reach the arbiter packed; the L1
    shrinkage divides by sqrt(iteration + 1), where FATE divides by zero first; `random_seed` makes
    shuffled batches repeatable; a warm start goes on with what the optimizer remembered.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: NotSupportedYet, BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        params: HeteroLRParams = ctx.params
        ports = ctx.inputs.data
        _check_sites(ctx)
        if "train_data" in ports:
            reject_unsupported(params)
            check_hosts(params, len(ctx.sites_of(Role.HOST)))
            if "test_data" in ports:
                raise BadParameter(path="input.data", reason="train_data together with test_data")
            return _fit(ctx)
        if not ctx.inputs.model:
            raise BadParameter(path="input.model", reason="test_data needs a trained model")
        if "validate_data" in ports:
            raise BadParameter(path="input.data", reason="validate_data without train_data")
        return _predict(ctx)


def _fit(ctx: Context) -> Outputs:
    _warn_of_arbiter(ctx)
    start = _warm_start(ctx)
    plan = Plan.of(ctx, start=start.progress.iterations)
    _warn_of_unused(ctx, plan)
    if ctx.site.role is Role.ARBITER:
        agree_on_plan(ctx, plan)
        start = _resumed(ctx, plan, start)
        return _fit_arbiter(ctx, plan, start.progress)
    warm = start.share is not None
    data = _training_rows(ctx, start)
    # Validation data are read before training, so that a mistake in them shows at once.
    validate = _optional(ctx, "validate_data", "eval_data", columns=data.columns)
    classes: tuple[Any, ...] = (0, 1)
    labels = None
    if ctx.site.role is Role.GUEST:
        found, labels = two_classes(data)
        classes = tuple(found)
        if start.share is not None and tuple(start.share.classes) != classes:
            raise BadData(
                where=f"model of {ctx.component}", reason="it was trained for other classes"
            )
    agree_on_plan(ctx, plan)
    start = _resumed(ctx, plan, start)
    parts = [_part(plan, "train", data, classes)]
    if validate is not None:
        check_same_rows(ctx, validate, tag="validate")
        parts.append(_part(plan, "validate", validate, classes))
    if warm or start.share is not None:
        _record_start(ctx, start.progress.iterations)
    share, progress, measured = _train(
        ctx, plan, start, data=data, labels=labels, parts=parts, classes=classes
    )
    fitted = _fitted(share, classes=classes)
    table = _score(ctx, fitted, [(part.kind, part.data) for part in parts])
    summary = fitted.summary(progress)
    if measured:
        summary["validation_metrics"] = measured
    return Outputs(
        data=(table,) if table is not None else (),
        model=store_model(ctx.params, progress, share=fitted),
        summary=summary,
    )


def _fit_arbiter(ctx: Context, plan: Plan, start: Progress) -> Outputs:
    if start.iterations:
        _record_start(ctx, start.iterations)
    progress = train_arbiter(ctx, plan, start=start)
    return Outputs(
        model=store_model(ctx.params, progress, share=None),
        summary={
            "loss_history": list(progress.losses),
            "is_converged": progress.converged,
            "best_iteration": progress.best_iteration,
        },
    )


def _train(
    ctx: Context,
    plan: Plan,
    start: Start,
    *,
    data: Instances,
    labels: Floats | None,
    parts: list[Part],
    classes: tuple[Any, ...],
) -> tuple[WeightShare, Progress, dict[str, Any]]:
    """Return a data party's weights, how training went, and the guest's measures."""
    params: HeteroLRParams = ctx.params
    intercept = ctx.site.role is Role.GUEST and params.init_param.fit_intercept
    share = WeightShare(params, columns=data.columns, intercept=intercept, start=start.share)

    def model(done: int) -> Model:
        progress = Progress(iterations=done, converged=False)
        return store_model(params, progress, share=_fitted(share, classes=classes))

    if labels is None:
        host = HostCallbacks(ctx, plan, model=model, share=share, parts=parts)
        return share, train_host(ctx, data, share=share, callbacks=host, start=start.progress), {}
    guest = GuestCallbacks(ctx, plan, model=model, share=share, parts=parts)
    progress = train_guest(
        ctx, data, labels=labels, share=share, callbacks=guest, start=start.progress
    )
    return share, progress, {part: dict(values) for part, values in guest.history.items()}


def _warm_start(ctx: Context) -> Start:
    """Return where the model on the model input ended, or a new beginning."""
    if not ctx.inputs.model:
        return Start()
    model = next(iter(ctx.inputs.model.values()))
    return Start.from_model(model, where=f"model of {ctx.component}")


def _resumed(ctx: Context, plan: Plan, start: Start) -> Start:
    """Return where the checkpoint that all sites have ends, else `start`."""
    step = common_step(ctx, plan)
    if step is None or step < start.progress.iterations:
        return start
    ctx.log.info("training goes on after iteration %s of an earlier attempt", step)
    return Start.from_model(
        ctx.checkpoints.load(step).model, where=f"checkpoint {step} of {ctx.component}"
    )


def _training_rows(ctx: Context, start: Start) -> Instances:
    """Return the rows of `train_data`, the columns in the model's order if there is one.

    Raises: BadData: other columns than the model's.
    """
    table = _input(ctx, "train_data")
    if start.share is None:
        return read_instances(table)
    data = read_instances(table, columns=start.share.columns)
    more = len(table.schema.columns) - len(data.columns)
    if more:
        raise BadData(
            where=f"table {table.namespace}.{table.name}",
            reason=f"has {more} columns that the model to start from does not know",
        )
    if start.share.intercept and not ctx.params.init_param.fit_intercept:
        raise BadParameter(
            path="init_param.fit_intercept", reason="the model to start from has an intercept"
        )
    return data


def _part(plan: Plan, kind: str, data: Instances, classes: tuple[Any, ...]) -> Part:
    """Return rows to measure on. Raises: BadData: they have no labels, or not all."""
    if data.labels is None or not plan.validates:
        return Part(kind=kind, data=data)
    if data.labels.null_count:
        where = f"table {data.table.namespace}.{data.table.name}"
        raise BadData(where=where, reason=f"{data.labels.null_count} rows have no label")
    positive = pc.equal(data.labels, pa.scalar(classes[1]).cast(data.labels.type))
    return Part(kind=kind, data=data, positive=positive.to_numpy())


def _record_start(ctx: Context, iterations: int) -> None:
    ctx.tracker.metric(
        "train",
        "init_iter",
        metric_type="init_iter",
        points=[("init_iter", iterations)],
        meta={"name": "init_iter", "metric_type": "init_iter", "unit_name": "iters"},
    )


def _warn_of_unused(ctx: Context, plan: Plan) -> None:
    if ctx.params.callbacks.validation_freqs is not None and not plan.validates:
        ctx.log.warning(
            "callback_param.validation_freqs has no effect without PerformanceEvaluate or"
            " EarlyStopping in callbacks"
        )


def _predict(ctx: Context) -> Outputs:
    if ctx.site.role is Role.ARBITER:
        return Outputs()
    model = next(iter(ctx.inputs.model.values()))
    share = FittedShare.from_model(model, where=f"model of {ctx.component}")
    data = read_instances(_input(ctx, "test_data", "eval_data"), columns=share.columns)
    check_same_rows(ctx, data, tag="predict")
    table = _score(ctx, share, [("predict", data)])
    return Outputs(data=(table,) if table is not None else ())


def _score(ctx: Context, share: FittedShare, parts: list[tuple[str, Instances]]) -> Table | None:
    """Return the prediction table at the guest, None at a host, which sends its scores."""
    if ctx.site.role is Role.HOST:
        for kind, data in parts:
            send_scores(ctx, share, data, tag=kind)
        return None
    scored = [(kind, data, total_scores(ctx, share, data, tag=kind)) for kind, data in parts]
    return write_predictions(
        ctx, scored, classes=share.classes, threshold=ctx.params.predict_param.threshold
    )


def _check_sites(ctx: Context) -> None:
    """Do nothing if one guest and at least one host take part (and an arbiter, to train)."""
    needed = [Role.GUEST, Role.ARBITER] if "train_data" in ctx.inputs.data else [Role.GUEST]
    for role in needed:
        if len(ctx.sites_of(role)) != 1:
            raise BadParameter(path="role", reason=f"HeteroLR needs exactly one {role.value}")
    if not ctx.sites_of(Role.HOST):
        raise BadParameter(path="role", reason="HeteroLR needs at least one host")


def _warn_of_arbiter(ctx: Context) -> None:
    """Say in the log if the arbiter's key is in the hands of a party that has data."""
    arbiter = ctx.only(Role.ARBITER)
    for site in (*ctx.sites_of(Role.GUEST), *ctx.sites_of(Role.HOST)):
        if site.party_id == arbiter.party_id:
            ctx.log.warning(
                "party %s is arbiter and %s: its key opens all that others encrypt here."
                " Let a party without data be the arbiter",
                site.party_id,
                site.role.value,
            )


def _input(ctx: Context, *ports: str) -> Table:
    table = ctx.inputs.first(*ports)
    if table is None:
        raise BadData(where=f"{ctx.component} at {ctx.site}", reason=f"no table on {ports[0]}")
    return table


def _optional(ctx: Context, *ports: str, columns: tuple[str, ...]) -> Instances | None:
    """Return the rows of a port that may be unconnected.

    Whether it is connected is the same at all parties, whether it has a table must be too.
    """
    if not any(port in ctx.inputs.data for port in ports):
        return None
    return read_instances(_input(ctx, *ports), columns=columns)


def _fitted(weights: WeightShare, *, classes: tuple[Any, ...]) -> FittedShare:
    return FittedShare(
        columns=weights.columns,
        coef=weights.coef.copy(),
        intercept=weights.intercept,
        classes=classes,
    )
