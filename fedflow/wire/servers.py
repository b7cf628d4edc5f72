"""What servers of one party tell each other: one gRPC method, MessagePack both ways."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fedflow.base.messages import english

METHOD: Final = "/fedflow.v1.Servers/Call"
SECRET: Final = "fedflow-server-secret"  # noqa: S105  # the name of a header
"""Metadata by which a server proves that it reads the database of the one it calls."""


class ScanNow(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """Renew your lease now, and check your workers."""


class Wake(msgspec.Struct, frozen=True, kw_only=True, tag="wake"):
    """Something changed that the leader should check."""

    jobs: list[str] = []
    queue: bool = False
    destinations: list[str] = []  #: parties that commands wait for


class PartyCommand(msgspec.Struct, frozen=True, kw_only=True, tag="command"):
    """A command of a party, checked where it came in; the leader carries it out."""

    path: str
    headers: dict[str, str]
    body: bytes


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; of a command HTTP status and body."""

    status: int = 200
    body: bytes = b""


Message = ScanNow | Wake | PartyCommand

_messages: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Message)
_answers = msgspec.msgpack.Decoder(Answer)
_encoder = msgspec.msgpack.Encoder(enc_hook=english)


def pack(value: Message | Answer) -> bytes:
    """Return a value's bytes."""
    return _encoder.encode(value)


def read_message(raw: bytes) -> Message:
    """Raises: msgspec.MsgspecError."""
    message: Message = _messages.decode(raw)
    return message


def read_answer(raw: bytes) -> Answer:
    """Raises: msgspec.MsgspecError."""
    return _answers.decode(raw)
