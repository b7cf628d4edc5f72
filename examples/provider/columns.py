"""Two components outside of fedflow: one is a function, one a class that talks to other parties."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from fedflow.sdk import (
    BadData,
    Context,
    Outputs,
    Params,
    PlannedRun,
    Role,
    Table,
    component,
    protocol,
)


@component("ClipValues", roles=("guest", "host"))
def clip_values(
    ctx: Context,
    data: Table,
    *,
    lower: float = -3.0,
    upper: float = 3.0,
    columns: list[str] | None = None,
) -> Outputs:
    """Bring values outside of [lower, upper] to the nearer bound; null `columns` means all."""
    chosen = data.schema.columns if columns is None else columns
    unknown = [name for name in chosen if name not in data.schema.columns]
    if unknown:
        raise BadData(where="columns", reason=f"there are no columns {', '.join(unknown)}")

    def clip(block: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            pc.min_element_wise(pc.max_element_wise(array, lower), upper)
            if name in chosen
            else array
            for name, array in zip(block.schema.names, block.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=block.schema.names)

    clipped = data.map_blocks(clip, schema=data.schema)
    return Outputs(data=(clipped,), summary={"columns": len(chosen), "rows": data.count})


class CompareMeansParams(Params, frozen=True, kw_only=True):
    """Which column is compared, and how exactly hosts tell their mean."""

    column: str = "x0"  #: a feature of the own table; each party may name another one
    digits: Annotated[int, Meta(ge=0, le=15)] = 6  #: hosts round to so many digits

    def check_run(self, run: PlannedRun) -> None:
        if not run.sites_of(Role.HOST):
            raise ValueError("role: a host to compare with is needed")


@component(
    "CompareMeans",
    roles=("guest", "host"),
    params=CompareMeansParams,
    outputs=("data",),
    messages=protocol("mean | statistics | host -> guest | of its column, rounded"),
)
class CompareMeans:
    """Show the guest each host's mean of a column beside its own; hosts learn nothing.

    Hosts send one rounded number. The table passes through. Metric `compare/means`, type TABLE of
    numbers by site; summary: the same.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return the input table. Raises: BadData: the column is missing or holds no number."""
        data = ctx.inputs.first("data")
        if data is None:
            raise BadData(where="input data", reason="nothing came in here")
        own = _mean(data, ctx.params.column)
        if ctx.site.role is Role.HOST:
            ctx.federation.send("mean", round(own, ctx.params.digits), to=ctx.only(Role.GUEST))
            return Outputs(data=(data,))
        means = {str(ctx.site): own}
        for host in ctx.sites_of(Role.HOST):
            told = ctx.federation.recv("mean", from_=host)
            if not isinstance(told, float):  # what a peer sends is checked
                raise BadData(where=str(host), reason="its mean is no number")
            means[str(host)] = told
            ctx.tracker.progress(len(means) / len(ctx.sites))
        ctx.tracker.metric("compare", "means", metric_type="TABLE", points=list(means.items()))
        return Outputs(data=(data,), summary={"means": means})


def _mean(data: Table, column: str) -> float:
    if column not in data.schema.columns:
        raise BadData(where="column", reason=f"there is no column {column}")
    mean = pc.mean(data.read((column,)).column(column)).as_py()
    if mean is None:
        raise BadData(where=column, reason="it holds no number")
    return float(mean)
