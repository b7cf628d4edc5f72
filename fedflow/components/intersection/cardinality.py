"""How many ids all parties have, and nothing about which.

With ECDH and DH the set of every party goes once round all of them, from its owner on; each blinds
it with a secret of its own and sorts it, the guest last of all gets the sets that every party has
blinded, and counts what is in all of them. Blinded values that one party sees of two sets never
carry the same secrets, but at the guest at the end: it learns the sizes of all intersections, those
of hosts among themselves too, and cannot tell which rows are in them.

With RSA and its one host the guest's program finds which of its ids the host has; only their number
is told. Use the others where the guest must not be able to learn more.
Source: De Cristofaro, Gasti and Tsudik 2012 (two parties); Kissner and Song 2005 (the ring).
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from fedflow.components.intersection.commutative import Cipher, cipher_of
from fedflow.components.intersection.elements import (
    Elements,
    as_column,
    check_distinct,
    secret_order,
)
from fedflow.components.intersection.exchange import match_at_guest, match_at_host
from fedflow.components.intersection.handshake import MAX_ROWS, Origin, greet
from fedflow.components.intersection.keys import RowKeys
from fedflow.components.intersection.sides import StepProgress
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.errors import CodecError

RING = "cardinality_ring"


def cardinality(ctx: Context, keys: RowKeys) -> int | None:
    """Return how many ids all parties have; None at a host that does not get it.

    Raises: BadParameter, CodecError.
    """
    by_rsa = ctx.params.method == "rsa"
    count = _count_by_rsa(ctx, keys) if by_rsa else _count_in_ring(ctx, keys)
    hosts = ctx.sites_of(Role.HOST)
    if ctx.site.role is Role.GUEST:
        if ctx.params.sync_cardinality:
            ctx.federation.send("cardinality", count, to=hosts)
        return count
    if not ctx.params.sync_cardinality:
        return None
    told = wait_for(ctx, "cardinality", ctx.only(Role.GUEST))
    if type(told) is not int or not 0 <= told <= len(keys.values):
        raise CodecError(reason="the cardinality is not a number of ids")
    return told


def _count_by_rsa(ctx: Context, keys: RowKeys) -> int:
    if ctx.site.role is Role.GUEST:
        return int(np.count_nonzero(match_at_guest(ctx, keys)[0] >= 0))
    match_at_host(ctx, keys)
    return 0


def _count_in_ring(ctx: Context, keys: RowKeys) -> int:
    """Return the number, at a host 0."""
    hosts = ctx.sites_of(Role.HOST)
    guest = ctx.only(Role.GUEST)
    ring = (guest, *hosts)
    peers = hosts if ctx.site == guest else (guest,)
    rows = {peer: greet(ctx, peer, keys).rows for peer in peers}
    cipher, progress = cipher_of(ctx), StepProgress(ctx, steps=len(ring))
    ids = keys.values
    here = ring.index(ctx.site)
    after = ring[(here + 1) % len(ring)]
    own = cipher.blind_ids(ids, Origin.of(ctx).domain(ctx, *hosts), progress=progress.step())
    ctx.federation.send(RING, _sorted(own).tobytes(), to=after, tag=ctx.site.key)
    complete: dict[Site, Elements] = {}
    for distance in range(1, len(ring)):
        owner = ring[here - distance]
        received = _receive(ctx, cipher, ring[here - 1], owner=owner)
        if len(received) != rows.get(owner, len(received)):
            raise CodecError(reason=f"the set of {owner} has another size than it said")
        blinded = _sorted(cipher.blind_elements(received, progress=progress.step()))
        check_distinct(as_column(blinded))
        if after != owner:
            ctx.federation.send(RING, blinded.tobytes(), to=after, tag=owner.key)
        elif ctx.site == guest:
            complete[owner] = blinded
        else:
            ctx.federation.send(RING, blinded.tobytes(), to=guest, tag=f"{owner.key}-complete")
    if ctx.site != guest:
        return 0
    for owner in (guest, *hosts):
        if owner not in complete:
            last = ring[ring.index(owner) - 1]
            complete[owner] = _receive(ctx, cipher, last, owner=owner, suffix="-complete")
        expected = len(ids) if owner == guest else rows[owner]
        if len(complete[owner]) != expected:
            raise CodecError(reason=f"the set of {owner} has another size than it said")
    return _common(list(complete.values()))


def _receive(
    ctx: Context, cipher: Cipher, source: Site, *, owner: Site, suffix: str = ""
) -> Elements:
    """Return another party's set that `source` passes on. Raises: CodecError."""
    value = wait_for(ctx, RING, source, tag=owner.key + suffix)
    size = len(value) if isinstance(value, bytes) else 0
    if not 0 < size // cipher.width <= MAX_ROWS:
        raise CodecError(reason=f"{source} passed on no set")
    elements = cipher.parse(value, count=size // cipher.width)
    check_distinct(as_column(elements))
    return elements


def _sorted(elements: Elements) -> Elements:
    return elements[secret_order(elements)]


def _common(sets: list[Elements]) -> int:
    """Return how many values are in all sets."""
    found = as_column(sets[0])
    for other in sets[1:]:
        found = found.filter(pc.is_in(found, value_set=as_column(other)))
    return len(found)
