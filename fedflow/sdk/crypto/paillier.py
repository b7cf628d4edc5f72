"""The Paillier cryptosystem over gmpy2: keys, encryption, packing, wire form, decryption.

Ciphertexts are `mpz` modulo M = n**2, plaintexts are signed integers below n/2 in size, generator
n + 1. Everything is exact: a decrypted result equals the integer computation. `fixed_point.py`
turns real numbers into integers.

**Security argument.** Semantic security rests on the decisional composite residuosity assumption
(Paillier 1999): a ciphertext is (1 + m n) times a random n-th residue, its *blinding*. Homomorphic
results keep a blinding that their inputs determine, so whatever leaves a party and depends on its
data must go through `blind`. How the blinding is drawn:

- `Blinding.CONSERVATIVE`: r**n for a uniform unit r. No further assumption, 20 times slower.
- `Blinding.TABLE` (default): h_s**e with h = -x**2 for an own random unit x, h_s = h**n, and e of
  half the key's length (Damgard, Jurik, Nielsen 2010). That half-length exponents do not help an
  attacker who cannot factor n is argued by Goldreich and Rosen 2003. Each process draws its own x:
  the public key is n alone, so a key owner cannot plant a base of small order.
- Towards the key owner (`to_owner=True`) factoring is no obstacle, so the half-length argument is
  void: there e has 40 bits more than n, which is within 2**-40 of uniform in the group that h_s
  generates. That group may miss residues, if x**2 happens to be a power modulo a small prime r that
  divides p - 1 or q - 1; an owner who made the inputs of a computation would then learn a linear
  combination of its exponents modulo r. So 32 further random residues enter with exponents of four
  bits each: that none of them lies outside such a group has probability r**-32, at most 2**-50.

Table look-ups are not constant-time: that is safe against other parties, who see only messages,
not against an attacker who runs on the same processor. Ciphertexts from outside are accepted only
if 0 < c < M and coprime to n. Paillier is malleable: a party that misbehaves can falsify results;
parties are assumed to follow the protocol (semi-honest).
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import repeat
from typing import Final

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto import multi_exponent
from fedflow.sdk.crypto.modulus import parse_modulus
from fedflow.sdk.crypto.random_powers import RandomPowers
from fedflow.sdk.errors import CodecError

MAGIC: Final = b"FPA\x01"  #: Paillier ciphertexts, format version 1
_HEADER: Final = struct.Struct("<4s8sIQ")  # magic, key id, bytes per ciphertext, count
_ONE: Final = mpz(1)
_OWNER_EXTRA_BITS: Final = 40
_OWNER_EXTRA_BASES: Final = 32
_PRIME_TESTS: Final = 32


class Blinding(Enum):
    """How random n-th residues are made; the module's docstring compares them."""

    TABLE = "table"
    CONSERVATIVE = "conservative"


