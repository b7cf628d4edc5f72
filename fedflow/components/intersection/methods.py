"""Which finder and holder belong to a method."""

from __future__ import annotations

from fedflow.components.intersection import blind_rsa_sides as rsa
from fedflow.components.intersection import commutative
from fedflow.components.intersection.sides import Finder, Held, Holder, HolderOffer, Pair
from fedflow.sdk import Context


def finder_of(pair: Pair, known: HolderOffer | None = None) -> Finder:
    """Return the guest's side; `known` is what it has of the host since an earlier job."""
    params = pair.ctx.params
    if params.split:
        return rsa.SplitGuest(pair)
    if params.method == "rsa":
        return rsa.RsaFinder(pair, known)
    return commutative.CommutativeFinder(pair, known)


def holder_of(pair: Pair, known: Held | None = None) -> Holder:
    """Return the host's side; `known` is what it kept of an earlier job."""
    params = pair.ctx.params
    if params.split:
        return rsa.SplitHost(pair)
    if params.method == "rsa":
        return rsa.RsaHolder(pair, known)
    return commutative.CommutativeHolder(pair, known)


def receive_offer(pair: Pair) -> HolderOffer:
    """Return what the host offers, for a cache. Raises: CodecError."""
    if pair.ctx.params.method == "rsa":
        return rsa.receive_offer(pair)
    return commutative.receive_offer(pair)


def steps_of(ctx: Context) -> int:
    """Return how many steps of progress each side of a pair makes."""
    return 4 if ctx.params.split else 2
