"""What Intersection keeps for later jobs: the hosts' blinded ids, so that they are made once.

A host keeps its secret and its ids in the order in which their blinded values stand; the guest
keeps these values, which it has been sent anyway. No party keeps a secret of another, and the guest
makes a new one of its own for each job. What both sides must agree on (job, attempt, parties,
method, salt) is in the hash domain, which stays that of the job that made the cache: the guest can
tell which rows of later jobs are the same, as the cache is the same. Each party keeps the settings
of the method, so that later jobs need not repeat them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.intersection.commutative import cipher_of
from fedflow.components.intersection.elements import Elements, parse_elements
from fedflow.components.intersection.exchange import (
    GuestsCache,
    HostsCache,
    prepare_at_guest,
    prepare_at_host,
)
from fedflow.components.intersection.handshake import PROTOCOL, Origin, Setting, method_settings
from fedflow.components.intersection.hashing import hash_of
from fedflow.components.intersection.keys import RowKeys
from fedflow.components.intersection.sides import Held, HolderOffer
from fedflow.sdk import (
    BadData,
    BadParameter,
    Cache,
    Context,
    Role,
    Table,
    TableKind,
    TableSchema,
)
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

HOST_TABLE = "ids"
PATH = "input.cache"
SETTINGS = "settings"  #: of the method, the salt too
WRITE_ROWS = 65_536
_SCHEMA = TableSchema(kind=TableKind.RAW, id="id", columns=())
_Name = Annotated[str, msgspec.Meta(max_length=200)]


class CacheMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cache."""

    intersect_method: str
    settings: dict[_Name, bool | int | float | str | None]  #: of the method, by path
    protocol: str
    job_id: _Name
    component: _Name
    task_version: Annotated[int, msgspec.Meta(ge=0)]
    guest: str
    hosts: list[str]
    salt_digest: str  #: of the hash domain's salt
    rows: dict[str, int]  #: ids per host; at a host its own only
    public_keys: dict[str, str] = {}  #: of hosts, with RSA, at the guest


def make_cache(ctx: Context, keys: RowKeys) -> Cache:
    """Return this party's share of a new cache; all parties call this.

    Raises: BadParameter: a party has other settings. CodecError: a host sent something unusable.
    """
    if ctx.site.role is Role.HOST:
        held = prepare_at_host(ctx, keys)
        table = _write(ctx, keys.values.take(pa.array(held.order)))
        return Cache(
            tables={HOST_TABLE: table},
            meta=_meta(ctx, rows={ctx.site.key: len(keys.values)}),
            private={"secret": held.secret, SETTINGS: msgspec.to_builtins(ctx.params.own)},
        )
    offers = {host.key: offer for host, offer in prepare_at_guest(ctx, keys).items()}
    return Cache(
        tables={key: _write(ctx, _as_text(offer.elements)) for key, offer in offers.items()},
        meta=_meta(
            ctx,
            rows={key: len(offer.elements) for key, offer in offers.items()},
            public_keys={key: offer.public for key, offer in offers.items() if offer.public},
        ),
        private={SETTINGS: msgspec.to_builtins(ctx.params.own)},
    )


def as_cached(ctx: Context, cache: Cache) -> Context:
    """Return `ctx` with the settings that the cache was made with, if its own are the defaults.

    FATE's confs say them where the cache is made only. Raises: BadParameter: the cache is damaged.
    """
    params, own = ctx.params, ctx.params.own
    kept = cache.private.get(SETTINGS)
    if own != type(own)() or kept is None or cache.meta.get("intersect_method") != params.method:
        return ctx
    try:
        settled = read_as(kept, type(own))
    except msgspec.ValidationError as exc:
        raise BadParameter(path=PATH, reason=f"its settings are damaged: {exc}") from exc
    name = f"{params.method}_params"
    if settled != own:
        ctx.warn("Replaced", "those that the cache was made with are used", path=name)
    named = {name: settled}
    return replace(ctx, params=msgspec.structs.replace(params, **named))


def guests_cache(ctx: Context, cache: Cache) -> GuestsCache:
    """Return what this guest has of the hosts. Raises: BadParameter: it does not fit."""
    meta = _checked(ctx, cache)
    offers = {}
    for host in ctx.sites_of(Role.HOST):
        table = cache.tables.get(host.key)
        if table is None:
            raise BadParameter(path=PATH, reason=f"it holds nothing of {host}")
        text = "".join(table.read(("id",)).column(0).to_pylist())
        try:
            elements = _parse(ctx, bytes.fromhex(text), count=table.count)
        except (ValueError, CodecError) as exc:
            raise BadParameter(path=PATH, reason="its table holds no blinded ids") from exc
        public = meta.public_keys.get(host.key, "")
        if not public and ctx.params.method == "rsa":
            raise BadParameter(path=PATH, reason=f"it holds no key of {host}")
        offers[host] = HolderOffer(elements=elements, public=public)
    return GuestsCache(origin=_origin(meta), offers=offers)


