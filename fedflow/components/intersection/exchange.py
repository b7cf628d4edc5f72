"""The protocol of one guest with one or more hosts, on ids only.

    guest                                        host
      psi_hello (rows, settings)   <->  psi_hello
      bloom_filter                 -->  with run_preprocess; from the host if filter_owner is host
      pruned_rows                  <--

  ecdh and dh (`commutative`):
      id_ciphertext_exchange_g2h   -->  aP for every own id, sorted
      id_ciphertext_exchange_h2g   <--  bQ for every own id, sorted
      doubly_encrypted_id          <--  b(aP), in the order received

  rsa (`blind_rsa_sides`; with split_calculation the same for the other half, with roles swapped):
      host_pubkey                  <--  the modulus n, with e = 65537, and a proof that it hides
      host_prvkey_ids              <--  H2(H1(id)^d mod n) for every own id, sorted
      guest_pubkey_ids             -->  H1(id) r^e for every own id, sorted
      host_sign_guest_ids          <--  their signatures, in the order received

  what is revealed (`alignment`):
      intersect_ids                -->  places in the host's offer of what all parties have
      sample_ids                   -->  with match ids or a left join: the rows' sample ids

  cardinality_only with ecdh and dh (`cardinality`):
      cardinality_ring             <->  every party's set goes round, each party blinds and sorts it
      cardinality                  -->  with sync_cardinality: the number

The guest compares. Every pair has its own secrets and its own hash domain; only the ids that all
hosts have are revealed. The common rows are in the guest's order at every party.

With `run_cache` only hello and the host's offer are sent, and both sides keep what that gave
(`caching`). With such a cache as input, a host sends it no more: its secret, its domain and its
offer are those of the cache.
Source: Meadows 1986; Huberman, Franklin and Hogg 1999 (ecdh, dh), RFC 7748 (X25519); De Cristofaro
and Tsudik 2010 (rsa).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from fedflow.components.intersection.elements import Positions
from fedflow.components.intersection.handshake import Origin, ProtocolPhase, greet
from fedflow.components.intersection.keys import RowKeys
from fedflow.components.intersection.methods import finder_of, holder_of, receive_offer, steps_of
from fedflow.components.intersection.pruning import prune
from fedflow.components.intersection.sides import Held, HolderOffer, Pair, StepProgress
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.errors import BadParameter
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
psi_hello | settings | guest <-> host | rows, settings
bloom_filter | blinded ids | its owner -> other | who has it can test guesses
pruned_rows | counts | other -> its owner | how many ids pass
id_ciphertext_exchange_g2h | blinded ids | guest -> host | aP for every own id, sorted
id_ciphertext_exchange_h2g | blinded ids | host -> guest | bQ for every own id, sorted
doubly_encrypted_id | blinded ids | host -> guest | b(aP), in the order received
guest_pubkey, host_pubkey | key | holder -> finder | {n, roots}
guest_prvkey_ids, host_prvkey_ids | blinded ids | holder -> finder | every own id, signed and hashed
guest_pubkey_ids, host_pubkey_ids | blinded ids | finder -> holder | every own id, to be signed
guest_sign_host_ids, host_sign_guest_ids | blinded ids | holder -> finder | the signatures
psi_halves | counts | guest <-> host | how many ids are in the first half
half_intersect_ids | rows | host -> guest | places of the common ids
half_intersect_roots | blinded ids | host -> guest | their signatures
intersect_ids | rows | guest -> host | places of what all parties have
expanded_rows | rows | host -> guest | which match id each of its rows belongs to
sample_ids | ids | guest -> host | the rows' sample ids, with match ids or a left join
cardinality_ring | blinded ids | each -> next | a party's set, blinded once more
cardinality | counts | guest -> hosts | how many ids all parties have
""")


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestsCache:
    """What a guest has of an earlier job."""

    origin: Origin
    offers: Mapping[Site, HolderOffer]


@dataclass(frozen=True, kw_only=True, slots=True)
class HostsCache:
    """What a host has of an earlier job."""

    origin: Origin
    held: Held


def prepare_at_host(ctx: Context, keys: RowKeys) -> Held:
    """Offer the own ids for a cache, and return what makes the offer usable."""
    guest = ctx.only(Role.GUEST)
    hello = greet(ctx, guest, keys, phase=ProtocolPhase.MAKE_CACHE)
    pair = _pair(ctx, guest, keys.values, rows=hello.rows, progress=StepProgress(ctx, steps=1))
    return holder_of(pair).offer()


