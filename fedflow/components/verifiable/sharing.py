"""Verifiable secret sharing: shares of numbers whose dealer has committed to them.

A dealer hides each number as the constant of a polynomial modulo q, and gives party i its value at
i. It publishes a commitment to every coefficient, in the group of squares modulo a safe prime p of
RFC 7919, which has the prime order q = (p - 1) / 2. A party checks its share against these. Sums of
shares are shares of sums, and products of commitments are commitments to sums. So a wrong share of
a sum is found, too.

Commitments are g^a h^b with a random b (Pedersen 1991), not g^a (Feldman 1987): of the latter, who
guesses a small number can test the guess. Nobody knows the logarithm of h, which is a hash.

Many checks are done as one, of random combinations (Bellare, Garay, Rabin 1998): a wrong share
passes with a probability of 2**-128.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import gmpy2
from gmpy2 import mpz

from fedflow.components.intersection.prime_group import prime_of

BITS: Final = 2048  #: of the prime
WIDTH: Final = BITS // 8  #: bytes of an element, and of a number modulo q
_CHALLENGE_BITS: Final = 128
_GENERATOR: Final = 4  # a square other than 1, so it generates all of them

Pair = tuple[mpz, mpz]  #: a share: of the number, and of what blinds its commitment
Commitments = Sequence[Sequence[mpz]]  #: per number, one per coefficient


@cache
def order() -> mpz:
    """Return q."""
    return (prime_of(BITS) - 1) // 2


@cache
def second_generator() -> mpz:
    """Return h: a square of which nobody knows the logarithm."""
    text = b"".join(hashlib.sha256(b"fedflow verifiable sum %d" % n).digest() for n in range(9))
    found = mpz(int.from_bytes(text)) % prime_of(BITS)
    return found * found % prime_of(BITS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dealing:
    """What a dealer gives away."""

    commitments: Commitments
    shares: Mapping[int, list[Pair]]  #: by the number of a party, from 1; one per number


def deal(values: Sequence[int], *, parties: int, threshold: int) -> Dealing:
    """Return shares of numbers from 0 to q - 1, any `threshold` of which open them."""
    q, p, h = order(), prime_of(BITS), second_generator()
    polynomials = [_polynomial(q, threshold, value) for value in values]
    blinds = [_polynomial(q, threshold, secrets.randbelow(int(q))) for _ in values]
    commitments = []
    for own, blind in zip(polynomials, blinds, strict=True):
        first = gmpy2.powmod_exp_list(mpz(_GENERATOR), own, p)
        second = gmpy2.powmod_exp_list(h, blind, p)
        commitments.append([a * b % p for a, b in zip(first, second, strict=True)])
    shares = {
        number: [
            (_value_at(own, number, q), _value_at(blind, number, q))
            for own, blind in zip(polynomials, blinds, strict=True)
        ]
        for number in range(1, parties + 1)
    }
    return Dealing(commitments=commitments, shares=shares)


def fits(commitments: Commitments, shares: Sequence[Pair], *, number: int) -> bool:
    """Tell whether the shares of party `number` are those that were committed to.

    All elements must be in the group, see `is_member`.
    """
    q, p = order(), prime_of(BITS)
    challenge = [mpz(secrets.randbits(_CHALLENGE_BITS)) for _ in shares]
    mine = sum((c * share for c, (share, _) in zip(challenge, shares, strict=True)), mpz(0)) % q
    blind = sum((c * other for c, (_, other) in zip(challenge, shares, strict=True)), mpz(0)) % q
    left = gmpy2.powmod(_GENERATOR, mine, p) * gmpy2.powmod(second_generator(), blind, p) % p
    right = mpz(1)
    for coefficients in reversed(list(zip(*commitments, strict=True))):  # Horner's rule
        product = mpz(1)
        for one, c in zip(coefficients, challenge, strict=True):
            product = product * gmpy2.powmod(one, c, p) % p
        right = gmpy2.powmod(right, number, p) * product % p
    return bool(left == right)


def is_member(element: mpz) -> bool:
    """Tell whether a number is an element of the group."""
    return bool(0 < element < prime_of(BITS) and gmpy2.jacobi(element, prime_of(BITS)) == 1)


def multiplied(commitments: Sequence[Commitments]) -> list[list[mpz]]:
    """Return the commitments to the sums, of those of several dealers."""
    p = prime_of(BITS)
    found = []
    for of_number in zip(*commitments, strict=True):
        products = [mpz(1)] * len(of_number[0])
        for one in of_number:
            products = [a * b % p for a, b in zip(products, one, strict=True)]
        found.append(products)
    return found


def added(shares: Sequence[Sequence[Pair]]) -> list[Pair]:
    """Return one party's shares of the sums, of those that several dealers gave it."""
    q = order()
    return [
        (sum((a for a, _ in pairs), mpz(0)) % q, sum((b for _, b in pairs), mpz(0)) % q)
        for pairs in zip(*shares, strict=True)
    ]


def opened(shares: Mapping[int, Sequence[Pair]]) -> list[int]:
    """Return the numbers, from the checked shares of at least `threshold` parties."""
    q = order()
    factors = {
        number: _lagrange(number, [n for n in shares if n != number], q) for number in shares
    }
    columns = zip(*(shares[number] for number in shares), strict=True)
    return [
        int(sum((factors[n] * share for n, (share, _) in zip(shares, of, strict=True)), mpz(0)) % q)
        for of in columns
    ]


def _polynomial(q: mpz, threshold: int, constant: int) -> list[mpz]:
    return [mpz(constant), *(mpz(secrets.randbelow(int(q))) for _ in range(threshold - 1))]


def _value_at(coefficients: Sequence[mpz], number: int, q: mpz) -> mpz:
    found = mpz(0)
    for one in reversed(coefficients):
        found = (found * number + one) % q
    return found


def _lagrange(number: int, others: Sequence[int], q: mpz) -> mpz:
    """Return the factor of the share of `number` in the polynomial's value at 0."""
    above, below = mpz(1), mpz(1)
    for other in others:
        above = above * other % q
        below = below * (other - number) % q
    return above * gmpy2.invert(below, q) % q
