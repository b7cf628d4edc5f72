"""The component Intersection: every party keeps the rows whose id all parties have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.psi.caching import guests_points, hosts_secret, make_cache
from fedflow.components.psi.exchange import Positions, intersect_at_guest, intersect_at_host
from fedflow.components.psi.params import IntersectionParams
from fedflow.sdk import (
    BadData,
    BadParameter,
    ComponentFailed,
    Context,
    NoCommonIds,
    NotSupportedYet,
    Outputs,
    Role,
    Table,
    TableSchema,
    component,
)

WRITE_ROWS = 65_536


@component(
    "Intersection",
    roles=("guest", "host"),
    params=IntersectionParams,
    param_name="IntersectParam",
    outputs=("data", "cache"),
)
class Intersection:
    """Finds the sample ids that all parties have, without showing any other id.

    One guest, one or more hosts. The output has this party's own columns, and the common rows stand
    in the guest's order at every party, so they are aligned for HeteroLR. Repeated ids and empty
    tables are refused; no common id at all is an error (`NoCommonIds`).

    With `run_cache` the hosts blind their ids once and both sides keep that as the cache output;
    there is no other output. Later jobs between the same parties take it as cache input, through a
    CacheLoader, as long as the hosts' ids are the same. A host's share holds its secret: it never
    leaves the host. The guest can link what jobs with the same cache exchange.

    Summary: `intersect_num`, `intersect_rate`, `unique_id_num`; metric `train` / `intersection`.
    Rates are relative to the party's own rows.

    Not yet: RSA and DH, the size alone, pruning by a Bloom filter, left joins, match ids.

    Unlike FATE: ECDH is the default, not RSA. Ids are hashed onto the curve; the hash covers job,
    attempt, parties and salt, so what two jobs exchange cannot be linked; blinded ids travel
    sorted, so their positions say nothing.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return this party's rows of the intersection, in the guest's row order.

        With `run_cache` return a cache instead. A host that is not told the result
        (`sync_intersect_ids` off) has no output. Raises:
        NoCommonIds, BadData, NotSupportedYet, BadParameter, CodecError, PeerFailed.
        """
        params: IntersectionParams = ctx.params
        table = ctx.inputs.first("data")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        _check_supported(ctx, params)
        if table is None:
            raise BadData(where=ctx.component, reason="there is no input table at this party")
        ids = _own_ids(ctx, table)
        ctx.log.info("%s own ids, %s host(s)", len(ids), len(ctx.sites_of(Role.HOST)))
        if params.run_cache:
            return _make_cache(ctx, ids)
        rows = _common_rows(ctx, ids)
        if rows is None:
            ctx.log.info("the guest keeps the result for itself: no output here")
            return Outputs()
        if not len(rows):
            raise NoCommonIds(own=len(ids))
        ctx.log.info("%s ids in common", len(rows))
        kept = _write(ctx, table, rows)
        return Outputs(data=(kept,), summary=_record(ctx, common=len(rows), own=len(ids)))


def _common_rows(ctx: Context, ids: pa.Array) -> Positions | None:
    """Return the own rows that all parties have, None if this host is not told."""
    cache = next(iter(ctx.inputs.cache.values()), None)
    guest = ctx.site.role is Role.GUEST
    if cache is None:
        return intersect_at_guest(ctx, ids) if guest else intersect_at_host(ctx, ids)
    ctx.log.info("the hosts' blinded ids come from a cache")
    if guest:
        return intersect_at_guest(ctx, ids, cached=guests_points(ctx, cache))
    return intersect_at_host(ctx, ids, cached=hosts_secret(ctx, cache, ids))


def _make_cache(ctx: Context, ids: pa.Array) -> Outputs:
    if ctx.inputs.cache:
        raise BadParameter(path="run_cache", reason="a cache is an input already")
    cache = make_cache(ctx, ids)
    ctx.tracker.metric(
        "train",
        "intersection_cache_meta",
        metric_type="INTERSECTION",
        meta={"name": "intersection_cache_meta", "metric_type": "INTERSECTION", **cache.meta},
    )
    return Outputs(cache=(cache,))


def _check_supported(ctx: Context, params: IntersectionParams) -> None:
    what = params.unsupported()
    if what is not None:
        raise NotSupportedYet(what=what)
    if not ctx.sites_of(Role.HOST):
        raise ComponentFailed(component=ctx.component, reason="there is no host to intersect with")
    if params.method == "raw":
        ctx.log.warning("intersect_method 'raw' would show all ids: ECDH is used instead")
    for name in params.ignored():
        ctx.log.warning("parameter %s is deprecated and has no effect", name)


def _own_ids(ctx: Context, table: Table) -> pa.Array:
    """Return the id column as one array of strings.

    Raises: BadData: no rows, a missing id, or repeated ids. NotSupportedYet: match ids.
    """
    if table.schema.match_id is not None:
        raise NotSupportedYet(what="Intersection of tables with match ids")
    where = f"table {table.namespace}.{table.name}"
    if table.count == 0:
        raise BadData(where=where, reason="the table has no rows")
    column = table.read((table.schema.id,)).column(0)
    ids = pc.cast(column, pa.string()).combine_chunks()
    if ids.null_count:
        raise BadData(where=where, reason=f"{ids.null_count} rows have no {table.schema.id}")
    repeated = len(ids) - pc.count_distinct(ids).as_py()
    if repeated:
        raise BadData(
            where=where,
            reason=f"column {table.schema.id}: {repeated} of {len(ids)} ids repeat another one",
        )
    return ids


def _write(ctx: Context, table: Table, rows: Positions) -> Table:
    """Return a new table of the chosen rows, in the order of `rows`."""
    schema = table.schema
    if ctx.params.only_output_key:
        schema = TableSchema(kind=schema.kind, id=schema.id, columns=())
    source = table.read(schema.names)
    with ctx.tables.create(schema) as writer:
        for start in range(0, len(rows), WRITE_ROWS):
            chosen = np.ascontiguousarray(rows[start : start + WRITE_ROWS])
            writer.write(source.take(pa.array(chosen)).combine_chunks())
        return writer.close()


def _record(ctx: Context, *, common: int, own: int) -> dict[str, object]:
    """Write the metric and return the summary; rates are relative to the party's own rows."""
    ctx.tracker.metric(
        "train",
        "intersection",
        metric_type="INTERSECTION",
        points=[
            ("intersect_count", common),
            ("input_match_id_count", own),
            ("intersect_rate", common / own),
            ("unmatched_count", own - common),
            ("unmatched_rate", (own - common) / own),
        ],
        meta={
            "name": "intersection",
            "metric_type": "INTERSECTION",
            "intersect_method": "ecdh",
            "join_method": ctx.params.join_method,
        },
    )
    return {
        "intersect_num": common,
        "intersect_rate": common / own,
        "cardinality_only": False,
        "unique_id_num": own,
    }
