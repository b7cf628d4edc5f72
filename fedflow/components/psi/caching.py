"""What Intersection keeps for later jobs: the hosts' blinded ids, so that they are made once.

A host keeps its secret and its ids in the order in which their blinded points stand; the guest
keeps these points, which it has been sent anyway. No party keeps a secret of another, and the guest
makes a new one of its own for each job. What both sides must agree on (job, attempt, parties, salt)
is in the hash domain, which stays that of the job that made the cache: the guest can tell which
rows of later jobs are the same, as the cache is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.base.reading import read_as
from fedflow.components.psi.curve import POINT_BYTES
from fedflow.components.psi.ecdh import parse_points
from fedflow.components.psi.exchange import (
    PROTOCOL,
    Known,
    Origin,
    prepare_at_guest,
    prepare_at_host,
)
from fedflow.components.psi.workers import Points
from fedflow.sdk import (
    BadData,
    BadParameter,
    Cache,
    Context,
    Role,
    Site,
    Table,
    TableKind,
    TableSchema,
)

HOST_TABLE = "ids"
WRITE_ROWS = 65_536
_SCHEMA = TableSchema(kind=TableKind.RAW, id="id", columns=())


class CacheMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cache."""

    intersect_method: str
    protocol: str
    job_id: Annotated[str, msgspec.Meta(max_length=100)]
    component: Annotated[str, msgspec.Meta(max_length=200)]
    task_version: Annotated[int, msgspec.Meta(ge=0)]
    guest: str
    hosts: list[str]
    salt_digest: str  #: of the hash domain's salt
    rows: dict[str, int]  #: ids per host; at a host its own only


def make_cache(ctx: Context, ids: pa.Array) -> Cache:
    """Return this party's share of a new cache; all parties call this.

    Raises: BadParameter: a party has other settings. CodecError: a host sent something unusable.
    """
    if ctx.site.role is Role.HOST:
        known = prepare_at_host(ctx, ids)
        table = _write(ctx, ids.take(pa.array(known.order)))
        return Cache(
            tables={HOST_TABLE: table},
            meta=_meta(ctx, rows={ctx.site.key: len(ids)}),
            private={"secret": known.secret.hex()},
        )
    points = prepare_at_guest(ctx, len(ids))
    return Cache(
        tables={host.key: _write(ctx, _as_text(found)) for host, found in points.items()},
        meta=_meta(ctx, rows={host.key: len(found) for host, found in points.items()}),
    )


def guests_points(ctx: Context, cache: Cache) -> tuple[Origin, Mapping[Site, Points]]:
    """Return the hosts' blinded ids of a cache, and where they come from. Raises: BadParameter."""
    meta = _checked(ctx, cache)
    found = {}
    for host in ctx.sites_of(Role.HOST):
        table = cache.tables.get(host.key)
        if table is None:
            raise BadParameter(path="input.cache", reason=f"it holds nothing of {host}")
        text = "".join(table.read(("id",)).column(0).to_pylist())
        try:
            data = bytes.fromhex(text)
        except ValueError as exc:
            raise BadParameter(path="input.cache", reason="its table holds no points") from exc
        found[host] = parse_points(data, count=table.count)
    return _origin(meta), found


def hosts_secret(ctx: Context, cache: Cache, ids: pa.Array) -> tuple[Origin, Known]:
    """Return this host's secret and the order of its blinded ids, and where they come from.

    Raises: BadParameter: it is no cache of this host. BadData: its ids are not those of the table.
    """
    meta = _checked(ctx, cache)
    table, secret = cache.tables.get(HOST_TABLE), cache.private.get("secret")
    if table is None or not isinstance(secret, str) or len(secret) != 2 * POINT_BYTES:
        raise BadParameter(path="input.cache", reason="it is no cache of a host")
    kept = pc.cast(table.read(("id",)).column(0), pa.string()).combine_chunks()
    order = pc.index_in(kept, value_set=ids)
    if len(kept) != len(ids) or order.null_count:
        raise BadData(
            where=ctx.component,
            reason=f"the table's ids are not the {len(kept)} ids of the cache; make a new cache",
        )
    rows = order.to_numpy(zero_copy_only=False).astype(np.int64)
    return _origin(meta), Known(secret=bytes.fromhex(secret), order=rows)


def _meta(ctx: Context, *, rows: Mapping[str, int]) -> dict[str, Any]:
    meta = CacheMeta(
        intersect_method="ecdh",
        protocol=PROTOCOL,
        job_id=ctx.job_id,
        component=ctx.component,
        task_version=ctx.task_version,
        guest=ctx.only(Role.GUEST).key,
        hosts=[host.key for host in ctx.sites_of(Role.HOST)],
        salt_digest=Origin.of(ctx).digest(ctx, ctx.site),
        rows=dict(rows),
    )
    plain: dict[str, Any] = msgspec.to_builtins(meta)
    return plain


def _checked(ctx: Context, cache: Cache) -> CacheMeta:
    """Return what is known of a cache. Raises: BadParameter: it is none for this component."""
    try:
        meta = read_as(dict(cache.meta), CacheMeta)
    except msgspec.ValidationError as exc:
        raise BadParameter(path="input.cache", reason=f"it is none of Intersection: {exc}") from exc
    if meta.protocol != PROTOCOL:
        raise BadParameter(path="input.cache", reason=f"it is one of protocol {meta.protocol!r}")
    if meta.guest != ctx.only(Role.GUEST).key:
        raise BadParameter(path="input.cache", reason=f"it was made with {meta.guest}")
    own = _origin(meta).digest(ctx, ctx.site)
    if own != meta.salt_digest:
        raise BadParameter(path="ecdh_params.salt", reason="the cache was made with another")
    return meta


def _origin(meta: CacheMeta) -> Origin:
    return Origin(job_id=meta.job_id, component=meta.component, task_version=meta.task_version)


def _as_text(points: Points) -> pa.Array:
    """Return each point as hexadecimal text."""
    text = points.tobytes().hex()
    width = 2 * POINT_BYTES
    return pa.array([text[i : i + width] for i in range(0, len(text), width)], pa.string())


def _write(ctx: Context, ids: pa.Array) -> Table:
    with ctx.tables.create(_SCHEMA) as writer:
        for start in range(0, len(ids), WRITE_ROWS):
            writer.write(pa.table({"id": ids.slice(start, WRITE_ROWS)}))
        return writer.close()
