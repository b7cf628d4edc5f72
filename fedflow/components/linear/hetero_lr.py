"""HeteroLR: logistic regression over the columns of several parties with the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors import CodecError
from fedflow.components.linear.arbiter import train_arbiter
from fedflow.components.linear.guest import train_guest
from fedflow.components.linear.host import train_host
from fedflow.components.linear.instances import (
    Instances,
    check_same_rows,
    read_instances,
    two_classes,
)
from fedflow.components.linear.params import HeteroLRParams, check_hosts, reject_unsupported
from fedflow.components.linear.predictions import sigmoid, write_predictions
from fedflow.components.linear.share import (
    FittedShare,
    WeightShare,
    store_model,
)
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    NotSupportedYet,
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

    Model: `HeteroLogisticRegressionMeta`, `HeteroLogisticRegressionParam`. Summary: `coef`,
    `intercept`, `is_converged`, `one_vs_rest`; at the arbiter `loss_history`. Metric `train` /
    `loss` at the arbiter, one point per iteration, with a single host only: with several there is
    no loss, and `early_stop` must be `weight_diff`.

    Not yet: cross validation, stepwise selection, `sqn`, callbacks and validation during training,
    warm start, more than two classes.

    Unlike FATE: training without encryption is refused; guest and hosts refuse a key shorter than
    their own `key_length`; every ciphertext that leaves a party has a fresh blinding; every number
    has one fixed scale, so no exponent is sent in clear; sums reach the arbiter packed; the L1
    shrinkage divides by sqrt(iteration + 1), where FATE divides by zero first; `random_seed` makes
    shuffled batches repeatable.
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
            if ctx.inputs.model:
                raise NotSupportedYet(what="HeteroLR with a model besides train_data (warm start)")
            return _fit(ctx)
        if not ctx.inputs.model:
            raise BadParameter(path="input.model", reason="test_data needs a trained model")
        if "validate_data" in ports:
            raise BadParameter(path="input.data", reason="validate_data without train_data")
        return _predict(ctx)


def _fit(ctx: Context) -> Outputs:
    params: HeteroLRParams = ctx.params
    _warn_of_arbiter(ctx)
    if ctx.site.role is Role.ARBITER:
        progress = train_arbiter(ctx)
        return Outputs(
            model=store_model(params, progress, share=None),
            summary={
                "loss_history": list(progress.losses),
                "is_converged": progress.converged,
                "best_iteration": -1,
            },
        )
    data = read_instances(_input(ctx, "train_data"))
    # Validation data are read before training, so that a mistake in them shows at once.
    validate = _optional(ctx, "validate_data", "eval_data", columns=data.columns)
    classes: tuple[Any, ...] = (0, 1)
    if ctx.site.role is Role.GUEST:
        found, labels = two_classes(data)
        classes = tuple(found)
        weights, progress = train_guest(ctx, data, labels=labels)
    else:
        weights, progress = train_host(ctx, data)
    share = _fitted(weights, classes=classes)
    parts = [("train", data)]
    if validate is not None:
        check_same_rows(ctx, validate, tag="validate")
        parts.append(("validate", validate))
    table = _score(ctx, share, parts)
    return Outputs(
        data=(table,) if table is not None else (),
        model=store_model(params, progress, share=share),
        summary=share.summary(progress),
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
            scores = share.scores(data.features)
            ctx.federation.send("host_prob", scores, to=ctx.only(Role.GUEST), tag=kind)
        return None
    scored = []
    for kind, data in parts:
        total = share.scores(data.features)
        for host in ctx.sites_of(Role.HOST):
            part = ctx.federation.recv("host_prob", from_=host, tag=kind)
            if not isinstance(part, np.ndarray) or part.shape != total.shape:
                raise CodecError(reason=f"{host} sent no score per row")
            if part.dtype != np.float64 or not np.isfinite(part).all():
                raise CodecError(reason=f"{host} sent scores that are no finite numbers")
            total = total + part
        scored.append((kind, data, sigmoid(total)))
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
