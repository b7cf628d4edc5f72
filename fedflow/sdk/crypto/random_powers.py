"""Random n-th residues for Paillier ciphertexts, from a table; why they are safe: `paillier.py`.

The table is in short form (`short_form.py`): a residue is the product of units, one per digit, and
the sum of their lifts goes into the plaintext's factor at no further cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import gmpy2
from gmpy2 import mpz

from fedflow.sdk.crypto.short_form import Short, powers

if TYPE_CHECKING:
    from fedflow.sdk.crypto.paillier import PublicKey

_ONE: Final = mpz(1)
_TOGETHER: Final = 256  # numbers that are encrypted together


class RandomPowers:
    """Random powers of an own random base h_s, from a table of all its digits' powers.

    A digit has `window` bits, at most 8. Each of the `extra_bases` independent random residues adds
    a digit.
    """

    def __init__(
        self, key: PublicKey, *, exponent_bits: int, window: int, extra_bases: int = 0
    ) -> None:
        self._n, self._modulus = key.n, key.modulus
        self._window = window
        self._digit_of_byte = bytes(byte % (1 << window) for byte in range(256))
        self._units: list[list[mpz]] = []
        self._lifts: list[list[mpz]] = []
        x = key.random_unit()
        base = self._residue(-x * x)
        for _ in range(-(-exponent_bits // window)):
            base = self._add(base)
        for _ in range(extra_bases):
            self._add(self._residue(key.random_unit()))

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield 1 + n * value, which is a plaintext's factor, times a random power, for each."""
        rest = iter(values)
        while some := list(islice(rest, _TOGETHER)):
            yield from self._encrypt(some)

    def _encrypt(self, values: list[int]) -> list[mpz]:
        """Encrypt some values together, digit by digit: a digit's row stays in the cache."""
        modulus, count = self._modulus, len(values)
        products, lifts = [_ONE] * count, values
        for row, more in zip(self._units, self._lifts, strict=True):
            digits = secrets.token_bytes(count).translate(self._digit_of_byte)
            products = [p * row[d] % modulus for p, d in zip(products, digits, strict=True)]
            lifts = [k + more[d] for k, d in zip(lifts, digits, strict=True)]
        factors = (1 + self._n * lift for lift in lifts)
        return [f * p % modulus for f, p in zip(factors, products, strict=True)]

    def _residue(self, unit: mpz) -> Short:
        return Short.of(gmpy2.powmod(unit, self._n, self._modulus), self._n)

    def _add(self, base: Short) -> Short:
        """Enter the powers of `base` for all values of a digit and return the next one."""
        units, lifts, following = powers(base, 1 << self._window, self._n)
        self._units.append(units)
        self._lifts.append(lifts)
        return following
