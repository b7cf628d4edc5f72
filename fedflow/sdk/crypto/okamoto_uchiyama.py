"""The Okamoto-Uchiyama cryptosystem over gmpy2: keys, encryption, range of plaintexts, decryption.

n = p**2 q, ciphertexts are `mpz` modulo n, a ciphertext of m is g**m times a *blinding*: a random
n-th residue, that is an element of the group H of order (p - 1)(q - 1). Modulo p**2, g has a part
of order p, from which the owner reads m modulo p. Plaintexts are signed and have a third of the
key's length: |m| < 2**plaintext_bits < p/2. With 2048 bits, ciphertexts are half as long as those
of Paillier, and products cost a third.

**Security argument.** That ciphertexts show nothing of m is the *p-subgroup assumption* (Okamoto
and Uchiyama 1998): nobody without p can tell g**m times a random element of H from a random element
of H. Finding m from a ciphertext is as hard as factoring n. Both are less studied than the
assumptions of RSA and Paillier; the factors must be as long as for other keys of three primes, so
keys have at least 2048 bits (a factor of a 1024-bit key has 341). How the blinding is drawn:

- `Blinding.CONSERVATIVE`: r**n for a uniform unit r, a uniform element of H. Several times slower.
- `Blinding.TABLE` (default): (g**n)**e, the published scheme. e has 40 bits more than the order of
  H, so the result is within 2**-40 of uniform in the group of g**n. No short exponents: the
  argument that allows half their length with Paillier is not known for p**2 q. If that group misses
  some of H, let k be the order of what is missing: the k-th power of a uniform ciphertext, times a
  fresh element of the group, is a ciphertext of k times the plaintext as the table makes them; so
  who reads those reads any. g is the owner's: a bad one harms what is hidden from others than the
  owner, who could as well publish p. `parse` refuses obvious ones.
- Towards the key owner (`to_owner=True`): h_s**e with own random bases, as in `paillier.py`. e has
  40 bits more than n, whatever the owner has chosen as p and q, and 32 further random elements
  cover what the group of h_s may miss.
- The owner itself (`OUPrivateKey.encrypt`) draws the parts modulo p**2 and q and joins them.
  Modulo q a uniform unit is all it takes, as every unit is an n-th residue there; modulo p**2 the
  blinding is a random p-th residue as in `paillier.py`.

**Never give away what was opened unchecked.** If M, known to its sender, is above p/2, then what is
opened is m = M modulo p, and gcd(M - m, n) is p: the private key. So the owner opens what others
have computed with `open`, with the smallest limit that fits, and no opened value leaves the owner
as it is: only what is computed from accepted values. A refusal tells the sender one bit about p; so
a key that has refused a value is used no more (the task fails, and each attempt has its own key).
`decrypt` is for what the owner has computed itself.

Ciphertexts from outside are accepted only if 0 < c < n and coprime to n. As with Paillier, table
look-ups are not constant-time, results are malleable, and parties are semi-honest.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final

import gmpy2
from gmpy2 import mpz

from fedflow.sdk.crypto.ciphertexts import AdditiveKey, OwnerKey
from fedflow.sdk.crypto.modulus import parse_modulus, parse_number, random_prime, small_order
from fedflow.sdk.crypto.power_tables import RandomElements, SignedPowers
from fedflow.sdk.crypto.random_powers import (
    OWNER_EXTRA_BASES,
    OWNER_EXTRA_BITS,
    TOGETHER,
    Blinding,
    Encryption,
    prime_encryption,
    random_unit,
)
from fedflow.sdk.errors import CodecError

LEAST_BITS: Final = 2048  #: of a new key


class OUPublicKey(AdditiveKey):
    """What every party may know: encrypts, computes on ciphertexts, reads and writes them."""

    magic: ClassVar[bytes] = b"FOU\x01"  #: Okamoto-Uchiyama ciphertexts, format version 1

    def __init__(self, n: int, g: int, *, blinding: Blinding = Blinding.TABLE) -> None:
        number = mpz(n)
        super().__init__(
            number,
            modulus=number,
            key_id=hashlib.sha256(f"ou {hex(n)} {hex(g)}".encode()).digest()[:8],
            plaintext_bits=int(number.bit_length()) // 3 - 2,
            blinding=blinding,
        )
        self.g = mpz(g)
        self._plain = SignedPowers(number, self.g)

    def __reduce__(self) -> tuple[object, ...]:
        return _known_key, (int(self.n), int(self.g), self.blinding)

    @staticmethod
    def parse(
        n: object, g: object, *, bits: int, blinding: Blinding = Blinding.TABLE
    ) -> OUPublicKey:
        """Return the key that another party sent as hexadecimal texts.

        That n is p**2 q cannot be checked, nor that g has a part of order p: without these its
        owner cannot decrypt.

        Raises: CodecError: n is not a number of at least `bits` bits or obviously weak (even,
            prime, a power, with a factor below 4096), or g is (no unit, of small order modulo a
            factor of n, or with a Jacobi symbol that ciphertexts would show).
        """
        modulus, generator = parse_modulus(n, bits=bits), parse_number(g)
        if (
            not 1 < generator < modulus - 1
            or gmpy2.jacobi(generator, modulus) != 1
            or small_order(gmpy2.powmod(generator, modulus, modulus), modulus)
        ):
            raise CodecError(reason="the public key's generator is weak")
        return OUPublicKey(int(modulus), int(generator), blinding=blinding)

    def to_wire(self) -> dict[str, str]:
        return {"n": hex(self.n), "g": hex(self.g)}

    def add_plain(self, ciphertext: mpz, value: int) -> mpz:
        return ciphertext * self.factors([value])[0] % self.n

    def _new_encryption(self, *, to_owner: bool) -> Encryption:
        if self.blinding is Blinding.CONSERVATIVE:
            return _Encryption(self, self._uniform)
        if to_owner:
            x = self.random_unit()
            further = [self._residue(self.random_unit()) for _ in range(OWNER_EXTRA_BASES)]
            elements = RandomElements(
                self.n,
                self._residue(-x * x),
                further,
                exponent_bits=self._exponent_bits(to_owner=True),
                window=4,
            )
        else:
            self._plain.extend((self.plaintext_bits + 8) // 8)
            elements = RandomElements(
                self.n,
                self._residue(self.g),
                exponent_bits=self._exponent_bits(to_owner=False),
                window=8,
            )
        return _Encryption(self, elements.draw)

    def _exponent_bits(self, *, to_owner: bool) -> int:
        return self.bits - (0 if to_owner else self.plaintext_bits) + OWNER_EXTRA_BITS

    def blinding_products(self, *, to_owner: bool = False) -> float:
        if self.blinding is Blinding.CONSERVATIVE:
            return 1.2 * self.bits
        digits = self._exponent_bits(to_owner=to_owner) / (4 if to_owner else 8)
        return digits + (OWNER_EXTRA_BASES if to_owner else 0)

    def _uniform(self, count: int) -> list[mpz]:
        return [self._residue(self.random_unit()) for _ in range(count)]

    def _residue(self, unit: mpz) -> mpz:
        return gmpy2.powmod(unit, self.n, self.n)

    def factors(self, values: Sequence[int]) -> list[mpz]:
        """Return g to the power of each value. Raises: ValueError: one is too large."""
        _check_sizes(values, self.plaintext_bits)
        return self._plain.of(values)


class _Encryption:
    """Makes ciphertexts with blindings of one kind."""

    def __init__(self, key: OUPublicKey, draw: Callable[[int], list[mpz]]) -> None:
        self._key = key
        self._draw = draw

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        """Yield a ciphertext of each value. Raises: ValueError: one is too large."""
        n = self._key.n
        rest = iter(values)
        while some := list(islice(rest, TOGETHER)):
            for factor, blinding in zip(
                self._key.factors(some), self._draw(len(some)), strict=True
            ):
                yield factor * blinding % n


class OUPrivateKey(OwnerKey):
    """The key owner's secret: two primes. Its tables are treated as those of the public key."""

    public: OUPublicKey

    def __init__(self, p: int, q: int, g: int, *, blinding: Blinding = Blinding.TABLE) -> None:
        """Raises: ValueError: the primes are unsuitable, or g has no part of order p."""
        self.public = OUPublicKey(p * p * q, g, blinding=blinding)
        too_short = p.bit_length() < self.public.plaintext_bits + 2
        if too_short or p == q or (q - 1) % p == 0 or (p - 1) % q == 0:
            raise ValueError("no key can be made of these primes")
        self._p, self._q, self._p2 = mpz(p), mpz(q), mpz(p) * p
        self._q_inverse = gmpy2.invert(self._q, self._p2)
        part = self._part(self.public.g)
        if part == 0:
            raise ValueError("g has no part of order p")
        self._part_of_g = -part % self._p  # g is a p-th residue times 1 + p * this, modulo p**2
        self._part_inverse = gmpy2.invert(part, self._p)
        self._encryption: Encryption | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _known_private_key, (*self.primes, int(self.public.g), self.public.blinding)

    @staticmethod
    def generate(bits: int, *, blinding: Blinding = Blinding.TABLE) -> OUPrivateKey:
        """Return a new key whose n has exactly `bits` bits. Raises: ValueError: fewer than 2048."""
        if bits < LEAST_BITS:
            raise ValueError(f"an Okamoto-Uchiyama key has at least {LEAST_BITS} bits, not {bits}")
        return new_private_key(bits, blinding=blinding)

    @property
    def primes(self) -> tuple[int, int]:
        """Return p and q, which are the secret; to store the key, `public.g` is needed, too."""
        return int(self._p), int(self._q)

    def prepare(self) -> None:
        self._modulo_p2()

    def encryption_products(self) -> float:
        bits = self.public.bits
        return bits / 8 if self.public.blinding is Blinding.CONSERVATIVE else bits / 40 + 5

    def encrypt(self, values: Iterable[int]) -> Iterator[mpz]:
        modulo_p2 = self._modulo_p2()
        p, q, p2, part = self._p, self._q, self._p2, self._part_of_g
        units = int(q) - 1
        rest = iter(values)
        while some := list(islice(rest, TOGETHER)):
            _check_sizes(some, self.public.plaintext_bits)
            for a in modulo_p2.encrypt(part * value % p for value in some):
                b = secrets.randbelow(units) + 1
                yield b + q * ((a - b) * self._q_inverse % p2)

    def _modulo_p2(self) -> Encryption:
        """Return what makes 1 + p * value times a random p-th residue modulo p**2."""
        if self._encryption is None:
            self._encryption = prime_encryption(self._p, self.public.blinding)
        return self._encryption

    def decrypt(self, ciphertexts: Iterable[mpz]) -> list[int]:
        """Return the signed plaintexts, -p/2 < m < p/2, of what the owner computed itself."""
        p, half, inverse = self._p, self._p >> 1, self._part_inverse
        plaintexts = []
        for ciphertext in ciphertexts:
            m = self._part(ciphertext) * inverse % p
            plaintexts.append(int(m - p if m > half else m))
        return plaintexts

    def _part(self, number: mpz) -> mpz:
        """Return L(number**(p - 1) modulo p**2) with L(x) = (x - 1) / p."""
        return (gmpy2.powmod(number % self._p2, self._p - 1, self._p2) - 1) // self._p


