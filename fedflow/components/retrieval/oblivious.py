"""Oblivious transfer of one of n keys: the sender does not learn which one the receiver gets.

    sender                                     receiver
      s random, S = g^s                -->  checks that S is in the group
      T = H(S)                              T = H(S); c: which key; x random, R = T^c g^x
                                       <--  R
      key i = K(i, S, R, (R / T^i)^s)       key c = K(c, S, R, S^x)

In the group of squares modulo a safe prime of RFC 7919, of prime order q; g = 4 generates it. R is
uniform whatever c is, so the sender learns nothing, unconditionally. Another key than c would need
T^s, a Diffie-Hellman value that nobody can compute from S and T (H is a hash to the group). The
keys come from HKDF-SHA-256.
Source: Hauck and Loss 2017, "Efficient and Universally Composable Protocols for Oblivious Transfer
from the CDH Assumption", eprint 2017/1011.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator

import gmpy2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from gmpy2 import mpz

from fedflow.components.intersection.prime_group import group_bits, prime_of
from fedflow.sdk.errors import CodecError

KEY_BYTES = 32
_GENERATOR = mpz(4)
_EXTRA_BYTES = 16  # of a hash, so that its remainder modulo p is uniform within 2**-128


class _Group:
    """The squares modulo a prime, and the hashes of one transfer."""

    def __init__(self, key_length: int, domain: bytes) -> None:
        bits = group_bits(key_length)
        self.prime = prime_of(bits)
        self.order = (self.prime - 1) // 2
        self.width = bits // 8
        self._domain = domain

    def secret(self) -> mpz:
        """Return a random exponent, 1 to q - 1."""
        return mpz(1 + secrets.randbelow(int(self.order) - 1))

    def parse(self, value: object, *, what: str) -> mpz:
        """Return an element that the other side sent. Raises: CodecError: it is none."""
        if not isinstance(value, bytes) or len(value) != self.width:
            raise CodecError(reason=f"{what} is not a number of {self.width} bytes")
        element = mpz(int.from_bytes(value, "big"))
        if not 1 < element < self.prime or gmpy2.jacobi(element, self.prime) != 1:
            raise CodecError(reason=f"{what} is not in the group")
        return element

    def write(self, element: mpz) -> bytes:
        """Return an element as it is sent."""
        return int(element).to_bytes(self.width, "big")

    def hashed(self, element: mpz) -> mpz:
        """Return an element whose logarithm nobody knows."""
        size = self.width + _EXTRA_BYTES
        digest = hashlib.shake_256(self._domain + self.write(element)).digest(size)
        value = mpz(int.from_bytes(digest, "big")) % (self.prime - 1) + 1
        return value * value % self.prime

    def key(self, index: int, sent: mpz, chosen: mpz, shared: mpz) -> bytes:
        """Return the key of an element that both sides know."""
        said = self._domain + index.to_bytes(4, "big") + self.write(sent) + self.write(chosen)
        derive = HKDF(
            hashes.SHA256(), length=KEY_BYTES, salt=None, info=hashlib.sha256(said).digest()
        )
        return derive.derive(self.write(shared))


class KeySender:
    """The side that has all keys; for one transfer."""

    def __init__(self, *, key_length: int, domain: bytes) -> None:
        self._group = _Group(key_length, domain)
        self._secret = self._group.secret()
        self._sent = gmpy2.powmod(_GENERATOR, self._secret, self._group.prime)

    @property
    def public(self) -> bytes:
        """Return what the receiver needs."""
        return self._group.write(self._sent)

    def keys(self, answer: object, count: int) -> Iterator[bytes]:
        """Yield all `count` keys. Raises: CodecError: the answer is no element of the group."""
        group = self._group
        chosen = group.parse(answer, what="the receiver's choice")
        prime = group.prime
        shared = gmpy2.powmod(chosen, self._secret, prime)
        step = gmpy2.invert(gmpy2.powmod(group.hashed(self._sent), self._secret, prime), prime)
        for index in range(count):
            yield group.key(index, self._sent, chosen, shared)
            shared = shared * step % prime


class KeyReceiver:
    """The side that gets key number `choice`; for one transfer."""

    def __init__(self, public: object, *, choice: int, key_length: int, domain: bytes) -> None:
        """Raises: CodecError: `public` is no element of the group."""
        group = _Group(key_length, domain)
        sent = group.parse(public, what="the sender's public value")
        secret, prime = group.secret(), group.prime
        hidden = gmpy2.powmod(group.hashed(sent), choice, prime)
        chosen = hidden * gmpy2.powmod(_GENERATOR, secret, prime) % prime
        self.answer = group.write(chosen)  #: what the sender needs
        self.key = group.key(choice, sent, chosen, gmpy2.powmod(sent, secret, prime))
