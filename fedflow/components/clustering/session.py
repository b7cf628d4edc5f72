"""The messages of HeteroKmeans, and the sums over the data parties that the arbiter alone sees.

MESSAGES

Distances are those of every row of a data set, then of every centroid: (rows + k) x k. A party has
them over its own columns; their sum over the parties is what k-means needs. In training the tag is
the iteration from 0, afterwards the type of data.

All numbers are integers modulo 2^64. A host adds a mask that nobody but the guest knows too, and
the guest takes the masks of all hosts off. So each message alone is uniformly random, whatever it
holds, and the sum of all is exact. The arbiter learns this sum and nothing else of the parts.

Source: FATE's protocol; masks after Bonawitz et al. 2017, "Practical Secure Aggregation", with the
guest as the other end of every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.clustering.lloyd import MAX_BITS
from fedflow.components.training.planned import VALIDATION_PORTS
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadParameter, Context, Role, Site
from fedflow.sdk.crypto import Ring, decode_ring, encode_ring, new_seed, random_ring, read_share
from fedflow.sdk.crypto.randomness import SEED_BYTES
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
kmeans_plan | settings | guest -> hosts, arbiter | `KmeansPlan`: clusters, iterations, data sets
mask_seed | key | guest -> host | 32 random bytes, others for each host
sample_ids | rows | guest <-> hosts | {rows, digest}; tag = type of data
distance_bits | settings | host -> guest | {bits}: its squared distances are below 2^bits
distance_scale | settings | guest -> hosts, arbiter | `Scale` of a data set; tag = its type
centroid_list | rows | guest -> hosts | int64 row numbers: these rows are the first centroids
guest_dist, host_dist | masked | -> arbiter | masked squared distances to every centroid
cluster_result | values | arbiter -> guest, hosts | int32: the nearest cluster of every row
guest_tol, host_tol | masked | -> arbiter | masked movement of the centroids: the sum of its squares
arbiter_tol | settings | arbiter -> guest, hosts | {converged, stop}, after each iteration
""")

Floats = NDArray[np.float64]
T = TypeVar("T")

SUM_BITS: Final = 62  #: of a sum over all parties: it stays clear of the sign

_MOST_ROWS: Final = 1 << 31  #: that a guest may name


class KmeansPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the guest says of a run."""

    k: int  #: clusters
    max_iter: int  #: iterations at most; 0 in a prediction
    parts: tuple[str, ...]  #: types of the data sets in order: train and validate, or predict


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the numbers of one data set are sent: a number x as round(x * 2**shift)."""

    rows: int
    shift: int  #: of squared distances

    def movement_shift(self, k: int) -> int:
        """Return the shift of the movement of `k` centroids, which is a sum of `k` distances."""
        return self.shift - (k - 1).bit_length()


def scale_for(bits: int, *, parties: int, rows: int) -> Scale:
    """Return the finest scale for sums over `parties` of numbers below 2**bits."""
    return Scale(rows=rows, shift=SUM_BITS - bits - (parties - 1).bit_length())


def planned(ctx: Context, *, k: int | None) -> KmeansPlan:
    """Return what this party expects of a run; `k` is that of a model, None in a training."""
    if k is not None:
        return KmeansPlan(k=k, max_iter=0, parts=("predict",))
    validates = any(port in ctx.inputs.data for port in VALIDATION_PORTS)
    parts = ("train", "validate") if validates else ("train",)
    return KmeansPlan(k=ctx.params.k, max_iter=ctx.params.max_iter, parts=parts)


def send_plan(ctx: Context, plan: KmeansPlan) -> None:
    """Tell hosts and arbiter what will be done."""
    others = (*ctx.sites_of(Role.HOST), ctx.only(Role.ARBITER))
    ctx.federation.send("kmeans_plan", msgspec.to_builtins(plan), to=others)


def receive_plan(ctx: Context, *, own: KmeansPlan) -> KmeansPlan:
    """Return the guest's plan.

    Raises: BadParameter: this party is asked for other clusters or iterations, or has other data.
        CodecError: it is no plan.
    """
    guest = ctx.only(Role.GUEST)
    plan = _read(wait_for(ctx, "kmeans_plan", guest), KmeansPlan, name="kmeans_plan")
    if plan.parts != own.parts:
        raise BadParameter(path="input.data", reason=f"other data sets here than at {guest}")
    for name in ("k", "max_iter"):
        here, there = getattr(own, name), getattr(plan, name)
        if here != there:
            path = f"{ctx.component}.{name}"
            raise BadParameter(path=path, reason=f"{here} here, {there} at {guest}")
    return plan


def send_scale(ctx: Context, scale: Scale, *, tag: str) -> None:
    """Tell hosts and arbiter how the numbers of a data set are sent."""
    others = (*ctx.sites_of(Role.HOST), ctx.only(Role.ARBITER))
    ctx.federation.send("distance_scale", msgspec.to_builtins(scale), to=others, tag=tag)