class PublicKey:
    """What every party may know: encrypts, computes on ciphertexts, reads and writes them.

    Tables of random bases are built at first use and kept; a forked child shares them. They hold no
    used randomness, so a fork is safe. They are not pickled: on another machine a process keeps
    the last few keys it got, and each draws bases of its own.
    """

    def __init__(self, n: int, *, blinding: Blinding = Blinding.TABLE) -> None:
        self.n = mpz(n)
        self.modulus = self.n * self.n
        self.bits = int(self.n.bit_length())
        self.width = (int(self.modulus.bit_length()) + 7) // 8  #: bytes of one ciphertext
        self.key_id = hashlib.sha256(hex(self.n).encode()).digest()[:8]
        self.blinding = blinding
        self._to_peer: RandomPowers | None = None
        self._to_owner: RandomPowers | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _known_key, (int(self.n), self.blinding)

    @staticmethod
    def parse(text: object, *, bits: int, blinding: Blinding = Blinding.TABLE) -> PublicKey:
        """Return the key of modulus `text` (hexadecimal, as `hex()` gives it) from another party.

        Raises: CodecError: not a number of at least `bits` bits, or one that is obviously weak
            (even, prime, a power, or with a factor below 4096).
        """
        n = parse_modulus(text, bits=bits)
        return PublicKey(int(n), blinding=blinding)

    def with_blinding(self, blinding: Blinding) -> PublicKey:
        """Return the same key whose blindings are made as `blinding` says."""
        return self if blinding is self.blinding else PublicKey(int(self.n), blinding=blinding)

    # --- encryption -------------------------------------------------------------------------------

    def encrypt(self, values: Iterable[int], *, to_owner: bool = False) -> Iterator[mpz]:
        """Yield a fresh ciphertext of each value, |value| < n/2 (the caller's duty).

        `to_owner` tells that the key owner will see them.
        """
        return self._encryption(to_owner=to_owner)(values)

    def prepare(self, *, to_owner: bool = False) -> None:
        """Build a table of blindings now, so that processes forked later share it."""
        self._encryption(to_owner=to_owner)

    def blind(self, ciphertexts: Iterable[mpz], *, to_owner: bool = False) -> Iterator[mpz]:
        """Yield each ciphertext with a new blinding, which hides how it was computed."""
        some, modulus = list(ciphertexts), self.modulus
        zeros = self.encrypt(repeat(0, len(some)), to_owner=to_owner)
        return (old * zero % modulus for old, zero in zip(some, zeros, strict=True))

    def _encryption(self, *, to_owner: bool) -> Callable[[Iterable[int]], Iterator[mpz]]:
        """Return what makes fresh ciphertexts of plaintexts."""
        if self.blinding is Blinding.CONSERVATIVE:
            return self._encrypt_conservatively
        if to_owner:
            if self._to_owner is None:
                self._to_owner = RandomPowers(
                    self,
                    exponent_bits=self.bits + _OWNER_EXTRA_BITS,
                    window=4,
                    extra_bases=_OWNER_EXTRA_BASES,
                )
            return self._to_owner.encrypt
        if self._to_peer is None:
            self._to_peer = RandomPowers(self, exponent_bits=(self.bits + 1) // 2, window=8)
        return self._to_peer.encrypt

    def _encrypt_conservatively(self, values: Iterable[int]) -> Iterator[mpz]:
        for value in values:
            residue = gmpy2.powmod(self.random_unit(), self.n, self.modulus)
            yield (1 + self.n * value) * residue % self.modulus

    def random_unit(self) -> mpz:
        """Return a uniform number below n that is coprime to n."""
        while True:
            unit = mpz(secrets.randbelow(int(self.n)))
            if gmpy2.gcd(unit, self.n) == 1:
                return unit

    # --- computing on ciphertexts; results are not blinded --------------------------------------

    def add(self, left: mpz, right: mpz) -> mpz:
        """Return a ciphertext of the sum."""
        return left * right % self.modulus

    def add_plain(self, ciphertext: mpz, value: int) -> mpz:
        """Return a ciphertext of the plaintext plus `value`."""
        return ciphertext * (1 + self.n * value) % self.modulus

    def multiply_plain(self, ciphertext: mpz, factor: int) -> mpz:
        """Return a ciphertext of the plaintext times `factor` (cheap for small |factor|)."""
        power = gmpy2.powmod(ciphertext, abs(factor), self.modulus)
        return power if factor >= 0 else gmpy2.invert(power, self.modulus)

    def total(self, ciphertexts: Sequence[mpz]) -> mpz:
        """Return a ciphertext of the sum of all."""
        return multi_exponent.product(ciphertexts, self.modulus)

    def dot_columns(self, ciphertexts: Sequence[mpz], matrix: NDArray[np.int64]) -> list[mpz]:
        """Return for each column x of `matrix` (rows x columns) a ciphertext of sum(m_i * x_i).

        Raises: ValueError: the shapes do not fit, or some |x| reaches 2**62.
        """
        return multi_exponent.dot_columns(ciphertexts, matrix, self.n)

    # --- packing ----------------------------------------------------------------------------------

    def slots(self, slot_bits: int) -> int:
        """Return how many signed values of `slot_bits` bits one plaintext holds.

        Raises: ValueError: not even one.
        """
        count = (self.bits - 2) // slot_bits
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
        return _HEADER.pack(MAGIC, self.key_id, self.width, len(body) // self.width) + body

    def message_of(self, rows: NDArray[np.uint8]) -> bytes:
        """Return a header and ciphertexts that are there as bytes, count x width."""
        header = _HEADER.pack(MAGIC, self.key_id, self.width, len(rows))
        return b"".join((header, np.ascontiguousarray(rows).data))

    def count(self, payload: object) -> int:
        """Return how many ciphertexts `payload` holds.

        Raises: CodecError: it is not in wire form, of another key, or cut off.
        """
        if not isinstance(payload, bytes) or len(payload) < _HEADER.size:
            raise CodecError(reason="no ciphertexts where ciphertexts were due")
        magic, key_id, width, count = _HEADER.unpack_from(payload)
        if magic != MAGIC:
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


class PrivateKey:
    """The key owner's secret: two primes."""

    def __init__(self, p: int, q: int, *, blinding: Blinding = Blinding.TABLE) -> None:
        if p == q:
            raise ValueError("the primes must differ")
        self.public = PublicKey(p * q, blinding=blinding)
        self._p, self._q = mpz(p), mpz(q)
        self._p2, self._q2 = self._p * self._p, self._q * self._q
        self._hp = gmpy2.invert(-self._q % self._p, self._p)
        self._hq = gmpy2.invert(-self._p % self._q, self._q)
        self._p_inverse = gmpy2.invert(self._p, self._q)

    @staticmethod
    def generate(bits: int, *, blinding: Blinding = Blinding.TABLE) -> PrivateKey:
        """Return a new key whose n has exactly `bits` bits (even, at least 64).

        Both primes are 3 modulo 4 and gcd(p - 1, q - 1) = 2, as the table of blindings needs.
        """
        if bits < 64 or bits % 2:
            raise ValueError(f"a key cannot have {bits} bits")
        p = _random_prime(bits // 2)
        while True:
            q = _random_prime(bits // 2)
            if abs(p - q).bit_length() > bits // 2 - 32 and gmpy2.gcd(p - 1, q - 1) == 2:
                return PrivateKey(int(p), int(q), blinding=blinding)

    @property
    def primes(self) -> tuple[int, int]:
        """Return the two primes, which are the secret; for storing the key."""
        return int(self._p), int(self._q)

    def decrypt(self, ciphertexts: Iterable[mpz]) -> list[int]:
        """Return the signed plaintexts, -n/2 < m < n/2."""
        p, q, p2, q2 = self._p, self._q, self._p2, self._q2
        exponent_p, exponent_q = p - 1, q - 1
        n = self.public.n
        half = n >> 1
        plaintexts = []
        for ciphertext in ciphertexts:
            mp = (gmpy2.powmod(ciphertext, exponent_p, p2) - 1) // p * self._hp % p
            mq = (gmpy2.powmod(ciphertext, exponent_q, q2) - 1) // q * self._hq % q
            m = mp + p * ((mq - mp) * self._p_inverse % q)
            plaintexts.append(int(m - n if m > half else m))
        return plaintexts


@functools.lru_cache(maxsize=8)
def _known_key(n: int, blinding: Blinding) -> PublicKey:
    """Return this process's key of that modulus, with the tables that it has built already."""
    return PublicKey(n, blinding=blinding)


def unpack(plaintexts: Sequence[int], slot_bits: int, *, slots: int, count: int) -> list[int]:
    """Return the `count` signed values that `PublicKey.pack` put into `plaintexts`.

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


def _random_prime(bits: int) -> mpz:
    """Return a random prime of exactly `bits` bits, top two bits set, that is 3 modulo 4."""
    top = 3 << (bits - 2)
    while True:
        candidate = mpz(secrets.randbits(bits) | top | 3)
        if gmpy2.is_prime(candidate, _PRIME_TESTS):
            return candidate
