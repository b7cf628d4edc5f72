"""Flower projects of tests, and their runs at all sites in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fedflow.flower.arrays import Arrays, arrays_from_json
from fedflow.flower.component import flower_app
from fedflow.sdk import Inputs, Outputs, Role, Site, TableKind, TableSchema
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component

ARBITER: Final = Site(Role.ARBITER, "10000")
CLIENTS: Final = (Site(Role.GUEST, "9999"), Site(Role.HOST, "10000"), Site(Role.HOST, "10001"))
COLUMNS: Final = ("a", "b", "c")

_PYPROJECT: Final = """
[project]
name = "{name}"
version = "1"
[tool.flwr.app.components]
serverapp = "{name}.server_app:app"
clientapp = "{name}.client_app:app"
[tool.flwr.app.config]
rate = 0.5
rounds = 2
"""


def table(seed: int, kind: TableKind = TableKind.INSTANCES) -> Any:
    """Return 120 rows whose label follows from the features."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(120, 3))
    y = (x @ np.array([2.0, -1.0, 0.5]) + 0.2 * draw.normal(size=120) > 0).astype(np.int64)
    columns: dict[str, Any] = {"id": [f"{seed}-{i}" for i in range(120)], "y": y}
    columns |= {name: x[:, i] for i, name in enumerate(COLUMNS)}
    schema = TableSchema(kind=kind, id="id", label="y", columns=COLUMNS)
    return MemoryTableStore().add(pa.table(columns), schema=schema)


def run(
    folder: Path,
    tmp_path: Path,
    *,
    sites: tuple[Site, ...] = (*CLIENTS, ARBITER),
    by_site: Mapping[Site, Mapping[str, Any]] | None = None,
    port: str | None = "train_data",
    output_names: tuple[str, ...] = (),
    **params: Any,
) -> dict[Site, RunResult]:
    """Run a project; the sites of ClientApps have a table each, unless `port` is None."""
    inputs = {
        site: Inputs(data={port: [("reader_0", table(number))]}, model={})
        for number, site in enumerate(sites)
        if site != ARBITER and port is not None
    }
    return run_component(
        flower_app(folder),
        sites=sites,
        work_dir=tmp_path / "work",
        params={site: {**params, **(by_site or {}).get(site, {})} for site in sites},
        inputs=inputs,
        output_names=output_names,
    )


def write_project(folder: Path, name: str, *, server: str, client: str) -> str:
    """Write a project whose two modules have these texts; return its name."""
    code = folder / name / name
    code.mkdir(parents=True)
    (code / "__init__.py").write_text("")
    (code.parent / "pyproject.toml").write_text(_PYPROJECT.format(name=name))
    (code / "server_app.py").write_text(server)
    (code / "client_app.py").write_text(client)
    return name


def final_arrays(outputs: Mapping[Site, Outputs]) -> Arrays:
    """Return the arrays of the ServerApp's model."""
    model = outputs[ARBITER].model
    assert model is not None
    return arrays_from_json(model.param["arrays"])


def ran(folder: Path, app: str, **params: Any) -> dict[Site, Outputs]:
    """Run a project below `folder`/projects to its end; return what each site made."""
    return outputs_of(run(folder / "projects", folder, app=app, **params))
