"""What is wrong with a party's certificate: looked at with `cryptography`, which is 11 MiB."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from fedflow.base.errors.start import BadCertificate


def check_certificate(
    cert_pem: bytes,
    key_pem: bytes,
    *,
    ca_pem: bytes,
    files: Sequence[Path],
    name: str,
    party_id: str,
    now_ms: int,
) -> int:
    """Return when a party's certificate ends, in milliseconds since the epoch.

    `files` are those of the certificate, the key and the authorities; `name` is the DNS name that
    the certificate must have. Raises: BadCertificate: it is not of `party_id`, does not fit the
    key, is not signed by the authorities, is not yet or no longer valid.
    """
    certificate, key, authorities = files
    own = _certificates(cert_pem, "tls.certificate", certificate)
    trusted = _certificates(ca_pem, "tls.ca", authorities)
    leaf = own[0]
    _check_dates(leaf, "tls.certificate", now_ms)
    check_names(leaf, party_id, name)
    _check_key(leaf, key_pem, key)
    _check_issuer(own, trusted)
    return int(leaf.not_valid_after_utc.timestamp() * 1000)


def _certificates(pem: bytes, setting: str, path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as exc:
        raise BadCertificate(path=setting, reason=f"{path} holds no PEM certificate") from exc


def _check_dates(leaf: x509.Certificate, setting: str, now_ms: int) -> None:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    start, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now < start:
        raise BadCertificate(
            path=setting, reason=f"it is valid only from {start:%Y-%m-%d %H:%M} UTC on"
        )
    if now > end:
        raise BadCertificate(path=setting, reason=f"it expired on {end:%Y-%m-%d %H:%M} UTC")


def check_names(leaf: x509.Certificate, party_id: str, name: str) -> None:
    common = [str(a.value) for a in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if common != [party_id]:
        raise BadCertificate(
            path="tls.certificate",
            reason=f"its common name is {', '.join(common) or 'missing'}, not party {party_id}",
        )
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        dns = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        dns = []
    if name not in dns:
        raise BadCertificate(
            path="tls.certificate",
            reason=f"the DNS name {name} is not among its alternative names",
        )


def _check_key(leaf: x509.Certificate, key_pem: bytes, path: Path) -> None:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError) as exc:
        raise BadCertificate(path="tls.key", reason=f"{path} holds no plain PEM key") from exc
    if _public(key.public_key()) != _public(leaf.public_key()):
        raise BadCertificate(path="tls.key", reason=f"{path} is not the key of the certificate")


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
    raise BadCertificate(
        path="tls.certificate", reason="none of the authorities in tls.ca has signed it"
    )


def _signed(link: x509.Certificate, *, by: x509.Certificate) -> bool:
    try:
        link.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
