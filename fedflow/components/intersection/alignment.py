"""From places of common keys to the same rows at every party, in the guest's order.

    guest                                        host
      intersect_ids                -->  a place in the host's offer per row, -1 for none (left join)
      sample_ids                   -->  the rows' sample ids; with match ids or a left join, and
                                        without new_sample_id

With match ids and `sample_id_generator` host the host's rows decide:

      intersect_ids                -->  a place per common match id
      expanded_rows                <--  for each of the host's rows, which of these it belongs to
      sample_ids                   <--  the rows' sample ids, without new_sample_id
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.intersection.elements import Positions
from fedflow.components.intersection.exchange import Offered
from fedflow.components.intersection.hashing import domain_of
from fedflow.components.intersection.keys import RowKeys, check_not_repeated
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.errors import CodecError


@dataclass(frozen=True, kw_only=True, slots=True)
class Aligned:
    """The rows of the output."""

    rows: Positions  #: of the own table; -1: a row of zeros
    common: int  #: own keys that all parties have
    ids: pa.Array | None = None  #: sample ids of the output; None: those of the table


def align_at_guest(ctx: Context, keys: RowKeys, places: Positions) -> Aligned:
    """Return the guest's rows, and tell the hosts theirs if they shall know.

    `places` is what `match_at_guest` found. Raises: CodecError: the host sent no rows of its own.
        BadData: the host decides, and the guest repeats match ids that both have.
    """
    common = np.logical_and.reduce(places >= 0, axis=0)
    count = int(np.count_nonzero(common))
    hosts = ctx.sites_of(Role.HOST)
    if _host_decides(ctx, keys):
        return _follow(ctx, keys, places=places, common=np.flatnonzero(common))
    everything = _is_left(ctx) and count > 0  # else all hosts learn that there is nothing
    rows = np.arange(len(keys.of_row)) if everything else np.flatnonzero(common[keys.of_row])
    if ctx.params.sync_intersect_ids:
        for i, host in enumerate(hosts):
            ctx.federation.send("intersect_ids", places[i, keys.of_row[rows]], to=host)
    renamed = keys.match_ids or _is_left(ctx)
    ids = None
    if renamed and ctx.params.new_sample_id:
        ids = _new_ids(ctx, len(rows))
    elif renamed and ctx.params.sync_intersect_ids:
        _send_ids(ctx, keys.sample_ids.take(pa.array(rows)), to=hosts)
    return Aligned(rows=rows, common=count, ids=ids)


def align_at_host(ctx: Context, keys: RowKeys, offered: Offered) -> Aligned:
    """Return a host's rows as the guest tells them.

    Raises: CodecError: the guest sent no rows, or more than it has. BadData: this host does not
        decide, and repeats match ids that all have.
    """
    guest, order = ctx.only(Role.GUEST), offered.order
    told = wait_for(ctx, "intersect_ids", guest)
    decides = _host_decides(ctx, keys)
    left = _is_left(ctx)
    places = _parse_places(
        told, size=len(order), missing=left, repeats=keys.match_ids and not decides
    )
    if not keys.match_ids and len(places) > offered.guest_ids:
        raise CodecError(reason=f"{len(places)} rows of {offered.guest_ids} ids")
    own = np.where(places >= 0, order[places], -1) if len(order) else places
    count = len(np.unique(own[own >= 0]))
    if decides:
        return _lead(ctx, keys, own)
    if keys.match_ids:
        check_not_repeated(ctx, keys, np.unique(own[own >= 0]))
    rows = np.where(own >= 0, keys.row_of_key()[own], -1)
    if not (left or keys.match_ids):
        return Aligned(rows=rows, common=count)
    if ctx.params.new_sample_id:
        return Aligned(rows=rows, common=count, ids=_new_ids(ctx, len(rows)))
    ids = _receive_ids(ctx, guest, count=len(rows))
    if not keys.match_ids and not _agree(keys.sample_ids, rows, ids):
        raise CodecError(reason="sample_ids name other rows than intersect_ids")
    return Aligned(rows=rows, common=count, ids=ids)


def _host_decides(ctx: Context, keys: RowKeys) -> bool:
    return keys.match_ids and Role(ctx.params.sample_id_generator) is Role.HOST


def _is_left(ctx: Context) -> bool:
    return bool(ctx.params.join_method == "left_join")


def _lead(ctx: Context, keys: RowKeys, own: Positions) -> Aligned:
    """Return the host's rows of the keys `own`, several per key, and tell the guest."""
    guest = ctx.only(Role.GUEST)
    asked = np.full(len(keys.values), -1, np.int64)
    asked[own] = np.arange(len(own))
    belongs = asked[keys.of_row]
    rows = np.flatnonzero(belongs >= 0)
    rows = rows[np.argsort(belongs[rows], kind="stable")]
    ctx.federation.send("expanded_rows", belongs[rows], to=guest)
    if ctx.params.new_sample_id:
        return Aligned(rows=rows, common=len(own), ids=_new_ids(ctx, len(rows)))
    _send_ids(ctx, keys.sample_ids.take(pa.array(rows)), to=(guest,))
    return Aligned(rows=rows, common=len(own))


