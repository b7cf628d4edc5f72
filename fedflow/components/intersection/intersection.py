"""The component Intersection: every party keeps the rows whose id all parties have."""

from __future__ import annotations

from fedflow.components.intersection.alignment import Aligned, align_at_guest, align_at_host
from fedflow.components.intersection.caching import as_cached, guests_cache, hosts_cache, make_cache
from fedflow.components.intersection.cardinality import cardinality
from fedflow.components.intersection.exchange import MESSAGES, match_at_guest, match_at_host
from fedflow.components.intersection.keys import RowKeys, read_keys
from fedflow.components.intersection.params import IntersectionParams
from fedflow.components.intersection.writing import write_rows
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    NoCommonIds,
    Outputs,
    Role,
    component,
)

SAFE_BITS = 2048  #: of an RSA key


@component(
    "Intersection",
    roles=("guest", "host"),
    params=IntersectionParams,
    param_name="IntersectParam",
    outputs=("data", "cache"),
    messages=MESSAGES,
)
class Intersection:
    """Finds the sample ids that all parties have, without showing any other id.

    One guest, one or more hosts. The output has this party's own columns, and the common rows stand
    in the guest's order at every party, so they are aligned for models. Repeated ids and empty
    tables are refused; no common id at all is an error (`NoCommonIds`).

    Methods: `ecdh` on curve25519 (default), `dh` in a prime group of RFC 7919, `rsa` by blind
    signatures. At 2048 bits `dh` is 11 times slower and `rsa` 25 times. With `rsa` the guest can
    test no guessed ids but those that it had signed. Their results are the same.

    A table with match ids is matched by these. The rows of `sample_id_generator` decide: it alone
    may repeat a match id that all parties have. The others repeat their rows to fit, and all get
    its sample ids, or new ones with `new_sample_id`. With `join_method` `left_join` the guest keeps
    all rows, and hosts get rows of zeros for the ids they lack. Then they learn the guest's sample
    ids, or new ones. `run_preprocess` and `left_join` show more than the result; docs/security.md
    says what.

    With `run_cache` the hosts blind their ids once and both sides keep that as the cache output;
    there is no other output. Later jobs between the same parties take it as cache input, through a
    CacheLoader. They may do so as long as the method and the hosts' ids are the same. Settings of
    the method such as the salt that are left at their defaults are those of the cache, as in FATE.
    Others must be the same. A host's share holds its secret: it never leaves the host. The guest
    can link what jobs with the same cache exchange.

    With `cardinality_only` there is no output table: the number of common ids is in the summary
    and the metric, at the hosts only with `sync_cardinality`. With several hosts it is the number
    of ids that all have. Zero is no error.

    Summary: `intersect_num`, `intersect_rate`, `cardinality_only`, `unique_id_num`; metric `train`
    / `intersection`. Rates are relative to the party's own distinct ids.

    Unlike FATE: ECDH is the default, not RSA. The hash of an id covers job, attempt, parties,
    settings and salt, so what two jobs exchange cannot be linked. Blinded ids travel sorted, so
    their positions say nothing. Cardinality is exact with RSA too. `random_bit` and
    `random_base_fraction` have no effect, as they would let the host test guesses.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return this party's rows of the intersection, in the guest's row order.

        With `run_cache` return a cache instead, with `cardinality_only` a summary. A host that is
        not sent the result has no output. Raises:
        NoCommonIds, BadData, BadParameter, CodecError, PeerFailed.
        """
        params: IntersectionParams = ctx.params
        table = ctx.inputs.first("data")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        if table is None:
            raise BadData(where=ctx.component, reason="there is no input table at this party")
        keys = read_keys(table)
        if keys.match_ids and not (params.cardinality_only or params.run_cache):
            _check_generator(ctx)
        _warn(ctx, keys)
        ctx.log.info("%s own ids, %s host(s)", len(keys.values), len(ctx.sites_of(Role.HOST)))
        if params.run_cache:
            return _make_cache(ctx, keys)
        if params.cardinality_only:
            return _count(ctx, keys)
        aligned = _match(ctx, keys)
        if aligned is None:
            ctx.log.info("the guest keeps the result for itself: no output here")
            return Outputs()
        if not aligned.common:
            raise NoCommonIds(own=len(keys.values))
        ctx.log.info("%s ids in common", aligned.common)
        output = write_rows(ctx, table, aligned)
        summary = _record(ctx, keys, common=aligned.common, rows=len(aligned.rows))
        return Outputs(data=(output,), summary=summary)


