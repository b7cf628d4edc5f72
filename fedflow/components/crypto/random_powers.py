"""Random n-th residues for Paillier ciphertexts, from a table; why they are safe: `paillier.py`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import gmpy2
from gmpy2 import mpz

if TYPE_CHECKING:
    from fedflow.components.crypto.paillier import PublicKey

_ONE: Final = mpz(1)


class RandomPowers:
    """Random powers of an own random base h_s, from a table of all its digits' powers.

    Each of the `extra_bases` independent random residues adds a digit of `window` bits.
    """

    def __init__(
        self, key: PublicKey, *, exponent_bits: int, window: int, extra_bases: int = 0
    ) -> None:
        x = key.random_unit()
        base = gmpy2.powmod(-x * x % key.n, key.n, key.modulus)
        self._modulus = key.modulus
        self._window = window
        digits = (exponent_bits + 7) // 8 * 8 // window
        self._bytes = (digits + extra_bases) * window // 8
        self._rows = []
        for _ in range(digits):
            row = _powers(base, 1 << window, key.modulus)
            self._rows.append(row)
            base = row[-1] * base % key.modulus
        for _ in range(extra_bases):
            residue = gmpy2.powmod(key.random_unit(), key.n, key.modulus)
            self._rows.append(_powers(residue, 1 << window, key.modulus))

    def draw(self) -> Iterator[mpz]:
        """Yield independent random powers, without end."""
        modulus, rows = self._modulus, self._rows
        while True:
            result = _ONE
            for row, digit in zip(rows, self._digits(), strict=True):
                result = result * row[digit] % modulus
            yield result

    def _digits(self) -> Sequence[int]:
        exponent = secrets.token_bytes(self._bytes)
        if self._window == 8:
            return exponent
        return [digit for byte in exponent for digit in (byte & 15, byte >> 4)]


def _powers(base: mpz, count: int, modulus: mpz) -> list[mpz]:
    """Return base**0 to base**(count - 1)."""
    powers = [_ONE]
    for _ in range(count - 1):
        powers.append(powers[-1] * base % modulus)
    return powers
