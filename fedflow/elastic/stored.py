"""A state's bytes as the text that back ends store: a checksum, then base64."""

from __future__ import annotations

import base64
import binascii
import zlib

from fedflow.base.errors.rendezvous import RendezvousNotAllowed, RendezvousStateCorrupt
from fedflow.domain.administration.rendezvous import CHECKSUM_LENGTH, MAX_STATE_BYTES


def text_of(state: bytes) -> str:
    """Return the text of a state's bytes. Raises: RendezvousNotAllowed: it is too large."""
    if len(state) > MAX_STATE_BYTES:
        reason = f"a state of {len(state)} bytes; {MAX_STATE_BYTES} are allowed"
        raise RendezvousNotAllowed(reason=reason)
    return f"{zlib.crc32(state):08x}{base64.b64encode(state).decode('ascii')}"


def bytes_of(text: str) -> bytes:
    """Return a state's bytes. Raises: RendezvousStateCorrupt: the text is damaged."""
    try:
        state = base64.b64decode(text[CHECKSUM_LENGTH:].encode("ascii"), validate=True)
        found = int(text[:CHECKSUM_LENGTH], 16)
    except (binascii.Error, ValueError):
        raise RendezvousStateCorrupt(reason="what is stored cannot be read") from None
    if found != zlib.crc32(state):
        raise RendezvousStateCorrupt(reason="its checksum differs")
    return state
