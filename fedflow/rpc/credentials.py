"""This party's key and certificate, and whom it trusts: loaded and checked before anything listens.

A party's certificate names it twice: the common name is the party id (what a server reads of a
client), and the DNS name `party-<id>` is among its alternative names (what a client checks of a
server).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from fedflow.base.errors.start import BadSetting
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Key, certificate and trusted authorities of this party, as PEM."""

    party_id: PartyId
    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes
    expires_ms: int  #: when the certificate ends

    def for_server(self) -> grpc.ServerCredentials:
        """Return what a gRPC server needs; a client without a certificate is refused."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.authorities,
            require_client_auth=True,
        )

    def for_client(self) -> grpc.ChannelCredentials:
        """Return what a gRPC channel to another party needs."""
        return grpc.ssl_channel_credentials(
            root_certificates=self.authorities,
            private_key=self.key,
            certificate_chain=self.certificate,
        )


def load_credentials(
    certificate: Path, key: Path, *, authorities: Path, party_id: str, now_ms: int
) -> Credentials:
    """Return the credentials in three PEM files.

    Raises: BadSetting: a file cannot be read; the certificate is not of `party_id`, does not fit
        the key, is not signed by the authorities, is not yet or no longer valid.
    """
    cert_pem = _read(certificate, "tls.certificate")
    key_pem = _read(key, "tls.key")
    ca_pem = _read(authorities, "tls.authorities")
    own = _certificates(cert_pem, "tls.certificate", certificate)
    trusted = _certificates(ca_pem, "tls.authorities", authorities)
    leaf = own[0]
    _check_dates(leaf, "tls.certificate", now_ms)
    _check_names(leaf, party_id)
    _check_key(leaf, key_pem, key)
    _check_issuer(own, trusted)
    return Credentials(
        party_id=PartyId(party_id),
        certificate=cert_pem,
        key=key_pem,
        authorities=ca_pem,
        expires_ms=int(leaf.not_valid_after_utc.timestamp() * 1000),
    )


def server_name(party_id: str) -> str:
    """Return the DNS name that the certificate of a party's server must have."""
    return f"party-{party_id}"


def certificate_party(context: grpc.aio.ServicerContext[Any, Any]) -> PartyId | None:
    """Return the party that the caller's certificate names, or None if the connection has no TLS.

    A certificate without exactly one common name is that of the party "", which does not exist.
    """
    found = context.auth_context()
    if b"insecure" in list(found.get("transport_security_type", (b"insecure",))):
        return None
    names = list(found.get("x509_common_name", ()))
    return PartyId(names[0].decode(errors="replace") if len(names) == 1 else "")


# --- checks ---------------------------------------------------------------------------------------


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise BadSetting(path=setting, reason=f"{path} cannot be read: {exc.strerror}") from exc


def _certificates(pem: bytes, setting: str, path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as exc:
        raise BadSetting(path=setting, reason=f"{path} holds no PEM certificate") from exc


def _check_dates(leaf: x509.Certificate, setting: str, now_ms: int) -> None:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    start, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now < start:
        raise BadSetting(
            path=setting, reason=f"it is valid only from {start:%Y-%m-%d %H:%M} UTC on"
        )
    if now > end:
        raise BadSetting(path=setting, reason=f"it expired on {end:%Y-%m-%d %H:%M} UTC")


def _check_names(leaf: x509.Certificate, party_id: str) -> None:
    common = [str(a.value) for a in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if common != [party_id]:
        raise BadSetting(
            path="tls.certificate",
            reason=f"its common name is {', '.join(common) or 'missing'}, not party {party_id}",
        )
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        dns = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        dns = []
    if server_name(party_id) not in dns:
        raise BadSetting(
            path="tls.certificate",
            reason=f"the DNS name {server_name(party_id)} is not among its alternative names",
        )


def _check_key(leaf: x509.Certificate, key_pem: bytes, path: Path) -> None:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError) as exc:
        raise BadSetting(path="tls.key", reason=f"{path} holds no plain PEM key") from exc
    if _public(key.public_key()) != _public(leaf.public_key()):
        raise BadSetting(path="tls.key", reason=f"{path} is not the key of the certificate")


def _public(key: Any) -> bytes:
    data: bytes = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return data


def _check_issuer(own: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]) -> None:
    """Follow the chain in the certificate's file until an authority has signed a link."""
    for index, link in enumerate(own):
        if link in trusted or any(_signed(link, by=authority) for authority in trusted):
            return
        if index + 1 < len(own) and not _signed(link, by=own[index + 1]):
            break
    raise BadSetting(
        path="tls.certificate", reason="none of the authorities in tls.authorities has signed it"
    )


def _signed(link: x509.Certificate, *, by: x509.Certificate) -> bool:
    try:
        link.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
