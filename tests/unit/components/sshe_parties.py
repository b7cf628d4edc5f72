"""Parties and comparisons for the tests of HeteroSSHELR and HeteroSSHELinR.

Guest and host run for real, in threads over an in-process federation, with 1024-bit keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedflow.components.sshe.component import HeteroSSHELR
from fedflow.domain.site import Site
from fedflow.sdk import Checkpoints, Inputs, Model, Workers
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.oracle import OracleRun
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.support.shared_keys import shared_keys
from tests.unit.components.hetero_lr_parties import GUEST, HOST, Data, schema_of

SITES = (GUEST, HOST)
BASE: dict[str, Any] = {
    "learning_rate": 0.15,
    "alpha": 0.01,
    "tol": 0.0,
    "max_iter": 3,
    "init_param": {"init_method": "zeros"},
    "encrypt_param": {"key_length": 1024},
}
KNOWN: dict[str, Any] = {"reveal_every_iter": True}
HIDDEN: dict[str, Any] = {"reveal_every_iter": False}

Floats = NDArray[np.float64]


def run(
    data: Data,
    work_dir: Path,
    *,
    kind: type[Any] = HeteroSSHELR,
    ports: Mapping[str, Data] | None = None,
    models: Mapping[Site, Model] | None = None,
    per_site: Mapping[Site, Mapping[str, Any]] | None = None,
    federation: LocalFederation | None = None,
    workers: Mapping[Site, Workers] | None = None,
    task_version: int = 0,
    checkpoints: Mapping[Site, Checkpoints] | None = None,
    **params: Any,
) -> dict[Site, RunResult]:
    """Run guest and host; `data` goes to train_data, or `ports` says what goes where."""
    ports = ports or {"train_data": data}
    sites = tuple(data.tables)
    inputs = {}
    for site in sites:
        store = MemoryTableStore()
        tables: dict[str, Any] = {}
        for port, given in ports.items():
            rows = given.tables.get(site)
            table = None if rows is None else store.add(rows, schema=schema_of(rows))
            tables[port] = [("upstream", table)]
        model = (models or {}).get(site)
        inputs[site] = Inputs(data=tables, model={"sshe_0": model} if model else {})
    with shared_keys():
        return run_component(
            kind,
            sites=sites,
            work_dir=work_dir,
            params={s: {**BASE, **params, **(per_site or {}).get(s, {})} for s in sites},
            inputs=inputs,
            federation=federation,
            workers=workers,
            task_version=task_version,
            checkpoints=checkpoints,
        )


def losses(results: Mapping[Site, RunResult]) -> list[float]:
    outputs_of(results)
    return [loss for _, loss in results[GUEST].metrics["train", "loss"].points]


def models_of(results: Mapping[Site, RunResult]) -> dict[Site, Model]:
    return {site: out.model for site, out in outputs_of(results).items() if out.model is not None}


def weights_of(results: Mapping[Site, RunResult]) -> Floats:
    """Return all parties' weights, the guest's first, and then the intercept."""
    params = [models_of(results)[site].param for site in SITES]
    coef = [p["weight"][name] for p in params for name in p["header"]]
    return np.array([*coef, params[0]["intercept"]])


def assert_equals(
    results: Mapping[Site, RunResult], expected: OracleRun, *, rtol: float = 2e-6
) -> None:
    np.testing.assert_allclose(losses(results), expected.losses, rtol=rtol)
    found = weights_of(results)
    np.testing.assert_allclose(found[:-1], expected.coef, rtol=rtol, atol=2e-6)
    assert found[-1] == pytest.approx(expected.intercept, rel=rtol, abs=2e-6)


def scores_of(results: Mapping[Site, RunResult]) -> Floats:
    """Return the predicted scores."""
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    return np.asarray(table.read()["predict_score"].to_numpy())
