"""Secret shares by Shamir: of a secret of 32 bytes, fewer than `threshold` shares say nothing.

A secret is the value at 0 of a polynomial of degree `threshold` - 1 over a prime field, a share its
value at a holder's point. The field has more than 2**256 elements, so every secret is one of them.

Source: Shamir 1979, "How to share a secret".
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

PRIME: Final = 2**256 + 297  #: the smallest prime above 2**256
SECRET_BYTES: Final = 32
SHARE_BYTES: Final = 33


def split(secret: bytes, *, threshold: int, points: Sequence[int]) -> list[bytes]:
    """Return a share of 33 bytes for each of `points`.

    Raises: ValueError: the secret has not 32 bytes, or the points are no different numbers from 1.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(secret)}")
    if len(set(points)) != len(points) or min(points, default=0) < 1:
        raise ValueError("points are different numbers from 1")
    if not 1 <= threshold <= len(points):
        raise ValueError(f"a threshold of {threshold} with {len(points)} holders")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret))
    return [_value_at(coefficients, point).to_bytes(SHARE_BYTES) for point in points]


def recover(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """Return the secret of shares by point; the first `threshold` of them are used.

    Raises: ValueError: too few shares; one is none; they are shares of no secret of 32 bytes.
    """
    if len(shares) < threshold:
        raise ValueError(f"{len(shares)} shares where {threshold} open a secret")
    used = tuple(sorted(shares))[:threshold]
    values = [read(shares[point]) for point in used]
    found = sum(v * w for v, w in zip(values, _weights(used), strict=True)) % PRIME
    if found >> 8 * SECRET_BYTES:
        raise ValueError("these are shares of no secret")
    return found.to_bytes(SECRET_BYTES)


def read(share: bytes) -> int:
    """Return a share as an element of the field. Raises: ValueError: it is none."""
    value = int.from_bytes(share)
    if len(share) != SHARE_BYTES or value >= PRIME:
        raise ValueError("it is no element of the field")
    return value


def _value_at(coefficients: Sequence[int], point: int) -> int:
    value = 0
    for one in coefficients:
        value = (value * point + one) % PRIME
    return value


@functools.lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights of the value at 0: many secrets have the same holders."""
    found = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(found)
