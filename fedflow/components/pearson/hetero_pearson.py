"""HeteroPearson: correlations and variance inflation factors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.pearson.correlation import correlations, inflation_factors, standardize
from fedflow.components.pearson.params import HeteroPearsonParams
from fedflow.components.pearson.products import MESSAGES, Peer, cross_correlations, meet
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.samples.columns import anonymous_of, chosen_columns
from fedflow.components.samples.decoding import Instances, numbers
from fedflow.sdk import (
    BadData,
    Context,
    Model,
    Outputs,
    Role,
    Site,
    Table,
    component,
)

Floats = NDArray[np.float64]

META_NAME = "HeteroPearsonModelMeta"
PARAM_NAME = "HeteroPearsonModelParam"
MODEL_NAME = "HeteroPearson"


@component(
    "HeteroPearson",
    roles=("guest", "host"),
    params=HeteroPearsonParams,
    param_name="PearsonParam",
    data_ports=("train_data", "data", "test_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroPearson:
    """Computes Pearson's correlations within a party and between guest and host.

    Each party computes the correlations and variance inflation factors (VIF) of its chosen columns
    in the clear. With `cross_parties` (one guest, one host, the same ids in the same order) both
    also get the correlations between their columns. These are inner products under Paillier
    encryption. Neither sees the other's values or names: columns of the other party have anonymous
    names. Missing values and columns with only one value are refused. There must be more than twice
    as many rows as the other party has columns, since few rows could be computed from many
    correlations.

    No data output; with its model as an input (in a predict job) it does nothing. Model:
    `HeteroPearsonModelMeta`, `HeteroPearsonModelParam`; `corr` is row-major, guest's columns x
    host's columns at both parties. Summary: `num_local_features`, `local_corr`; across parties
    `num_remote_features`, `corr`. Metric `statistic` / `correlation`.

    Unlike FATE: the inner products need no shared random triplets, and low digits of the exact sums
    stay hidden. `fixpoint_bit_length` is the length of the Paillier key.
    """

    def run(self, ctx: Context) -> Outputs:
        """Compute the correlations.

        Raises: BadParameter: a column does not exist. BadData: missing or constant values, or other
            rows than the other party's. CodecError, PeerFailed.
        """
        params: HeteroPearsonParams = ctx.params
        table = ctx.inputs.first("train_data", "data", "test_data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        if any(model.param_name == PARAM_NAME for model in ctx.inputs.model.values()):
            return Outputs()
        return _correlate(ctx, table)


def _correlate(ctx: Context, table: Table) -> Outputs:
    params: HeteroPearsonParams = ctx.params
    schema = table.schema
    path = f"{ctx.component}.column_names"
    columns = chosen_columns(schema, params.column_indexes, params.column_names, path=path)
    if not columns:
        raise BadData(where=f"table {table.name}", reason="has no columns to correlate")
    data = _standardized(table, columns)
    local = correlations(data.features)
    factors = inflation_factors(local) if params.calc_local_vif else np.zeros(0)
    anonymous = dict(zip(schema.columns, anonymous_of(schema, ctx.site), strict=True))
    names = tuple(anonymous[name] for name in columns)
    peer, cross = None, None
    if params.cross_parties:
        check_same_rows(ctx, data, tag="pearson")
        peer = meet(ctx, names, rows=data.rows)
        cross = cross_correlations(ctx, data.features, peer)
    _record(ctx)
    return Outputs(
        model=_model(ctx, columns, names, local=local, factors=factors, peer=peer, cross=cross),
        summary=_summary(local, cross, remote=len(peer.names) if peer else 0),
    )


def _standardized(table: Table, columns: tuple[str, ...]) -> Instances:
    """Return the rows with standardized columns, which are read one after the other.

    Raises: BadData: no rows; a column is no number, or has missing, infinite or only equal values.
    """
    where = f"table {table.namespace}.{table.name}"
    if table.count == 0:
        raise BadData(where=where, reason="has no rows")
    features = np.empty((table.count, len(columns)), dtype=np.float64, order="F")
    for index, name in enumerate(columns):
        values = numbers(table.read((name,)).column(name), name=name, where=where)
        features[:, index] = standardize(values, name=name, where=where)
    return Instances(
        table=table,
        ids=table.read((table.schema.id,)).column(0),
        columns=columns,
        features=features,
        labels=None,
        weights=None,
    )


def _record(ctx: Context) -> None:
    kind = "CORRELATION_GRAPH"
    meta = {"name": "correlation", "metric_type": kind}
    ctx.tracker.metric("statistic", "correlation", metric_type=kind, meta=meta)
    ctx.tracker.progress(1.0)


def _summary(local: Floats, cross: Floats | None, *, remote: int) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "num_local_features": len(local),
        "local_corr": local.tolist(),
    }
    if cross is not None:
        summary |= {"num_remote_features": remote, "corr": cross.tolist()}
    return summary


def _model(
    ctx: Context,
    columns: tuple[str, ...],
    anonymous: tuple[str, ...],
    *,
    local: Floats,
    factors: Floats,
    peer: Peer | None,
    cross: Floats | None,
) -> Model:
    """Return the model; lists of parties are in the order guest, host."""
    parties = [(ctx.site, columns)]
    if peer is not None:
        parties.append((peer.site, peer.names))
    parties.sort(key=lambda party: party[0].role is not Role.GUEST)
    shapes = [len(names) for _, names in parties]
    return Model(
        meta_name=META_NAME,
        param_name=PARAM_NAME,
        meta={"shapes": shapes},
        param={
            "party": _party(ctx.site),
            "parties": [_party(site) for site, _ in parties],
            "shape": len(columns),
            "shapes": shapes,
            "names": list(columns),
            "corr": [] if cross is None else cross.ravel().tolist(),
            "local_corr": local.ravel().tolist(),
            "all_names": [{"names": list(names)} for _, names in parties],
            "anonymous_map": [
                {"anonymous": hidden, "name": name}
                for name, hidden in zip(columns, anonymous, strict=True)
            ],
            "local_vif": factors.tolist(),
            "model_name": MODEL_NAME,
        },
    )


def _party(site: Site) -> str:
    """Return a party as FATE writes it: ('guest', 9999)."""
    return f"('{site.role.value}', {site.party_id})"
