"""Data, parties and the plaintext oracle for the tests of HomoLR."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedflow.components.horizontal.homo_lr import HomoLR
from fedflow.sdk import Elastic, Inputs, Model, Role, Site, Table, TableKind, TableSchema
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component

GUEST = Site(Role.GUEST, "9999")
HOST = Site(Role.HOST, "10000")
ARBITER = Site(Role.ARBITER, "10002")
DATA = Path(__file__).parents[3] / "examples" / "data"
BASE: dict[str, Any] = {
    "learning_rate": 0.15,
    "alpha": 0.01,
    "tol": -1.0,
    "max_iter": 4,
    "optimizer": "sgd",
    "init_param": {"init_method": "zeros"},
}


def hosts(count: int) -> list[Site]:
    """Return host sites."""
    return [Site(Role.HOST, str(10000 + 10 * i)) for i in range(count)]


def made(rows: int, *, columns: int = 3, classes: int = 2, seed: int = 0) -> pa.Table:
    """Return rows that a linear model can tell apart, more or less."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, columns))
    truth = np.random.default_rng(7).normal(size=(columns, classes))
    labels = (features @ truth + draw.normal(size=(rows, classes)) * 0.3).argmax(axis=1)
    return table_of([f"{seed}_{i}" for i in range(rows)], labels, features)


def table_of(ids: Any, labels: Any, features: Any) -> pa.Table:
    """Return a table with columns `id`, `y`, `x0` and so on."""
    values = {"id": pa.array(ids, pa.string()), "y": pa.array(np.asarray(labels, dtype=np.int64))}
    values |= {f"x{i}": pa.array(features[:, i]) for i in range(features.shape[1])}
    return pa.table(values)


def scaled_breast(party: str) -> pa.Table:
    """Return a party's rows of breast_homo, standard scaled by its own mean and spread."""
    rows = pyarrow.csv.read_csv(DATA / f"breast_homo_{party}.csv")
    names = [name for name in rows.column_names if name not in {"id", "y"}]
    features = np.column_stack([rows[name].to_numpy() for name in names])
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return table_of([str(one) for one in rows["id"].to_pylist()], rows["y"].to_numpy(), features)


def stored(rows: pa.Table) -> tuple[MemoryTableStore, Table]:
    """Return a store with the table."""
    store = MemoryTableStore()
    columns = tuple(name for name in rows.column_names if name not in {"id", "y"})
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", label="y", columns=columns)
    with store.create(schema) as writer:
        writer.write(rows)
        return store, writer.close()


def fit(
    tmp_path: Path,
    data: Mapping[Site, Mapping[str, pa.Table]],
    *,
    models: Mapping[Site, Model] | None = None,
    timeout_s: float = 60,
    federation: LocalFederation | None = None,
    elastic: Elastic | None = None,
    **params: Any,
) -> dict[Site, RunResult]:
    """Train or predict at the sites of `data` and at an arbiter; `data` is by port."""
    sites = [*data, ARBITER]
    inputs, tables = {}, {}
    ports = {port for parts in data.values() for port in parts}
    for site in sites:
        found: dict[str, Any] = {port: [("reader_0", None)] for port in ports}
        for port, rows in data.get(site, {}).items():
            tables[site], found[port] = (made := stored(rows))[0], [("reader_0", made[1])]
        model = {} if models is None or site not in models else {"homo_lr_0": models[site]}
        inputs[site] = Inputs(data=found, model=model)
    asked = {**BASE, **params}
    return run_component(
        HomoLR,
        sites=sites,
        params=dict.fromkeys(sites, asked),
        inputs=inputs,
        tables=tables,
        work_dir=tmp_path,
        timeout_s=timeout_s,
        federation=federation,
        elastic=elastic,
    )


def arrays(rows: pa.Table) -> tuple[Any, Any]:
    """Return features and labels."""
    names = [name for name in rows.column_names if name not in {"id", "y"}]
    return np.column_stack([rows[name].to_numpy() for name in names]), rows["y"].to_numpy()


def federated_averaging(
    parties: list[pa.Table],
    *,
    rounds: int,
    lr: float = 0.15,
    alpha: float = 0.01,
    absent: Mapping[int, set[int]] | None = None,
) -> tuple[Any, list[float]]:
    """Return the weights (intercept last) and losses of FedAvg with full-batch sgd, in the clear.

    `absent` has the rounds that a party misses.
    """
    known = [arrays(rows) for rows in parties]
    size = known[0][0].shape[1]
    weights, losses = np.zeros(size + 1), []
    for number in range(rounds):
        total, loss, count = np.zeros(size + 1), 0.0, 0
        for index, (features, labels) in enumerate(known):
            if absent and number in absent.get(index, set()):
                continue
            own = weights.copy()
            if number == 0:
                own[-1] = np.log(labels.sum() / (len(labels) - labels.sum()))
            scores = features @ own[:-1] + own[-1]
            probabilities = 1 / (1 + np.exp(-scores))
            loss += -float(
                np.sum(labels * np.log(probabilities) + (1 - labels) * np.log(1 - probabilities))
            )
            residuals = (probabilities - labels) / len(labels)
            gradient = np.append(residuals @ features, residuals.sum()) + alpha * own
            own = own - lr / np.sqrt(1 + number) * gradient
            total += len(labels) * own
            count += len(labels)
        weights = total / count
        losses.append(loss / count)
    return weights, losses


def auc(labels: Any, scores: Any) -> float:
    """Return the area under the curve."""
    positive, negative = scores[labels > 0], scores[labels <= 0]
    above = (positive[:, None] > negative).sum() + 0.5 * (positive[:, None] == negative).sum()
    return float(above / (len(positive) * len(negative)))


def weights_of(model: Model, number: int | None = None) -> Any:
    """Return the weights of a stored model, the intercept last."""
    param = model.param
    if number is not None:
        param = param["one_vs_rest_result"]["completed_models"][number]
    return np.append([param["weight"][name] for name in param["header"]], param["intercept"])
