"""Random n-th residues modulo n**2; why they are safe: `paillier.py`, `okamoto_uchiyama.py`.

The table is in short form (`short_form.py`): a residue is the product of units, one per digit, and
the sum of their lifts goes into the plaintext's factor at no further cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from itertools import islice
from typing import Final, Protocol

import gmpy2
from gmpy2 import mpz

from fedflow.sdk.crypto.short_form import Short, powers

TOGETHER: Final = 256  #: numbers that are encrypted together
#: that a random exponent has more than its base's order: within 2**-40 of uniform
OWNER_EXTRA_BITS: Final = 40
OWNER_EXTRA_BASES: Final = 32  #: towards an owner, who may know that a base misses some
_ONE: Final = mpz(1)

Draw = Callable[[], mpz]
"""Returns a uniform number below n that is coprime to n."""


class Blinding(Enum):
    """How a ciphertext is made random; the docstrings of the schemes compare them."""

    TABLE = "table"
    CONSERVATIVE = "conservative"


class Encryption(Protocol):
    """Makes ciphertexts of plaintexts, each with fresh randomness."""

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield a ciphertext of each value."""


def random_unit(n: mpz) -> mpz:
    """Return a uniform number below n that is coprime to n."""
    while True:
        unit = mpz(secrets.randbelow(int(n)))
        if gmpy2.gcd(unit, n) == 1:
            return unit


class UniformPowers:
    """Uniform n-th residues: r**n for uniform units r."""

    def __init__(self, n: mpz, draw: Draw) -> None:
        self._n, self._modulus = n, n * n
        self._draw = draw

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield 1 + n * value, which is a plaintext's factor, times a residue, for each."""
        for value in values:
            residue = gmpy2.powmod(self._draw(), self._n, self._modulus)
            yield (1 + self._n * value) * residue % self._modulus


class RandomPowers:
    """Random powers of an own random base h_s, from a table of all its digits' powers.

    A digit has `window` bits, at most 8. Each of the `extra_bases` independent random residues adds
    a digit.
    """

    def __init__(
        self, n: mpz, draw: Draw, *, exponent_bits: int, window: int, extra_bases: int = 0
    ) -> None:
        self._n, self._modulus = n, n * n
        self._window = window
        self._digit_of_byte = bytes(byte % (1 << window) for byte in range(256))
        self._units: list[list[mpz]] = []
        self._lifts: list[list[mpz]] = []
        x = draw()
        base = self._residue(-x * x)
        for _ in range(-(-exponent_bits // window)):
            base = self._add(base)
        for _ in range(extra_bases):
            self._add(self._residue(draw()))

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield 1 + n * value, which is a plaintext's factor, times a random power, for each."""
        rest = iter(values)
        while some := list(islice(rest, TOGETHER)):
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


def prime_encryption(p: mpz, blinding: Blinding) -> Encryption:
    """Return what makes 1 + p * value times a random p-th residue, modulo the square of a prime."""
    draw = partial(random_unit, p)
    if blinding is Blinding.CONSERVATIVE:
        return UniformPowers(p, draw)
    exponent_bits = int(p.bit_length()) + OWNER_EXTRA_BITS
    return RandomPowers(p, draw, exponent_bits=exponent_bits, window=8)
