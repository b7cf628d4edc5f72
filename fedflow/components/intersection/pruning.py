"""`run_preprocess`: a Bloom filter of one side's ids prunes those of the other, before the rest.

      owner                                        other side
        bloom_filter                 -->
        pruned_rows                  <--  how many ids pass

Costs privacy for speed: who has the filter can test any guess with it, without asking anybody, and
is right but for the false-positive rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedflow.components.intersection.bloom import BloomShape
from fedflow.components.intersection.elements import Positions
from fedflow.components.intersection.handshake import SideHello, filter_domain
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.errors import CodecError


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What is left to compare."""

    rows: Positions  #: of the own ids
    peer_rows: Mapping[Site, int]  #: how many ids each other side still has


def prune(ctx: Context, ids: pa.Array, peers: Mapping[Site, SideHello]) -> Pruned:
    """Return what is left of the own ids and of those of `peers`; both sides call this.

    A guest with several hosts that own the filters keeps what passes all of them.

    Raises: CodecError: another side sent no filter, or no number.
    """
    everything = np.arange(len(ids))
    rows = {peer: hello.rows for peer, hello in peers.items()}
    params = ctx.params.intersect_preprocess_params
    if not ctx.params.run_preprocess:
        return Pruned(rows=everything, peer_rows=rows)
    if Role(params.filter_owner) is ctx.site.role:
        for peer in peers:
            shape = _shape(ctx, peer, ids=len(ids))
            ctx.federation.send("bloom_filter", shape.build(ids), to=peer)
        left = {peer: _parse_rows(ctx, peer, limit=limit) for peer, limit in rows.items()}
        return Pruned(rows=everything, peer_rows=left)
    passing = np.ones(len(ids), np.bool_)
    for peer, count in rows.items():
        received = wait_for(ctx, "bloom_filter", peer)
        passing &= _shape(ctx, peer, ids=count).contains(received, ids)
    kept = np.flatnonzero(passing)
    ctx.log.info("%s of %s ids pass the Bloom filter", len(kept), len(ids))
    for peer in peers:
        ctx.federation.send("pruned_rows", len(kept), to=peer)
    return Pruned(rows=kept, peer_rows=rows)


def _shape(ctx: Context, peer: Site, *, ids: int) -> BloomShape:
    params = ctx.params.intersect_preprocess_params
    host = ctx.site if ctx.site.role is Role.HOST else peer
    return BloomShape(
        ids=ids,
        false_positive_rate=params.false_positive_rate,
        domain=filter_domain(ctx, host),
        hash_method=params.preprocess_method,
    )


def _parse_rows(ctx: Context, peer: Site, *, limit: int) -> int:
    value = wait_for(ctx, "pruned_rows", peer)
    if type(value) is not int or not 0 <= value <= limit:
        raise CodecError(reason="pruned_rows is not a number of rows")
    return value
