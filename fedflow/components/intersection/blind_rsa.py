"""Blind RSA signatures of ids: the signer does not see what it signs.

The signer has a modulus n of secret factors, e = 65537 and d = 1/e. The *name* of an id is
H2(H1(id)^d mod n). The signer makes the names of its own ids. Who wants those of others sends
x = H1(id) r^e, gets y = x^d, and has H1(id)^d = y / r.

Security (semi-honest parties): H1 hashes to all of Z_n, *full domain*: 128 bits more than n has,
mod n, so it is uniform within 2**-128 if its hash is a random oracle. Then x is uniform, whatever
the id, because r is: the signer learns nothing. And nobody without d can make a name by himself:
one more than were signed for him breaks the one-more-RSA-inversion assumption (Bellare,
Namprempre, Pointcheval, Semanko 2003), so the names tell nothing about ids that are not asked for.
The asker checks y / r by its e-th power.

A signer whose e divides p - 1 or q - 1 would learn something about each id: r^e is no permutation
then, and hides only its coset. So with n it sends the e-th roots of numbers that follow from n,
which the asker checks before it asks: of such an n one number in 65537 at most has a root, all
eight have with probability 2**-128 (Goldberg, Reyzin, Sagga, Baldimtsi 2019, with a fixed e).

Unlike FATE, r is uniform below n and new for each id. From an r of `random_bit` = 128 bits the
signer, who has d, could test guesses: (x / H1(guess))^d is short for the right one. From values of
r that are used twice (`random_base_fraction`) it could test pairs of guesses.
Source: Chaum 1983; De Cristofaro and Tsudik 2010.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import gmpy2
import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric import rsa
from gmpy2 import mpz

from fedflow.components.intersection.elements import Elements, Positions
from fedflow.components.intersection.hashing import domain_of, hash_of, spread
from fedflow.sdk.errors import CodecError, ComponentFailed
from fedflow.sdk.workers import BlockWork, Progress, Rows, Workers, no_progress

EXPONENT = 65537  #: e
_EXTRA_BYTES = 16
_FINAL = domain_of("fedflow-psi-name")
_PROOF = "fedflow-psi-key"
_PROOF_ROOTS = 8  #: 65537**8 is more than 2**128


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """How ids get names under one modulus; every party that has it may use this."""

    n: mpz
    domain: bytes
    hash_method: str  #: H1
    final_hash_method: str  #: H2

    @property
    def width(self) -> int:
        """Return the bytes of a number below n."""
        return (int(self.n.bit_length()) + 7) // 8

    @property
    def name_width(self) -> int:
        """Return the bytes of a name."""
        return int(hash_of(self.final_hash_method).digest_size)

    def ask(
        self, ids: pa.Array, seed: bytes, workers: Workers, *, progress: Progress = no_progress
    ) -> Elements:
        """Return x of each id; `seed` is 32 random bytes, which make the values of r."""
        work = functools.partial(_ask, self, seed)
        inputs = (ids, np.arange(len(ids)))
        return self.fill(workers, work, inputs, width=self.width, cost=2, progress=progress)

    def names_of(
        self,
        ids: pa.Array,
        signed: Elements,
        seed: bytes,
        workers: Workers,
        *,
        progress: Progress = no_progress,
    ) -> Elements:
        """Return the name of each id from what the signer answered to `ask`.

        Raises: CodecError: an answer is not the signature of what was asked.
        """
        work = functools.partial(_names_of, self, seed)
        inputs = (ids, np.arange(len(ids)), signed)
        return self.fill(workers, work, inputs, width=self.name_width, cost=4, progress=progress)

    def roots_of(self, rows: Iterable[int], signed: Elements, seed: bytes) -> list[mpz]:
        """Return y / r of each answer; `rows` are their places in what `ask` was given.

        Raises: CodecError: an answer is not within the modulus.
        """
        inverses = (gmpy2.invert(r, self.n) for r in self.units(seed, rows))
        answers = parse_numbers(signed, below=self.n)
        return [y * inverse % self.n for y, inverse in zip(answers, inverses)]

    def hash_roots(self, roots: Iterable[mpz]) -> bytes:
        """Return H2 of each signature."""
        prefix = hash_of(self.final_hash_method, _FINAL + self.domain)
        digests = []
        for root in roots:
            digest = prefix.copy()
            digest.update(int(root).to_bytes(self.width, "big"))
            digests.append(digest.digest())
        return b"".join(digests)

    def hashes(self, texts: Iterable[str]) -> list[mpz]:
        """Return H1 of each id."""
        size = self.width + _EXTRA_BYTES
        digests = spread(texts, self.domain, method=self.hash_method, size=size)
        return [mpz(int.from_bytes(digest, "big")) % self.n for digest in digests]

    def units(self, seed: bytes, rows: Iterable[int]) -> list[mpz]:
        """Return r of some rows: SHA-512 with a secret prefix as generator."""
        size = self.width + _EXTRA_BYTES
        digests = spread(map(str, rows), seed, method="sha512", size=size)
        return [mpz(int.from_bytes(digest, "big")) % self.n for digest in digests]

    def join(self, numbers: Iterable[mpz]) -> bytes:
        """Return the numbers as they travel: big-endian, `width` bytes each."""
        return b"".join(int(number).to_bytes(self.width, "big") for number in numbers)

    def fill(
        self,
        workers: Workers,
        work: BlockWork,
        inputs: tuple[Rows, ...],
        *,
        width: int,
        cost: float,
        progress: Progress,
    ) -> Elements:
        """Return a row of `work` per row of `inputs`; `cost` is that of one with 2048 bits."""
        scale = cost * (self.n.bit_length() / 2048) ** 2
        return workers.fill_rows(work, inputs, width=width, cost=scale, progress=progress)


class SigningKey:
    """The factors of a modulus, and what they are good for."""

    def __init__(self, p: int, q: int) -> None:
        """Raises: ValueError: these are not the factors of a usable key."""
        self.p, self.q = mpz(p), mpz(q)
        if p == q or not (gmpy2.is_prime(self.p) and gmpy2.is_prime(self.q)):
            raise ValueError("not two primes")
        self.n = self.p * self.q
        self._d_p = gmpy2.invert(EXPONENT, self.p - 1)
        self._d_q = gmpy2.invert(EXPONENT, self.q - 1)
        self._q_inverse = gmpy2.invert(self.q, self.p)

    @staticmethod
    def generate(bits: int) -> SigningKey:
        """Return a new key with a modulus of `bits` bits (at least 1024)."""
        numbers = rsa.generate_private_key(
            public_exponent=EXPONENT, key_size=bits
        ).private_numbers()
        return SigningKey(numbers.p, numbers.q)

    @staticmethod
    def from_text(text: str) -> SigningKey:
        """Return the key of `text()`. Raises: ValueError: it is none."""
        p, _, q = text.partition(",")
        return SigningKey(int(p, 16), int(q, 16))

    def text(self) -> str:
        """Return the key as text, which must stay secret."""
        return f"{int(self.p):x},{int(self.q):x}"

    def proof(self) -> list[str]:
        """Return roots that `check_proof` accepts, hexadecimal."""
        return [f"{int(root):x}" for root in self.roots(_challenges(self.n))]

    def names_of(
        self, ids: pa.Array, names: Names, workers: Workers, *, progress: Progress = no_progress
    ) -> Elements:
        """Return the name of each id."""
        work = functools.partial(_own_names, self, names)
        return names.fill(workers, work, (ids,), width=names.name_width, cost=25, progress=progress)

    def sign(
        self, asked: Elements, names: Names, workers: Workers, *, progress: Progress = no_progress
    ) -> Elements:
        """Return x^d of each x. Raises: CodecError: a number is not within 2..n-2."""
        work = functools.partial(_sign, self, names)
        return names.fill(workers, work, (asked,), width=names.width, cost=25, progress=progress)

    def roots(self, numbers: list[mpz]) -> list[mpz]:
        """Return x^d mod n of each x, by the Chinese remainder theorem (RFC 8017, 5.1.2).

        Raises: ComponentFailed: the processor computed a wrong one, which would give away the
            factors (Boneh, DeMillo, Lipton 1997).
        """
        p, q = self.p, self.q
        low = gmpy2.powmod_base_list([x % q for x in numbers], self._d_q, q)
        high = gmpy2.powmod_base_list([x % p for x in numbers], self._d_p, p)
        roots = [b + q * ((a - b) * self._q_inverse % p) for a, b in zip(high, low)]
        if gmpy2.powmod_base_list(roots, EXPONENT, self.n) != numbers:
            raise ComponentFailed(component="Intersection", reason="RSA signatures are wrong")
        return roots


# --- on the workers -------------------------------------------------------------------------------


def _ask(names: Names, seed: bytes, ids: pa.Array, rows: Positions) -> bytes:
    units = names.units(seed, rows.tolist())
    blinds = gmpy2.powmod_base_list(units, EXPONENT, names.n)
    hashes = names.hashes(ids.to_pylist())
    return names.join(h * blind % names.n for h, blind in zip(hashes, blinds))


def _names_of(names: Names, seed: bytes, ids: pa.Array, rows: Positions, signed: Elements) -> bytes:
    roots = names.roots_of(rows.tolist(), signed, seed)
    if gmpy2.powmod_base_list(roots, EXPONENT, names.n) != names.hashes(ids.to_pylist()):
        raise CodecError(reason="a blind signature is wrong")
    return names.hash_roots(roots)


def _own_names(key: SigningKey, names: Names, ids: pa.Array) -> bytes:
    return names.hash_roots(key.roots(names.hashes(ids.to_pylist())))


def _sign(key: SigningKey, names: Names, asked: Elements) -> bytes:
    return names.join(key.roots(parse_numbers(asked, below=names.n - 1)))


# --- proof of a key -------------------------------------------------------------------------------


def check_proof(n: mpz, proof: object) -> None:
    """Do nothing if `proof` shows that powers of e are a permutation modulo n.

    Raises: CodecError: it does not.
    """
    most = int(n.bit_length()) // 4 + 1  # digits
    if (
        not isinstance(proof, list)
        or len(proof) != _PROOF_ROOTS
        or not all(isinstance(root, str) and len(root) <= most for root in proof)
    ):
        raise CodecError(reason="the public key comes without a proof")
    try:
        roots = [mpz(int(root, 16)) for root in proof]
    except ValueError as exc:
        raise CodecError(reason="the proof of the public key is not hexadecimal") from exc
    if gmpy2.powmod_base_list(roots, EXPONENT, n) != _challenges(n):
        raise CodecError(reason="the public key is not proven to hide what is asked")


def _challenges(n: mpz) -> list[mpz]:
    """Return numbers below n that nobody can choose: hashes of n, which no id gives."""
    size = (int(n.bit_length()) + 7) // 8 + _EXTRA_BYTES
    domain = domain_of(_PROOF, f"{int(n):x}")
    digests = spread(map(str, range(_PROOF_ROOTS)), domain, method="sha256", size=size)
    return [mpz(int.from_bytes(digest, "big")) % n for digest in digests]


def new_seed() -> bytes:
    """Return what the values of r are made from."""
    return secrets.token_bytes(32)


def parse_numbers(elements: Elements, *, below: mpz) -> list[mpz]:
    """Return big-endian numbers. Raises: CodecError: one is 0, 1, `below` or more."""
    width = elements.shape[1]
    data = elements.tobytes()
    numbers = [mpz(int.from_bytes(data[i : i + width], "big")) for i in range(0, len(data), width)]
    if not all(1 < number < below for number in numbers):
        raise CodecError(reason="a number is not within the modulus")
    return numbers
