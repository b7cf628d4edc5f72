"""Sample ids to points of curve25519, as the 32-byte u-coordinates that X25519 takes.

A hash used directly as u-coordinate lies on the curve or on its twist with probability one half
each, and blinding keeps that: one bit per id would leak. The Elligator 2 map always gives a point
of the curve. Nobody knows a discrete logarithm of a mapped point, which the protocol needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gmpy2 import invert, jacobi, mpz

from fedflow.components.intersection.hashing import spread

POINT_BYTES = 32
FIELD = mpz(2) ** 255 - 19  #: the prime p of curve25519
HASH_BYTES = 64
_A = mpz(486662)  # v^2 = u^3 + A u^2 + u


def elligator2(element: int) -> int:
    """Return the u-coordinate of the curve point that belongs to a field element (0 <= it < p).

    Half of all points are reached, each from `element` and `-element`.
    Source: RFC 9380, section 6.7.1, with Z = 2, J = 486662, K = 1.
    """
    u = -_A * invert(1 + 2 * element * element, FIELD) % FIELD
    if jacobi(u * (u * (u + _A) + 1) % FIELD, FIELD) == -1:
        u = -(u + _A) % FIELD
    return u  # type: ignore[no-any-return]


def points_of(ids: Iterable[str], domain: bytes, *, method: str = "sha512") -> Iterator[bytes]:
    """Yield each id's point, POINT_BYTES long.

    The field element is 512 bits of the hash `method`, mod p: 512 bits reduced to 255 leave no
    measurable bias.
    """
    for digest in spread(ids, domain, method=method, size=HASH_BYTES):
        element = mpz(int.from_bytes(digest, "big")) % FIELD
        yield int(elligator2(element)).to_bytes(POINT_BYTES, "little")
