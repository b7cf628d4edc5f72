"""Certificates for trials and tests: an authority, and the parties that it has signed.

`credentials.py` says what a party's certificate must name. Organisations that run for real use the
authority that they have.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors.start import BadSetting
from fedflow.base.values import dataclass

VALID_DAYS = 30
EARLY_MINUTES = 10  #: valid from before now, for clocks that differ
LOCAL_HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Authority:
    """Signs certificates. `certificate` is PEM."""

    certificate: bytes
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    name: x509.Name = field(repr=False)

    def key_pem(self) -> bytes:
        """Return the private key as PEM: whoever has it can make certificates of any party."""
        return _key_pem(self.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyCertificate:
    """A party's certificate and private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def make_ca(
    name: str = "fedflow test authority", *, days: int = VALID_DAYS, clock: Clock | None = None
) -> Authority:
    """Return a new authority (EC P-256, self-signed, valid for `days` days)."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key=key.public_key(), days=days, clock=clock)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Authority(certificate=_pem(builder.sign(key, hashes.SHA256())), key=key, name=subject)


def load_ca(certificate: bytes, key: bytes) -> Authority:
    """Return an authority from its two PEM texts. Raises: BadSetting: they are not one's."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as exc:
        raise BadSetting(path="tls.ca", reason=f"the authority cannot be read: {exc}") from exc
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise BadSetting(path="tls.ca", reason="the authority's key is of another kind")
    if private.public_key() != found.public_key():
        raise BadSetting(path="tls.ca", reason="the key is not that of the authority")
    return Authority(certificate=certificate, key=private, name=found.subject)


def make_certificate(
    party_id: str,
    *,
    authority: Authority,
    hosts: Sequence[str] = (),
    days: int = VALID_DAYS,
    clock: Clock | None = None,
) -> PartyCertificate:
    """Return a party's certificate for both ends of a connection (EC P-256).

    Common name: the party id. Alternative names: `party-<id>`, this machine, and `hosts`, which
    are host names or IP addresses.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, party_id)])
    names = [_alternative(host) for host in dict.fromkeys((*LOCAL_HOSTS, *hosts))]
    usage = x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    certificate = (
        _builder(subject, authority.name, key=key.public_key(), days=days, clock=clock)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(f"party-{party_id}"), *names]),
            critical=False,
        )
        .add_extension(usage, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return PartyCertificate(certificate=_pem(certificate), key=_key_pem(key))


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    *,
    key: ec.EllipticCurvePublicKey,
    days: int,
    clock: Clock | None,
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp((clock or SystemClock()).now_ms() / 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=EARLY_MINUTES))
        .not_valid_after(now + timedelta(days=days))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
