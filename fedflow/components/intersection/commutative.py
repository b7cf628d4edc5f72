"""Guest and host of ECDH and DH: both blind both sets, the guest compares.

The guest finds, the host holds. Whatever is sent is sorted by value, but for the answer, which
stands in the order of the question.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from fedflow.components.intersection.ecdh import CurveCipher
from fedflow.components.intersection.elements import (
    Elements,
    Positions,
    as_column,
    check_distinct,
    places_in,
    secret_order,
)
from fedflow.components.intersection.prime_group import PrimeGroupCipher
from fedflow.components.intersection.sides import Held, HolderOffer, Pair
from fedflow.sdk import Context
from fedflow.sdk.errors import BadParameter
from fedflow.sdk.workers import Progress, no_progress


class Cipher(Protocol):
    """A secret permutation of a group; those of two secrets commute."""

    @property
    def width(self) -> int:
        """Return the bytes of a blinded id."""

    @property
    def secret(self) -> str:
        """Return the secret as text."""

    def blind_ids(
        self, ids: pa.Array, domain: bytes, *, progress: Progress = no_progress
    ) -> Elements:
        """Return every id blinded."""

    def blind_elements(self, elements: Elements, *, progress: Progress = no_progress) -> Elements:
        """Return what is blinded already, blinded once more. Raises: CodecError."""

    def parse(self, value: object, *, count: int) -> Elements:
        """Return what another party sent. Raises: CodecError."""


def cipher_of(ctx: Context, *, secret: str | None = None) -> Cipher:
    """Return the cipher that the parameters ask for, with a new secret if there is none.

    Raises: BadParameter: `secret`, which comes from a cache, is none of this cipher.
    """
    params = ctx.params
    try:
        if params.method == "ecdh":
            return CurveCipher(
                ctx.workers, hash_method=params.ecdh_params.hash_method, secret=secret
            )
        return PrimeGroupCipher(
            ctx.workers,
            key_length=params.dh_params.key_length,
            hash_method=params.dh_params.used_hash,
            secret=secret,
        )
    except ValueError as exc:
        raise BadParameter(path="input.cache", reason="its secret is of another kind") from exc


def receive_offer(pair: Pair) -> HolderOffer:
    """Return the host's blinded ids. Raises: CodecError."""
    sent = pair.recv("id_ciphertext_exchange_h2g")
    elements = cipher_of(pair.ctx).parse(sent, count=pair.peer_rows)
    check_distinct(as_column(elements))
    return HolderOffer(elements=elements)


class CommutativeFinder:
    """The guest."""

    def __init__(self, pair: Pair, known: HolderOffer | None = None) -> None:
        self._pair = pair
        self._known = known
        self._cipher = cipher_of(pair.ctx)
        self._order: Positions = np.arange(0)

    def request(self) -> None:
        """Send aP for every own id."""
        pair = self._pair
        blinded = self._cipher.blind_ids(pair.ids, pair.domain, progress=pair.progress.step())
        self._order = secret_order(blinded)
        pair.send("id_ciphertext_exchange_g2h", blinded[self._order].tobytes())

    def find(self) -> Positions:
        """Compare b(aP) with a(bQ)."""
        pair = self._pair
        offer = self._known or receive_offer(pair)
        doubly = self._cipher.blind_elements(offer.elements, progress=pair.progress.step())
        theirs = as_column(doubly)
        check_distinct(theirs)
        answer = self._cipher.parse(pair.recv("doubly_encrypted_id"), count=len(pair.ids))
        own = as_column(answer)
        check_distinct(own)
        places = places_in(own, theirs)
        found = places.copy()
        found[self._order] = places
        return found


class CommutativeHolder:
    """The host."""

    def __init__(self, pair: Pair, known: Held | None = None) -> None:
        self._pair = pair
        self._known = known
        self._cipher = cipher_of(pair.ctx, secret=known.secret if known else None)

    def offer(self) -> Held:
        """Send bQ for every own id."""
        if self._known is not None:
            return self._known
        pair = self._pair
        blinded = self._cipher.blind_ids(pair.ids, pair.domain, progress=pair.progress.step())
        order = secret_order(blinded)
        pair.send("id_ciphertext_exchange_h2g", blinded[order].tobytes())
        return Held(secret=self._cipher.secret, order=order)

    def answer(self) -> None:
        """Send b(aP) of what the guest sent."""
        pair = self._pair
        asked = self._cipher.parse(pair.recv("id_ciphertext_exchange_g2h"), count=pair.peer_rows)
        doubly = self._cipher.blind_elements(asked, progress=pair.progress.step())
        check_distinct(as_column(doubly))
        pair.send("doubly_encrypted_id", doubly.tobytes())
