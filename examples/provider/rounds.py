"""SharedRegression: horizontal training whose rounds go on without a host that is lost.

The parties have the same columns of different rows. One round is

| message | from -> to | value | what the receiver learns |
|---|---|---|---|
| weights | guest -> hosts | round, weights | the weights, which are the result |
| update | host -> guest | round, gradient, rows | the gradient of that host's rows |

A host begins with an update of round -1, and gets the weights of the current round. The guest
sees each host's gradient. Where that is too much, use HomoLR, whose sums are masked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.sdk import (
    Arrival,
    BadData,
    CodecError,
    Context,
    Model,
    Outputs,
    Params,
    PeerFailed,
    PlannedRun,
    Role,
    Site,
    TooFewInRound,
    ValueTooLate,
    agree,
    component,
    protocol,
)

Floats = NDArray[np.float64]

PATIENCE_S = 86_400.0  #: for what another party computes; if that fails, the wait ends at once


MESSAGES = protocol("""
facts | settings | each -> all others | columns and parameters, which must be equal
weights | model | guest -> hosts | round, weights
update | model | host -> guest | round, gradient, rows
""")


class SharedRegressionParams(Params, frozen=True, kw_only=True):
    """How the model is trained. Columns should be scaled (FeatureScale)."""

    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 20
    learning_rate: Annotated[float, Meta(gt=0)] = 0.1  #: length of a step

    def check_run(self, run: PlannedRun) -> None:
        if len(run.sites_of(Role.GUEST)) != 1 or not run.sites_of(Role.HOST):
            raise ValueError("role: one guest and at least one host are needed")


@component(
    "SharedRegression",
    roles=("guest", "host"),
    params=SharedRegressionParams,
    data_ports=("train_data",),
    outputs=("model",),
    absence="rounds",
    messages=MESSAGES,
)
class SharedRegression:
    """Linear regression over the rows of all parties; each party stores the same model."""

    def run(self, ctx: Context) -> Outputs:
        """Train. Raises: BadData, CodecError, GroupDiffers, PeerFailed, TooFewInRound."""
        columns, features, labels = read(ctx)
        if ctx.elastic is None:  # in an elastic job a host may come later
            facts = {"columns": list(columns), "rounds": ctx.params.rounds}
            agree(ctx, "facts", members=ctx.sites, facts=facts)
        train = lead if ctx.site.role is Role.GUEST else follow
        weights = train(ctx, features, labels)
        model = Model(
            meta_name="SharedRegressionMeta",
            param_name="SharedRegressionParam",
            meta={"rounds": ctx.params.rounds},
            param={"columns": list(columns), "weights": weights.tolist()},  # the intercept last
        )
        return Outputs(model=model)


def lead(ctx: Context, features: Floats, labels: Floats) -> Floats:
    """Be the guest: sum up the gradients of each round, and return the weights."""
    hosts, weights = ctx.sites_of(Role.HOST), np.zeros(features.shape[1])
    absent: set[Site] = set()
    for number in range(ctx.params.rounds):
        tell(ctx, hosts, number, weights)
        total, count = gradient(features, labels, weights), len(labels)
        updates = gather(ctx, number, weights, absent)
        for theirs, rows in updates.values():
            total, count = total + theirs, count + rows
        weights = weights - ctx.params.learning_rate * total / count
        record(ctx, number, {ctx.site: len(labels)} | {s: n for s, (_, n) in updates.items()})
    tell(ctx, hosts, ctx.params.rounds, weights)
    return weights


def tell(
    ctx: Context, to: Sequence[Site], number: int, weights: Floats, *, again: str = ""
) -> None:
    """Begin a round at hosts. They may be gone: that is no error."""
    value = {"round": number, "weights": weights}
    ctx.federation.send("weights", value, to=to, tag=f"{number}{again}", required=False)


def gather(
    ctx: Context, number: int, weights: Floats, absent: set[Site]
) -> dict[Site, tuple[Floats, int]]:
    """Return the updates of a round. Who is gone or late is `absent` until it is heard from.

    Raises: PeerFailed: the job is not elastic, and a host is gone. TooFewInRound: too few are left.
    """
    hosts, elastic = ctx.sites_of(Role.HOST), ctx.elastic
    until = time.monotonic() + (PATIENCE_S if elastic is None else elastic.round_deadline_s)
    found: dict[Site, tuple[Floats, int]] = {}
    while any(host not in found and host not in absent for host in hosts):
        left_s = max(0.0, until - time.monotonic())
        came = ctx.federation.recv_any("update", from_=hosts, timeout_s=left_s)
        if came is None:  # the deadline
            absent.update(host for host in hosts if host not in found)
        elif isinstance(came, Arrival):
            absent.discard(came.site)
            of, update = read_update(came, shape=weights.shape)
            if of == -1:  # it has just begun, perhaps again
                tell(ctx, [came.site], number, weights, again=f".{came.tag}")
            elif of == number:  # else it was too late for its round
                found[came.site] = update
        else:
            absent.add(came.site)
            if elastic is None:
                raise PeerFailed(site=came.site, reason=came.reason)
    if elastic is not None and 1 + len(found) < elastic.min_parties:
        missing = ", ".join(str(host) for host in hosts if host not in found)
        raise TooFewInRound(
            round=number, have=1 + len(found), least=elastic.min_parties, missing=missing
        )
    return found


def follow(ctx: Context, features: Floats, labels: Floats) -> Floats:
    """Be a host: send the gradient of each round that the guest begins; return the last weights."""
    guest = ctx.only(Role.GUEST)

    def update(number: int, values: Floats) -> None:
        value = {"round": number, "gradient": values, "rows": len(labels)}
        ctx.federation.send("update", value, to=guest, tag=f"{ctx.launch}.{number}", required=False)

    done = -1
    update(done, np.zeros(features.shape[1]))
    while True:
        came = ctx.federation.recv_any("weights", from_=[guest], timeout_s=PATIENCE_S)
        if came is None:
            raise ValueTooLate(seconds=PATIENCE_S, name="weights", tag="", site=guest)
        if not isinstance(came, Arrival):
            raise PeerFailed(site=guest, reason=came.reason)
        number, weights = read_weights(came, shape=(features.shape[1],))
        if number >= ctx.params.rounds:
            return weights
        if number <= done:  # both a repeat for who has just begun, and the round's own
            continue
        done = number
        update(number, gradient(features, labels, weights))
        ctx.tracker.progress(min(1.0, (number + 1) / ctx.params.rounds))


def gradient(features: Floats, labels: Floats, weights: Floats) -> Floats:
    """Return the gradient of half the sum of the squared errors."""
    found: Floats = features.T @ (features @ weights - labels)
    return found


def record(ctx: Context, number: int, rows: dict[Site, int]) -> None:
    """Show who counted in a round."""
    counted = {site.key: count for site, count in rows.items()}
    left_out = {site.key: "it is absent" for site in ctx.sites if site not in rows}
    point = (number, {"counted": counted, "left_out": left_out})
    ctx.tracker.metric("train", "participation", metric_type="PARTICIPATION", points=[point])
    ctx.tracker.progress((number + 1) / ctx.params.rounds)


# --- what comes in --------------------------------------------------------------------------------


def read(ctx: Context) -> tuple[tuple[str, ...], Floats, Floats]:
    """Return columns, features with a column of ones, and labels. Raises: BadData."""
    table = ctx.inputs.first("train_data")
    if table is None or not table.count or table.schema.label is None:
        raise BadData(where="train_data", reason="rows with a label are needed")
    columns = table.schema.columns
    names = (*columns, table.schema.label)
    arrays = [table.read((name,)).column(0).to_numpy().astype(np.float64) for name in names]
    if not all(np.isfinite(one).all() for one in arrays):
        raise BadData(where="train_data", reason="it holds empty cells")
    return columns, np.column_stack([*arrays[:-1], np.ones(table.count)]), arrays[-1]


def read_update(came: Arrival, *, shape: tuple[int, ...]) -> tuple[int, tuple[Floats, int]]:
    """Return round, gradient and rows of a host's message. Raises: CodecError."""
    number, values = _round_and_numbers(came, "gradient", shape=shape)
    rows = came.value.get("rows")
    if type(rows) is not int or not 0 < rows < 2**40:
        raise CodecError(reason=f"the update of {came.site} has no number of rows")
    return number, (values, rows)


def read_weights(came: Arrival, *, shape: tuple[int, ...]) -> tuple[int, Floats]:
    """Return round and weights of the guest's message. Raises: CodecError."""
    return _round_and_numbers(came, "weights", shape=shape)


def _round_and_numbers(came: Arrival, name: str, *, shape: tuple[int, ...]) -> tuple[int, Floats]:
    value: Any = came.value if isinstance(came.value, dict) else {}
    number, values = value.get("round"), value.get(name)
    if type(number) is not int or not -1 <= number <= 10_000:
        raise CodecError(reason=f"what {came.site} sent has no number of a round")
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != shape:
        raise CodecError(reason=f"{name} of {came.site} have another shape: are its columns ours?")
    if not np.isfinite(values).all():
        raise CodecError(reason=f"{name} of {came.site} are not finite")
    return number, values
