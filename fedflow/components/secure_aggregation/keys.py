"""A member's keys of one round, and what is derived of them: seeds of pairs, sealed shares.

Every derived key is bound to the plan, with its session and round, and to the names of both ends.
So nothing of one round or pair means anything in another. A key that seals is used for one message:
its nonce is fixed.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedflow.components.secure_aggregation.masks import SEED_BYTES
from fedflow.components.secure_aggregation.plan import SumPlan
from fedflow.components.secure_aggregation.shamir import SHARE_BYTES

KEY_BYTES: Final = 32
DIGEST_BYTES: Final = 32
SEALED_BYTES: Final = 2 * SHARE_BYTES + 16
_NONCE: Final = bytes(12)


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """What a member shows of its keys; 32 bytes each."""

    sealing: bytes
    masking: bytes

    def __bytes__(self) -> bytes:
        """Return both, as they travel."""
        return self.sealing + self.masking


@dataclass(frozen=True, slots=True)
class RoundSecrets:
    """What a member draws for one round, and never again."""

    sealing: X25519PrivateKey  #: of what is sealed for it; nobody gets it
    masking: X25519PrivateKey  #: of its masks with others
    self_seed: bytes = field(repr=False)  #: of the mask that is its own
    _agreed: dict[bytes, bytes] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def draw(cls) -> Self:
        """Return new secrets."""
        sealing, masking = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        return cls(sealing, masking, secrets.token_bytes(SEED_BYTES))

    @property
    def public(self) -> PublicKeys:
        """Return the public halves."""
        return PublicKeys(*(_public_of(key) for key in (self.sealing, self.masking)))

    def sealing_secret(self, public: bytes) -> bytes:
        """Return the secret in common with another member, of which keys that seal are derived.

        It is the same in both directions, and kept. Raises: ValueError: bad key.
        """
        if public not in self._agreed:
            self._agreed[public] = _agreed(self.sealing, public)
        return self._agreed[public]


def check_public(public: PublicKeys) -> None:
    """Raise ValueError if a key is one with which everybody agrees on the same secret."""
    for key in (public.sealing, public.masking):
        _agreed(_any_key(), key)


def opened_key(secret: bytes, *, public: bytes) -> X25519PrivateKey:
    """Return the private key that shares opened. Raises: ValueError: it is another one."""
    key = X25519PrivateKey.from_private_bytes(secret)
    if _public_of(key) != public:
        raise ValueError("it is not the key of this public half")
    return key


def bound(purpose: str, plan: SumPlan, *parts: str | bytes) -> bytes:
    """Return bytes that name a purpose, the plan and further parts, and nothing else does."""
    texts = ("fedflow secure sum", purpose, plan.digest, *parts)
    coded = [text if isinstance(text, bytes) else text.encode() for text in texts]
    return b"".join(len(one).to_bytes(4) + one for one in coded)


def digest(purpose: str, plan: SumPlan, *parts: str | bytes) -> bytes:
    """Return SHA-256 of `bound`: a commitment to a secret that nobody can guess."""
    return hashlib.sha256(bound(purpose, plan, *parts)).digest()


def self_mask_seed(self_seed: bytes, plan: SumPlan, member: str) -> bytes:
    """Return the seed of a member's own mask."""
    return _derive(self_seed, bound("self mask", plan, member))


def pair_mask_seed(
    private: X25519PrivateKey, public: bytes, plan: SumPlan, *, own: str, peer: str
) -> bytes:
    """Return the seed of the mask of two members, the same at both. Raises: ValueError: bad key."""
    return _derive(_agreed(private, public), bound("pair mask", plan, *sorted((own, peer))))


def seal(content: bytes, secret: bytes, plan: SumPlan, *, sender: str, receiver: str) -> bytes:
    """Return `content` such that only who has the secret of these two reads it."""
    names = bound("sealed shares", plan, sender, receiver)
    return ChaCha20Poly1305(_derive(secret, names)).encrypt(_NONCE, content, names)


def unseal(sealed: bytes, secret: bytes, plan: SumPlan, *, sender: str, receiver: str) -> bytes:
    """Return what `seal` was given. Raises: ValueError: it was not sealed by and for these."""
    names = bound("sealed shares", plan, sender, receiver)
    cipher = ChaCha20Poly1305(_derive(secret, names))
    try:
        return cipher.decrypt(_NONCE, sealed, names)
    except InvalidTag as exc:
        raise ValueError("it was not sealed by and for these members in this round") from exc


@functools.cache
def _any_key() -> X25519PrivateKey:
    """Return a key with which nothing is hidden."""
    return X25519PrivateKey.generate()


def _public_of(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _agreed(private: X25519PrivateKey, public: bytes) -> bytes:
    return private.exchange(X25519PublicKey.from_public_bytes(public))


def _derive(secret: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=SEED_BYTES, salt=None, info=info).derive(secret)