def _match(ctx: Context, keys: RowKeys) -> Aligned | None:
    """Return the rows of the output, None if this host does not get them."""
    cache = next(iter(ctx.inputs.cache.values()), None)
    if cache is not None:
        ctx.log.info("the hosts' blinded ids come from a cache")
        ctx = as_cached(ctx, cache)
    if ctx.site.role is Role.GUEST:
        found = match_at_guest(ctx, keys, cache=guests_cache(ctx, cache) if cache else None)
        return align_at_guest(ctx, keys, found)
    offered = match_at_host(ctx, keys, cache=hosts_cache(ctx, cache, keys) if cache else None)
    return align_at_host(ctx, keys, offered) if ctx.params.sync_intersect_ids else None


def _make_cache(ctx: Context, keys: RowKeys) -> Outputs:
    cache = make_cache(ctx, keys)
    ctx.tracker.metric(
        "train",
        "intersection_cache_meta",
        metric_type="INTERSECTION",
        meta={"name": "intersection_cache_meta", "metric_type": "INTERSECTION", **cache.meta},
    )
    return Outputs(cache=(cache,))


def _count(ctx: Context, keys: RowKeys) -> Outputs:
    count = cardinality(ctx, keys)
    if count is None:
        ctx.log.info("the guest keeps the result for itself")
        return Outputs()
    ctx.log.info("%s ids in common", count)
    return Outputs(summary=_record(ctx, keys, common=count, rows=None))


def _check_generator(ctx: Context) -> None:
    """Refuse a generator that does not fit match ids, which only the table shows."""
    if Role(ctx.params.sample_id_generator) is not Role.HOST:
        return
    if len(ctx.sites_of(Role.HOST)) > 1:
        reason = "'host' takes one host, there are several"
        raise BadParameter(path="$.sample_id_generator", reason=reason)
    if not ctx.params.sync_intersect_ids:
        reason = "'host' needs sync_intersect_ids"
        raise BadParameter(path="$.sample_id_generator", reason=reason)


def _warn(ctx: Context, keys: RowKeys) -> None:
    params: IntersectionParams = ctx.params
    if params.method == "rsa" and params.rsa_params.key_length < SAFE_BITS:
        ctx.log.warning(
            "an RSA key of %s bits is short; use %s", params.rsa_params.key_length, SAFE_BITS
        )
    if params.cardinality_only:
        return
    left = params.join_method == "left_join"
    if params.new_sample_id and not (left or keys.match_ids):
        ctx.warn("NoEffect", "there are no match ids: sample ids stay", path="new_sample_id")
    if left and not params.new_sample_id:
        ctx.log.warning("left_join tells all hosts the sample ids of all rows of the guest")
    if params.run_preprocess:
        ctx.log.warning("run_preprocess lets the %s", _who_guesses(params))


def _who_guesses(params: IntersectionParams) -> str:
    owner = params.intersect_preprocess_params.filter_owner
    other = "host" if owner == "guest" else "guest"
    return f"{other} test guessed ids of the {owner}, as often as it likes"


def _record(ctx: Context, keys: RowKeys, *, common: int, rows: int | None) -> dict[str, object]:
    """Write the metric and return the summary; rates are relative to the party's own ids."""
    own = len(keys.values)
    points: list[tuple[str, object]] = [
        ("intersect_count", common),
        ("input_match_id_count", own),
        ("intersect_rate", common / own),
        ("unmatched_count", own - common),
        ("unmatched_rate", (own - common) / own),
    ]
    if keys.match_ids and rows is not None:
        points.append(("intersect_sample_id_count", rows))
    ctx.tracker.metric(
        "train",
        "intersection",
        metric_type="INTERSECTION",
        points=points,
        meta={
            "name": "intersection",
            "metric_type": "INTERSECTION",
            "intersect_method": ctx.params.method,
            "join_method": ctx.params.join_method,
        },
    )
    return {
        "intersect_num": common,
        "intersect_rate": common / own,
        "cardinality_only": ctx.params.cardinality_only,
        "unique_id_num": own,
    }
