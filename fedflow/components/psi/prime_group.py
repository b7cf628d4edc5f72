"""Blinding by powers in a prime group, as Pohlig and Hellman do: (h^a)^b = (h^b)^a modulo p.

The primes are those of RFC 7919 (ffdhe2048 to ffdhe8192). They are *safe*: p = 2q + 1 with q prime,
so the squares form a group of prime order q, in which every exponent from 1 to q - 1 is a
permutation. Ids are hashed to all of 1..p-1 (128 bits more than p has, mod p) and squared. What the
other side sends must be a square other than 1: then no bit of the secret can be found by elements
of small order.

Security is that of `ecdh` with the group exchanged. Secrets are short: at least twice the group's
strength in bits, as RFC 7919 section 5.2 recommends, under the assumption that discrete
logarithms of that length are hard (Gennaro 2000). Powers are not computed in constant time.
Source of the protocol: Pohlig and Hellman 1978; Huberman, Franklin and Hogg 1999.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from typing import Final

import gmpy2
import pyarrow as pa
from gmpy2 import mpz

from fedflow.base.errors import CodecError
from fedflow.components.processes import fill_rows, no_progress
from fedflow.components.psi.elements import Elements, parse_elements
from fedflow.components.psi.hashing import spread

#: bits of p -> the number that RFC 7919 (appendix A) adds, and the bits of a secret
GROUPS: Final = {
    2048: (560316, 256),
    3072: (2625351, 288),
    4096: (5736041, 336),
    6144: (15705020, 384),
    8192: (10965728, 416),
}
_EXTRA_BYTES = 16  # of the hash, so that its remainder modulo p is uniform within 2**-128


def group_bits(key_length: int) -> int:
    """Return the size of the smallest group of at least `key_length` bits (at most 8192)."""
    return min(bits for bits in GROUPS if bits >= key_length)


@functools.cache
def prime_of(bits: int) -> mpz:
    """Return the safe prime of RFC 7919 that has `bits` bits, one of GROUPS.

    Source: appendix A, p = 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) * 2^64 - 1.
    """
    with gmpy2.context(precision=bits + 64):
        digits = gmpy2.floor(gmpy2.exp(1) * mpz(2) ** (bits - 130))
    one = mpz(1)
    return (one << bits) - (one << (bits - 64)) + ((mpz(digits) + GROUPS[bits][0]) << 64) - 1


class PrimeGroupCipher:
    """One secret exponent and how to apply it."""

    def __init__(
        self,
        *,
        key_length: int = 2048,
        hash_method: str = "sha256",
        processes: int = 1,
        secret: str | None = None,
    ) -> None:
        """`secret` is hexadecimal, a new one if None. Raises: ValueError: it is not, or too long"""
        bits = group_bits(key_length)
        secret_bits = GROUPS[bits][1]
        self.secret = f"{1 + secrets.randbelow(2**secret_bits - 1):x}" if secret is None else secret
        self._exponent = mpz(int(self.secret, 16))
        if not 0 < self._exponent < mpz(2) ** secret_bits:
            raise ValueError(f"not a secret of {secret_bits} bits")
        self._prime = prime_of(bits)
        self.width = bits // 8
        self._cost = max(1, round(11 * (bits / 2048) ** 2.3))
        self._hash_method = hash_method
        self._processes = processes

    def blind_ids(
        self, ids: pa.Array, domain: bytes, *, progress: Callable[[float], None] = no_progress
    ) -> Elements:
        """Return the blinded hash of every id (Arrow strings), in their order."""
        size = self.width + _EXTRA_BYTES

        def work(start: int, stop: int, out: memoryview) -> None:
            texts = ids.slice(start, stop - start).to_pylist()
            hashes = spread(texts, domain, method=self._hash_method, size=size)
            self._powers([self._square(digest) for digest in hashes], out)

        return self._fill(len(ids), work, progress)

    def blind_elements(
        self, elements: Elements, *, progress: Callable[[float], None] = no_progress
    ) -> Elements:
        """Return the power of every received element, in the order received.

        Raises: CodecError: one is not a square from 2 to p - 1.
        """
        prime, width = self._prime, self.width

        def work(start: int, stop: int, out: memoryview) -> None:
            data = elements[start:stop].tobytes()
            places = range(0, len(data), width)
            values = [mpz(int.from_bytes(data[i : i + width], "big")) for i in places]
            if not all(1 < v < prime and gmpy2.jacobi(v, prime) == 1 for v in values):
                raise CodecError(reason="a received element is not in the group")
            self._powers(values, out)

        return self._fill(len(elements), work, progress)

    def parse(self, value: object, *, count: int) -> Elements:
        """Return the `count` elements that another party sent, a view; `blind_elements` checks
        that they are in the group.

        Raises: CodecError: another type or length.
        """
        return parse_elements(value, count=count, width=self.width)

    def _square(self, digest: bytes) -> mpz:
        value = mpz(int.from_bytes(digest, "big")) % (self._prime - 1) + 1
        return value * value % self._prime

    def _powers(self, values: list[mpz], out: memoryview) -> None:
        powers = gmpy2.powmod_base_list(values, self._exponent, self._prime)
        out[:] = b"".join(int(power).to_bytes(self.width, "big") for power in powers)

    def _fill(
        self,
        count: int,
        work: Callable[[int, int, memoryview], None],
        progress: Callable[[float], None],
    ) -> Elements:
        return fill_rows(
            count, self.width, work, processes=self._processes, progress=progress, cost=self._cost
        )
