"""Signatures with the key of this party's certificate, which carry the certificate along.

So a party verifies another's signature with nothing but the authorities that it trusts anyway.
A signature is JSON: `certificates` (PEM, the party's first), `signature` (base64). RSA signs by
PSS, elliptic curves by ECDSA, both over SHA-256; Ed25519 and Ed448 as they are.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.x509 import verification

from fedflow.base.clock import Clock
from fedflow.base.decoding import decode_as
from fedflow.base.errors.start import BadCertificate
from fedflow.rpc.certificate_check import check_names
from fedflow.rpc.credentials import Credentials, server_name

MOST_BYTES: Final = 16_384  #: of a signature with its certificates
_PSS: Final = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)


class Certified(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signature and the certificates of who made it."""

    certificates: str
    signature: str


class CertificateSigner:
    """Signs as this party, and says whether another party signed."""

    def __init__(self, credentials: Credentials, *, clock: Clock) -> None:
        self._credentials, self._clock = credentials, clock

    def sign(self, content: bytes) -> str:
        """Return this party's signature of `content`. Raises: BadCertificate: no such key signs."""
        signature = _signature(self._key, content)
        text = base64.b64encode(signature).decode()
        certified = Certified(certificates=self._credentials.certificate.decode(), signature=text)
        return msgspec.json.encode(certified).decode()

    def is_signed(self, content: bytes, signature: str, *, party_id: str) -> bool:
        """Tell whether it is the signature of a party whose certificate is valid now."""
        if len(signature) > MOST_BYTES:
            return False
        try:
            found = decode_as(signature.encode(), Certified)
            raw = base64.b64decode(found.signature, validate=True)
            minute = self._clock.now_ms() // 60_000
            key = _key_of(found.certificates, self._credentials.authorities, party_id, minute)
            _verify(key, raw, content)
        except (
            msgspec.DecodeError,
            binascii.Error,
            BadCertificate,
            InvalidSignature,
            UnsupportedAlgorithm,
            ValueError,
            verification.VerificationError,
        ):
            return False
        return True

    @cached_property
    def _key(self) -> Any:
        return serialization.load_pem_private_key(self._credentials.key, password=None)


@lru_cache(maxsize=1024)
def _key_of(certificates: str, authorities: bytes, party_id: str, minute: int) -> Any:
    """Return the public key of a party's certificate.

    Raises: BadCertificate, ValueError, VerificationError: it is not of the party, none of the
        authorities has signed it, or it is not valid in this minute since the epoch.
    """
    leaf, *links = x509.load_pem_x509_certificates(certificates.encode())
    store = verification.Store(x509.load_pem_x509_certificates(authorities))
    name = server_name(party_id)
    chain = (
        verification.PolicyBuilder()
        .store(store)
        .time(datetime.fromtimestamp(minute * 60, UTC))
        .extension_policies(ca_policy=_authority_policy(), ee_policy=_party_policy())
        .build_server_verifier(x509.DNSName(name))
    )
    chain.verify(leaf, links)
    check_names(leaf, party_id, name)
    return leaf.public_key()


def _authority_policy() -> verification.ExtensionPolicy:
    """Authorities must be marked as such, so that no party's certificate signs another."""
    return verification.ExtensionPolicy.permit_all().require_present(
        x509.BasicConstraints, verification.Criticality.AGNOSTIC, None
    )


def _party_policy() -> verification.ExtensionPolicy:
    return verification.ExtensionPolicy.permit_all().require_present(
        x509.SubjectAlternativeName, verification.Criticality.AGNOSTIC, None
    )


def _signature(key: Any, content: bytes) -> bytes:
    made: bytes
    if isinstance(key, rsa.RSAPrivateKey):
        made = key.sign(content, _PSS, hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        made = key.sign(content, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        made = key.sign(content)
    else:
        raise BadCertificate(path="tls.key", reason=f"a {type(key).__name__} cannot sign")
    return made


def _verify(key: Any, signature: bytes, content: bytes) -> None:
    """Raise InvalidSignature if it is not the key's signature."""
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, content, _PSS, hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        key.verify(signature, content)
    else:
        raise InvalidSignature
