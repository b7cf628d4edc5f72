"""Primes for own keys, and what can be checked of another party's modulus without its factors."""

from __future__ import annotations

import secrets
from typing import Final

import gmpy2
from gmpy2 import mpz

from fedflow.sdk.errors import CodecError

MAX_BITS: Final = 8192  #: no component makes longer keys; one would slow down all arithmetic
_PRIME_TESTS: Final = 32
_SMALL_PRIMES_PRODUCT: Final = gmpy2.primorial(4096)


def parse_modulus(text: object, *, bits: int) -> mpz:
    """Return the product of large primes that `text` says in hexadecimal.

    Raises: CodecError: not a number of `bits` to MAX_BITS bits, or one that is obviously weak
        (even, prime, a power, or with a factor below 4096).
    """
    n = parse_number(text)
    if n < 0 or not bits <= n.bit_length() <= MAX_BITS:
        raise CodecError(reason=f"the public key has {n.bit_length()} bits, not {bits}")
    if gmpy2.gcd(n, _SMALL_PRIMES_PRODUCT) != 1 or gmpy2.is_power(n) or gmpy2.is_prime(n):
        raise CodecError(reason="the public key is no product of two large primes")
    return n


def parse_number(text: object) -> mpz:
    """Return the number that `text` says in hexadecimal.

    Raises: CodecError: it says none, or one of more than MAX_BITS bits.
    """
    if not isinstance(text, str) or len(text) > MAX_BITS // 4 + 2:
        raise CodecError(reason="the public key is not a hexadecimal text of at most 8192 bits")
    try:
        return mpz(int(text, 16))
    except ValueError as exc:
        raise CodecError(reason="the public key is not a hexadecimal number") from exc


def small_order(number: mpz, n: mpz) -> bool:
    """Tell whether the order of `number` modulo a factor of n divides the primes below 4096."""
    power = gmpy2.powmod(number, _SMALL_PRIMES_PRODUCT, n)
    return bool(gmpy2.gcd(power - 1, n) != 1)


def random_prime(bits: int) -> mpz:
    """Return a random prime of exactly `bits` bits, top two bits set, that is 3 modulo 4."""
    top = 3 << (bits - 2)
    while True:
        candidate = mpz(secrets.randbits(bits) | top | 3)
        if gmpy2.is_prime(candidate, _PRIME_TESTS):
            return candidate
