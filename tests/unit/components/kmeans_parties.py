"""Data, parties and a plaintext reference for the tests of HeteroKmeans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.clustering.hetero_kmeans import HeteroKmeans
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Table, TableKind, TableSchema
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOSTS = tuple(Site(Role.HOST, str(10000 + i)) for i in range(3))  # type: ignore[arg-type]
ARBITER = Site(Role.ARBITER, "20000")  # type: ignore[arg-type]

Floats = NDArray[np.float64]


def blobs(rows: int = 90, columns: int = 6, *, groups: int = 3, seed: int = 3) -> Floats:
    """Return rows around `groups` places that overlap a little."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(groups, columns)) * 2.5
    return places[np.arange(rows) % groups] + rng.normal(size=(rows, columns))


def spread_over(
    features: Floats, hosts: int, *, labels: Any = None, **more: Any
) -> dict[Site, pa.Table]:
    """Return the columns as tables of guest and hosts; `more` are further columns of the guest."""
    ids = [f"u{i:04}" for i in range(len(features))]
    sites = (GUEST, *HOSTS[:hosts])
    tables = {}
    for site, block in zip(sites, np.array_split(features, len(sites), axis=1), strict=True):
        own = {"y": labels} if site is GUEST and labels is not None else {}
        own |= more if site is GUEST else {}
        columns = {f"x{j}": block[:, j] for j in range(block.shape[1])}
        tables[site] = pa.table({"id": ids, **own, **columns})
    return tables


def run(
    work_dir: Path,
    ports: Mapping[str, Mapping[Site, pa.Table]],
    *,
    models: Mapping[Site, Model] | None = None,
    per_site: Mapping[Site, Mapping[str, Any]] | None = None,
    played: Sequence[Site] = (),
    federation: LocalFederation | None = None,
    strict: bool = False,
    **params: Any,
) -> dict[Site, RunResult]:
    """Run all sites on the tables of `ports`, but those that the caller plays itself."""
    sites = (*dict.fromkeys(site for tables in ports.values() for site in tables), ARBITER)
    inputs = {}
    for site in sites:
        store = MemoryTableStore()
        given: dict[str, Any] = {}
        for port, tables in ports.items():
            rows = tables.get(site)
            table = None if rows is None else _stored(store, rows)
            given[port] = [("intersection_0", table)]
        model = (models or {}).get(site)
        inputs[site] = Inputs(data=given, model={"kmeans_0": model} if model else {})
    return run_component(
        HeteroKmeans,
        sites=sites,
        only=[site for site in sites if site not in played],
        work_dir=work_dir,
        params={site: {**params, **(per_site or {}).get(site, {})} for site in sites},
        inputs=inputs,
        federation=federation,
        strict=strict,
    )


def first_rows(rows: int, k: int, seed: int) -> NDArray[np.int64]:
    """Return the rows that are the first centroids with `random_stat` = `seed`."""
    return np.random.RandomState(seed).choice(rows, k, replace=False)


def lloyd(
    features: Floats, start: Floats, *, max_iter: int, tol: float
) -> tuple[Floats, NDArray[np.int64], int, bool]:
    """Return (centroids, clusters, iterations, converged) of plain k-means on all columns."""
    centroids = start.copy()
    for iteration in range(max_iter):
        clusters = _nearest(features, centroids)
        moved = centroids.copy()
        for number in np.unique(clusters):
            moved[number] = features[clusters == number].mean(axis=0)
        distance = float(((moved - centroids) ** 2).sum())
        centroids = moved
        if distance <= tol:
            return centroids, _nearest(features, centroids), iteration + 1, True
    return centroids, _nearest(features, centroids), max_iter, False


def _nearest(features: Floats, centroids: Floats) -> NDArray[np.int64]:
    return ((features[:, None] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1)


def centroids_of(outputs: Mapping[Site, Any], sites: Sequence[Site]) -> Floats:
    """Return the centroids of all parties side by side."""
    parts = [outputs[site].model.param["centroid_detail"] for site in sites]
    return np.hstack([np.array([row["centroid"] for row in part]) for part in parts])


def rows_of(outputs: Any, position: int = 0) -> dict[str, list[Any]]:
    """Return an output table's columns."""
    columns: dict[str, list[Any]] = outputs.data[position].read().to_pydict()
    return columns


def _stored(store: MemoryTableStore, rows: pa.Table) -> Table:
    schema = _schema(rows)
    return store.add(rows.select(list(schema.names)), schema=schema)


def _schema(rows: pa.Table) -> TableSchema:
    names = rows.column_names
    roles = {"label": "y", "weight": "weight", "match_id": "match_id"}
    named = {role: name for role, name in roles.items() if name in names}
    return TableSchema(
        kind=TableKind.INSTANCES,
        id=names[0],
        columns=tuple(n for n in names[1:] if n not in named.values()),
        **named,  # type: ignore[arg-type]
    )
