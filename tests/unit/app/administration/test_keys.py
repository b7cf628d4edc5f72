"""Keys of parties: what is stored, and whose signature is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedflow.app.administration.keys import MAX_PEM, Keys
from fedflow.base.errors.requests import BadKey, BadRequest, NotSigned, PrivateKeyKept
from tests.unit.app.fakes import OneServer, participant


class Signer:
    """Signs by naming itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def public_pem(self) -> str:
        return self.name

    def read_public(self, pem: str) -> str:
        if not pem.startswith("key"):
            raise BadKey(reason="no")
        return pem.strip()

    def sign(self, message: bytes) -> str:
        return f"{self.name}|{message.decode()}"

    def verify(self, pem: str, message: bytes, signature: str) -> bool:
        return signature == f"{pem}|{message.decode()}"


def keys_of(server: OneServer, name: str = "key-own") -> Keys:
    return Keys(
        store=server.store, signer=lambda: Signer(name), parties=server.parties,
        own_party=server.party_id, clock=server.clock,
    )  # fmt: skip


def test_a_key_is_saved_replaced_and_forgotten(host: OneServer) -> None:
    keys = keys_of(host)
    assert keys.query("9999") is None
    assert not keys.save("9999", "key-1\n")
    assert keys.save("9999", "key-2")
    assert keys.query("9999") == "key-2"
    assert keys.delete("9999")
    assert not keys.delete("9999")
    assert keys.query("9999") is None


def test_the_own_public_key_is_given_and_the_private_one_never(host: OneServer) -> None:
    keys = keys_of(host)
    assert keys.query("10000") == "key-own"
    for party in ("10000", "9999"):
        with pytest.raises(PrivateKeyKept):
            keys.query(party, "private")
    with pytest.raises(BadRequest):
        keys.query("10000", "other")


def test_what_is_no_key_or_the_own_one_is_refused(host: OneServer) -> None:
    keys = keys_of(host)
    for pem in ("", "hello", "key" + "x" * MAX_PEM):
        with pytest.raises(BadKey):
            keys.save("9999", pem)
    with pytest.raises(BadKey, match="makes its own"):
        keys.save("10000", "key-1")
    with pytest.raises(BadRequest):
        keys.save("../x", "key-1")
    assert keys.query("9999") is None


def test_a_call_is_accepted_only_with_the_signature_of_its_party(tmp_path: Path) -> None:
    host = participant(tmp_path)
    keys, guest = keys_of(host), keys_of(host, "key-9999")
    body = json.dumps({"b": 1.5, "a": "ü"}, ensure_ascii=False).encode()
    with pytest.raises(NotSigned, match="its public key is not stored"):
        keys.check("9999", body, guest.sign(body))
    keys.save("9999", "key-9999")
    keys.check("9999", body, guest.sign(body))
    keys.check("9999", body.replace(b" ", b""), guest.sign(body))  # spaces do not count
    for signature in ("", keys.sign(body), guest.sign(b'{"a": "x"}')):
        with pytest.raises(NotSigned):
            keys.check("9999", body, signature)
    with pytest.raises(NotSigned):
        keys.check("9999", b'{"a":"\\u00fc","b":1.5}', guest.sign(body))  # the order counts


def test_what_is_signed_is_the_body_as_pythons_json_writes_it(host: OneServer) -> None:
    keys = keys_of(host)
    assert (
        keys.sign('{"b":1,"a":["ü",null]}'.encode()) == 'key-own|{"b": 1, "a": ["\\u00fc", null]}'
    )
    assert keys.sign(b"") == "key-own|{}"
