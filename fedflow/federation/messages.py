"""What the data plane says: frames and messages, to the executor and to other parties.

A frame is a header length, a body length (both uint32 little endian), a JSON header and raw bytes.
Both links use it: the unix socket of an executor, and the stream between two servers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from fedflow.base.errors.data_plane import (
    CodecError,
    DuplicateValue,
    PeerFailed,
    ReplyFreed,
    SessionUnknown,
    SpoolFull,
    ValueTooLate,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.messages import english
from fedflow.federation.keys import WireKey

PREFIX = struct.Struct("<II")
MAX_HEADER_BYTES = 256 * 1024
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_FRAMES = 65_536  #: in one message; own ones have some hundred, those of protocol 1 what fits
MAX_TEXT = 1000  #: characters of a reason or error field from outside

Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]  #: it becomes part of a path

Incarnation = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""Which launch of a site's executor in one attempt. 0, the first, is left out on the wire: peers of
earlier releases know no other.
"""

CHUNK = struct.Struct("<16sQII")  #: first 16 bytes of the key's id, offset, length, crc32


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of all messages."""


class ErrorInfo(_Message, frozen=True):
    """An error as it travels: the name of a data-plane error and its fields."""

    name: str
    fields: dict[str, str | int | float | None]


# --- executor to server, and back -----------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello", omit_defaults=True):
    """The first message of an executor."""

    session: str
    site: str
    token: str
    incarnation: Incarnation = 0
    executor: str = ""  #: names the handle; "": what it repeats is taken for new


class Send(_Message, frozen=True, tag="send", omit_defaults=True):
    """A value to other sites: the body, or a descriptor of a file (`file`)."""

    id: int
    name: str
    tag: str
    to: list[str]
    size: int
    digest: Digest
    file: bool
    required: bool = True  #: False: a receiver may be gone
    done: list[int] = []  #: requests whose answers were received


class Recv(_Message, frozen=True, tag="recv", omit_defaults=True):
    """Ask for one value; answered when it is there."""

    id: int
    name: str
    tag: str
    source: str
    timeout_s: float
    done: list[int] = []


class RecvAny(_Message, frozen=True, tag="recv_any", omit_defaults=True):
    """Ask for the next unread value of any of some sites, whose tag begins with `tags`.

    Answered with a Value, Departed or Nothing.
    """

    id: int
    name: str
    tags: str
    sources: list[str]
    timeout_s: float
    done: list[int] = []


class Drop(_Message, frozen=True, tag="drop"):
    """Drop unread values whose tags begin with `tags`, those included that arrive later."""

    tags: str


class Done(_Message, frozen=True, tag="done"):
    """The answers to these requests were received: they need not be kept."""

    ids: list[int]


class Welcome(_Message, frozen=True, tag="welcome"):
    """The hello was accepted."""

    spool: str  #: folder for the files of big values
    inline_bytes: int
    run: str  #: names this run of the server: another one has lost what had arrived


class Accepted(_Message, frozen=True, tag="accepted"):
    """The server has the value of Send `id`."""

    id: int


class Delivered(_Message, frozen=True, tag="delivered"):
    """Every receiver's server has the values of the Sends `ids`, or `error` says why not."""

    ids: list[int]
    error: ErrorInfo | None = None


class Value(_Message, frozen=True, tag="value", omit_defaults=True):
    """The value that Recv or RecvAny `id` asked for: the body, or a descriptor of a file."""

    id: int
    size: int
    digest: Digest
    file: bool
    source: str = ""  #: who sent it, and under which tag; for RecvAny
    tag: str = ""
    incarnation: Incarnation = 0  #: of who sent it


class Departed(_Message, frozen=True, tag="departed"):
    """Instead of a value for RecvAny `id`: a site takes no part any more."""

    id: int
    source: str
    reason: str


class Nothing(_Message, frozen=True, tag="nothing"):
    """No value for RecvAny `id` came in time."""

    id: int


class Refused(_Message, frozen=True, tag="refused"):
    """Request `id` (0 = hello) failed."""

    id: int
    error: ErrorInfo


Request = Hello | Send | Recv | RecvAny | Drop | Done
Reply = Welcome | Accepted | Delivered | Value | Departed | Nothing | Refused

# --- server to server -----------------------------------------------------------------------------


class Put(_Message, frozen=True, tag="put", omit_defaults=True):
    """A small value; the body follows in the same frame."""

    seq: int
    key: WireKey
    digest: Digest
    crc32: int
    incarnation: Incarnation = 0  #: of the source
    destination_incarnation: Incarnation = 0  #: for which the value is


NoticeKind = Literal["failed", "ended", "opened", "watch"]


class Notice(_Message, frozen=True, tag="notice", omit_defaults=True):
    """What one site's server tells another about a session.

    `failed`, `ended`: `source` takes no part any more. `opened`: it takes part again. `watch`:
    `source` waits for values of `destination` and requests a message if that one has ended, or is
    of a later incarnation.
    """

    seq: int
    kind: NoticeKind
    session: str
    source: str
    destination: str
    reason: str
    incarnation: Incarnation = 0  #: of the source
    destination_incarnation: Incarnation = 0  #: that the source knows of; for `watch`


class Ack(_Message, frozen=True, tag="ack"):
    """What became of message `seq`.

    `held`: it waits for its session to open, more will come. `later`: send it again. `refused`: see
    `error`.
    """

    seq: int
    status: Literal["stored", "held", "later", "refused"]
    error: ErrorInfo | None = None


class Offer(_Message, frozen=True, tag="offer", omit_defaults=True):
    """The first message of a stream that carries one big value."""

    key: WireKey
    size: int
    digest: Digest
    incarnation: Incarnation = 0  #: of the source
    destination_incarnation: Incarnation = 0  #: for which the value is


