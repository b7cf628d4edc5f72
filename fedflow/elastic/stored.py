"""A state's bytes as the text that back ends store: a checksum, then base64."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final

from fedflow.base.errors.rendezvous import RendezvousNotAllowed, RendezvousStateCorrupt
from fedflow.elastic.state import MAX_BYTES

_CHECKSUM_LENGTH: Final = 8
MAX_TEXT: Final = _CHECKSUM_LENGTH + 4 * (MAX_BYTES + 2) // 3  #: characters, at most


def text_of(state: bytes) -> str:
    """Return the text of a state's bytes. Raises: RendezvousNotAllowed: it is too large."""
    if len(state) > MAX_BYTES:
        raise RendezvousNotAllowed(reason=f"a state of {len(state)} bytes; {MAX_BYTES} are allowed")
    return f"{zlib.crc32(state):08x}{base64.b64encode(state).decode('ascii')}"


def bytes_of(text: str) -> bytes:
    """Return a state's bytes. Raises: RendezvousStateCorrupt: the text is damaged."""
    try:
        state = base64.b64decode(text[_CHECKSUM_LENGTH:].encode("ascii"), validate=True)
        found = int(text[:_CHECKSUM_LENGTH], 16)
    except (binascii.Error, ValueError):
        raise RendezvousStateCorrupt(reason="what is stored cannot be read") from None
    if found != zlib.crc32(state):
        raise RendezvousStateCorrupt(reason="its checksum differs")
    return state
