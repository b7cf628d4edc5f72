"""Data, parties and comparisons for the tests of HeteroLR, HeteroLinR and HeteroPoisson.

All three roles run for real, in threads over an in-process federation, with 1024-bit keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray

from fedflow.base.errors.error import FedflowError
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.domain.site import Role, Site
from fedflow.sdk import Checkpoints, Inputs, Model, TableKind, TableSchema, Workers
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.oracle import OracleRun
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.support.shared_keys import shared_keys

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
ARBITER = Site(Role.ARBITER, "10002")  # type: ignore[arg-type]
DATA = Path(__file__).parents[3] / "examples" / "data"

BASE: dict[str, Any] = {
    "learning_rate": 0.15,
    "alpha": 0.01,
    "tol": 0.0,
    "max_iter": 3,
    "init_param": {"init_method": "zeros"},
    "encrypt_param": {"key_length": 1024},
}
IN_STORED_ORDER: dict[str, Any] = {"shuffle": False, "masked_rate": 0.0}  #: HeteroLR's own

Floats = NDArray[np.float64]


def auc(labels: Floats, scores: Floats) -> float:
    """Return the share of (positive, negative) pairs in the right order, ties count half."""
    positive, negative = scores[labels > 0], scores[labels <= 0]
    above = (positive[:, None] > negative).sum() + 0.5 * (positive[:, None] == negative).sum()
    return float(above / (len(positive) * len(negative)))


@dataclass
class Data:
    """Tables of all parties, and the joined matrix."""

    tables: dict[Site, pa.Table]
    features: Floats
    labels: Floats
    weights: Floats | None = None


def csv(name: str) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})
    return pyarrow.csv.read_csv(DATA / name, convert_options=options)


def breast_data() -> Data:
    """Return the example data, 10 guest and 20 host columns."""
    guest, host = csv("breast_hetero_guest.csv"), csv("breast_hetero_host.csv")
    columns = [guest[n] for n in guest.column_names[2:]] + [host[n] for n in host.column_names[1:]]
    labels = np.where(guest["y"].to_numpy() == 1, 1.0, -1.0)
    return Data({GUEST: guest, HOST: host}, np.column_stack(columns), labels)


def small(
    *, rows: int = 40, widths: Mapping[Site, int] | None = None, weighted: bool = False
) -> Data:
    """Return a small data set with 3 guest columns and 4 host columns."""
    widths = widths or {GUEST: 3, HOST: 4}
    generator = np.random.default_rng(5)
    features = generator.normal(size=(rows, sum(widths.values())))
    truth = features @ generator.normal(size=features.shape[1]) + generator.normal(size=rows)
    y = (truth > 0).astype(int)
    weights = generator.uniform(0.2, 3.0, rows) if weighted else None
    ids = [f"id{i:04}" for i in range(rows)]
    tables, start = {}, 0
    for site, width in widths.items():
        columns: dict[str, Any] = {"id": ids}
        if site is GUEST:
            columns["y"] = y
            if weights is not None:
                columns["weight"] = weights
        block = features[:, start : start + width]
        columns.update({f"x{j}": block[:, j] for j in range(width)})
        tables[site] = pa.table(columns)
        start += width
    return Data(tables, features, np.where(y == 1, 1.0, -1.0), weights)


def with_negative_weights(data: Data) -> Data:
    """Return the data with every fifth of the guest's sample weights below 0."""
    guest, weights = data.tables[GUEST], data.weights
    assert weights is not None
    weights = np.where(np.arange(len(weights)) % 5 == 0, -weights, weights)
    place = guest.column_names.index("weight")
    tables = {**data.tables, GUEST: guest.set_column(place, "weight", pa.array(weights))}
    return replace(data, tables=tables, weights=weights)


def with_labels(data: Data, values: Any) -> Data:
    """Return the data with other labels of the guest."""
    guest = data.tables[GUEST]
    column = pa.array(values)
    tables = {**data.tables, GUEST: guest.set_column(guest.column_names.index("y"), "y", column)}
    return replace(data, tables=tables, labels=np.asarray(column.to_pylist()))


