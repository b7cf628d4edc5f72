"""Powers of fixed bases modulo n, for many exponents at once.

A table has a row per digit of the exponents, with the powers of the row's base for all values of
the digit. Exponents are worked through digit by digit, so that a row stays in the cache.

Source: Brickell, Gordon, McCurley, Wilson 1992.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from typing import Final

import gmpy2
from gmpy2 import mpz

_ONE: Final = mpz(1)


class RandomElements:
    """Random elements of the group that some bases generate.

    The first base gets exponents of `exponent_bits` bits, each further one a digit of `window` bits
    (at most 8).
    """

    def __init__(
        self, n: mpz, base: mpz, further: Iterable[mpz] = (), *, exponent_bits: int, window: int
    ) -> None:
        self._n = n
        self._digit_of_byte = bytes(byte % (1 << window) for byte in range(256))
        self._rows: list[list[mpz]] = []
        for _ in range(-(-exponent_bits // window)):
            self._rows.append(_powers(base, 1 << window, n))
            base = self._rows[-1][-1] * base % n
        self._rows.extend(_powers(one, 1 << window, n) for one in further)

    def draw(self, count: int) -> list[mpz]:
        """Return so many elements."""
        products = [_ONE] * count
        for row in self._rows:
            digits = secrets.token_bytes(count).translate(self._digit_of_byte)
            products = _multiplied(products, row, digits, self._n)
        return products


class SignedPowers:
    """Powers of one base with signed exponents, of which the table grows with what is asked."""

    def __init__(self, n: mpz, base: mpz) -> None:
        self._n = n
        self._next = base  # the base of the row that comes next
        self._rows: list[list[mpz]] = []
        self._inverses: list[mpz] = []  # of the base of the row after each

    def of(self, exponents: Sequence[int]) -> list[mpz]:
        """Return the base to the power of each exponent."""
        longest = max((int(exponent).bit_length() for exponent in exponents), default=0)
        products = [_ONE] * len(exponents)
        if longest == 0:
            return products
        size = longest // 8 + 1  # bytes in two's complement, with a sign bit
        self.extend(size)
        digits = b"".join(int(e).to_bytes(size, "little", signed=True) for e in exponents)
        for place, row in enumerate(self._rows[:size]):
            products = _multiplied(products, row, digits[place::size], self._n)
        inverse = self._inverses[size - 1]
        return [
            product * inverse % self._n if exponent < 0 else product
            for product, exponent in zip(products, exponents, strict=True)
        ]

    def extend(self, size: int) -> None:
        """Make the table large enough for exponents of `size` bytes."""
        while len(self._rows) < size:
            row = _powers(self._next, 256, self._n)
            self._next = row[-1] * self._next % self._n
            self._rows.append(row)
            self._inverses.append(gmpy2.invert(self._next, self._n))


def _powers(base: mpz, count: int, n: mpz) -> list[mpz]:
    """Return base**0 to base**(count - 1)."""
    return list(accumulate(repeat(base, count - 1), lambda a, b: a * b % n, initial=_ONE))


def _multiplied(products: list[mpz], row: list[mpz], digits: bytes, n: mpz) -> list[mpz]:
    return [product * row[digit] % n for product, digit in zip(products, digits, strict=True)]
