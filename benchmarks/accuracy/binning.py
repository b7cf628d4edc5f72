"""HeteroFeatureBinning against pandas: split points, weights of evidence, information values.

The statistics of the host's columns come from encrypted labels; the reference bins the joined
columns. Quantiles are exact, so there is no quantile error to allow for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy.chain import GUEST, HOST, KEY, Chain, Step
from benchmarks.accuracy.data import DataFolder, Floats, Vertical
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.binning.feature_binning import HeteroFeatureBinning

NAME = "HeteroFeatureBinning"
BINS = 10
ADJUSTMENT = 0.5  #: of both counts of a bin that lacks a class


def quantiles(values: Floats) -> Floats:
    """Return the values of rank ceil(i / 10 * rows), each once, by pandas."""
    ordered = pd.Series(values).sort_values(ignore_index=True)
    ranks = [-(-i * len(ordered) // BINS) - 1 for i in range(1, BINS + 1)]
    return ordered[ranks].drop_duplicates().to_numpy()  # type: ignore[no-any-return]


def buckets(values: Floats) -> Floats:
    """Return the upper ends of 10 intervals of equal width."""
    return np.linspace(values.min(), values.max(), BINS + 1)[1:]


def woe_and_iv(
    values: Floats, points: Sequence[float] | Floats, events: Any
) -> tuple[Floats, float]:
    """Return the weight of evidence per bin and the information value, by pandas."""
    bins = pd.cut(pd.Series(values), [-np.inf, *points[:-1], np.inf], labels=False)
    counts = pd.crosstab(bins, pd.Series(events)).reindex(
        index=range(len(points)), columns=[True, False], fill_value=0
    )
    adjusted = counts + ADJUSTMENT * (counts == 0).any(axis=1).to_numpy()[:, None]
    rates = adjusted / counts.sum()
    woe = np.log(rates[True] / rates[False])
    return woe.to_numpy(), float(((rates[True] - rates[False]) * woe).sum())


def bins_of(step: Step, data: Vertical) -> dict[str, Mapping[str, Any]]:
    """Return what the guest's model says of every column, by name in the joined data."""
    param = step.param(GUEST)
    own: dict[str, Any] = param["binning_result"]["binning_result"]
    theirs = param["host_results"][0]["binning_result"]
    return own | _by_name(theirs, data)


def _by_name(theirs: Mapping[str, Any], data: Vertical) -> dict[str, Any]:
    """Return a host's entries under its own names; anonymous ones are in their order."""
    return {f"host.{n}": e for n, e in zip(data.host.columns[1:], theirs.values(), strict=True)}


def points_of(step: Step) -> dict[str, list[float]]:
    """Return the split points of every column, by name in the joined data."""
    own, theirs = (step.param(site)["binning_result"]["binning_result"] for site in (GUEST, HOST))
    named = {name: entry["split_points"] for name, entry in own.items()}
    return named | {f"host.{name}": entry["split_points"] for name, entry in theirs.items()}


def statistics(rows: Rows, data: Vertical, step: Step, events: Any) -> Iterator[Row]:
    """Compare WOE and IV of all columns, binned at the points that the parties found."""
    found, points = bins_of(step, data), points_of(step)
    known: dict[str, Any] = {
        n: woe_and_iv(data.joined[n].to_numpy(), points[n], events) for n in found
    }
    woe = np.concatenate([known[n][0] for n in found])
    yield rows.worst("WOE", woe, np.concatenate([found[n]["woe_array"] for n in found]))
    yield rows.worst("IV", [known[n][1] for n in found], [found[n]["iv"] for n in found])


def compare(data: Vertical, folder: Path, method: str, reference: Any) -> Iterator[Row]:
    """Bin by a method and compare the split points with those of `reference`, and statistics."""
    chain = Chain(folder)
    aligned = {"data": chain.aligned(data)}
    step = chain.run(HeteroFeatureBinning, aligned, method=method, bin_num=BINS, **KEY)
    rows = Rows(f"{NAME} {method}", data.name, "pandas")
    points = points_of(step)
    expected = [reference(data.joined[name].to_numpy()) for name in points]
    found = list(points.values())
    yield rows.worst("split points", np.concatenate(expected), np.concatenate(found))
    yield from statistics(rows, data, step, data.labels == data.labels.max())


def quantile(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from compare(data.breast(), folder, "quantile", quantiles)


def quantile_of_many(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from compare(data.credit(8000), folder, "quantile", quantiles)


def bucket(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from compare(data.breast(), folder, "bucket", buckets)


def optimal(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Optimal bins under encryption are those that one party finds alone in the clear."""
    chain, breast = Chain(folder), data.breast()
    aligned = chain.aligned(breast)
    settings: dict[str, Any] = {
        "method": "optimal",
        "bin_num": 5,
        "optimal_binning_param": {"init_bin_nums": 50},
    }
    step = chain.run(HeteroFeatureBinning, {"data": aligned}, **settings, **KEY)
    joined = breast.joined.reset_index()
    alone = chain.instances({GUEST: joined}, breast.label)
    clear = chain.run(
        HeteroFeatureBinning, {"data": alone}, sites=(GUEST,), local_only=True, **settings
    )
    known = clear.param(GUEST)["binning_result"]["binning_result"]
    found = points_of(step)
    rows = Rows(f"{NAME} optimal", breast.name, "one party, in the clear")
    yield rows.worst(
        "split points",
        np.concatenate([known[name]["split_points"] for name in found]),
        np.concatenate(list(found.values())),
    )
    events = breast.labels == 1
    yield from statistics(Rows(f"{NAME} optimal", breast.name, "pandas"), breast, step, events)


def several_classes(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Each class against the rest, in descending order."""
    chain, vehicle = Chain(folder), data.vehicle()
    step = chain.run(HeteroFeatureBinning, {"data": chain.aligned(vehicle)}, **KEY)
    result, points = step.param(GUEST)["multi_class_result"], points_of(step)
    for number, label in enumerate(result["labels"]):
        own = result["results"][number]["binning_result"]
        theirs = result["host_results"][number]["binning_result"]
        found = own | _by_name(theirs, vehicle)
        events = vehicle.labels == float(label)
        known = [woe_and_iv(vehicle.joined[n].to_numpy(), points[n], events) for n in found]
        rows = Rows(f"{NAME} class {label}", vehicle.name, "pandas")
        yield rows.worst("IV", [iv for _, iv in known], [e["iv"] for e in found.values()])
        woe = np.concatenate([w for w, _ in known])
        yield rows.worst("WOE", woe, np.concatenate([e["woe_array"] for e in found.values()]))


CHECKS = (
    Check(name="binning-quantile", make=quantile, quick=True),
    Check(name="binning-bucket", make=bucket),
    Check(name="binning-optimal", make=optimal),
    Check(name="binning-credit", make=quantile_of_many),
    Check(name="binning-classes", make=several_classes),
)
