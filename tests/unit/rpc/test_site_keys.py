"""This party's RSA pair: made once, kept private, and what counts as a public key."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from fedflow.base.errors.requests import BadKey
from fedflow.base.errors.start import HomeNotUsable
from fedflow.rpc.site_keys import RsaSiteKeys


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> RsaSiteKeys:
    return RsaSiteKeys(tmp_path_factory.mktemp("keys") / "site.pem")


def test_the_pair_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "site.pem"
    one = RsaSiteKeys(path)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(one.public_pem())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    assert set(found) == {RsaSiteKeys(path).public_pem()}
    assert found[0].startswith("-----BEGIN PUBLIC KEY-----")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["site.pem"]


def test_a_signature_holds_for_its_message_and_key_only(keys: RsaSiteKeys) -> None:
    pem, signature = keys.public_pem(), keys.sign(b"message")
    assert keys.verify(pem, b"message", signature)
    assert not keys.verify(pem, b"massage", signature)
    assert not keys.verify(pem, b"message", "")
    assert not keys.verify(pem, b"message", "no base64!")
    other = pem_of(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    assert not keys.verify(other, b"message", signature)


def test_only_rsa_keys_of_a_sensible_size_are_read(keys: RsaSiteKeys) -> None:
    assert keys.read_public(f"  \n{keys.public_pem()}\n") == keys.public_pem()
    weak = pem_of(rsa.generate_private_key(public_exponent=65537, key_size=1024))
    curve = pem_of(ec.generate_private_key(ec.SECP256R1()))
    for pem in (
        "",
        "hello",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
        curve,
        weak,
    ):
        with pytest.raises(BadKey):
            keys.read_public(pem)


def test_a_private_key_is_not_taken_for_a_public_one(tmp_path: Path) -> None:
    keys = RsaSiteKeys(tmp_path / "site.pem")
    keys.public_pem()
    with pytest.raises(BadKey):
        keys.read_public((tmp_path / "site.pem").read_text())


@pytest.mark.parametrize("content", [b"", b"no key", b"\x00\xff"])
def test_a_damaged_key_file_is_told_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "site.pem"
    path.write_bytes(content)
    with pytest.raises(HomeNotUsable):
        RsaSiteKeys(path).public_pem()
    assert path.read_bytes() == content
