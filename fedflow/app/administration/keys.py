"""RSA keys of parties: this party's own pair and the public keys of others.

The own pair is made when it is first needed and lies in the home folder; its private half never
leaves this server. With `authentication.site.switch` calls between parties are signed with it.
Source: `docs/reference/rest.md#site-signature` and `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, Protocol

from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.requests import BadKey, BadRequest, NotSigned, PrivateKeyKept
from fedflow.domain.administration.records import SiteKey
from fedflow.wire.json_text import decode_json
from fedflow.wire.paths import fits

MAX_PEM: Final = 16_384  #: characters of a key


class SiteSigner(Protocol):
    """The cryptography of site keys."""

    def public_pem(self) -> str:
        """Return this party's own public key; makes the pair at the first call."""

    def read_public(self, pem: str) -> str:
        """Return a public key in one form. Raises: BadKey: it is none that can be used."""

    def sign(self, message: bytes) -> str:
        """Return the base64 text of the own key's signature."""

    def verify(self, pem: str, message: bytes, signature: str) -> bool:
        """Tell whether a signature was made with the key whose public half is `pem`."""


class Keys:
    """The use cases of `/v1/key`, and the signatures of calls between parties."""

    def __init__(
        self, *, store: Store, signer: Callable[[], SiteSigner], parties: PartyClient,
        own_party: str | None, clock: Clock,
    ) -> None:  # fmt: skip
        self._store = store
        self._signer = signer
        self._parties = parties
        self._own_party = own_party
        self._clock = clock

    def save(self, party_id: str, pem: str) -> bool:
        """Store another party's public key; tell whether there was one before.

        Raises: BadRequest, BadKey: it is no RSA public key, or this party's own is meant.
        """
        if _party(party_id) == self._own_party:
            raise BadKey(reason=f"party {party_id} is this server, which makes its own key")
        if len(pem) > MAX_PEM:
            raise BadKey(reason=f"it is longer than {MAX_PEM} characters")
        key = SiteKey(
            party_id=party_id,
            pem=self._signer().read_public(pem),
            updated_ms=self._clock.now_ms(),
        )
        with self._store.transaction() as tx:
            known = tx.site_keys.get(party_id) is not None
            tx.site_keys.put(key)
        return known

    def query(self, party_id: str, key_name: str = "public") -> str | None:
        """Return a party's public key as PEM, None if it is not known.

        Raises: BadRequest, PrivateKeyKept.
        """
        if key_name == "private":
            raise PrivateKeyKept
        if key_name != "public":
            raise BadRequest(reason=f"{key_name[:100]!r} is no key name; known are public, private")
        with self._store.read() as tx:
            stored = tx.site_keys.get(_party(party_id))
        if stored is not None:
            return stored.pem
        return self._signer().public_pem() if self._parties.is_local(party_id) else None

    def delete(self, party_id: str) -> bool:
        """Forget another party's key; False if there is none. Raises: BadRequest."""
        with self._store.transaction() as tx:
            return tx.site_keys.drop(_party(party_id))

    # --- signatures -------------------------------------------------------------------------------

    def sign(self, body: bytes) -> str:
        """Return the signature of the JSON body of a call to another party."""
        return self.sign_message(_signed_text(body))

    def own_pem(self) -> str:
        """Return this party's own public key. Raises: HomeNotUsable."""
        return self._signer().public_pem()

    def sign_message(self, message: bytes) -> str:
        """Return the signature of bytes that say themselves what they are for."""
        return self._signer().sign(message)

    def check(self, party_id: str, body: bytes, signature: str) -> None:
        """Check the signature of another party's call.

        Raises: NotSigned: none, a wrong one, or no key of that party is stored here.
        """
        self.check_message(party_id, _signed_text(body), signature)

    def check_message(self, party_id: str, message: bytes, signature: str) -> None:
        """Check another party's signature of bytes.

        Raises: NotSigned: none, a wrong one, or no key of that party is stored here.
        """
        if not signature:
            raise NotSigned(party_id=party_id[:100], reason="it carries no signature")
        with self._store.read() as tx:
            stored = tx.site_keys.get(party_id)
        if stored is None:
            where = f"at party {self._own_party}" if self._own_party else "here"
            reason = f"its public key is not stored {where}"
            raise NotSigned(party_id=party_id[:100], reason=reason)
        if not self._signer().verify(stored.pem, message, signature):
            raise NotSigned(party_id=party_id[:100], reason="the signature is not its own")


def _signed_text(body: bytes) -> bytes:
    """Return what is signed: the body as Python's `json` writes it, keys in their order.

    Raises: BadRequest: the body is no JSON.
    """
    return json.dumps(decode_json(body) if body.strip() else {}).encode()


def _party(party_id: str) -> str:
    if not fits("party_id", party_id):
        raise BadRequest(reason=f"{party_id[:100]!r} is not a party id")
    return party_id