def hosts_cache(ctx: Context, cache: Cache, keys: RowKeys) -> HostsCache:
    """Return this host's secret and the order of its blinded ids.

    Raises: BadParameter: it is no cache of this host. BadData: its ids are not those of the table.
    """
    meta = _checked(ctx, cache)
    table, secret = cache.tables.get(HOST_TABLE), cache.private.get("secret")
    if table is None or not isinstance(secret, str):
        raise BadParameter(path=PATH, reason="it is no cache of a host")
    kept = pc.cast(table.read(("id",)).column(0), pa.string()).combine_chunks()
    order = pc.index_in(kept, value_set=keys.values)
    if len(kept) != len(keys.values) or order.null_count:
        raise BadData(
            where=ctx.component,
            reason=f"the table's ids are not the {len(kept)} ids of the cache; make a new cache",
        )
    rows = order.to_numpy(zero_copy_only=False).astype(np.int64)
    return HostsCache(origin=_origin(meta), held=Held(secret=secret, order=rows))


def _parse(ctx: Context, data: bytes, *, count: int) -> Elements:
    """Return what the guest kept. Raises: CodecError."""
    if ctx.params.method != "rsa":
        return cipher_of(ctx).parse(data, count=count)
    width = hash_of(ctx.params.rsa_params.final_hash_method).digest_size
    return parse_elements(data, count=count, width=width)


def _meta(
    ctx: Context, *, rows: Mapping[str, int], public_keys: Mapping[str, str] | None = None
) -> dict[str, Any]:
    meta = CacheMeta(
        intersect_method=ctx.params.method,
        settings=_settings(ctx),
        protocol=PROTOCOL,
        job_id=ctx.job_id,
        component=ctx.component,
        task_version=ctx.task_version,
        guest=ctx.only(Role.GUEST).key,
        hosts=[host.key for host in ctx.sites_of(Role.HOST)],
        salt_digest=Origin.of(ctx).digest(ctx, ctx.site),
        rows=dict(rows),
        public_keys=dict(public_keys or {}),
    )
    plain: dict[str, Any] = msgspec.to_builtins(meta)
    return plain


def _settings(ctx: Context) -> dict[str, Setting]:
    return method_settings(ctx.params)


def _checked(ctx: Context, cache: Cache) -> CacheMeta:
    """Return what is known of a cache. Raises: BadParameter: it is none for this component."""
    try:
        meta = read_as(dict(cache.meta), CacheMeta)
    except msgspec.ValidationError as exc:
        raise BadParameter(path=PATH, reason=f"it is none of Intersection: {exc}") from exc
    if meta.protocol != PROTOCOL:
        raise BadParameter(path=PATH, reason=f"it is one of protocol {meta.protocol!r}")
    if meta.guest != ctx.only(Role.GUEST).key:
        raise BadParameter(path=PATH, reason=f"it was made with {meta.guest}")
    for path, value in _settings(ctx).items():
        if meta.settings.get(path) != value:
            made = meta.settings.get(path, f"method {meta.intersect_method}")
            raise BadParameter(
                path=f"$.{path}", reason=f"is {value!r}, but the cache was made with {made!r}"
            )
    if _origin(meta).digest(ctx, ctx.site) != meta.salt_digest:
        raise BadParameter(
            path=f"$.{ctx.params.method}_params.salt", reason="the cache was made with another"
        )
    return meta


def _origin(meta: CacheMeta) -> Origin:
    return Origin(job_id=meta.job_id, component=meta.component, task_version=meta.task_version)


def _as_text(elements: Elements) -> pa.Array:
    """Return each blinded id as hexadecimal text."""
    text = elements.tobytes().hex()
    width = 2 * elements.shape[1]
    return pa.array([text[i : i + width] for i in range(0, len(text), width)], pa.string())


def _write(ctx: Context, ids: pa.Array) -> Table:
    with ctx.tables.create(_SCHEMA) as writer:
        for start in range(0, len(ids), WRITE_ROWS):
            writer.write(pa.table({"id": ids.slice(start, WRITE_ROWS)}))
        return writer.close()
