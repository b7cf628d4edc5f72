"""Real numbers as signed integers of a fixed scale, refused rather than wrapped when too large."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk.errors import NotEncodable

MAX_INT64_BITS = 62  #: an encoded number must stay below 2**62, so that sums of two fit int64

_CELLS_PER_PART = 1 << 18

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedPoint:
    """Encodes x as round(x * 2**bits); products of two such numbers have the scale 2**(2 * bits).

    Rounding is to nearest, so |x - decoded| <= 2**-(bits + 1).
    """

    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits <= 60:
            raise ValueError(f"{self.bits} fraction bits; 0 to 60 are possible")

    def encode(self, values: Floats, *, limit_bits: int, what: str) -> Ints:
        """Return `values` as int64 of the same shape.

        Args:
            limit_bits: every |value| must be below 2**limit_bits.
            what: names the values in an error.

        Raises: NotEncodable: a value is not finite or too large.
        """
        if limit_bits + self.bits > MAX_INT64_BITS:
            raise ValueError(f"2**{limit_bits} with {self.bits} fraction bits exceeds int64")
        check_range(values, limit_bits=limit_bits, what=what)
        encoded = np.empty(values.shape, dtype=np.int64)
        for part in _parts(values):
            encoded[part] = np.rint(np.ldexp(values[part], self.bits))
        return encoded

    def encode_products(
        self, values: Iterable[float], *, factors: int, limit_bits: int, what: str
    ) -> list[int]:
        """Return `values` at the scale of a product of `factors` encoded numbers.

        Raises: NotEncodable: a value is not finite or not below 2**limit_bits.
        """
        numbers = np.asarray(list(values), dtype=np.float64)
        check_range(numbers, limit_bits=limit_bits, what=what)
        scale = factors * self.bits
        return [scaled(value, scale) for value in numbers.tolist()]

    def decode(self, numbers: Sequence[int], *, factors: int = 1) -> Floats:
        """Return float64 values of integers that are products of `factors` encoded numbers."""
        unit = 1 << (factors * self.bits)
        return np.array([number / unit for number in numbers], dtype=np.float64)


def check_range(values: Floats, *, limit_bits: int, what: str) -> None:
    """Do nothing if every value is finite and below 2**limit_bits in size.

    Raises: NotEncodable: otherwise; says how many values and the limit, but no value.
    """
    limit = 2.0**limit_bits
    # NaN compares false, so it is bad too
    count = sum(int(np.count_nonzero(~(np.abs(values[p]) < limit))) for p in _parts(values))
    if count:
        raise NotEncodable(
            reason=f"{count} of {values.size} {what} are not finite or reach 2^{limit_bits}"
        )


def _parts(values: Floats) -> Iterator[slice]:
    """Yield the rows in parts, so that numbers on the way take little memory."""
    step = max(1, _CELLS_PER_PART * len(values) // max(1, values.size))
    for start in range(0, len(values), step):
        yield slice(start, start + step)


def scaled(value: float, scale: int) -> int:
    """Return round(value * 2**scale) of a finite value, exactly (half to even), however large."""
    mantissa, exponent = math.frexp(value)
    whole = int(math.ldexp(mantissa, 53))  # exact: a float has 53 significant bits
    shift = scale + exponent - 53
    if shift >= 0:
        return whole << shift
    return round(math.ldexp(value, scale))
