"""Site keys of parties in memory, for tests and benchmarks of what an exchange carries."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fedflow.base.errors.requests import NotSigned
from fedflow.rpc.site_keys import RsaSiteKeys


class MemorySiteKeys:
    """The site keys that one party has: its own pair, and what others gave it."""

    def __init__(self, party_id: str) -> None:
        self.party_id = party_id
        self._known: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder:
            self._own = RsaSiteKeys(Path(folder, "site.pem"))
            self._own.public_pem()  # it stays in memory

    def trust(self, other: MemorySiteKeys) -> MemorySiteKeys:
        """Store another party's public key."""
        self._known[other.party_id] = other._own.public_pem()
        return self

    def sign_message(self, message: bytes) -> str:
        """Return this party's signature."""
        return self._own.sign(message)

    def check_message(self, party_id: str, message: bytes, signature: str) -> None:
        """Check another party's signature. Raises: NotSigned."""
        pem = self._known.get(party_id)
        if pem is None or not self._own.verify(pem, message, signature):
            raise NotSigned(party_id=party_id, reason="the signature is not its own")
