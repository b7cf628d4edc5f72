"""Signatures by certificates: who signed, and what is believed of nobody."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from fedflow.base.clock import SystemClock
from fedflow.base.ids import PartyId
from fedflow.rpc.certificate_signatures import CertificateSigner
from fedflow.rpc.credentials import Credentials
from tests.support.certificates import Authority, make_ca, make_certificate

CONTENT = b"public keys of a round"


class LaterClock(SystemClock):
    """A clock that is ahead."""

    def __init__(self, *, days: int) -> None:
        self._ms = days * 86_400_000

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_ca()


def signer_of(
    authority: Authority,
    party_id: str = "9999",
    *,
    certificate: bytes | None = None,
    key: bytes | None = None,
    days: int = 0,
) -> CertificateSigner:
    pair = make_certificate(party_id, authority=authority)
    credentials = Credentials(
        party_id=PartyId(party_id),
        certificate=certificate or pair.certificate,
        key=key or pair.key,
        authorities=authority.certificate,
        expires_ms=0,
    )
    return CertificateSigner(credentials, clock=LaterClock(days=days))


def issued(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    party_id: str,
    *,
    issuer: x509.Name,
    by: ec.EllipticCurvePrivateKey,
    ca: bool = False,
) -> tuple[bytes, bytes]:
    """Return a party's certificate with a key of any kind, and the key, as PEM."""
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, party_id)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=5))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(f"party-{party_id}")]), False)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(by, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def test_a_signature_is_that_of_its_party_and_of_no_other(authority: Authority) -> None:
    signature = signer_of(authority).sign(CONTENT)
    other = signer_of(authority, "10000")
    assert other.is_signed(CONTENT, signature, party_id="9999")
    assert not other.is_signed(CONTENT, signature, party_id="10000")
    assert not other.is_signed(CONTENT + b".", signature, party_id="9999")


def test_another_authority_is_not_believed(authority: Authority) -> None:
    signature = signer_of(make_ca()).sign(CONTENT)
    assert not signer_of(authority, "10000").is_signed(CONTENT, signature, party_id="9999")


def test_an_expired_certificate_is_not_believed(authority: Authority) -> None:
    signature = signer_of(authority).sign(CONTENT)
    late = signer_of(authority, "10000", days=31)
    assert not late.is_signed(CONTENT, signature, party_id="9999")


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=lambda key: type(key).__name__,
)
def test_keys_of_every_kind_sign(
    authority: Authority,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
) -> None:
    certificate, pem = issued(key, "9999", issuer=authority.name, by=authority.key)
    signature = signer_of(authority, certificate=certificate, key=pem).sign(CONTENT)
    other = signer_of(authority, "10000")
    assert other.is_signed(CONTENT, signature, party_id="9999")


def test_a_party_signs_no_certificate_of_another(authority: Authority) -> None:
    pair = make_certificate("9999", authority=authority)
    parent = serialization.load_pem_private_key(pair.key, password=None)
    assert isinstance(parent, ec.EllipticCurvePrivateKey)
    name = x509.load_pem_x509_certificate(pair.certificate).subject
    key = ec.generate_private_key(ec.SECP256R1())
    forged, pem = issued(key, "10000", issuer=name, by=parent)
    chain = forged + pair.certificate
    signature = signer_of(authority, "10000", certificate=chain, key=pem).sign(CONTENT)
    assert not signer_of(authority, "1").is_signed(CONTENT, signature, party_id="10000")


def test_an_authority_between_may_sign() -> None:
    root_key, between_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    between_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "between")])
    root, _ = issued(root_key, "root", issuer=root_name, by=root_key, ca=True)
    between, _ = issued(between_key, "between", issuer=root_name, by=root_key, ca=True)
    leaf, pem = issued(key, "9999", issuer=between_name, by=between_key)
    authority = Authority(certificate=root, key=root_key, name=root_name)
    signature = signer_of(authority, certificate=leaf + between, key=pem).sign(CONTENT)
    assert signer_of(authority, "1").is_signed(CONTENT, signature, party_id="9999")


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "{}",
        "[]",
        "\ud800",
        "x" * 20_000,
        json.dumps({"certificates": "", "signature": ""}),
        json.dumps({"certificates": "-----BEGIN CERTIFICATE-----", "signature": "AAAA"}),
        json.dumps({"certificates": "", "signature": "no base64"}),
    ],
)
def test_what_is_no_signature_is_none(authority: Authority, signature: str) -> None:
    assert not signer_of(authority).is_signed(CONTENT, signature, party_id="9999")
