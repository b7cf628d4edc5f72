"""HomoFeatureBinning against the quantiles of all parties' rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.binning import quantiles
from benchmarks.accuracy.chain import GUEST, HOST, Chain, Tables
from benchmarks.accuracy.data import DataFolder, Floats
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.binning.homo_feature_binning import HomoFeatureBinning
from fedflow.components.features.data_transform import DataTransform

STEPS = 100  #: `sample_bins`


def typed(
    chain: Chain, data: DataFolder, name: str, **label: Any
) -> tuple[Tables, Mapping[str, Floats]]:
    """Return the parties' instances of a horizontal data set, and all rows by column."""
    frames = {site: data.csv(f"{name}_{site.role.value}") for site in (GUEST, HOST)}
    given = {"with_label": True, "label_name": "y", **label}
    tables = chain.run(DataTransform, {"data": chain.raw(frames)}, sites=(GUEST, HOST), **given)
    columns = list(frames[GUEST].columns[1:])
    numbers = {
        column: np.concatenate([frame[column].astype(np.float64) for frame in frames.values()])
        for column in columns
    }
    return tables.tables(), numbers


def recursive_query(data: DataFolder, folder: Path) -> Iterator[Row]:
    """The rank of each split point is that of the pooled quantile, so the bins are the same."""
    chain = Chain(folder)
    tables, pooled = typed(chain, data, "breast_homo")
    step = chain.run(HomoFeatureBinning, {"data": tables}, method="recursive_query")
    found = step.summary(GUEST)
    ranks = [ranks_of(pooled[name], points) for name, points in found.items()]
    exact = [ranks_of(pooled[name], quantiles(pooled[name])) for name in found]
    rows = Rows("HomoFeatureBinning recursive_query", "breast_homo", "numpy, all rows")
    yield rows.worst("ranks of split points", np.concatenate(exact), np.concatenate(ranks))


def virtual_summary(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Split points are at most one step of the range from the pooled quantiles."""
    chain = Chain(folder)
    tables, pooled = typed(chain, data, "breast_homo")
    step = chain.run(HomoFeatureBinning, {"data": tables}, sample_bins=STEPS)
    rows = Rows("HomoFeatureBinning virtual_summary", "breast_homo", "numpy, all rows")
    apart = []
    for name, points in step.summary(GUEST).items():
        values = pooled[name]
        nearest = np.abs(quantiles(values)[:, None] - np.asarray(points)).min(axis=1)
        apart.append(float(nearest.max() / (values.max() - values.min())))
    yield rows.one("distance from the quantile, of the range", 0.0, max(apart), 1 / STEPS)


def ranks_of(values: Floats, points: Any) -> Floats:
    """Return how many values are not above each point."""
    return np.sort(values).searchsorted(np.asarray(points), side="right").astype(np.float64)


CHECKS = (
    Check(name="homo-binning-recursive", make=recursive_query),
    Check(name="homo-binning-virtual", make=virtual_summary),
)
