"""RidgeRegression: a component that trains over several parties, stores a model and predicts.

An arbiter has a Paillier key; [x] is encrypted with it. One epoch is

| message | from -> to | value | what the receiver learns |
|---|---|---|---|
| scores | host -> guest | [X w] of its rows | nothing |
| residuals | guest -> hosts | [d], d = all scores - label | nothing |
| gradient | guest, hosts -> arbiter | [X' d + mask] | nothing: the mask is random |
| opened | arbiter -> its sender | X' d + mask | its own gradient, without the mask |

To measure and to predict, the guest gets the sum of all hosts' scores per row, as secret shares. So
it learns that sum, and with a single host this host's scores; hosts learn nothing of each other.
A host with as many columns as there are rows could solve its gradients for the residuals.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.sdk import (
    BadData,
    CodecError,
    Context,
    Diverged,
    Model,
    Outputs,
    Params,
    PlannedRun,
    Role,
    Table,
    TableKind,
    TableSchema,
    component,
    protocol,
)
from fedflow.sdk.crypto import (
    PaillierKeyPair,
    PaillierPublicKey,
    encode_ring,
    list_digest,
    new_seed,
    read_share,
    reconstruct,
    share,
)

Floats = NDArray[np.float64]

PATIENCE_S = 86_400.0  #: for what another party computes; if that fails, the wait ends at once


MESSAGES = protocol("""
ids | rows | guest -> hosts | a digest of the ids in order
public_key | key | arbiter -> guest, hosts | of the Paillier key
steps, step | settings | host -> guest -> hosts | repeated attempt: stored, chosen epochs
first_epoch | settings | guest -> arbiter | where the training begins
scores | ciphertext | host -> guest | [X w] of its rows
residuals | ciphertext | guest -> hosts | [d], d = all scores - label
gradient | settings | guest, hosts -> arbiter | how many numbers follow
masked | masked | guest, hosts -> arbiter | [X' d + mask]
opened | masked | arbiter -> its sender | X' d + mask
share | masked | host -> host | a share of its scores
sum | masked | host -> guest | a sum of shares
""")


class RidgeParams(Params, frozen=True, kw_only=True):
    """How the model is trained. Columns should be scaled (FeatureScale)."""

    epochs: Annotated[int, Meta(ge=1, le=10_000)] = 20  #: passes over all rows
    learning_rate: Annotated[float, Meta(gt=0)] = 0.1  #: length of a step
    alpha: Annotated[float, Meta(ge=0)] = 0.01  #: how much large weights are punished
    measure_every: Annotated[int, Meta(ge=1)] = 5  #: epochs between measures and checkpoints
    key_bits: Annotated[int, Meta(ge=1024, le=8192)] = 2048  #: of the arbiter's key

    def check(self) -> None:
        if self.key_bits % 2:
            raise ValueError("key_bits: an even number is needed")

    def check_run(self, run: PlannedRun) -> None:
        if len(run.sites_of(Role.GUEST)) != 1 or not run.sites_of(Role.HOST):
            raise ValueError("role: one guest and at least one host are needed")
        if "train_data" in run.data_ports and len(run.sites_of(Role.ARBITER)) != 1:
            raise ValueError("role: one arbiter is needed to train")
        has_data = run.site.role is not Role.ARBITER
        if has_data and "train_data" not in run.data_ports and not run.has_model:
            raise ValueError("input.data: test_data needs a model to predict with")


@component(
    "RidgeRegression",
    roles=("guest", "host", "arbiter"),
    params=RidgeParams,
    data_ports=("train_data", "validate_data", "test_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class RidgeRegression:
    """Vertical linear regression with a penalty on large weights; it shows all parts of the sdk.

    With `train_data` it trains and predicts the rows of `train_data` and `validate_data`; with
    `test_data` and a model it predicts. Predictions and metrics are at the guest.
    """

    def run(self, ctx: Context) -> Outputs:
        """Train or predict. Raises: BadData, CodecError, Diverged, PeerFailed."""
        is_training = "train_data" in ctx.inputs.data
        if ctx.site.role is Role.ARBITER:
            if is_training:
                serve_key(ctx)
            return Outputs()
        return train(ctx) if is_training else predict(ctx)


class Rows:
    """One table as arrays; `name` is how predictions and metrics call it."""

    def __init__(self, ctx: Context, table: Table, name: str, columns: tuple[str, ...]) -> None:
        self.table, self.name = table, name
        self.ids = table.read((table.schema.id,)).column(0).to_pylist()
        values = [_numbers(table, column) for column in columns]
        if ctx.site.role is Role.GUEST:
            values.append(np.ones(table.count))  # the intercept
        self.features: Floats = np.column_stack(values)  # rows x columns
        label = table.schema.label
        self.labels = None if label is None else _numbers(table, label)
        check_same_rows(ctx, self.ids, tag=name)

    @property
    def targets(self) -> Floats:
        """Return the labels. Raises: BadData: there are none."""
        if self.labels is None:
            raise BadData(
                where=f"{self.name} data", reason="the guest's table needs a label column"
            )
        return self.labels


def train(ctx: Context) -> Outputs:
    """Return the model, at the guest with predictions and metrics. Raises: as `run`."""
    params: RidgeParams = ctx.params
    is_guest = ctx.site.role is Role.GUEST
    table = _input(ctx, "train_data")
    columns = table.schema.columns
    parts = [Rows(ctx, table, "train", columns)]
    if "validate_data" in ctx.inputs.data:
        parts.append(Rows(ctx, _input(ctx, "validate_data"), "validate", columns))
    key = _recv(ctx, "public_key", Role.ARBITER)
    public = PaillierPublicKey.from_wire(key, bits=params.key_bits)
    first, weights = resume(ctx, columns)
    if is_guest:
        ctx.federation.send("first_epoch", first, to=ctx.only(Role.ARBITER))
    rows = parts[0]
    for epoch in range(first, params.epochs):
        tag = str(epoch)
        gradient = one_gradient(ctx, public, rows, weights, tag)
        weights = weights - params.learning_rate * (
            gradient / len(rows.ids) + params.alpha * weights
        )
        if not np.all(np.isfinite(weights)) or np.abs(weights).max() > 1e6:
            raise Diverged(iteration=epoch, reason="the weights grow without bound")
        ctx.tracker.progress((epoch + 1) / params.epochs)
        if (epoch + 1) % params.measure_every == 0:
            for part in parts:
                measure(ctx, part, scores_of(ctx, part, weights, f"{part.name}.{tag}"), epoch)
            ctx.checkpoints.save(epoch, f"epoch_{epoch}", model_of(ctx, columns, weights))
    predictions = [(part, scores_of(ctx, part, weights, f"{part.name}.end")) for part in parts]
    model = model_of(ctx, columns, weights)
    if not is_guest:
        return Outputs(model=model)
    found = {part.name: measures(part, scores) for part, scores in predictions}
    for name, values in found.items():
        ctx.tracker.metric(
            name, ctx.component, metric_type="EVALUATION_SUMMARY", points=list(values.items())
        )
    return Outputs(data=(write(ctx, predictions),), model=model, summary=found)


def predict(ctx: Context) -> Outputs:
    """Return predictions of `test_data` at the guest, nothing at hosts. Raises: as `run`."""
    model = next(iter(ctx.inputs.model.values()))
    weights = model.param["weights"]  # this site's own part, as it was stored
    rows = Rows(ctx, _input(ctx, "test_data"), "predict", tuple(model.param["columns"]))
    scores = scores_of(ctx, rows, np.array(weights), "predict")
    return Outputs(data=(write(ctx, [(rows, scores)]),) if ctx.site.role is Role.GUEST else ())


# --- the protocol ---------------------------------------------------------------------------------


def serve_key(ctx: Context) -> None:
    """Be the arbiter: make a key, and decrypt masked gradients."""
    keys = PaillierKeyPair.generate(ctx.params.key_bits)
    owners = (*ctx.sites_of(Role.GUEST), *ctx.sites_of(Role.HOST))
    ctx.federation.send("public_key", keys.public.to_wire(), to=owners)
    first = _recv(ctx, "first_epoch", Role.GUEST)
    if type(first) is not int or first < 0:
        raise CodecError(reason="first_epoch is no number of an epoch")
    for epoch in range(first, ctx.params.epochs):
        for owner in owners:
            given = ctx.federation.recv(
                "gradient", from_=owner, tag=str(epoch), timeout_s=PATIENCE_S
            )
            count = given.get("columns") if isinstance(given, dict) else None
            if type(count) is not int or not 0 < count <= 100_000:
                raise CodecError(reason=f"the gradient of {owner} has no number of columns")
            payload = ctx.federation.recv("masked", from_=owner, tag=str(epoch))
            masked = keys.public.read(payload, count=count)
            ctx.federation.send("opened", keys.open_masked(masked), to=owner, tag=str(epoch))
        ctx.tracker.progress((epoch + 1) / ctx.params.epochs)
        ctx.log.info("epoch %s of %s: gradients opened", epoch + 1, ctx.params.epochs)


def one_gradient(
    ctx: Context, public: PaillierPublicKey, rows: Rows, weights: Floats, tag: str
) -> Floats:
    """Return this site's gradient of an epoch, one number per column."""
    own, count = rows.features @ weights, len(rows.ids)
    if ctx.site.role is Role.GUEST:
        total = public.encrypt(own - rows.targets, workers=ctx.workers)
        for host in ctx.sites_of(Role.HOST):
            payload = ctx.federation.recv("scores", from_=host, tag=tag, timeout_s=PATIENCE_S)
            total = total + public.read(payload, count=count)
        ctx.federation.send("residuals", total.to_bytes(), to=ctx.sites_of(Role.HOST), tag=tag)
    else:
        scores = public.encrypt(own, workers=ctx.workers)
        ctx.federation.send("scores", scores.to_bytes(), to=ctx.only(Role.GUEST), tag=tag)
        total = public.read(_recv(ctx, "residuals", Role.GUEST, tag), count=count)
    masked, mask = total.dot(rows.features, workers=ctx.workers).masked()
    arbiter = ctx.only(Role.ARBITER)
    ctx.federation.send("gradient", {"columns": len(masked)}, to=arbiter, tag=tag)
    ctx.federation.send("masked", masked.to_bytes(packed=True), to=arbiter, tag=tag)
    return mask.remove(_recv(ctx, "opened", Role.ARBITER, tag))


def scores_of(ctx: Context, rows: Rows, weights: Floats, tag: str) -> Floats:
    """Return the sum of all sites' scores at the guest, the own ones at a host."""
    own, hosts = rows.features @ weights, ctx.sites_of(Role.HOST)
    if ctx.site.role is Role.GUEST:
        sums = ctx.federation.recv_all("sum", from_=hosts, tag=tag, timeout_s=PATIENCE_S)
        return own + reconstruct([read_share(one, shape=own.shape) for one in sums])
    shares = share(own, len(hosts)) if len(hosts) > 1 else [encode_ring(own)]
    total = shares[hosts.index(ctx.site)]
    others = [(host, one) for host, one in zip(hosts, shares, strict=True) if host != ctx.site]
    for host, one in others:
        ctx.federation.send("share", one, to=host, tag=tag)
    for host, _ in others:
        given = ctx.federation.recv("share", from_=host, tag=tag, timeout_s=PATIENCE_S)
        total = total + read_share(given, shape=own.shape)
    ctx.federation.send("sum", total, to=ctx.only(Role.GUEST), tag=tag)
    return own


def check_same_rows(ctx: Context, ids: list[str], *, tag: str) -> None:
    """Do nothing if guest and hosts have the same ids in one order. Raises: BadData: others."""
    if ctx.site.role is Role.GUEST:
        key = new_seed()
        told = {"key": key.hex(), "ids": list_digest(ids, key=key, purpose="rows").hex()}
        ctx.federation.send("ids", told, to=ctx.sites_of(Role.HOST), tag=tag)
        return
    told = _recv(ctx, "ids", Role.GUEST, tag)
    try:
        key, theirs = bytes.fromhex(told["key"]), bytes.fromhex(told["ids"])
        own = list_digest(ids, key=key, purpose="rows")
    except (TypeError, KeyError, ValueError) as exc:
        raise CodecError(reason="ids: no digest of ids") from exc
    if own != theirs:
        reason = "other ids than the guest's, or another order: run Intersection first"
        raise BadData(where=f"{tag} data of {ctx.site}", reason=reason)


def resume(ctx: Context, columns: tuple[str, ...]) -> tuple[int, Floats]:
    """Return the first epoch to do and the weights before it; all sites agree on a checkpoint."""
    own = [index for index, _ in ctx.checkpoints.steps()]
    if ctx.site.role is Role.GUEST:
        hosts = ctx.sites_of(Role.HOST)
        for steps in ctx.federation.recv_all("steps", from_=hosts, timeout_s=PATIENCE_S):
            own = [index for index in own if isinstance(steps, list) and index in steps]
        step = max(own, default=-1)
        ctx.federation.send("step", step, to=hosts)
    else:
        ctx.federation.send("steps", own, to=ctx.only(Role.GUEST))
        step = _recv(ctx, "step", Role.GUEST)
        if step != -1 and step not in own:
            raise CodecError(reason="the guest goes on from a step that is not here")
    if step == -1:
        return 0, np.zeros(len(columns) + (ctx.site.role is Role.GUEST))
    ctx.log.info("training goes on after epoch %s", step)
    return step + 1, np.array(ctx.checkpoints.load(step).model.param["weights"])


# --- models, metrics, tables ----------------------------------------------------------------------


def model_of(ctx: Context, columns: tuple[str, ...], weights: Floats) -> Model:
    """Return this site's part of the model: plain JSON, with all that `predict` needs."""
    return Model(
        meta_name="RidgeRegressionMeta",
        param_name="RidgeRegressionParam",
        meta={"alpha": ctx.params.alpha, "epochs": ctx.params.epochs},
        param={"columns": list(columns), "weights": weights.tolist()},  # guest: intercept last
    )


def measures(rows: Rows, scores: Floats) -> dict[str, float]:
    """Return the mean squared error and the share of the variance that is explained."""
    error = float(np.mean((scores - rows.targets) ** 2))
    spread = float(np.var(rows.targets))
    return {"mse": error, "r2": 1.0 - error / spread if spread else 0.0}


def measure(ctx: Context, rows: Rows, scores: Floats, epoch: int) -> None:
    """Record the loss of an epoch, where the labels are."""
    if ctx.site.role is not Role.GUEST:
        return
    loss = measures(rows, scores)["mse"]
    ctx.log.info("epoch %s of %s: %s loss %.6g", epoch + 1, ctx.params.epochs, rows.name, loss)
    ctx.tracker.metric(
        rows.name, "loss", metric_type="LOSS", points=[(epoch, loss)], meta={"unit_name": "epochs"}
    )


def write(ctx: Context, parts: list[tuple[Rows, Floats]]) -> Table:
    """Return a table of predictions, as Evaluation reads it."""
    columns = ("predict_result", "predict_score", "predict_detail", "type")
    id_name = parts[0][0].table.schema.id
    schema = TableSchema(kind=TableKind.PREDICTIONS, id=id_name, label="label", columns=columns)
    with ctx.tables.create(schema) as writer:
        for rows, scores in parts:
            known = rows.labels if rows.labels is not None else [None] * len(scores)
            found: dict[str, Any] = {
                id_name: rows.ids,
                "label": pa.array(known, pa.float64()),
                "predict_result": scores,
                "predict_score": scores,
                "predict_detail": [f"{{'label': {score!r}}}" for score in scores.tolist()],
                "type": [rows.name] * len(scores),
            }
            writer.write(pa.table(found))
        return writer.close()


def _input(ctx: Context, port: str) -> Table:
    table = ctx.inputs.first(port)
    if table is None or not table.count:
        raise BadData(where=port, reason="no rows came in here")
    return table


def _numbers(table: Table, name: str) -> Floats:
    values = table.read((name,)).column(0).to_numpy()
    if values.dtype.kind not in "iuf" or not np.all(np.isfinite(values)):
        raise BadData(where=f"column {name}", reason="it holds something else than numbers")
    found: Floats = values.astype(np.float64)
    return found


def _recv(ctx: Context, name: str, role: Role, tag: str = "") -> Any:
    return ctx.federation.recv(name, from_=ctx.only(role), tag=tag, timeout_s=PATIENCE_S)
