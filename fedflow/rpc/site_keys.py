"""This party's RSA pair in a file, and signatures with it. See `app/administration/keys.py`.

Source of the scheme (RSA 2048, PKCS#1 v1.5, SHA-256, base64):
`docs/reference/rest.md#site-signature`.
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from fedflow.base.errors.requests import BadKey
from fedflow.base.errors.start import HomeNotUsable

BITS: Final = 2048  #: of the own key, and at least of another party's
_MOST_BITS: Final = 8192  #: a longer key would make every check slow
_EXPONENT: Final = 65_537


class RsaSiteKeys:
    """The own pair lies in `path` as PEM, readable by the server's user only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._private: rsa.RSAPrivateKey | None = None

    def public_pem(self) -> str:
        """Return the own public key; makes the pair at the first call. Raises: HomeNotUsable."""
        return _pem(self._key().public_key())

    def read_public(self, pem: str) -> str:
        """Return a public key in one form. Raises: BadKey."""
        return _pem(_public(pem))

    def sign(self, message: bytes) -> str:
        """Return the base64 text of the own key's signature. Raises: HomeNotUsable."""
        signature = self._key().sign(message, padding.PKCS1v15(), hashes.SHA256())
        return base64.b64encode(signature).decode()

    def verify(self, pem: str, message: bytes, signature: str) -> bool:
        """Tell whether a signature was made with the key whose public half is `pem`.

        Raises: BadKey.
        """
        try:
            raw = base64.b64decode(signature, validate=True)
            _public(pem).verify(raw, message, padding.PKCS1v15(), hashes.SHA256())
        except (binascii.Error, ValueError, InvalidSignature):
            return False
        return True

    def _key(self) -> rsa.RSAPrivateKey:
        with self._lock:
            if self._private is None:
                try:
                    self._private = self._load() or self._make()
                except OSError as exc:
                    raise HomeNotUsable(
                        path=str(self._path), reason=exc.strerror or str(exc)
                    ) from exc
            return self._private

    def _load(self) -> rsa.RSAPrivateKey | None:
        """Return the stored key, None if there is none yet. Raises: HomeNotUsable, OSError."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
            raise HomeNotUsable(path=str(self._path), reason="it is no private key") from exc
        if not isinstance(key, rsa.RSAPrivateKey):
            raise HomeNotUsable(path=str(self._path), reason="it is no RSA key")
        return key

    def _make(self) -> rsa.RSAPrivateKey:
        """Make a pair and store it before it is used; never over an existing file."""
        key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=BITS)
        content = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.unlink(missing_ok=True)  # of a server that died while it wrote
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._path)
        return key


def _public(pem: str) -> rsa.RSAPublicKey:
    """Return an RSA public key of a sensible size. Raises: BadKey."""
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise BadKey(reason="it is not the PEM text of a public key") from exc
    if not isinstance(key, rsa.RSAPublicKey):
        raise BadKey(reason="it is no RSA key")
    if not BITS <= key.key_size <= _MOST_BITS:
        raise BadKey(reason=f"it has {key.key_size} bits, {BITS} to {_MOST_BITS} are accepted")
    return key


def _pem(key: rsa.RSAPublicKey) -> str:
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
