"""What additively homomorphic schemes share: blinding, sums, packing, wire form, range checks.

A ciphertext is an `mpz` below a modulus M and coprime to it; the product of two modulo M is a
ciphertext of the sum of their plaintexts. Plaintexts are signed. `paillier.py` and
`okamoto_uchiyama.py` add keys, encryption and decryption; `schemes.py` is what components use.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import ClassVar, Final

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto import multi_exponent
from fedflow.sdk.crypto.random_powers import Blinding, Encryption, random_unit
from fedflow.sdk.errors import CodecError

_HEADER: Final = struct.Struct("<4s8sIQ")  # magic, key id, bytes per ciphertext, count
_ONE: Final = mpz(1)


class AdditiveKey(ABC):
    """What every party may know: encrypts, computes on ciphertexts, reads and writes them.

    Tables of random bases are built at first use and kept; a forked child shares them. They hold no
    used randomness, so a fork is safe. They are not pickled: on another machine a process keeps
    the last few keys it got, and each draws bases of its own.
    """

    magic: ClassVar[bytes]  #: first bytes of a message: scheme and format version

    def __init__(
        self, n: mpz, *, modulus: mpz, key_id: bytes, plaintext_bits: int, blinding: Blinding
    ) -> None:
        self.n = n
        self.modulus = modulus  #: of ciphertexts
        self.bits = int(n.bit_length())
        self.width = (int(modulus.bit_length()) + 7) // 8  #: bytes of one ciphertext
        self.key_id = key_id
        self.plaintext_bits = plaintext_bits  #: every |plaintext| below 2**this is opened as it is
        self.blinding = blinding
        self._to_peer: Encryption | None = None
        self._to_owner: Encryption | None = None

    @abstractmethod
    def to_wire(self) -> dict[str, str]:
        """Return the key as plain JSON, to be sent to other parties."""

    # --- encryption -------------------------------------------------------------------------------

    def encrypt(self, values: Iterable[int], *, to_owner: bool = False) -> Iterator[mpz]:
        """Yield a fresh ciphertext of each value, |value| < 2**plaintext_bits (the caller's duty).

        `to_owner` tells that the key owner will see them.
        """
        return self._encryption(to_owner=to_owner).encrypt(values)

    def prepare(self, *, to_owner: bool = False) -> None:
        """Build a table of blindings now, so that processes forked later share it."""
        self._encryption(to_owner=to_owner)

    def blind(self, ciphertexts: Iterable[mpz], *, to_owner: bool = False) -> Iterator[mpz]:
        """Yield each ciphertext with a new blinding, which hides how it was computed."""
        some, modulus = list(ciphertexts), self.modulus
        zeros = self.encrypt(repeat(0, len(some)), to_owner=to_owner)
        return (old * zero % modulus for old, zero in zip(some, zeros, strict=True))

    def _encryption(self, *, to_owner: bool) -> Encryption:
        """Return what makes ciphertexts for the key owner or for others."""
        if to_owner:
            if self._to_owner is None:
                self._to_owner = self._new_encryption(to_owner=True)
            return self._to_owner
        if self._to_peer is None:
            self._to_peer = self._new_encryption(to_owner=False)
        return self._to_peer

    @abstractmethod
    def _new_encryption(self, *, to_owner: bool) -> Encryption:
        """Return, with tables if `blinding` says so, what makes ciphertexts."""

    @abstractmethod
    def blinding_products(self, *, to_owner: bool = False) -> float:
        """Return about how many products modulo M a fresh blinding takes."""

    def random_unit(self) -> mpz:
        """Return a uniform number below n that is coprime to n."""
        return random_unit(self.n)

    # --- computing on ciphertexts; results are not blinded --------------------------------------

    def add(self, left: mpz, right: mpz) -> mpz:
        """Return a ciphertext of the sum."""
        return left * right % self.modulus

    @abstractmethod
    def add_plain(self, ciphertext: mpz, value: int) -> mpz:
        """Return a ciphertext of the plaintext plus `value`."""

    def multiply_plain(self, ciphertext: mpz, factor: int) -> mpz:
        """Return a ciphertext of the plaintext times `factor` (cheap for small |factor|)."""
        power = gmpy2.powmod(ciphertext, abs(factor), self.modulus)
        return power if factor >= 0 else gmpy2.invert(power, self.modulus)

    def total(self, ciphertexts: Sequence[mpz]) -> mpz:
        """Return a ciphertext of the sum of all."""
        return multi_exponent.product(ciphertexts, self.modulus)

    # --- packing ----------------------------------------------------------------------------------

    def slots(self, slot_bits: int) -> int:
        """Return how many signed values of `slot_bits` bits one plaintext holds.

        Raises: ValueError: not even one.
        """
        count = self.plaintext_bits // slot_bits
        if count < 1:
            raise ValueError(f"a slot of {slot_bits} bits does not fit a key of {self.bits}")
        return count

    def pack(self, ciphertexts: Sequence[mpz], slot_bits: int) -> list[mpz]:
        """Return fewer ciphertexts with several plaintexts each, the first in the lowest slot.

        Every |plaintext| must be below 2**(slot_bits - 1): the sender's duty, nobody can check it
        later. Not blinded.
        """
        size = self.slots(slot_bits)
        shift = _ONE << slot_bits
        packed = []
        for start in range(0, len(ciphertexts), size):
            *lower, result = ciphertexts[start : start + size]
            for ciphertext in reversed(lower):
                result = gmpy2.powmod(result, shift, self.modulus) * ciphertext % self.modulus
            packed.append(result)
        return packed

    # --- wire form --------------------------------------------------------------------------------

    def to_bytes(self, ciphertexts: Iterable[mpz]) -> bytes:
        """Return a header and the ciphertexts, `width` bytes each, little-endian."""
        return self.message(self.body(ciphertexts))

    def body(self, ciphertexts: Iterable[mpz]) -> bytes:
        """Return the ciphertexts, `width` bytes each, little-endian, without a header."""
        return b"".join(c.to_bytes(self.width, "little") for c in ciphertexts)

    def message(self, body: bytes) -> bytes:
        """Return a header and `body`: ciphertexts of `width` bytes each, little-endian."""
        return _HEADER.pack(self.magic, self.key_id, self.width, len(body) // self.width) + body

    def message_of(self, rows: NDArray[np.uint8]) -> bytes:
        """Return a header and ciphertexts that are there as bytes, count x width."""
        header = _HEADER.pack(self.magic, self.key_id, self.width, len(rows))
        return b"".join((header, np.ascontiguousarray(rows).data))

    def count(self, payload: object) -> int:
        """Return how many ciphertexts `payload` holds.

        Raises: CodecError: it is not in wire form, of another key, or cut off.
        """
        if not isinstance(payload, bytes) or len(payload) < _HEADER.size:
            raise CodecError(reason="no ciphertexts where ciphertexts were due")
        magic, key_id, width, count = _HEADER.unpack_from(payload)
        if magic != self.magic:
            raise CodecError(reason="the ciphertexts have an unknown format or version")
        if key_id != self.key_id or width != self.width:
            raise CodecError(reason="the ciphertexts were made with another key")
        if len(payload) != _HEADER.size + count * width:
            raise CodecError(reason=f"{len(payload)} bytes are not {count} ciphertexts")
        return int(count)

    def from_bytes(self, payload: object, *, count: int) -> list[mpz]:
        """Return the `count` ciphertexts of `payload`, all checked.

        Raises: CodecError: another count, not in wire form, or not valid ciphertexts.
        """
        self.check_count(payload, count)
        return self.read(payload, 0, count)

    def check_count(self, payload: object, count: int) -> None:
        """Do nothing if `payload` has the wire form of `count` ciphertexts. Raises: CodecError."""
        found = self.count(payload)
        if found != count:
            raise CodecError(reason=f"{found} ciphertexts where {count} were due")

    def rows_of(self, payload: object, *, count: int) -> NDArray[np.uint8]:
        """Return the `count` ciphertexts of `payload` as they are (count x width, uint8, a view).

        `read_rows` checks them. Raises: CodecError: another count, or not in wire form.
        """
        self.check_count(payload, count)
        assert isinstance(payload, bytes)  # noqa: S101  `count` has looked
        rows = np.frombuffer(payload, np.uint8, offset=_HEADER.size)
        return rows.reshape(count, self.width)

    def read_rows(self, rows: NDArray[np.uint8]) -> list[mpz]:
        """Return the ciphertexts of some of what `rows_of` gave.

        Raises: CodecError: one of them is not a valid ciphertext.
        """
        width, view = self.width, memoryview(rows.tobytes())
        return self._checked(
            [mpz.from_bytes(view[i : i + width], "little") for i in range(0, len(view), width)]
        )

    def read(self, payload: object, start: int, stop: int) -> list[mpz]:
        """Return the ciphertexts `start` to `stop` of `payload`, which `count` has accepted.

        Raises: CodecError: one of them is not a valid ciphertext.
        """
        assert isinstance(payload, bytes)  # noqa: S101  `count` was called
        width, offset = self.width, _HEADER.size
        view = memoryview(payload)
        return self._checked(
            [
                mpz.from_bytes(view[offset + i * width : offset + (i + 1) * width], "little")
                for i in range(start, stop)
            ]
        )

    def _checked(self, found: list[mpz]) -> list[mpz]:
        """Return ciphertexts from outside. Raises: CodecError: one of them is not valid."""
        check = _ONE
        for ciphertext in found:
            if not 0 < ciphertext < self.modulus:
                raise CodecError(reason="a ciphertext is out of range")
            check = check * ciphertext % self.n
        if gmpy2.gcd(check, self.n) != 1:
            raise CodecError(reason="a ciphertext is not a unit")
        return found


class OwnerKey(ABC):
    """What only the owner of a key has: encrypts faster, and opens ciphertexts."""

    public: AdditiveKey

    @abstractmethod
    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield a fresh ciphertext of each value, |value| < 2**plaintext_bits (the caller's duty).

        Others cannot tell it from a ciphertext of the public key; it is faster to make.
        """

    @abstractmethod
    def prepare(self) -> None:
        """Build the tables for `encrypt` now, so that processes forked later share them."""

    @abstractmethod
    def encryption_products(self) -> float:
        """Return about how many products of ciphertexts `encrypt` takes for a value."""

    @abstractmethod
    def decrypt(self, ciphertexts: Iterable[mpz]) -> list[int]:
        """Return the signed plaintexts."""

    def open(self, ciphertexts: Iterable[mpz], *, limit_bits: int) -> list[int]:
        """Return the signed plaintexts, each below 2**limit_bits in size.

        Raises: CodecError: one is not; end the use of the key then, as that tells its sender
            something of it. ValueError: the limit is above `plaintext_bits`, so it checks nothing.
        """
        if not 0 < limit_bits <= self.public.plaintext_bits:
            raise ValueError(f"plaintexts have {self.public.plaintext_bits} bits, not {limit_bits}")
        plaintexts = self.decrypt(ciphertexts)
        if any(abs(plaintext) >> limit_bits for plaintext in plaintexts):
            raise CodecError(reason=f"an opened value needs more than {limit_bits} bits")
        return plaintexts


def unpack(plaintexts: Sequence[int], slot_bits: int, *, slots: int, count: int) -> list[int]:
    """Return the `count` signed values that `AdditiveKey.pack` put into `plaintexts`.

    Raises: CodecError: the number of plaintexts does not fit, or a value has left its slot.
    """
    if len(plaintexts) != -(-count // slots):
        raise CodecError(reason=f"{len(plaintexts)} packed plaintexts for {count} values")
    base, half = 1 << slot_bits, 1 << (slot_bits - 1)
    values: list[int] = []
    for rest in plaintexts:
        for _ in range(min(slots, count - len(values))):
            value = rest & (base - 1)
            if value >= half:
                value -= base
            values.append(value)
            rest = (rest - value) >> slot_bits
        if rest:
            raise CodecError(reason="a packed value does not fit its slot")
    return values
