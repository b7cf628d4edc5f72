"""How two parties agree on a session: X25519 keys of the moment, signed with their site keys.

One message each way. Each names both parties, a time and a nonce; the answer is signed over the
question as well. The secret comes from both keys and the digest of both messages, so whoever
changes a byte of them leaves the parties with different secrets, or a signature that fails.
Source: Krawczyk 2003, "SIGMA: the SIGn-and-MAc approach to authenticated Diffie-Hellman" (the
signed exchange; the first record of a call takes the place of the MAC); RFC 7748; RFC 5869.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import struct
from dataclasses import field
from typing import Annotated, Final, Protocol, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedflow.base.errors.parties import SealBroken, SealExpired, SealMisdirected
from fedflow.base.values import dataclass

T = TypeVar("T")

WINDOW_MS: Final = 300_000  #: how far the clocks of two parties may be apart
MAX_BYTES: Final = 4_096  #: of a message here
_LENGTH: Final = struct.Struct("<H")
_HELLO: Final = b"fedflow exchange hello 1\0"
_WELCOME: Final = b"fedflow exchange welcome 1\0"

Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]


class SiteKeys(Protocol):
    """Signatures with the site keys of parties."""

    def sign_message(self, message: bytes) -> str:
        """Return this party's signature."""

    def check_message(self, party_id: str, message: bytes, signature: str) -> None:
        """Check another party's signature. Raises: NotSigned."""


class SessionHello(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the calling party proposes."""

    source: str
    destination: str
    nonce: Key
    key: Key  #: X25519, of this session alone
    time_ms: int


class SessionWelcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the called party answers."""

    source: str  #: who called
    destination: str  #: who answers
    nonce: Key
    key: Key
    time_ms: int
    session: Id


@dataclass(frozen=True, kw_only=True, slots=True)
class SealedSession:
    """What two parties agreed on."""

    session_id: bytes
    source: str
    destination: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A hello that was not answered yet."""

    message: bytes
    hello: SessionHello
    private: X25519PrivateKey = field(repr=False)


def propose(source: str, destination: str, *, keys: SiteKeys, now_ms: int) -> Proposal:
    """Return a new proposal to another party."""
    private = X25519PrivateKey.generate()
    hello = SessionHello(
        source=source,
        destination=destination,
        nonce=os.urandom(32),
        key=private.public_key().public_bytes_raw(),
        time_ms=now_ms,
    )
    raw = _encoder.encode(hello)
    message = _framed(raw, keys.sign_message(_HELLO + raw))
    return Proposal(message=message, hello=hello, private=private)


def read_hello(message: bytes, *, now_ms: int) -> SessionHello:
    """Return a proposal whose signature is not checked yet. Raises: SealBroken, SealExpired."""
    raw, _ = _split(message)
    hello = _read(_hello_decoder, raw)
    check_time(hello.time_ms, now_ms=now_ms)
    return hello


def accept(message: bytes, *, keys: SiteKeys, now_ms: int) -> tuple[SealedSession, bytes]:
    """Return the session that a proposal leads to, and the answer.

    Raises: SealBroken, SealExpired; NotSigned: the caller's signature, or its key, is missing.
    """
    raw, signature = _split(message)
    hello = read_hello(message, now_ms=now_ms)
    keys.check_message(hello.source, _HELLO + raw, signature)
    private = X25519PrivateKey.generate()
    welcome = SessionWelcome(
        source=hello.source,
        destination=hello.destination,
        nonce=os.urandom(32),
        key=private.public_key().public_bytes_raw(),
        time_ms=now_ms,
        session=os.urandom(16),
    )
    answer = _encoder.encode(welcome)
    signed = keys.sign_message(_WELCOME + hashlib.sha256(message).digest() + answer)
    return _session(private, hello.key, welcome, message, answer), _framed(answer, signed)


def conclude(proposal: Proposal, answer: bytes, *, keys: SiteKeys, now_ms: int) -> SealedSession:
    """Return the session that an answer leads to.

    Raises: SealBroken, SealExpired; SealMisdirected: it is another party's, or for another;
        NotSigned.
    """
    raw, signature = _split(answer)
    welcome = _read(_welcome_decoder, raw)
    hello = proposal.hello
    if (welcome.source, welcome.destination) != (hello.source, hello.destination):
        raise SealMisdirected(source=welcome.source[:64], destination=welcome.destination[:64])
    digest = hashlib.sha256(proposal.message).digest()
    keys.check_message(hello.destination, _WELCOME + digest + raw, signature)
    check_time(welcome.time_ms, now_ms=now_ms)
    return _session(proposal.private, welcome.key, welcome, proposal.message, raw)


def check_time(time_ms: int, *, now_ms: int) -> None:
    """Raises: SealExpired: a time is too far from now, in either direction."""
    off_ms = abs(now_ms - time_ms)
    if off_ms > WINDOW_MS:
        raise SealExpired(seconds=off_ms // 1000, limit=WINDOW_MS // 1000)


def _session(
    private: X25519PrivateKey, key: bytes, welcome: SessionWelcome, hello: bytes, answer: bytes
) -> SealedSession:
    try:
        common = private.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        raise SealBroken(reason="a public key leads to no secret") from None
    transcript = hashlib.sha256(hashlib.sha256(hello).digest() + answer).digest()
    secret = HKDF(SHA256(), 32, salt=transcript, info=b"fedflow exchange session 1").derive(common)
    return SealedSession(
        session_id=welcome.session,
        source=welcome.source,
        destination=welcome.destination,
        secret=secret,
    )


_encoder: Final = msgspec.json.Encoder()
_hello_decoder: Final = msgspec.json.Decoder(SessionHello)
_welcome_decoder: Final = msgspec.json.Decoder(SessionWelcome)


def _read(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError):
        raise SealBroken(reason="it proposes no session") from None


def _framed(raw: bytes, signature: str) -> bytes:
    return _LENGTH.pack(len(raw)) + raw + signature.encode()


def _split(message: bytes) -> tuple[bytes, str]:
    """Return what was signed and the signature. Raises: SealBroken."""
    if not _LENGTH.size <= len(message) <= MAX_BYTES:
        raise SealBroken(reason="it proposes no session")
    (length,) = _LENGTH.unpack_from(message)
    end = _LENGTH.size + length
    signature = message[end:]
    if end > len(message) or not _is_base64(signature):
        raise SealBroken(reason="it proposes no session")
    return message[_LENGTH.size : end], signature.decode()


def _is_base64(text: bytes) -> bool:
    """Tell whether a text is the one that its bytes are written as."""
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)) == text
    except binascii.Error:
        return False
