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

- The owner itself (`PrivateKey.encrypt`): the n-th residues modulo n**2 are all pairs of a p-th
  residue modulo p**2 and a q-th one modulo q**2, so it draws these two, each as above from own
  bases with e of 40 bits more than p or q, and joins them. If a base misses some of them, let k be
  the order of what is missing: the k-th power of a uniform ciphertext, times a fresh residue, is a
  ciphertext of k times the plaintext as the table makes them; so who reads those reads any.

Table look-ups are not constant-time: that is safe against other parties, who see only messages,
not against an attacker who runs on the same processor. Ciphertexts from outside are accepted only
if 0 < c < M and coprime to n. Paillier is malleable: a party that misbehaves can falsify results;
parties are assumed to follow the protocol (semi-honest). What is common to the additive schemes is
in `ciphertexts.py`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto import multi_exponent
from fedflow.sdk.crypto.ciphertexts import AdditiveKey, OwnerKey, unpack
from fedflow.sdk.crypto.modulus import parse_modulus, random_prime
from fedflow.sdk.crypto.random_powers import (
    OWNER_EXTRA_BASES,
    OWNER_EXTRA_BITS,
    TOGETHER,
    Blinding,
    Encryption,
    RandomPowers,
    UniformPowers,
    prime_encryption,
)

__all__ = ["Blinding", "PrivateKey", "PublicKey", "unpack"]

_SHORT: Final = 0.6  #: of a product's cost, if one factor is in short form


class PublicKey(AdditiveKey):
    """What every party may know: encrypts, computes on ciphertexts, reads and writes them."""

    magic: ClassVar[bytes] = b"FPA\x01"  #: Paillier ciphertexts, format version 1

    def __init__(self, n: int, *, blinding: Blinding = Blinding.TABLE) -> None:
        number = mpz(n)
        super().__init__(
            number,
            modulus=number * number,
            key_id=hashlib.sha256(hex(number).encode()).digest()[:8],
            plaintext_bits=int(number.bit_length()) - 2,
            blinding=blinding,
        )

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

    def to_wire(self) -> dict[str, str]:
        return {"n": hex(self.n)}

    def with_blinding(self, blinding: Blinding) -> PublicKey:
        """Return the same key whose blindings are made as `blinding` says."""
        return self if blinding is self.blinding else PublicKey(int(self.n), blinding=blinding)

    def _new_encryption(self, *, to_owner: bool) -> Encryption:
        if self.blinding is Blinding.CONSERVATIVE:
            return UniformPowers(self.n, self.random_unit)
        if not to_owner:
            return RandomPowers(
                self.n, self.random_unit, exponent_bits=(self.bits + 1) // 2, window=8
            )
        return RandomPowers(
            self.n,
            self.random_unit,
            exponent_bits=self.bits + OWNER_EXTRA_BITS,
            window=4,
            extra_bases=OWNER_EXTRA_BASES,
        )

    def blinding_products(self, *, to_owner: bool = False) -> float:
        if self.blinding is Blinding.CONSERVATIVE:
            return 1.2 * self.bits
        return _SHORT * (self.bits / 4 + 42 if to_owner else self.bits / 16)

    def add_plain(self, ciphertext: mpz, value: int) -> mpz:
        return ciphertext * (1 + self.n * value) % self.modulus

    def dot_columns(self, ciphertexts: Sequence[mpz], matrix: NDArray[np.int64]) -> list[mpz]:
        """Return for each column x of `matrix` (rows x columns) a ciphertext of sum(m_i * x_i).

        Raises: ValueError: the shapes do not fit, or some |x| reaches 2**62.
        """
        return multi_exponent.dot_columns(ciphertexts, matrix, self.n)


class PrivateKey(OwnerKey):
    """The key owner's secret: two primes. Its tables are treated as those of the public key."""

    public: PublicKey

    def __init__(self, p: int, q: int, *, blinding: Blinding = Blinding.TABLE) -> None:
        if p == q:
            raise ValueError("the primes must differ")
        self.public = PublicKey(p * q, blinding=blinding)
        self._p, self._q = mpz(p), mpz(q)
        self._p2, self._q2 = self._p * self._p, self._q * self._q
        self._hp = gmpy2.invert(-self._q % self._p, self._p)
        self._hq = gmpy2.invert(-self._p % self._q, self._q)
        self._p_inverse = gmpy2.invert(self._p, self._q)
        self._encryptions: tuple[Encryption, Encryption] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _known_private_key, (*self.primes, self.public.blinding)

    @staticmethod
    def generate(bits: int, *, blinding: Blinding = Blinding.TABLE) -> PrivateKey:
        """Return a new key whose n has exactly `bits` bits (even, at least 64).

        Both primes are 3 modulo 4 and gcd(p - 1, q - 1) = 2, as the table of blindings needs.
        """
        if bits < 64 or bits % 2:
            raise ValueError(f"a key cannot have {bits} bits")
        p = random_prime(bits // 2)
        while True:
            q = random_prime(bits // 2)
            if abs(p - q).bit_length() > bits // 2 - 32 and gmpy2.gcd(p - 1, q - 1) == 2:
                return PrivateKey(int(p), int(q), blinding=blinding)

    @property
    def primes(self) -> tuple[int, int]:
        """Return the two primes, which are the secret; for storing the key."""
        return int(self._p), int(self._q)

    def prepare(self) -> None:
        self._both_encryptions()

    def encryption_products(self) -> float:
        bits = self.public.bits
        return bits / 4 if self.public.blinding is Blinding.CONSERVATIVE else bits / 30 + 5

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        modulo_p, modulo_q = self._both_encryptions()
        p, q, p2, q2 = self._p, self._q, self._p2, self._q2
        inverse = gmpy2.invert(q2, p2)
        rest = iter(values)
        while some := list(islice(rest, TOGETHER)):
            left = modulo_p.encrypt(q * value % p for value in some)
            right = modulo_q.encrypt(p * value % q for value in some)
            for a, b in zip(left, right, strict=True):
                yield b + q2 * ((a - b) * inverse % p2)

    def _both_encryptions(self) -> tuple[Encryption, Encryption]:
        """Return what makes 1 + p * value times a p-th residue modulo p**2, and the same for q."""
        if self._encryptions is None:
            blinding = self.public.blinding
            self._encryptions = (
                prime_encryption(self._p, blinding),
                prime_encryption(self._q, blinding),
            )
        return self._encryptions

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


@functools.lru_cache(maxsize=8)
def _known_private_key(p: int, q: int, blinding: Blinding) -> PrivateKey:
    """Return this process's key of these primes, with the tables that it has built already."""
    return PrivateKey(p, q, blinding=blinding)