def receive_scale(ctx: Context, *, tag: str) -> Scale:
    """Return how the numbers of a data set are sent. Raises: CodecError: no such scale."""
    value = wait_for(ctx, "distance_scale", ctx.only(Role.GUEST), tag=tag)
    scale = _read(value, Scale, name="distance_scale")
    if not 1 <= scale.rows <= _MOST_ROWS or abs(scale.shift) > MAX_BITS + SUM_BITS:
        raise CodecError(reason="distance_scale: rows or shift are out of range")
    return scale


class Masks:
    """One data party's masks. Those of all parties add up to nothing."""

    def __init__(self, ctx: Context) -> None:
        """Send or receive the seeds of this run. Raises: CodecError: what came is no seed."""
        self._ctx = ctx
        self._is_guest = ctx.site.role is Role.GUEST
        self._arbiter = ctx.only(Role.ARBITER)
        self._seeds: list[bytes] = []
        if not self._is_guest:
            self._seeds.append(_received_seed(ctx))
            return
        for host in ctx.sites_of(Role.HOST):
            seed = new_seed()
            ctx.federation.send("mask_seed", seed, to=host)
            self._seeds.append(seed)

    def send(self, name: str, values: Floats, *, shift: int, tag: str) -> None:
        """Send the arbiter this party's part of a sum, masked, as `guest_<name>` or `host_<name>`.

        Each name and tag once: two messages under one mask would show their difference.
        """
        hidden = encode_ring(np.ldexp(values, shift), fraction_bits=0)
        for seed in self._seeds:
            mask = random_ring(hidden.shape, seed=seed, purpose=f"{name}.{tag}")
            hidden = hidden - mask if self._is_guest else hidden + mask
        role = self._ctx.site.role.value
        self._ctx.federation.send(f"{role}_{name}", hidden, to=self._arbiter, tag=tag)


def receive_sum(ctx: Context, name: str, *, shape: tuple[int, ...], shift: int, tag: str) -> Floats:
    """Return the sum of what all data parties sent by `Masks.send`, at the arbiter.

    Raises: CodecError: a part has another shape, or the sum is none of distances.
    """
    total: Ring | None = None
    for site in data_sites(ctx):
        value = wait_for(ctx, f"{site.role.value}_{name}", site, tag=tag)
        part = read_share(value, shape=shape)
        total = part if total is None else total + part
    if total is None or np.any(total >> np.uint64(SUM_BITS)):
        raise CodecError(reason=f"the parties' {name} do not add up to distances")
    return np.ldexp(decode_ring(total, fraction_bits=0), -shift)


def warn_of_arbiter(ctx: Context) -> None:
    """Say in the log if the arbiter, which sees the sums, also knows a part of them."""
    arbiter = ctx.only(Role.ARBITER)
    for site in data_sites(ctx):
        if site.party_id == arbiter.party_id:
            ctx.log.warning(
                "party %s is arbiter and %s: it can take its own part off all sums of distances."
                " Let a party without data be the arbiter",
                site.party_id,
                site.role.value,
            )


def data_sites(ctx: Context) -> tuple[Site, ...]:
    """Return guest and hosts."""
    return (ctx.only(Role.GUEST), *ctx.sites_of(Role.HOST))


def received_bits(ctx: Context, host: Site, *, tag: str) -> int:
    """Return how large a host's squared distances are. Raises: CodecError: it does not say so."""
    value = wait_for(ctx, "distance_bits", host, tag=tag)
    bits = value.get("bits") if isinstance(value, Mapping) else None
    if type(bits) is not int or abs(bits) > MAX_BITS:
        raise CodecError(reason=f"{host} sent no size of its distances")
    return bits


def received_clusters(ctx: Context, *, rows: int, k: int, tag: str) -> NDArray[np.int32]:
    """Return the cluster of every row. Raises: CodecError: not one of the `k` for each row."""
    value = wait_for(ctx, "cluster_result", ctx.only(Role.ARBITER), tag=tag)
    if not isinstance(value, np.ndarray) or value.dtype != np.int32 or value.shape != (rows,):
        raise CodecError(reason="cluster_result: not one cluster for each row")
    if rows and (int(value.min()) < 0 or int(value.max()) >= k):
        raise CodecError(reason=f"cluster_result: a cluster is none of the {k}")
    return value


def _received_seed(ctx: Context) -> bytes:
    value = wait_for(ctx, "mask_seed", ctx.only(Role.GUEST))
    if not isinstance(value, bytes) or len(value) != SEED_BYTES:
        raise CodecError(reason=f"mask_seed: not {SEED_BYTES} bytes")
    return value


def _read(value: object, kind: type[T], *, name: str) -> T:
    try:
        return read_as(value, kind)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"{name}: {exc}") from exc
