"""Numbers modulo n**2 in a short form, of which products cost half.

A number c that is coprime to n is u * (1 + k n) modulo n**2 with its *unit* u = c mod n and its
*lift* k below n. Since (1 + k n) * (1 + l n) = 1 + (k + l) n modulo n**2, the product of many
numbers is the product of their units, which are half as long as the numbers, times 1 + n * (the sum
of their lifts). Everything is exact: the result is the product modulo n**2 and nothing else.

`unit_inverse` is 1 / u modulo n, which each lift needs: with c = u + v n, k = v / u; and with
u * w = q n + r, the lift of a product u * w grows by q / r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import gmpy2
from gmpy2 import mpz

_ONE = mpz(1)


@dataclass(frozen=True, slots=True)
class Short:
    """One number in short form; all three parts are below n."""

    unit: mpz
    lift: mpz
    unit_inverse: mpz

    @staticmethod
    def of(number: mpz, n: mpz) -> Short:
        """Return `number` modulo n**2 in short form. Raises: ZeroDivisionError: no unit."""
        quotient, unit = divmod(number, n)
        inverse = gmpy2.invert(unit, n)
        return Short(unit, quotient * inverse % n, inverse)


def powers(base: Short, count: int, n: mpz) -> tuple[list[mpz], list[mpz], Short]:
    """Return the units and the lifts of base**0 to base**(count - 1), and base**count."""
    unit, lift, inverse = _ONE, mpz(0), _ONE
    units, lifts = [], []
    for _ in range(count):
        units.append(unit)
        lifts.append(lift)
        quotient, unit = gmpy2.t_divmod(unit * base.unit, n)
        inverse = inverse * base.unit_inverse % n
        lift = (lift + base.lift + quotient * inverse) % n
    return units, lifts, Short(unit, lift, inverse)


@dataclass(frozen=True, slots=True)
class ShortFactors:
    """Numbers to multiply powers of, in short form, and their inverses in the same form."""

    units: list[mpz]  #: of the numbers, then of their inverses
    lifts: list[mpz]  #: of the numbers
    corrections: list[mpz]  #: the lift of an inverse is -(lift + correction)

    @staticmethod
    def of(numbers: Sequence[mpz], n: mpz) -> ShortFactors:
        """Return `numbers` with one inversion. Raises: ZeroDivisionError: one is not coprime."""
        parts = [divmod(number, n) for number in numbers]
        units = [unit for _, unit in parts]
        inverses = _inverses(units, n)
        return ShortFactors(
            units=[*units, *inverses],
            lifts=[part[0] * w % n for part, w in zip(parts, inverses, strict=True)],
            corrections=[u * w // n for u, w in zip(units, inverses, strict=True)],
        )


def _inverses(units: Sequence[mpz], n: mpz) -> list[mpz]:
    """Return the inverses of all `units` with one inversion. Raises: ZeroDivisionError."""
    if not units:
        return []
    prefixes = list(accumulate(units, lambda a, b: a * b % n))
    inverse = gmpy2.invert(prefixes[-1], n)
    inverses = [_ONE] * len(units)
    for index in range(len(units) - 1, 0, -1):
        inverses[index] = inverse * prefixes[index - 1] % n
        inverse = inverse * units[index] % n
    inverses[0] = inverse
    return inverses
