"""Parties with data for the tests of HeteroFeatureBinning, and the statistics in the clear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, TableKind, TableSchema, Workers
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.support.shared_keys import shared_keys
from tests.unit.components.hetero_lr_parties import csv

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]

SHORT_KEY = {"encrypt_param": {"key_length": 1024}}


def breast() -> dict[Site, pa.Table]:
    """Return the example data, 10 guest and 20 host columns."""
    return {GUEST: csv("breast_hetero_guest.csv"), HOST: csv("breast_hetero_host.csv")}


def small(*, rows: int = 60, classes: int = 2, missing: bool = False) -> dict[Site, pa.Table]:
    """Return a small data set: labels, 2 guest columns and 3 host columns related to them."""
    generator = np.random.default_rng(7)
    labels = np.arange(rows) % classes
    generator.shuffle(labels)
    features = labels[:, None] * 0.7 + generator.normal(size=(rows, 5))
    features[:, 4] = np.round(features[:, 4])
    if missing:
        features[generator.random(features.shape) < 0.15] = np.nan
    ids = [f"id{i}" for i in range(rows)]
    return {
        GUEST: pa.table({"id": ids, "y": labels, "x0": features[:, 0], "x1": features[:, 1]}),
        HOST: pa.table({"id": ids, **{f"x{i}": features[:, 2 + i] for i in range(3)}}),
    }


def schema_of(rows: pa.Table, site: Site) -> TableSchema:
    """Return the schema; anonymous names begin with `hidden`, to tell them from defaults."""
    first, *others = rows.column_names
    columns = tuple(name for name in others if name != "y")
    return TableSchema(
        kind=TableKind.INSTANCES,
        id=first,
        label="y" if "y" in others else None,
        columns=columns,
        anonymous=tuple(f"hidden_{site.party_id}_{i}" for i in range(len(columns))),
    )


def results(
    data: Mapping[Site, pa.Table],
    folder: Path,
    *,
    params: Mapping[Site, Mapping[str, Any]] | None = None,
    models: Mapping[Site, Model] | None = None,
    federation: LocalFederation | None = None,
    only: Sequence[Site] | None = None,
    cores: int = 1,
    workers: Mapping[Site, Workers] | None = None,
    **common: Any,
) -> dict[Site, RunResult]:
    """Run it; `common` are parameters of all parties, `params` of one, over these."""
    stores = {site: MemoryTableStore() for site in data}
    inputs = {}
    for site, rows in data.items():
        table = stores[site].add(rows, schema=schema_of(rows, site), name="input")
        model = {} if models is None else {"binning_0": models[site]}
        inputs[site] = Inputs(data={"data": [("intersection_0", table)]}, model=model)
    with shared_keys():
        return run_component(
            HeteroFeatureBinning,
            sites=tuple(data),
            work_dir=folder,
            params={s: {**SHORT_KEY, **common, **(params or {}).get(s, {})} for s in data},
            inputs=inputs,
            tables=stores,
            federation=federation,
            only=only,
            cores=cores,
            workers=workers,
        )


def run(data: Mapping[Site, pa.Table], folder: Path, **options: Any) -> dict[Site, Outputs]:
    """Run it as `results` does and return the outputs of all parties."""
    return outputs_of(results(data, folder, **options))


def error_of(found: Mapping[Site, RunResult], site: Site) -> FedflowError:
    """Return the error of the site that failed first-hand; every other one must have failed too."""
    error = found[site].error
    assert isinstance(error, FedflowError), error
    for other, result in found.items():
        assert other == site or isinstance(result.error, FedflowError | PeerFailed)
    return error


def model_of(outputs: Outputs) -> Model:
    """Return the model of an output."""
    assert outputs.model is not None
    return outputs.model


def own_bins(outputs: Outputs, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Return the statistics of the own columns in a model."""
    found: dict[str, dict[str, Any]] = model_of(outputs).param[f"{prefix}binning_result"][
        "binning_result"
    ]
    return found


def host_bins(outputs: Outputs, number: int = 0, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Return the statistics of a host's columns in the guest's model."""
    found: dict[str, dict[str, Any]] = model_of(outputs).param[f"{prefix}host_results"][number][
        "binning_result"
    ]
    return found


def in_the_clear(
    values: Any, splits: Sequence[float], events: Any, *, adjustment: float = 0.5
) -> dict[str, Any]:
    """Return the statistics of a column by pandas; missing values are the last bin."""
    edges = [-math.inf, *splits[:-1], math.inf]
    bins = pd.cut(np.asarray(values, dtype=float), edges, right=True, labels=False)
    numbers = pd.Series(bins).fillna(len(splits)).astype(int)
    highest = len(splits) + int(np.isnan(np.asarray(values, dtype=float)).any())
    table = (
        pd.crosstab(numbers, pd.Series(np.asarray(events, dtype=bool)))
        .reindex(index=range(highest), columns=[True, False], fill_value=0)
        .to_numpy()
    )
    totals = table.sum(axis=0)
    adjusted = table + np.where((table == 0).any(axis=1), adjustment, 0.0)[:, None]
    rates = adjusted / totals
    woe = np.log(rates[:, 0] / rates[:, 1])
    ivs = (rates[:, 0] - rates[:, 1]) * woe
    return {
        "event_count_array": table[:, 0].tolist(),
        "non_event_count_array": table[:, 1].tolist(),
        "woe_array": woe,
        "iv_array": ivs,
        "iv": ivs.sum(),
        "bin_nums": highest,
    }


def assert_equal(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Assert that a column's entry in a model has these statistics."""
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=name)
