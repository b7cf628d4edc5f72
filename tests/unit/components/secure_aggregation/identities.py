"""Signatures for tests: what certificates do between servers, with keys that follow from names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedflow.sdk import Site


class NamedIdentity:
    """The identity of a site, whose key everybody could make of its name."""

    def __init__(self, own: str) -> None:
        self._own = own

    def sign(self, content: bytes) -> bytes:
        return _key(self._own).sign(content)

    def verify(self, signed: Sequence[tuple[Site, bytes, bytes]]) -> list[bool]:
        return [_is_signed(site.key, content, signature) for site, content, signature in signed]


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def _is_signed(name: str, content: bytes, signature: bytes) -> bool:
    try:
        _key(name).public_key().verify(signature, content)
    except InvalidSignature:
        return False
    return True