def new_private_key(bits: int, *, blinding: Blinding = Blinding.TABLE) -> OUPrivateKey:
    """Return a new key of any length, for tests; `OUPrivateKey.generate` refuses short ones.

    Both primes are 3 modulo 4 and gcd(p - 1, q - 1) = 2. g is a square, so its Jacobi symbol is 1.
    """
    size = bits // 3
    p = random_prime(size)
    while True:
        q = random_prime(bits - 2 * size)
        n = p * p * q
        if int(n.bit_length()) != bits or gmpy2.gcd(p - 1, q - 1) != 2 or (q - 1) % p == 0:
            continue
        g = random_unit(n) ** 2 % n
        if p != q and gmpy2.powmod(g, p - 1, p * p) != 1:
            return OUPrivateKey(int(p), int(q), int(g), blinding=blinding)


def _check_sizes(values: Sequence[int], bits: int) -> None:
    """Do nothing if every |value| is below 2**bits. Raises: ValueError: one is not.

    Others compute with the ciphertext and cannot see that its plaintext has wrapped around.
    """
    if any(int(value).bit_length() > bits for value in values):
        raise ValueError(f"a plaintext needs more than {bits} bits")


@functools.lru_cache(maxsize=8)
def _known_key(n: int, g: int, blinding: Blinding) -> OUPublicKey:
    """Return this process's key of that modulus, with the tables that it has built already."""
    return OUPublicKey(n, g, blinding=blinding)


@functools.lru_cache(maxsize=8)
def _known_private_key(p: int, q: int, g: int, blinding: Blinding) -> OUPrivateKey:
    """Return this process's key of these primes, with the tables that it has built already."""
    return OUPrivateKey(p, q, g, blinding=blinding)
