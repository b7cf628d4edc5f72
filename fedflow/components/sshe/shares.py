"""Numbers as additive secret shares of two parties, in the ring of integers modulo 2**192.

A real number x of scale s is the ring element round(x * 2**s); its two shares are ring elements
that add up to it, each alone uniformly random. Elements are Python integers in numpy arrays of
objects, always *centered*: -2**191 <= element < 2**191. Two centered shares of a number x of b bits
add up to x as integers, not only modulo 2**192, but for a chance of 2**(b - 192): so each party may
round its own share (`combine`) and the error is one unit of the last place.

Scales of everything that is shared, with the bounds of real data in mind (see `session.py`):

| number | scale |
|---|---|
| feature, plaintext of its owner | FEATURE_BITS |
| weight, momentum | WEIGHT_BITS |
| score, residual | SCORE_BITS, their sum |
| sample weight, plaintext of the guest | SAMPLE_BITS |
| sum of residual * feature over a batch | GRADIENT_BITS, after `combine` |

Source: Mohassel, Zhang 2017 (SecureML), section 4.1: rounding of shares, here by centered ones.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk.crypto.fixed_point import check_range, scaled
from fedflow.sdk.errors import CodecError, NotEncodable

RING_BITS: Final = 192
FEATURE_BITS: Final = 24
WEIGHT_BITS: Final = 32
SCORE_BITS: Final = FEATURE_BITS + WEIGHT_BITS
SAMPLE_BITS: Final = 24
GRADIENT_BITS: Final = 64

_HALF: Final = 1 << (RING_BITS - 1)
_MASK: Final = (1 << RING_BITS) - 1
ELEMENT_BYTES: Final = RING_BITS // 8
_COEFFICIENT_BITS: Final = 88  #: by which a combination's coefficients are scaled up, then down
_ROWS_PER_BLOCK: Final = 16_384  #: rows of a matrix that are Python integers at a time

Ring = NDArray[np.object_]  #: centered ring elements
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def ring(numbers: Iterable[int]) -> Ring:
    """Return integers of any size as centered ring elements."""
    return np.array([centered(number) for number in numbers], dtype=object)


def centered(number: int) -> int:
    """Return an integer modulo 2**192, centered."""
    return ((number + _HALF) & _MASK) - _HALF


def center(values: Ring) -> Ring:
    """Return an array of integers of any size as centered ring elements."""
    return np.asarray(((values + _HALF) & _MASK) - _HALF, dtype=object)


def random_ring(count: int) -> Ring:
    """Return `count` uniform elements, from the operating system's generator."""
    return _from_bytes(secrets.token_bytes(count * ELEMENT_BYTES))


def split(values: Ring) -> tuple[Ring, Ring]:
    """Return two shares of `values`, each alone uniform."""
    one = random_ring(len(values))
    return center(values - one), one


def encode(values: Floats, *, scale: int, limit_bits: int, what: str) -> Ring:
    """Return real numbers as ring elements of `scale`, float64 to their last bit.

    Raises: NotEncodable: a value is not finite or reaches 2**limit_bits; `what` names them.
    """
    check_range(values, limit_bits=limit_bits, what=what)
    return np.array([int(v) for v in np.rint(np.ldexp(values, scale)).tolist()], dtype=object)


def decode(values: Ring, *, scale: int, limit_bits: int, what: str) -> Floats:
    """Return ring elements of `scale` as real numbers.

    Raises: NotEncodable: one reaches 2**limit_bits, as elements do that overflowed unseen.
    """
    bound = 1 << (scale + limit_bits)
    bad = sum(1 for value in values if not -bound < value < bound)
    if bad:
        raise NotEncodable(reason=f"{bad} of {len(values)} {what} reach 2^{limit_bits}")
    unit = 1 << scale
    return np.array([value / unit for value in values], dtype=np.float64)


def combine(terms: Sequence[tuple[Ring, float | Floats, int]], *, scale: int) -> Ring:
    """Return one party's share of a weighted sum of shared vectors, rounded to `scale`.

    Args:
        terms: (share, coefficient or one per element, scale of the share), all of one length.

    The two shares add up to the sum with an error of 1 unit of `scale` at most, if the sum at that
    scale stays well below 2**(191 - 88). Coefficients have an error of 2**-89 / 2**(scale change).
    """
    total: Any = 0
    for share, coefficient, share_scale in terms:
        bits = _COEFFICIENT_BITS + scale - share_scale
        total = total + share * _scaled(coefficient, bits)
    half = 1 << (_COEFFICIENT_BITS - 1)
    return np.asarray((center(total) + half) >> _COEFFICIENT_BITS, dtype=object)


def rounded(values: Ring, *, drop: int) -> Ring:
    """Return one party's share of shared numbers without their last `drop` bits, rounded."""
    if drop <= 0:
        return center(values << -drop)
    return np.asarray((values + (1 << (drop - 1))) >> drop, dtype=object)


def matrix_vector(matrix: Ints, vector: Ring) -> Ring:
    """Return matrix @ vector in the ring; rows x columns, one element per row."""
    rows = matrix.shape[0]
    result = np.zeros(rows, dtype=object)
    for start in range(0, rows, _ROWS_PER_BLOCK):
        part = slice(start, start + _ROWS_PER_BLOCK)
        result[part] = matrix[part].astype(object) @ vector if len(vector) else 0
    return center(result)


def vector_matrix(vector: Ring, matrix: Ints) -> Ring:
    """Return vector @ matrix in the ring; rows x columns, one element per column."""
    result = np.zeros(matrix.shape[1], dtype=object)
    for start in range(0, matrix.shape[0], _ROWS_PER_BLOCK):
        part = slice(start, start + _ROWS_PER_BLOCK)
        result += vector[part] @ matrix[part].astype(object)
    return center(result)


def inner(left: Ring, right: Ring) -> int:
    """Return the inner product in the ring."""
    return centered(sum(a * b for a, b in zip(left, right, strict=True)))


def to_bytes(values: Iterable[int]) -> bytes:
    """Return the wire form: 24 bytes per element, little-endian, two's complement."""
    return b"".join(int(v).to_bytes(ELEMENT_BYTES, "little", signed=True) for v in values)


def to_rows(values: Ring) -> NDArray[np.uint8]:
    """Return the wire form of elements, one per row of 24 bytes."""
    return np.frombuffer(to_bytes(values), np.uint8).reshape(len(values), ELEMENT_BYTES)


def from_rows(rows: NDArray[np.uint8]) -> Ring:
    """Return the elements of what `to_rows` gave."""
    return _from_bytes(rows.tobytes())


def from_bytes(payload: object, *, count: int) -> Ring:
    """Return the `count` elements of a message. Raises: CodecError: it has not that form."""
    if not isinstance(payload, bytes) or len(payload) != count * ELEMENT_BYTES:
        raise CodecError(reason=f"a message is not {count} shares")
    return _from_bytes(payload)


def _from_bytes(payload: bytes) -> Ring:
    numbers = [
        int.from_bytes(payload[i : i + ELEMENT_BYTES], "little", signed=True)
        for i in range(0, len(payload), ELEMENT_BYTES)
    ]
    return np.array(numbers, dtype=object)


def _scaled(coefficient: float | Floats, bits: int) -> Any:
    """Return round(coefficient * 2**bits), exactly."""
    if isinstance(coefficient, np.ndarray):
        return np.array([_scaled(float(c), bits) for c in coefficient], dtype=object)
    if not math.isfinite(coefficient):
        raise NotEncodable(reason="a coefficient of the update is not finite")
    return scaled(coefficient, bits)
