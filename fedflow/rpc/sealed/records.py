"""Records: the messages of one direction of a call, sealed with keys of their own.

A record is a byte of flags and an AES-256-GCM ciphertext. Its number is not sent: it is the nonce,
so a record that is left out, repeated or moved does not open. Flags and the call's header are
associated data. Keys come from the session's secret, the header and the direction; a direction
takes a new key after `ROTATE_BYTES` or `ROTATE_S`. The last record says that it is the last.
Source: NIST SP 800-38D (GCM); RFC 5869 (HKDF); Hoang, Reyhanitabar, Rogaway, Vizár 2015, "Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance" (STREAM: counter and last flag).
"""

from __future__ import annotations

import time
from enum import IntFlag
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from fedflow.base.errors.parties import SealBroken, SealCutOff

ROTATE_BYTES: Final = 1 << 30  #: sealed with one key, before the next one is taken
ROTATE_S: Final = 600.0  #: the same, in seconds
OVERHEAD: Final = 17  #: bytes of a record beside its plaintext
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class RecordFlag(IntFlag):
    """What a record says of itself."""

    NONE = 0
    LAST = 1  #: no record follows
    NEXT_KEY = 2  #: the records after this one have the next key
    REFUSAL = 4  #: it has a gRPC status and a sentence, and is the last


_FLAGS: Final = frozenset(range(8))


class RecordSealer:
    """Seals one direction of a call; records must be sent in the order in which they are made."""

    def __init__(self, secret: bytes, bound: bytes, *, direction: bytes) -> None:
        """`bound` is the call's header, `direction` is `UP` or `DOWN`."""
        self._key = derive(secret, b"call", direction, bound)
        self._cipher = AESGCM(self._key)
        self._bound = bound
        self._number = 0
        self._bytes = 0
        self._since_s = time.monotonic()
        self.has_ended = False

    def seal(self, data: bytes, flags: RecordFlag = RecordFlag.NONE) -> bytes:
        """Return the next record. Raises: SealCutOff: the last one was made already."""
        if self.has_ended:
            raise SealCutOff
        self._bytes += len(data)
        old = self._bytes >= ROTATE_BYTES or time.monotonic() - self._since_s >= ROTATE_S
        if old:
            flags |= RecordFlag.NEXT_KEY
        head = bytes((flags,))
        nonce = self._number.to_bytes(_NONCE_BYTES, "big")
        record = head + self._cipher.encrypt(nonce, data, self._bound + head)
        self._number += 1
        self.has_ended = bool(flags & RecordFlag.LAST)
        if old:
            self._key = derive(self._key, b"next key")
            self._cipher = AESGCM(self._key)
            self._bytes, self._since_s = 0, time.monotonic()
        return record


class RecordOpener:
    """Opens one direction of a call."""

    def __init__(self, secret: bytes, bound: bytes, *, direction: bytes) -> None:
        self._key = derive(secret, b"call", direction, bound)
        self._cipher = AESGCM(self._key)
        self._bound = bound
        self._number = 0
        self.has_ended = False

    def open(self, record: bytes | memoryview) -> tuple[bytes, RecordFlag]:
        """Return what the next record holds, and its flags.

        Raises: SealBroken: it is not the next one, or was changed. SealCutOff: the last one came
        already.
        """
        if self.has_ended:
            raise SealCutOff
        if len(record) < OVERHEAD or record[0] not in _FLAGS:
            raise SealBroken(reason="it is no record")
        flags = RecordFlag(record[0])
        nonce = self._number.to_bytes(_NONCE_BYTES, "big")
        bound = self._bound + bytes((flags,))
        try:
            data = self._cipher.decrypt(nonce, memoryview(record)[1:], bound)
        except InvalidTag:
            raise SealBroken(
                reason=f"record {self._number} was changed, moved, or is of another call"
            ) from None
        self._number += 1
        self.has_ended = bool(flags & RecordFlag.LAST)
        if flags & RecordFlag.NEXT_KEY:
            self._key = derive(self._key, b"next key")
            self._cipher = AESGCM(self._key)
        return data, flags


UP: Final = b"up"  #: from who calls to who answers
DOWN: Final = b"down"


def derive(secret: bytes, *purpose: bytes) -> bytes:
    """Return a key of 32 bytes for one purpose."""
    info = b"fedflow exchange 1" + b"".join(len(part).to_bytes(2, "big") + part for part in purpose)
    return HKDFExpand(SHA256(), _KEY_BYTES, info).derive(secret)
