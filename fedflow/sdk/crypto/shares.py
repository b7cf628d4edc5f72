"""Additive secret shares: numbers as sums modulo 2**64 of parts that say nothing alone.

All parts but one are uniform, so whoever lacks a single part learns nothing, whatever it can
compute. Parts are added element by element: the sum of shares is a share of the sum. Numbers wrap
around when a sum leaves the range, and nobody can tell: choose `fraction_bits` so that it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk.crypto.randomness import random_ring
from fedflow.sdk.errors import CodecError, NotEncodable

Ring: TypeAlias = NDArray[np.uint64]
"""Integers modulo 2**64 (uint64 of any shape): shares, masks and their sums, which wrap around."""

FRACTION_BITS: Final = 24  #: |x| < 2**39, rounded to multiples of 2**-24


def encode_ring(values: NDArray[Any], *, fraction_bits: int = FRACTION_BITS) -> Ring:
    """Return `values` as integers modulo 2**64, each `round(x * 2**fraction_bits)`.

    Raises: NotEncodable: a value is not finite or its integer reaches 2**63. ValueError: more than
        62 fraction bits. TypeError: they are no numbers.
    """
    if not 0 <= fraction_bits <= 62:
        raise ValueError(f"{fraction_bits} fraction bits; 0 to 62 are possible")
    found = np.asarray(values)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"an array of {found.dtype} where numbers were due")
    limit_bits = 63 - fraction_bits
    if found.dtype.kind == "f":
        is_good = np.isfinite(found) & (np.abs(found) < 2.0**limit_bits)
    elif found.dtype.kind == "u":
        is_good = found < np.uint64(1 << limit_bits)
    else:
        wide = found.astype(np.int64)
        most = (1 << limit_bits) - 1
        is_good = (wide <= most) & (wide >= -most)
    if bad := int(np.count_nonzero(~is_good)):
        raise NotEncodable(
            reason=f"{bad} of {found.size} values are not finite or reach 2^{limit_bits}"
        )
    if found.dtype.kind != "f":
        return found.astype(np.int64).astype(np.uint64) << np.uint64(fraction_bits)
    rounded = np.rint(np.ldexp(found.astype(np.float64), fraction_bits))
    return rounded.astype(np.int64).astype(np.uint64)


def decode_ring(ring: Ring, *, fraction_bits: int = FRACTION_BITS) -> NDArray[np.float64]:
    """Return the numbers (float64) that `encode_ring` made, or sums of them."""
    return np.ldexp(ring.astype(np.int64).astype(np.float64), -fraction_bits)


def share(values: NDArray[Any], parties: int, *, fraction_bits: int = FRACTION_BITS) -> list[Ring]:
    """Return one share per party, each of the shape of `values`; their sum is `values`.

    Keep one and send each of the others to one party only.

    Raises: NotEncodable, TypeError: as `encode_ring`. ValueError: fewer than two parties.
    """
    if parties < 2:
        raise ValueError(f"{parties} parties cannot share a secret; two or more can")
    last = encode_ring(values, fraction_bits=fraction_bits)
    given = [random_ring(last.shape) for _ in range(parties - 1)]
    for one in given:
        last = last - one
    return [*given, last]


def reconstruct(
    shares: Sequence[Ring], *, fraction_bits: int = FRACTION_BITS
) -> NDArray[np.float64]:
    """Return the numbers (float64) of all shares, or of the sums of shares.

    Raises: ValueError: the shapes differ, or there are no shares.
    """
    if len({one.shape for one in shares}) != 1:
        raise ValueError("shares of one shape are due")
    total = shares[0]
    for one in shares[1:]:
        total = total + one
    return decode_ring(total, fraction_bits=fraction_bits)


def read_share(value: object, *, shape: tuple[int, ...]) -> Ring:
    """Return the share that another party sent. Raises: CodecError: it has not this shape."""
    if not isinstance(value, np.ndarray) or value.dtype != np.uint64 or value.shape != shape:
        raise CodecError(reason=f"what came is no share of shape {shape}")
    return value