def prepare_at_guest(ctx: Context, keys: RowKeys) -> dict[Site, HolderOffer]:
    """Return every host's offer, for a cache. Raises: BadParameter, CodecError."""
    hosts = ctx.sites_of(Role.HOST)
    peers = {host: greet(ctx, host, keys, phase=ProtocolPhase.MAKE_CACHE) for host in hosts}
    progress = StepProgress(ctx, steps=len(hosts))
    found = {}
    for host, hello in peers.items():
        pair = _pair(ctx, host, keys.values, rows=hello.rows, progress=progress)
        found[host] = receive_offer(pair)
        progress.step()(1.0)
    return found


def match_at_guest(ctx: Context, keys: RowKeys, *, cache: GuestsCache | None = None) -> Positions:
    """Return where each host has each own key: hosts x keys, the place in its offer, or -1.

    Raises: BadParameter, BadData: a host has other settings. CodecError: a host sent something
        unusable.
    """
    hosts = ctx.sites_of(Role.HOST)
    origin = cache.origin if cache else Origin.of(ctx)
    phase = ProtocolPhase.USE_CACHE if cache else ProtocolPhase.WHOLE
    peers = {host: greet(ctx, host, keys, phase=phase, origin=origin) for host in hosts}
    ids = keys.values
    pruned = prune(ctx, ids, peers)
    progress = StepProgress(ctx, steps=steps_of(ctx) * len(hosts))
    asked = ids.take(pa.array(pruned.rows)) if len(pruned.rows) < len(ids) else ids
    finders = []
    for host in hosts:
        rows = pruned.peer_rows[host]
        known = _known_offer(cache, host, rows=rows) if cache else None
        pair = _pair(ctx, host, asked, rows=rows, progress=progress, origin=origin)
        finders.append(finder_of(pair, known))
        finders[-1].request()
    places = np.full((len(hosts), len(ids)), -1, np.int64)
    for i, finder in enumerate(finders):
        places[i, pruned.rows] = finder.find()
    return places


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """What a host needs to understand what the guest tells it."""

    order: Positions  #: in which the own ids were offered: place -> own id
    guest_ids: int  #: how many distinct ones the guest has


def match_at_host(ctx: Context, keys: RowKeys, *, cache: HostsCache | None = None) -> Offered:
    """Let the guest find out what this host has, and return what was offered.

    Raises: BadParameter, BadData, CodecError.
    """
    guest = ctx.only(Role.GUEST)
    origin = cache.origin if cache else Origin.of(ctx)
    phase = ProtocolPhase.USE_CACHE if cache else ProtocolPhase.WHOLE
    hello = greet(ctx, guest, keys, phase=phase, origin=origin)
    ids = keys.values
    pruned = prune(ctx, ids, {guest: hello})
    offered = ids.take(pa.array(pruned.rows)) if len(pruned.rows) < len(ids) else ids
    pair = _pair(
        ctx,
        guest,
        offered,
        rows=pruned.peer_rows[guest],
        progress=StepProgress(ctx, steps=1 if cache else steps_of(ctx)),
        origin=origin,
    )
    holder = holder_of(pair, cache.held if cache else None)
    held = holder.offer()
    holder.answer()
    return Offered(order=pruned.rows[held.order], guest_ids=hello.rows)


def _pair(
    ctx: Context,
    peer: Site,
    ids: pa.Array,
    *,
    rows: int,
    progress: StepProgress,
    origin: Origin | None = None,
) -> Pair:
    host = ctx.site if ctx.site.role is Role.HOST else peer
    return Pair(
        ctx=ctx,
        peer=peer,
        ids=ids,
        peer_rows=rows,
        domain=(origin or Origin.of(ctx)).domain(ctx, host),
        progress=progress,
    )


def _known_offer(cache: GuestsCache, host: Site, *, rows: int) -> HolderOffer:
    offer = cache.offers[host]
    if len(offer.elements) != rows:
        raise BadParameter(
            path="input.cache",
            reason=f"{host} has {rows} ids, {len(offer.elements)} in the cache",
        )
    return offer
