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
from typing import Final

import gmpy2
import pyarrow as pa
from gmpy2 import mpz

from fedflow.components.intersection.elements import Elements, parse_elements
from fedflow.components.intersection.hashing import spread
from fedflow.sdk.errors import CodecError
from fedflow.sdk.workers import Progress, Workers, no_progress

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
    """One secret exponent and how to apply it; `workers` do the arithmetic."""

    def __init__(
        self,
        workers: Workers,
        *,
        key_length: int = 2048,
        hash_method: str = "sha256",
        secret: str | None = None,
    ) -> None:
        """`secret` is hexadecimal, a new one if None. Raises: ValueError: it is not, or too long"""
        self._bits = group_bits(key_length)
        secret_bits = GROUPS[self._bits][1]
        self.secret = f"{1 + secrets.randbelow(2**secret_bits - 1):x}" if secret is None else secret
        if not 0 < int(self.secret, 16) < 2**secret_bits:
            raise ValueError(f"not a secret of {secret_bits} bits")
        prime_of(self._bits)  # for all forked children
        self.width = self._bits // 8
        self._cost = 11 * (self._bits / 2048) ** 2.3
        self._hash_method = hash_method
        self._workers = workers

    def blind_ids(
        self, ids: pa.Array, domain: bytes, *, progress: Progress = no_progress
    ) -> Elements:
        """Return the blinded hash of every id (Arrow strings), in their order."""
        work = functools.partial(_blind_ids, self._bits, self.secret, domain, self._hash_method)
        return self._workers.fill_rows(
            work, (ids,), width=self.width, cost=self._cost, progress=progress
        )

    def blind_elements(self, elements: Elements, *, progress: Progress = no_progress) -> Elements:
        """Return the power of every received element, in the order received.

        Raises: CodecError: one is not a square from 2 to p - 1.
        """
        work = functools.partial(_blind_elements, self._bits, self.secret)
        return self._workers.fill_rows(
            work, (elements,), width=self.width, cost=self._cost, progress=progress
        )

    def parse(self, value: object, *, count: int) -> Elements:
        """Return the `count` elements that another party sent, a view; `blind_elements` checks
        that they are in the group.

        Raises: CodecError: another type or length.
        """
        return parse_elements(value, count=count, width=self.width)


# --- on the workers -------------------------------------------------------------------------------


def _blind_ids(bits: int, secret: str, domain: bytes, hash_method: str, ids: pa.Array) -> bytes:
    prime = prime_of(bits)
    hashes = spread(ids.to_pylist(), domain, method=hash_method, size=bits // 8 + _EXTRA_BYTES)
    values = [mpz(int.from_bytes(digest, "big")) % (prime - 1) + 1 for digest in hashes]
    return _powers(bits, secret, [value * value % prime for value in values])


def _blind_elements(bits: int, secret: str, elements: Elements) -> bytes:
    prime, width = prime_of(bits), bits // 8
    data = elements.tobytes()
    values = [mpz(int.from_bytes(data[i : i + width], "big")) for i in range(0, len(data), width)]
    if not all(1 < v < prime and gmpy2.jacobi(v, prime) == 1 for v in values):
        raise CodecError(reason="a received element is not in the group")
    return _powers(bits, secret, values)


def _powers(bits: int, secret: str, values: list[mpz]) -> bytes:
    powers = gmpy2.powmod_base_list(values, mpz(int(secret, 16)), prime_of(bits))
    return b"".join(int(power).to_bytes(bits // 8, "big") for power in powers)
