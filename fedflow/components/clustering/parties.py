"""What guest and hosts do: distances and means over their own columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflow.components.clustering.lloyd import (
    MAX_BITS,
    Clusters,
    Floats,
    cluster_sizes,
    distance_bits,
    means,
    movement,
    squared_distances,
)
from fedflow.components.clustering.session import (
    SUM_BITS,
    KmeansPlan,
    Masks,
    Scale,
    data_sites,
    planned,
    receive_plan,
    receive_scale,
    received_bits,
    received_clusters,
    scale_for,
    send_plan,
    send_scale,
)
from fedflow.components.clustering.stored import KmeansModel, stored_model, summary_of
from fedflow.components.linear.session import log_iteration, receive_flag
from fedflow.components.samples.alignment import check_same_rows, checked_rows
from fedflow.components.samples.decoding import Instances, read_instances, where_of
from fedflow.components.samples.predictions import write_clusters
from fedflow.components.training.planned import VALIDATION_PORTS
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, BadParameter, Context, Outputs, Role
from fedflow.sdk.crypto import random_permutation
from fedflow.sdk.errors import CodecError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trained:
    """How a training ended at one party."""

    centroids: Floats  #: clusters x columns
    iterations: int
    converged: bool


def take_part(ctx: Context) -> Outputs:
    """Train if `train_data` is connected, else predict; return the clusters of all rows.

    Raises: BadParameter, BadData, CodecError, PeerFailed.
    """
    training = "train_data" in ctx.inputs.data
    model = None if training else stored_model(ctx)
    plan = planned(ctx, k=None if model is None else model.k)
    data = _read(ctx, plan, model)
    party = _Party(ctx, plan)
    scale = party.agree(plan.parts[0], data[0], model)
    trained = None
    if model is None:
        trained = party.train(data[0], scale)
        model = KmeansModel(k=plan.k, header=data[0].columns, centroids=trained.centroids)
    found = []
    for number, (kind, rows) in enumerate(zip(plan.parts, data, strict=True)):
        if number:
            scale = party.agree(kind, rows, model)
        found.append((kind, rows, party.assign(rows, _centroids(model), scale, tag=kind)))
    sizes = cluster_sizes(found[0][2], plan.k)
    table = write_clusters(ctx, found)
    ctx.tracker.progress(1.0)
    if trained is None:
        return Outputs(data=(table, None), summary=summary_of(sizes))
    iterations, converged = trained.iterations, trained.converged
    return Outputs(
        data=(table, None),
        model=model.to_model(ctx.params, sizes=sizes, iterations=iterations, converged=converged),
        summary=summary_of(sizes, iterations=iterations, converged=converged),
    )


def _read(ctx: Context, plan: KmeansPlan, model: KmeansModel | None) -> list[Instances]:
    """Return the rows of all data sets, read before anything is computed.

    Raises: BadData: no rows, no columns, other columns than the model's, values that are no finite
        numbers or too large. BadParameter: fewer rows than clusters.
    """
    ports = {
        "train": ("train_data",),
        "validate": VALIDATION_PORTS,
        "predict": ("test_data", "eval_data"),
    }
    columns = None if model is None else model.header
    data: list[Instances] = []
    for kind in plan.parts:
        table = ctx.inputs.first(*ports[kind])
        if table is None:
            where = f"{ctx.component} at {ctx.site}"
            raise BadData(where=where, reason=f"no table on {ports[kind][0]}")
        data.append(read_instances(table, columns=columns))
        columns = data[0].columns
    first = data[0]
    if not first.columns:
        raise BadData(where=where_of(first.table), reason="has no feature columns")
    if model is None and plan.k > first.rows:
        path = f"{ctx.component}.k"
        raise BadParameter(path=path, reason=f"{plan.k} clusters of {first.rows} rows")
    _warn_of_unused(ctx, first, trains=model is None)
    return data


def _warn_of_unused(ctx: Context, data: Instances, *, trains: bool) -> None:
    if data.weights is not None:
        ctx.warn("NoEffect", "weights of rows are not used: each row counts once")
    if trains and ctx.inputs.model:
        message = "the model has no effect: training begins with rows that are drawn"
        ctx.warn("NoEffect", message, path="model")


class _Party:
    """One data party of a run.

    Raises (each method): BadParameter, BadData, CodecError, PeerFailed.
    """

    def __init__(self, ctx: Context, plan: KmeansPlan) -> None:
        self._ctx = ctx
        self._plan = plan
        self._is_guest = ctx.site.role is Role.GUEST
        if self._is_guest:
            send_plan(ctx, plan)
        else:
            receive_plan(ctx, own=plan)
        self._masks = Masks(ctx)

    def agree(self, kind: str, data: Instances, model: KmeansModel | None) -> Scale:
        """Return the scale of a data set's distances, after all parties have shown equal rows.

        Without a `model` the centroids will be means of rows.
        """
        ctx = self._ctx
        check_same_rows(ctx, data, tag=kind)
        points = [data.features] if model is None else [data.features, _centroids(model)]
        bits = distance_bits(*points)
        if bits > MAX_BITS:
            reason = f"squared distances of its rows reach 2^{MAX_BITS}; scale its columns"
            raise BadData(where=where_of(data.table), reason=reason)
        if not self._is_guest:
            guest = ctx.only(Role.GUEST)
            ctx.federation.send("distance_bits", {"bits": bits}, to=guest, tag=kind)
            scale = receive_scale(ctx, tag=kind)
            if scale.rows != data.rows:
                raise CodecError(reason="distance_scale: another number of rows than sample_ids")
            if scale.shift + bits > SUM_BITS:
                raise CodecError(reason="distance_scale: too fine for the distances of this party")
            return scale
        theirs = [received_bits(ctx, host, tag=kind) for host in ctx.sites_of(Role.HOST)]
        parties = len(data_sites(ctx))
        scale = scale_for(max(bits, *theirs), parties=parties, rows=data.rows)
        send_scale(ctx, scale, tag=kind)
        return scale

    def train(self, data: Instances, scale: Scale) -> _Trained:
        """Move the centroids until they stay, or `max_iter` times."""
        ctx, k = self._ctx, self._plan.k
        centroids = data.features[self._first_rows(data.rows)]
        iteration, converged, stop = 0, False, False
        while not stop:
            tag = str(iteration)
            clusters = self.assign(data, centroids, scale, tag=tag)
            moved = means(data.features, clusters, centroids)
            distance = np.array([movement(centroids, moved)])
            self._masks.send("tol", distance, shift=scale.movement_shift(k), tag=tag)
            converged, stop = receive_flag(ctx, iteration, name="arbiter_tol")
            centroids = moved
            log_iteration(ctx, iteration)
            iteration += 1
            ctx.tracker.progress(iteration / (ctx.params.max_iter + len(self._plan.parts)))
        return _Trained(centroids=centroids, iterations=iteration, converged=converged)

    def assign(self, data: Instances, centroids: Floats, scale: Scale, *, tag: str) -> Clusters:
        """Return the cluster of every row, which the arbiter finds."""
        points = (data.features, centroids)
        distances = np.concatenate([squared_distances(part, centroids) for part in points])
        self._masks.send("dist", distances, shift=scale.shift, tag=tag)
        return received_clusters(self._ctx, rows=data.rows, k=len(centroids), tag=tag)

    def _first_rows(self, rows: int) -> NDArray[np.int64]:
        """Return the rows that are the first centroids; the guest draws them."""
        ctx, k = self._ctx, self._plan.k
        if not self._is_guest:
            value = wait_for(ctx, "centroid_list", ctx.only(Role.GUEST))
            return checked_rows(value, of=rows, count=k, message="centroid_list")
        seed = ctx.params.random_stat
        if seed is None:
            drawn = random_permutation(rows)[:k]
        else:
            drawn = np.random.RandomState(seed).choice(rows, k, replace=False).astype(np.int64)
        ctx.federation.send("centroid_list", drawn, to=ctx.sites_of(Role.HOST))
        return drawn


def _centroids(model: KmeansModel) -> Floats:
    """Return the centroids of a data party's model."""
    if model.centroids is None:
        raise ValueError("the model of an arbiter has no centroids")
    return model.centroids