class Progress(_Message, frozen=True, tag="progress"):
    """How a big value goes on: `written` bytes are safe, the sender may go up to offset `limit`."""

    status: Literal["wait", "go", "stored", "later", "refused"]
    written: int = 0
    limit: int = 0
    error: ErrorInfo | None = None


PeerMessage = Put | Notice | Ack | Offer | Progress

_encoder = msgspec.json.Encoder(enc_hook=english)
_request_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_reply_decoder: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)
_peer_decoder: msgspec.json.Decoder[PeerMessage] = msgspec.json.Decoder(PeerMessage)


def pack(message: _Message, body: bytes = b"") -> bytes:
    """Return the frame of `message` and `body`."""
    header = _encoder.encode(message)
    return b"".join((PREFIX.pack(len(header), len(body)), header, body))


def pack_header(message: _Message, *, body_length: int) -> bytes:
    """Return the frame without its body, for bodies that are sent on their own."""
    header = _encoder.encode(message)
    return PREFIX.pack(len(header), body_length) + header


def frame_lengths(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int]:
    """Return header and body length of the frame at `offset`.

    Raises: BadRequest: they are too long.
    """
    header, body = PREFIX.unpack_from(data, offset)
    if header > MAX_HEADER_BYTES or body > MAX_BODY_BYTES:
        raise BadRequest(reason=f"a frame of {header} + {body} bytes")
    return header, body


def split_frames(data: bytes, *, most: int = MAX_FRAMES) -> Iterator[tuple[PeerMessage, bytes]]:
    """Yield the messages and bodies of whole frames.

    Raises: BadRequest: `data` is not such, longer than `MAX_MESSAGE_BYTES`, or has more frames.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadRequest(reason=f"a message of {len(data)} bytes")
    offset = 0
    for _ in range(most):
        if offset == len(data):
            return
        if len(data) - offset < PREFIX.size:
            raise BadRequest(reason="a frame is cut off")
        header, body = frame_lengths(data, offset)
        start = offset + PREFIX.size
        offset = start + header + body
        if offset > len(data):
            raise BadRequest(reason="a frame is cut off")
        yield parse_peer(data[start : start + header]), data[start + header : offset]
    if offset < len(data):
        raise BadRequest(reason=f"more than {most} frames in one message")


def parse_request(data: bytes | bytearray | memoryview) -> Request:
    """Return an executor's message. Raises: BadRequest."""
    try:
        return _request_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as exc:
        raise BadRequest(reason=f"not a message: {exc}") from exc


def parse_reply(data: bytes | bytearray | memoryview) -> Reply:
    """Return the server's message. Raises: BadRequest."""
    try:
        return _reply_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as exc:
        raise BadRequest(reason=f"not a message: {exc}") from exc


def parse_peer(data: bytes | bytearray | memoryview) -> PeerMessage:
    """Return another server's message. Raises: BadRequest."""
    try:
        return _peer_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as exc:
        raise BadRequest(reason=f"not a message: {exc}") from exc


# --- chunks of big values -------------------------------------------------------------------------


def pack_chunk(key_id: bytes, data: bytes, *, offset: int) -> bytes:
    """Return one piece of a big value with its checksum."""
    return CHUNK.pack(key_id[:16], offset, len(data), zlib.crc32(data)) + data


def parse_chunk(raw: bytes, key_id: bytes, *, offset: int, size: int) -> tuple[memoryview, int]:
    """Return the bytes of a chunk, which must continue the value at `offset`, and its checksum.

    The caller compares the checksum (not on an event loop). Raises: BadRequest: the chunk does not
    fit.
    """
    if len(raw) <= CHUNK.size:
        raise BadRequest(reason="an empty chunk")
    found_id, found_offset, length, crc32 = CHUNK.unpack_from(raw)
    data = memoryview(raw)[CHUNK.size :]
    if found_id != key_id[:16] or found_offset != offset:
        raise BadRequest(reason=f"a chunk of another value or place than {offset}")
    if length != len(data) or length > MAX_BODY_BYTES or offset + length > size:
        raise BadRequest(reason=f"a chunk of {length} bytes at {offset} of {size}")
    return data, crc32


# --- errors ---------------------------------------------------------------------------------------

_ERRORS: dict[str, type[FedflowError]] = {
    kind.__name__: kind
    for kind in (
        BadRequest,
        NotAuthenticated,
        PeerFailed,
        ValueTooLate,
        CodecError,
        SessionUnknown,
        DuplicateValue,
        SpoolFull,
        ReplyFreed,
    )
}


def error_to_wire(error: FedflowError) -> ErrorInfo:
    """Return `error` as it travels;

    errors of other areas become a BadRequest with their message.
    """
    if type(error).__name__ not in _ERRORS:
        error = BadRequest(reason=error.message)
    return ErrorInfo(name=error.name, fields={k: _plain(v) for k, v in error.fields.items()})


def error_from_wire(info: ErrorInfo | None) -> FedflowError:
    """Return the error that `info` describes; a description that makes no sense is a BadRequest."""
    if info is None:
        return BadRequest(reason="refused without a reason")
    fields = {k: v[:MAX_TEXT] if isinstance(v, str) else v for k, v in info.fields.items()}
    kind = _ERRORS.get(info.name)
    try:
        if kind is not None:
            return kind(**fields)
    except (LookupError, ValueError, TypeError):
        pass
    return BadRequest(reason=f"an error {info.name[:100]!r} that this version does not know")


def _plain(value: Any) -> str | int | float | None:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
