"""Parties with the same columns and other rows, over a real in-process federation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table, TableKind, TableSchema
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.hetero_lr_parties import breast_data

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
ARBITER = Site(Role.ARBITER, "10002")  # type: ignore[arg-type]

Rows = Mapping[Site, Mapping[str, Any]]  #: per party its columns; `id` is the id, `y` the label


def load_torch() -> None:
    """Load what PyTorch imports at its first step, so that no run's time limit counts it."""
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()


def breast_rows() -> dict[Site, dict[str, Any]]:
    """Return the rows of breast_homo, which are those of breast_hetero at two parties."""
    data = breast_data()
    labels = (data.labels > 0).astype(np.int64)
    return {
        site: {
            "id": [str(n) for n in range(part.start, part.stop)],
            "y": labels[part],
            **{f"x{n}": column for n, column in enumerate(data.features[part].T)},
        }
        for site, part in ((GUEST, slice(0, 227)), (HOST, slice(227, 455)))
    }


def run_homo(
    module: Any,
    rows: Rows,
    work_dir: Path,
    *,
    params: Mapping[str, Any] | None = None,
    models: Mapping[Site, Model] | None = None,
    ports: Sequence[str] = ("data",),
    more: Mapping[str, Rows] | None = None,
    arbiter: bool = True,
    only: Iterable[Site] | None = None,
    **given: Any,
) -> dict[Site, RunResult]:
    """Run a component at the parties of `rows` and an arbiter; `more` are the rows of other ports.

    All sites have the same parameters.
    """
    stores = {site: MemoryTableStore() for site in rows}
    inputs = {}
    for site in (*rows, ARBITER):
        data: dict[str, Sequence[tuple[str, Table | None]]] = {}
        for port in ports:
            part = (more or {}).get(port, rows)
            table = (
                add_table(stores[site], f"{port} {site.key}", part[site]) if site in rows else None
            )
            data[port] = [("reader_0", table)]
        model = (models or {}).get(site)
        inputs[site] = Inputs(data=data, model={} if model is None else {"upstream_0": model})
    sites = [*rows, ARBITER] if arbiter else [*rows]
    return run_component(
        module,
        sites=sites,
        work_dir=work_dir,
        params={site: params or {} for site in sites},
        inputs=inputs,
        tables=stores,
        only=only,
        **given,
    )


def add_table(store: MemoryTableStore, name: str, columns: Mapping[str, Any]) -> Table:
    """Return a table of instances."""
    rows = pa.table(dict(columns))
    names = tuple(n for n in rows.column_names if n not in {"id", "y"})
    label = "y" if "y" in rows.column_names else None
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", label=label, columns=names)
    return store.add(rows, schema=schema, name=name)


def outputs(results: Mapping[Site, RunResult]) -> dict[Site, Outputs]:
    """Return the outputs of a run that succeeded everywhere."""
    return outputs_of(dict(results))


def rows_of(found: Outputs) -> dict[str, list[Any]]:
    """Return the rows of the first output table."""
    table = found.data[0]
    assert table is not None
    return dict(table.read().to_pydict())
