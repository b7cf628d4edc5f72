"""The name of a value between two sites, and its bounded, unambiguous encoding."""

from __future__ import annotations

import hashlib

import msgspec

from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.site import Site

MAX_SESSION = 512  #: characters of a session name
MAX_WORD = 256  #: characters of a value's name, of its tag and of a site
MAX_KEY_BYTES = 16 * 1024  #: bytes of an encoded key


class WireKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A key as it travels: a JSON array of five strings."""

    session: str
    name: str
    tag: str
    source: str
    destination: str


_decoder = msgspec.json.Decoder(WireKey)


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueKey:
    """One value of one task attempt, from one site to one other.

    `session` is `<task id>_<task version>`, the same at all sites. An executor that was launched
    again within the attempt is another incarnation of its site; its values are others.
    Raises: BadRequest: a part is empty, too long or holds control characters.
    """

    session: str
    name: str
    tag: str
    source: Site
    destination: Site
    incarnation: int = 0  #: of the source
    destination_incarnation: int = 0

    def __post_init__(self) -> None:
        _check("session", self.session, limit=MAX_SESSION)
        _check("name", self.name, limit=MAX_WORD)
        _check("tag", self.tag, limit=MAX_WORD, empty=True)
        _check("source", self.source.key, limit=MAX_WORD)
        _check("destination", self.destination.key, limit=MAX_WORD)

    @property
    def wire(self) -> WireKey:
        """Return the key as it travels."""
        return WireKey(self.session, self.name, self.tag, self.source.key, self.destination.key)

    @property
    def id(self) -> bytes:
        """Return 32 bytes that name this key in file names and chunk headers (SHA-256)."""
        incarnations = (self.incarnation, self.destination_incarnation)
        named = encode_key(self) + (b"%d %d" % incarnations if any(incarnations) else b"")
        return hashlib.sha256(named).digest()


def encode_key(key: ValueKey) -> bytes:
    """Return `key` as a JSON array; different keys have different encodings."""
    return msgspec.json.encode(key.wire)


def decode_key(data: bytes) -> ValueKey:
    """Return the key that `data` encodes. Raises: BadRequest: it is not one."""
    if len(data) > MAX_KEY_BYTES:
        raise BadRequest(reason=f"a value key of {len(data)} bytes")
    try:
        return key_from_wire(_decoder.decode(data))
    except msgspec.MsgspecError as exc:
        raise BadRequest(reason=f"not a value key: {exc}") from exc


def key_from_wire(
    wire: WireKey, *, incarnation: int = 0, destination_incarnation: int = 0
) -> ValueKey:
    """Return the checked key of a message. Raises: BadRequest: a part of it is not acceptable."""
    return ValueKey(
        session=wire.session,
        name=wire.name,
        tag=wire.tag,
        source=site_from_wire(wire.source),
        destination=site_from_wire(wire.destination),
        incarnation=incarnation,
        destination_incarnation=destination_incarnation,
    )


def site_from_wire(text: str) -> Site:
    """Return the site of `role-party_id`. Raises: BadRequest: it is not one."""
    _check("site", text, limit=MAX_WORD)
    try:
        return Site.from_key(text)
    except ValueError as exc:
        raise BadRequest(reason=f"not a site: {exc}") from exc


def _check(what: str, text: str, *, limit: int, empty: bool = False) -> None:
    if len(text) > limit or not (text or empty):
        raise BadRequest(reason=f"{what} of a value must have 1 to {limit} characters")
    if not text.isprintable():
        raise BadRequest(reason=f"{what} of a value holds characters that cannot be printed")
