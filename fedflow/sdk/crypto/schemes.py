"""Additively homomorphic encryption as components use it, whatever the scheme.

| scheme | key | ciphertext | plaintext | assumption |
|---|---|---|---|---|
| `paillier` | n = p q | 2 x bits of n | bits of n - 2 | decisional composite residuosity |
| `ou` | n = p**2 q | bits of n | a third of n's, less 2 | p-subgroup |

Which is faster is measured: docs/reference/numerics.md#ciphertexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Protocol

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto import paillier
from fedflow.sdk.crypto.okamoto_uchiyama import OUPrivateKey, OUPublicKey
from fedflow.sdk.crypto.random_powers import Blinding
from fedflow.sdk.errors import CodecError


class Cryptosystem(Enum):
    """The schemes, by the names that parameters and messages use."""

    PAILLIER = "paillier"
    OU = "ou"  # Okamoto-Uchiyama


class PublicScheme(Protocol):
    """A public key: what every party may have."""

    @property
    def modulus(self) -> mpz:
        """Return what ciphertexts are multiplied modulo."""

    @property
    def bits(self) -> int:
        """Return the length of the key."""

    @property
    def width(self) -> int:
        """Return the bytes of one ciphertext in a message."""

    @property
    def plaintext_bits(self) -> int:
        """Return how large plaintexts may get: every |plaintext| is below 2**this."""

    @property
    def key_id(self) -> bytes:
        """Return what tells this key from others, 8 bytes."""

    @property
    def blinding(self) -> Blinding:
        """Return how ciphertexts are made random."""

    def to_wire(self) -> dict[str, str]:
        """Return the key as plain JSON, for `parse_key` of another party."""

    def prepare(self, *, to_owner: bool = False) -> None:
        """Build what `encrypt` and `blind` need, so that processes forked later share it."""

    def encrypt(self, values: Iterable[int], *, to_owner: bool = False) -> Iterator[mpz]:
        """Yield a fresh ciphertext of each value, |value| < 2**plaintext_bits (not checked).

        `to_owner` tells that the key owner will see them, who knows more than others.
        """

    def blind(self, ciphertexts: Iterable[mpz], *, to_owner: bool = False) -> Iterator[mpz]:
        """Yield each ciphertext with new randomness: a must for results that leave this party."""

    def blinding_products(self, *, to_owner: bool = False) -> float:
        """Return about how many products of ciphertexts a fresh blinding takes."""

    def add(self, left: mpz, right: mpz) -> mpz:
        """Return a ciphertext of the sum."""

    def add_plain(self, ciphertext: mpz, value: int) -> mpz:
        """Return a ciphertext of the plaintext plus `value`."""

    def multiply_plain(self, ciphertext: mpz, factor: int) -> mpz:
        """Return a ciphertext of the plaintext times `factor` (cheap for small |factor|)."""

    def total(self, ciphertexts: Sequence[mpz]) -> mpz:
        """Return a ciphertext of the sum of all."""

    def slots(self, slot_bits: int) -> int:
        """Return how many signed values of `slot_bits` bits one plaintext holds.

        Raises: ValueError: not even one.
        """

    def pack(self, ciphertexts: Sequence[mpz], slot_bits: int) -> list[mpz]:
        """Return fewer ciphertexts with several plaintexts each; `ciphertexts.unpack` undoes it.

        Every |plaintext| must be below 2**(slot_bits - 1); nobody can check it later.
        """

    def to_bytes(self, ciphertexts: Iterable[mpz]) -> bytes:
        """Return the message of ciphertexts."""

    def body(self, ciphertexts: Iterable[mpz]) -> bytes:
        """Return ciphertexts as `width` bytes each."""

    def message(self, body: bytes) -> bytes:
        """Return the message of ciphertexts that `body` gave."""

    def message_of(self, rows: NDArray[np.uint8]) -> bytes:
        """Return the message of ciphertexts that are there as bytes, count x width."""

    def count(self, payload: object) -> int:
        """Return how many ciphertexts a message holds. Raises: CodecError: it is none."""

    def check_count(self, payload: object, count: int) -> None:
        """Do nothing if it is a message of `count` ciphertexts. Raises: CodecError."""

    def from_bytes(self, payload: object, *, count: int) -> list[mpz]:
        """Return the `count` ciphertexts of a message, all checked.

        Raises: CodecError: another count, another key, or not valid ciphertexts.
        """

    def rows_of(self, payload: object, *, count: int) -> NDArray[np.uint8]:
        """Return the ciphertexts of a message unchecked (count x width). Raises: CodecError."""

    def read_rows(self, rows: NDArray[np.uint8]) -> list[mpz]:
        """Return some of what `rows_of` gave, checked. Raises: CodecError."""

    def read(self, payload: object, start: int, stop: int) -> list[mpz]:
        """Return ciphertexts of a message that `count` accepted, checked. Raises: CodecError."""


class PrivateScheme(Protocol):
    """A private key: what the owner alone has. Let it not leave the party."""

    @property
    def public(self) -> PublicScheme:
        """Return the public key."""

    @property
    def primes(self) -> tuple[int, int]:
        """Return the secret."""

    def prepare(self) -> None:
        """Build what `encrypt` needs, so that processes forked later share it."""

    def encryption_products(self) -> float:
        """Return about how many products of ciphertexts `encrypt` takes for a value."""

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield a fresh ciphertext of each value, |value| < 2**plaintext_bits (not checked).

        They look like those of the public key to everybody else, and are made faster.
        """

    def decrypt(self, ciphertexts: Iterable[mpz]) -> list[int]:
        """Return the signed plaintexts of ciphertexts that this party computed itself."""

    def open(self, ciphertexts: Iterable[mpz], *, limit_bits: int) -> list[int]:
        """Return the signed plaintexts of what others computed, all |value| < 2**limit_bits.

        Raises: CodecError: one is outside: use the key no more. ValueError: a limit above
            `plaintext_bits`.
        """


def generate_key(
    method: Cryptosystem, bits: int, blinding: Blinding = Blinding.TABLE
) -> PrivateScheme:
    """Return a new key whose n has `bits` bits. Raises: ValueError: none has that many."""
    if method is Cryptosystem.OU:
        return OUPrivateKey.generate(bits, blinding=blinding)
    return paillier.PrivateKey.generate(bits, blinding=blinding)


def parse_key(
    value: object, method: Cryptosystem, bits: int, blinding: Blinding = Blinding.TABLE
) -> PublicScheme:
    """Return the key of at least `bits` bits that another party sent (`PublicScheme.to_wire`).

    Raises: CodecError: it is none, too short, or obviously weak.
    """
    if not isinstance(value, dict):
        raise CodecError(reason="no public key where one was due")
    if method is Cryptosystem.OU:
        return OUPublicKey.parse(value.get("n"), value.get("g"), bits=bits, blinding=blinding)
    return paillier.PublicKey.parse(value.get("n"), bits=bits, blinding=blinding)
