"""The component Empty: does nothing, for as long as asked; for trying out a deployment."""

from __future__ import annotations

import threading
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa

from fedflow.sdk import (
    ComponentFailed,
    Context,
    Outputs,
    Params,
    Role,
    Site,
    Table,
    TableKind,
    TableSchema,
    component,
)
from fedflow.sdk.clock import pause

SLICE_S = 0.25  #: seconds between two reports of progress
BATCH_ROWS = 65_536
SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("x0",))


class EmptyParams(Params, frozen=True, kw_only=True):
    """Parameters of Empty."""

    sleep_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0  #: how long to wait, seconds
    fail: bool | str = False  #: fail after waiting: everywhere, or at this role or `role-party_id`
    rows: Annotated[int, msgspec.Meta(ge=0)] | None = None  #: output a table with so many rows

    def check(self) -> None:
        """Raise ValueError if `fail` names no role or site."""
        if isinstance(self.fail, str) and not _names_site(self.fail):
            raise ValueError(f"fail: {self.fail!r} is neither true, a role nor `role-party_id`")


@component(
    "Empty",
    roles=("guest", "host", "arbiter", "local"),
    params=EmptyParams,
    needs_input=False,
    absence="apart",
)
class Empty:
    """Waits, and fails or makes rows if asked to.

    For trying out a deployment, for benchmarks and tests; fedflow's own. The output is the made-up
    table, else the input table if one is connected.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return `rows` made-up rows, or else the input table, or else nothing.

        Raises: ComponentFailed: `fail` is set for this site.
        """
        params: EmptyParams = ctx.params
        _wait(ctx, params.sleep_s)
        if params.fail is True or params.fail in {ctx.site.key, ctx.site.role.value}:
            raise ComponentFailed(component=ctx.component, reason="its parameter `fail` says so")
        ctx.tracker.progress(1.0)
        table = ctx.inputs.first("data") if params.rows is None else _make(ctx, params.rows)
        return Outputs() if table is None else Outputs(data=(table,))


def _wait(ctx: Context, sleep_s: float) -> None:
    """Wait `sleep_s` seconds, in equal slices with a report after each."""
    slices = max(1, round(sleep_s / SLICE_S))
    never = threading.Event()
    for i in range(slices if sleep_s else 0):
        pause(sleep_s / slices, never)
        ctx.tracker.progress((i + 1) / slices)


def _make(ctx: Context, rows: int) -> Table:
    """Return a table with the ids 0, 1, ... and the feature x0 = id."""
    with ctx.tables.create(SCHEMA) as writer:
        for start in range(0, max(rows, 1), BATCH_ROWS):
            numbers = np.arange(start, min(rows, start + BATCH_ROWS))
            ids = pa.array(numbers).cast(pa.string())
            values = pa.array(numbers.astype(np.float64))
            writer.write(pa.record_batch([ids, values], names=list(SCHEMA.names)))
        return writer.close()


def _names_site(text: str) -> bool:
    try:
        Role(text) if text in {r.value for r in Role} else Site.from_key(text)
    except ValueError:
        return False
    return True
