"""Finder and holder of blind RSA; the holder has the key.

    finder                                       holder
      <holder>_pubkey              <--  {n, roots}, hexadecimal; these prove n good to ask with
      <holder>_prvkey_ids          <--  the name H2(H1(id)^d) of every own id, sorted
      <finder>_pubkey_ids          -->  H1(id) r^e for every own id, sorted
      <holder>_sign_<finder>_ids   <--  their signatures, in the order received

The host holds, but with `split_calculation`: then ids whose hash has an odd last byte are found so
by the guest, and the others in the same way by the host, which tells the guest what it found:

      psi_halves                   <->  how many ids each side has in the first half
      half_intersect_ids           -->  host to guest: places of the common ids, in the
                                        guest's names and in the host's question
      half_intersect_roots         -->  host to guest: their signatures, which the host can have
                                        of ids only that it asked for
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from gmpy2 import mpz

from fedflow.components.intersection.blind_rsa import (
    Names,
    SigningKey,
    check_proof,
    new_seed,
    parse_numbers,
)
from fedflow.components.intersection.elements import (
    Elements,
    Positions,
    as_column,
    check_distinct,
    parse_elements,
    places_in,
    secret_order,
)
from fedflow.components.intersection.hashing import domain_of, spread
from fedflow.components.intersection.sides import Held, HolderOffer, Pair
from fedflow.sdk import Role
from fedflow.sdk.crypto.modulus import parse_modulus
from fedflow.sdk.errors import BadParameter, CodecError


class RsaFinder:
    """Asks for signatures."""

    def __init__(self, pair: Pair, known: HolderOffer | None = None) -> None:
        self._pair = pair
        self._known = known
        self._seed = new_seed()
        self._names: Names | None = None
        self._signed: Elements = np.empty((0, 0), np.uint8)  # the answers in the order of the ids
        self.order: Positions = np.arange(0)  #: own rows in the order of the question

    def request(self) -> None:
        """Send every own id blinded, for the holder's key."""
        pair = self._pair
        public = self._known.public if self._known else _receive_key(pair)
        self._names = names = _names(pair, parse_modulus(public, bits=_bits(pair)))
        asked = names.ask(pair.ids, self._seed, pair.ctx.workers, progress=pair.progress.step())
        self.order = secret_order(asked)
        pair.send(f"{_me(pair)}_pubkey_ids", asked[self.order].tobytes())

    def find(self) -> Positions:
        """Compare the names of the own ids with those of the holder."""
        pair, names = self._pair, self._names
        if names is None:
            raise RuntimeError("nothing was asked")
        theirs = self._known or _receive_names(pair, names)
        answer = pair.recv(f"{_peer(pair)}_sign_{_me(pair)}_ids")
        answers = parse_elements(answer, count=len(pair.ids), width=names.width)
        self._signed = np.empty_like(answers)
        self._signed[self.order] = answers
        own = names.names_of(
            pair.ids, self._signed, self._seed, pair.ctx.workers, progress=pair.progress.step()
        )
        return places_in(as_column(own), as_column(theirs.elements))

    def show(self, rows: Positions) -> bytes:
        """Return the signatures of own ids, for `RsaHolder.check_shown`."""
        if self._names is None:
            raise RuntimeError("nothing was asked")
        roots = self._names.roots_of(rows.tolist(), self._signed[rows], self._seed)
        return self._names.join(roots)


class RsaHolder:
    """Has the key."""

    def __init__(self, pair: Pair, known: Held | None = None) -> None:
        self._pair = pair
        self._known = known
        try:
            self._key = (
                SigningKey.from_text(known.secret) if known else SigningKey.generate(_bits(pair))
            )
        except ValueError as exc:
            raise BadParameter(path="input.cache", reason="its secret is of another kind") from exc
        self._names = _names(pair, self._key.n)
        self._offered: Elements = np.empty((0, 0), np.uint8)

    def offer(self) -> Held:
        """Send the key and the names of all own ids."""
        if self._known is not None:
            return self._known
        pair = self._pair
        key = {"n": f"{int(self._key.n):x}", "roots": self._key.proof()}
        pair.send(f"{_me(pair)}_pubkey", key)
        found = self._key.names_of(
            pair.ids, self._names, pair.ctx.workers, progress=pair.progress.step()
        )
        order = secret_order(found)
        self._offered = found[order]
        pair.send(f"{_me(pair)}_prvkey_ids", self._offered.tobytes())
        return Held(secret=self._key.text(), order=order)

    def answer(self) -> None:
        """Sign what the finder asks."""
        pair = self._pair
        sent = pair.recv(f"{_peer(pair)}_pubkey_ids")
        asked = parse_elements(sent, count=pair.peer_rows, width=self._names.width)
        check_distinct(as_column(asked))
        signed = self._key.sign(asked, self._names, pair.ctx.workers, progress=pair.progress.step())
        pair.send(f"{_me(pair)}_sign_{_peer(pair)}_ids", signed.tobytes())

    def check_shown(self, places: Positions, value: object) -> None:
        """Do nothing if `value` has the signatures of the offered ids at `places`.

        Raises: CodecError: it has not, so the finder may not have asked for these ids.
        """
        names = self._names
        roots = parse_elements(value, count=len(places), width=names.width)
        shown = names.hash_roots(parse_numbers(roots, below=names.n))
        if shown != self._offered[places].tobytes():
            raise CodecError(reason="half_intersect_roots are not the signatures of these ids")