def with_numbers(data: Data, *, counts: bool = False) -> Data:
    """Return the data with labels that are numbers which the features tell, or counts."""
    generator = np.random.default_rng(11)
    scores = data.features @ generator.normal(size=data.features.shape[1])
    if counts:
        return with_labels(data, generator.poisson(np.exp(0.3 * scores)).astype(float))
    return with_labels(data, scores + 0.5 + generator.normal(size=len(scores)) * 0.1)


def schema_of(rows: pa.Table) -> TableSchema:
    names = rows.column_names
    return TableSchema(
        kind=TableKind.INSTANCES,
        id=names[0],
        label="y" if "y" in names else None,
        weight="weight" if "weight" in names else None,
        columns=tuple(n for n in names[1:] if n not in ("y", "weight")),
    )


def run(
    data: Data,
    work_dir: Path,
    *,
    task_version: int = 0,
    checkpoints: Mapping[Site, Checkpoints] | None = None,
    ports: Mapping[str, Data] | None = None,
    models: Mapping[Site, Model] | None = None,
    per_site: Mapping[Site, Mapping[str, Any]] | None = None,
    federation: LocalFederation | None = None,
    workers: Mapping[Site, Workers] | None = None,
    cls: type[Any] = HeteroLR,
    timeout_s: float = 50.0,
    also: tuple[Site, ...] = (),
    arbiter: bool = True,
    **params: Any,
) -> dict[Site, RunResult]:
    """Run all roles; `data` goes to train_data, or `ports` says what goes where.

    The sites of `also`, and without `arbiter` that one, take part but are played by the caller.
    """
    ports = ports or {"train_data": data}
    sites = (*data.tables, ARBITER)
    inputs = {}
    for site in sites:
        store = MemoryTableStore()
        tables: dict[str, Any] = {}
        for port, given in ports.items():
            rows = given.tables.get(site)
            table = None if rows is None else store.add(rows, schema=schema_of(rows))
            tables[port] = [("upstream", table)]
        model = (models or {}).get(site)
        inputs[site] = Inputs(data=tables, model={"hetero_lr_0": model} if model else {})
    base = {**BASE, **(IN_STORED_ORDER if cls is HeteroLR else {})}
    with shared_keys():
        return run_component(
            cls,
            sites=(*sites, *also),
            only=sites if arbiter else tuple(data.tables),
            work_dir=work_dir,
            params={s: {**base, **params, **(per_site or {}).get(s, {})} for s in sites},
            inputs=inputs,
            federation=federation,
            workers=workers,
            task_version=task_version,
            checkpoints=checkpoints,
            timeout_s=timeout_s,
        )


def losses(results: Mapping[Site, RunResult]) -> list[float]:
    return [loss for _, loss in results[ARBITER].metrics["train", "loss"].points]


def weights_of(results: Mapping[Site, RunResult], *sites: Site) -> Floats:
    params = [outputs_of(results)[site].model.param for site in sites]  # type: ignore[union-attr]
    return np.array([p["weight"][name] for p in params for name in p["header"]])


def assert_equals_oracle(
    results: Mapping[Site, RunResult], expected: OracleRun, *sites: Site
) -> None:
    np.testing.assert_allclose(losses(results), expected.losses, rtol=1e-6)
    assert_weights_equal_oracle(results, expected, *sites)


def assert_weights_equal_oracle(
    results: Mapping[Site, RunResult], expected: OracleRun, *sites: Site
) -> None:
    sites = sites or (GUEST, HOST)
    np.testing.assert_allclose(weights_of(results, *sites), expected.coef, rtol=1e-6, atol=2e-6)
    guest = outputs_of(results)[GUEST].model
    assert guest is not None
    assert guest.param["intercept"] == pytest.approx(expected.intercept, rel=1e-6, abs=1e-6)


def first_error(results: Mapping[Site, RunResult]) -> FedflowError:
    with pytest.raises(FedflowError) as caught:
        outputs_of(results)
    return caught.value