def _follow(ctx: Context, keys: RowKeys, *, places: Positions, common: Positions) -> Aligned:
    """Return the guest's rows, repeated as the only host repeats its match ids."""
    (host,) = ctx.sites_of(Role.HOST)
    check_not_repeated(ctx, keys, common)  # before the host learns which are common
    row_of_key = keys.row_of_key()
    common = common[np.argsort(row_of_key[common])]
    ctx.federation.send("intersect_ids", places[0, common], to=host)
    told = wait_for(ctx, "expanded_rows", host)
    belongs = _parse_places(told, size=len(common), missing=False, repeats=True)
    if len(np.unique(belongs)) != len(common) or (np.diff(belongs) < 0).any():
        raise CodecError(reason="expanded_rows are not those of the common match ids")
    rows = row_of_key[common[belongs]]
    if ctx.params.new_sample_id:
        ids = _new_ids(ctx, len(rows))
    else:
        ids = _receive_ids(ctx, host, count=len(rows))
    return Aligned(rows=rows, common=len(common), ids=ids)


def _new_ids(ctx: Context, count: int) -> pa.Array:
    """Return new sample ids, which all parties make alike: the attempt's digest and a number."""
    attempt = domain_of(ctx.job_id, ctx.component, str(ctx.task_version))
    prefix = hashlib.sha256(attempt).hexdigest()[:16]
    numbers = pc.cast(pa.array(np.arange(count)), pa.string())
    return pc.binary_join_element_wise(prefix, numbers, "_")


def _send_ids(ctx: Context, ids: pa.Array, *, to: tuple[Site, ...]) -> None:
    ctx.federation.send("sample_ids", pa.table({"id": ids}), to=to)


def _receive_ids(ctx: Context, source: Site, *, count: int) -> pa.Array:
    """Return the sample ids that another party names. Raises: CodecError: they are none."""
    told = wait_for(ctx, "sample_ids", source)
    if not isinstance(told, pa.Table) or told.schema.names != ["id"]:
        raise CodecError(reason="sample_ids is not a table of ids")
    column = told.column("id").combine_chunks()
    if not pa.types.is_string(column.type) or len(column) != count or column.null_count:
        raise CodecError(reason=f"sample_ids are not {count} texts")
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise CodecError(reason="sample_ids are not texts") from exc
    if pc.count_distinct(column).as_py() != count:
        raise CodecError(reason="sample_ids repeat")
    return column


def _agree(own: pa.Array, rows: Positions, ids: pa.Array) -> bool:
    """Return whether received ids equal the own ones, where the own table has the row."""
    expected = own.take(pa.array(rows, mask=rows < 0))
    return not pc.any(pc.not_equal(expected, ids)).as_py()


def _parse_places(value: object, *, size: int, missing: bool, repeats: bool) -> Positions:
    """Return places below `size`; -1 where `missing`.

    Raises: CodecError: not such numbers, or (without `repeats`) one of them twice.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != 1:
        raise CodecError(reason="the rows are not a list of places")
    if len(value) and (value.min() < (-1 if missing else 0) or value.max() >= size):
        raise CodecError(reason=f"the rows have places outside of 0..{size - 1}")
    known = value[value >= 0]
    if not repeats and len(np.unique(known)) != len(known):
        raise CodecError(reason="the rows name a place twice")
    return value
