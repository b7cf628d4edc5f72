"""Ids made unreadable for those who lack a key.

A hash without a key hides nothing: phone numbers and the like are guessed in minutes. So there is
always a key, which the parties that compare share and all others do not have. Whoever has it can
test guesses. To compare ids with a party that must not do so, use Intersection.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

KEY_BYTES: Final = 16  #: at least

DIGEST_BYTES: Final = 32


def hash_ids(ids: Iterable[str], *, key: bytes, purpose: str) -> list[bytes]:
    """Return 32 bytes for each id: HMAC-SHA-256 of the purpose and the id.

    Equal ids give equal bytes for one key and purpose, and unrelated ones for another. `ids` are
    texts, such as `column.to_pylist()`.

    Raises: ValueError: the key has fewer than 16 bytes, or there is no purpose. TypeError: an id is
        no text.
    """
    head = _head(key, purpose)
    return [hmac.digest(key, head + _bytes(text), "sha256") for text in ids]


def list_digest(ids: Iterable[str], *, key: bytes, purpose: str) -> bytes:
    """Return 32 bytes for a whole list of ids in its order, to tell whether two lists are equal.

    Raises: as `hash_ids`.
    """
    found = hmac.new(key, _head(key, purpose), hashlib.sha256)
    for text in ids:
        data = _bytes(text)
        found.update(len(data).to_bytes(8, "big") + data)
    return found.digest()


def _head(key: bytes, purpose: str) -> bytes:
    if len(key) < KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes; new_seed() makes one of 32")
    if not purpose:
        raise ValueError("say what the hashes are for: each purpose has its own")
    data = purpose.encode()
    return len(data).to_bytes(8, "big") + data


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"an id is a text, not a {type(text).__name__}")
    return text.encode()