def receive_offer(pair: Pair) -> HolderOffer:
    """Return the holder's key and names. Raises: CodecError."""
    public = _receive_key(pair)
    return _receive_names(pair, _names(pair, parse_modulus(public, bits=_bits(pair))))


class _Halves:
    """Which ids are found by whom, with `split_calculation`; both sides compute the same."""

    def __init__(self, pair: Pair) -> None:
        """Exchange the sizes of the halves with the other side. Raises: CodecError."""
        domain = domain_of("fedflow-psi-half") + pair.domain
        bits = spread(pair.ids.to_pylist(), domain, method="sha256", size=1)
        odd = np.frombuffer(b"".join(bits), np.uint8) & 1
        self.rows: tuple[Positions, Positions] = np.flatnonzero(odd == 1), np.flatnonzero(odd == 0)
        pair.send("psi_halves", len(self.rows[0]))
        theirs = pair.recv("psi_halves")
        if type(theirs) is not int or not 0 <= theirs <= pair.peer_rows:
            raise CodecError(reason="psi_halves is not a part of the rows")
        sizes = theirs, pair.peer_rows - theirs
        self.pairs = tuple(
            Pair(
                ctx=pair.ctx,
                peer=pair.peer,
                ids=pair.ids.take(pa.array(rows)),
                peer_rows=size,
                domain=pair.domain,
                progress=pair.progress,
            )
            for rows, size in zip(self.rows, sizes)
        )


class SplitGuest:
    """The finder of the first half, and the holder of the second."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._halves = halves = _Halves(pair)
        self._finder, self._holder = RsaFinder(halves.pairs[0]), RsaHolder(halves.pairs[1])
        self._held: Held | None = None

    def request(self) -> None:
        """Ask for the first half, offer the second."""
        self._held = self._holder.offer()
        self._finder.request()

    def find(self) -> Positions:
        """Return the places of both halves; those of the second follow those of the first."""
        self._holder.answer()
        first, second = self._halves.pairs
        found = np.full(len(self._pair.ids), -1, np.int64)
        found[self._halves.rows[0]] = self._finder.find()
        told = self._pair.recv("half_intersect_ids")
        own, theirs = _parse_half(told, own=len(second.ids), theirs=second.peer_rows)
        if self._held is None:
            raise RuntimeError("nothing was offered")
        self._holder.check_shown(own, self._pair.recv("half_intersect_roots"))
        found[self._halves.rows[1][self._held.order[own]]] = first.peer_rows + theirs
        return found


class SplitHost:
    """The holder of the first half, and the finder of the second."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._halves = halves = _Halves(pair)
        self._holder, self._finder = RsaHolder(halves.pairs[0]), RsaFinder(halves.pairs[1])

    def offer(self) -> Held:
        """Offer the first half, ask for the second."""
        held = self._holder.offer()
        self._finder.request()
        first, second = self._halves.rows
        order = np.concatenate([first[held.order], second[self._finder.order]])
        return Held(secret=held.secret, order=order)

    def answer(self) -> None:
        """Answer for the first half, find the second and tell it."""
        self._holder.answer()
        places = self._finder.find()[self._finder.order]
        common = np.flatnonzero(places >= 0)
        self._pair.send("half_intersect_ids", np.stack([places[common], common]))
        self._pair.send("half_intersect_roots", self._finder.show(self._finder.order[common]))


def _parse_half(value: object, *, own: int, theirs: int) -> npt.NDArray[np.int64]:
    """Return the pairs of places, 2 x ids. Raises: CodecError: out of range, or repeated."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != 2:
        raise CodecError(reason="half_intersect_ids is not a list of places")
    if value.shape[0] != 2 or value.shape[1] > min(own, theirs):
        raise CodecError(reason="half_intersect_ids has another shape")
    for row, size in zip(value, (own, theirs)):
        if len(row) and (row.min() < 0 or row.max() >= size or len(np.unique(row)) != len(row)):
            raise CodecError(reason="half_intersect_ids has places that do not exist, or twice")
    return value


def _receive_key(pair: Pair) -> str:
    public, bits = pair.recv(f"{_peer(pair)}_pubkey"), _bits(pair)
    if not isinstance(public, dict):
        raise CodecError(reason="no public key where one was due")
    n = parse_modulus(public.get("n"), bits=bits)
    if n.bit_length() != bits:
        raise CodecError(reason=f"the public key has {n.bit_length()} bits, not {bits}")
    check_proof(n, public.get("roots"))
    return f"{int(n):x}"


def _receive_names(pair: Pair, names: Names) -> HolderOffer:
    sent = pair.recv(f"{_peer(pair)}_prvkey_ids")
    elements = parse_elements(sent, count=pair.peer_rows, width=names.name_width)
    check_distinct(as_column(elements))
    return HolderOffer(elements=elements, public=f"{int(names.n):x}")


def _names(pair: Pair, n: mpz) -> Names:
    params = pair.ctx.params.rsa_params
    return Names(
        n=n,
        domain=pair.domain,
        hash_method=params.hash_method,
        final_hash_method=params.final_hash_method,
    )


def _bits(pair: Pair) -> int:
    return int(pair.ctx.params.rsa_params.key_length)


def _me(pair: Pair) -> str:
    return pair.ctx.site.role.value


def _peer(pair: Pair) -> str:
    return (Role.HOST if pair.ctx.site.role is Role.GUEST else Role.GUEST).value
