"""What the arbiter does: it sees sums of distances, finds the nearest centroids, and says when to
stop. It has no data, and no ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedflow.components.clustering.lloyd import (
    ClusterMeasures,
    Clusters,
    Floats,
    cluster_sizes,
    measures_of,
)
from fedflow.components.clustering.session import (
    KmeansPlan,
    Scale,
    data_sites,
    planned,
    receive_plan,
    receive_scale,
    receive_sum,
)
from fedflow.components.clustering.stored import KmeansModel, stored_model, summary_of
from fedflow.components.evaluation.decoding import CLUSTER_COLUMNS
from fedflow.components.samples.predictions import BLOCK_ROWS
from fedflow.sdk import Context, Outputs, Table, TableKind, TableSchema
from fedflow.sdk.errors import CodecError

CLUSTERS = TableSchema(kind=TableKind.PREDICTIONS, id="cluster_index", columns=CLUSTER_COLUMNS)
DISTANCES = TableSchema(
    kind=TableKind.PREDICTIONS,
    id="row",
    columns=("predicted_cluster_index", "distance", "type"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Assigned:
    """The rows of a data set and their clusters."""

    kind: str
    clusters: Clusters
    distances: Floats  #: of each row to its centroid
    measures: ClusterMeasures


def lead(ctx: Context) -> Outputs:
    """Lead a training or prediction and return the measures of the clusters.

    Raises: BadParameter, BadData, CodecError, PeerFailed.
    """
    training = "train_data" in ctx.inputs.data
    plan = receive_plan(ctx, own=planned(ctx, k=None if training else stored_model(ctx).k))
    scale = receive_scale(ctx, tag=plan.parts[0])
    dbi: list[float] = []
    iterations, converged = _train(ctx, plan, scale, dbi) if training else (0, False)
    found: list[_Assigned] = []
    for number, kind in enumerate(plan.parts):
        if number:
            scale = receive_scale(ctx, tag=kind)
        found.append(_assign(ctx, plan, scale, tag=kind))
    tables = (_write_clusters(ctx, found), _write_distances(ctx, found))
    sizes = cluster_sizes(found[0].clusters, plan.k)
    ctx.tracker.progress(1.0)
    if not training:
        return Outputs(data=tables, summary=summary_of(sizes))
    _record(ctx, dbi, iterations, found[0].measures)
    ctx.log.info("training ended after %s iterations, converged: %s", iterations, converged)
    summary = summary_of(sizes, iterations=iterations, converged=converged)
    return Outputs(
        data=tables,
        model=KmeansModel(k=plan.k).to_model(
            ctx.params, sizes=sizes, iterations=iterations, converged=converged
        ),
        summary={**summary, "dbi_history": dbi},
    )


def _train(ctx: Context, plan: KmeansPlan, scale: Scale, dbi: list[float]) -> tuple[int, bool]:
    """Return how many iterations there were and whether the centroids stay; fill `dbi`."""
    iteration, converged, stop = 0, False, False
    while not stop:
        tag = str(iteration)
        _record(ctx, dbi, iteration, _assign(ctx, plan, scale, tag=tag).measures)
        shift = scale.movement_shift(plan.k)
        (moved,) = receive_sum(ctx, "tol", shape=(1,), shift=shift, tag=tag)
        converged = bool(moved <= ctx.params.tol)
        iteration += 1
        stop = converged or iteration == plan.max_iter
        flags = {"converged": converged, "stop": stop}
        ctx.federation.send("arbiter_tol", flags, to=data_sites(ctx), tag=tag)
        ctx.log.info("iteration %s of at most %s: moved by %.6g", iteration, plan.max_iter, moved)
        ctx.tracker.progress(iteration / (plan.max_iter + len(plan.parts)))
    return iteration, converged


def _assign(ctx: Context, plan: KmeansPlan, scale: Scale, *, tag: str) -> _Assigned:
    """Tell the parties the nearest centroid of every row; of several the first."""
    rows, k = scale.rows, plan.k
    squared = receive_sum(ctx, "dist", shape=(rows + k, k), shift=scale.shift, tag=tag)
    if np.diagonal(squared[rows:]).any():
        raise CodecError(reason="the parties' dist do not add up: a centroid is apart from itself")
    clusters = squared[:rows].argmin(axis=1).astype(np.int32)
    ctx.federation.send("cluster_result", clusters, to=data_sites(ctx), tag=tag)
    own = squared[np.arange(rows), clusters]
    return _Assigned(
        kind=tag,
        clusters=clusters,
        distances=np.sqrt(own),
        measures=measures_of(clusters, own, squared[rows:]),
    )


def _record(ctx: Context, dbi: list[float], iteration: int, measures: ClusterMeasures) -> None:
    """Record the Davies-Bouldin index of the centroids that `iteration` begins with, from 0."""
    value = measures.dbi
    if value is None:
        ctx.log.info("no Davies-Bouldin index: less than two clusters, or two in one place")
        return
    dbi.append(value)
    ctx.tracker.metric(
        "train",
        "DBI",
        metric_type="DBI",
        points=[(iteration, value)],
        meta={"name": "train", "metric_type": "DBI", "unit_name": "iters", "curve_name": "DBI"},
    )


def _write_clusters(ctx: Context, parts: Sequence[_Assigned]) -> Table:
    """Return a new table of the clusters that have rows, as Evaluation reads it."""
    with ctx.tables.create(CLUSTERS) as writer:
        for part in parts:
            measures = part.measures
            columns = [
                pa.array([str(index) for index in measures.indexes], pa.string()),
                pa.array(measures.counts, pa.int64()),
                pa.array(measures.inner),
                pa.array(measures.radius),
                pa.array([json.dumps(row) for row in measures.apart.tolist()], pa.string()),
                pa.array([part.kind] * len(measures.indexes), pa.string()),
            ]
            writer.write(pa.table(dict(zip(CLUSTERS.names, columns, strict=True))))
        return writer.close()


def _write_distances(ctx: Context, parts: Sequence[_Assigned]) -> Table:
    """Return a new table of the rows by number, with cluster and distance to its centroid."""
    with ctx.tables.create(DISTANCES) as writer:
        for part in parts:
            for block in _blocks(part):
                writer.write(block)
        return writer.close()


def _blocks(part: _Assigned) -> Iterator[pa.Table]:
    for start in range(0, len(part.clusters), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        clusters = part.clusters[rows]
        columns = [
            pa.array(np.arange(start, start + len(clusters))).cast(pa.string()),
            pa.array(clusters),
            pa.array(part.distances[rows]),
            pa.array([part.kind] * len(clusters), pa.string()),
        ]
        yield pa.table(dict(zip(DISTANCES.names, columns, strict=True)))
