"""What a route's JSON body may hold: `Body` classes, the kinds of their members, and reading them.

A route declares its body as a subclass of `Body` (see `web/routes.py`); the same declaration checks
requests and becomes the OpenAPI schema. FATE's clients are loose with types: a party id is a number
or a text, a switch is true, 1 or "1". `Text`, `Whole`, `Flag` and `Alternatives` take all of these.
Members that a route does not know are ignored, a null counts as absent.
Source: `docs/reference/rest.md#bodies-and-queries` and `docs/reference/rest.md#return-codes`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from fedflow.base.decoding import mistake_of, read_as
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site

MAX_TEXT: Final = 1024 * 1024  #: characters of a text member


class Text(str):
    """A text, or a whole number that stands for its digits."""

    __slots__ = ()


class Whole(int):
    """A whole number of at most 18 digits, also as text."""

    __slots__ = ()


class Flag(int):
    """A switch, 0 or 1: also true, false, "true", "0" ..."""

    __slots__ = ()


class Alternatives(tuple[str, ...]):
    """One text or a list of texts, of which any may fit."""

    __slots__ = ()


class Body(msgspec.Struct, kw_only=True, frozen=True):
    """The members of a route's JSON body. A member without a default is required."""


class NoBody(Body, frozen=True):
    """A route that reads nothing from its body."""


class JobBody(Body, frozen=True):
    """Which job."""

    job_id: Text


class PartyBody(Body, frozen=True):
    """A party."""

    party_id: Text


class OpenBody(Body, frozen=True):
    """A body whose further members count too, such as filters on any column of a record."""

    given: dict[str, Any] = msgspec.field(default_factory=dict, name="")
    """The whole object as it was sent, with the declared members and nulls."""


B = TypeVar("B", bound=Body)


def read_body(kind: type[B], given: dict[str, Any]) -> B:
    """Return the declared members of a JSON object.

    Raises: MissingArgument: it lists all required members that are absent or null. BadRequest: a
    member has a wrong type or value; `path` is where.
    """
    if kind is OpenBody:
        return kind(given=given)
    present = {name: value for name, value in given.items() if value is not None}
    missing = [name for name in _required(kind) if name not in present]
    if missing:
        raise MissingArgument(names=",".join(missing))
    if issubclass(kind, OpenBody):
        present[""] = given
    try:
        body = read_as(present, kind, dec_hook=_member)
    except msgspec.ValidationError as exc:
        path, sentence = mistake_of(exc)
        raise BadRequest(reason=f"{path}: {sentence}", path=path) from exc
    return _with_plain_members(body)


@cache
def _required(kind: type[Body]) -> tuple[str, ...]:
    return tuple(f.encode_name for f in msgspec.structs.fields(kind) if f.required)


def schema_of_member(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a kind that msgspec does not know. Raises: NotImplementedError."""
    if kind is Text:
        return dict(_WORD_SCHEMA)
    if kind is Whole:
        return {
            "anyOf": [
                {"type": "integer", "minimum": -_MOST, "maximum": _MOST},
                {"type": "string", "pattern": f"^{_WHOLE.pattern}$"},
            ]
        }
    if kind is Flag:
        return {"enum": [True, False, 0, 1, *_FLAGS]}
    if kind is Alternatives:
        return {"anyOf": [_WORD_SCHEMA, {"type": "array", "items": _WORD_SCHEMA}]}
    raise NotImplementedError(kind)


def site_of(role: str, party_id: str) -> Site:
    """Return the site that a role and a party id name. Raises: BadRequest: no such role."""
    try:
        return Site(Role(role), PartyId(party_id))
    except ValueError as exc:
        roles = ", ".join(r.value for r in Role)
        raise BadRequest(reason=f"{role[:100]!r} is not a role; roles are {roles}") from exc


_FLAGS: Final = {"true": 1, "false": 0, "1": 1, "0": 0}
_WHOLE: Final = re.compile("[+-]?[0-9]{1,18}")
_MOST: Final = 10**18 - 1
_WORD_SCHEMA: Final = {"type": ["string", "integer"], "minimum": -_MOST, "maximum": _MOST}
_SHOWN: Final = {
    Text: "a text", Whole: "a whole number", Flag: "true or false",
    Alternatives: "a text or a list of texts",
}  # fmt: skip


def _member(kind: type[Any], value: Any) -> Any:
    """Return a member as its kind. Raises: ValueError: it is none."""
    if kind is Text and _is_word(value):
        return Text(_checked(value))
    if kind is Whole and _is_word(value):
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return Whole(value)
        if isinstance(value, int) and abs(value) <= _MOST:
            return Whole(value)
        raise ValueError("Expected a whole number of at most 18 digits")
    if kind is Flag:
        if isinstance(value, int):
            return Flag(bool(value))
        if isinstance(value, str) and value.lower() in _FLAGS:
            return Flag(_FLAGS[value.lower()])
    if kind is Alternatives:
        words = value if isinstance(value, list) else [value]
        if all(_is_word(word) for word in words):
            return Alternatives(_checked(word) for word in words)
    wanted = _SHOWN.get(kind, kind.__name__)
    raise ValueError(f"Expected {wanted}, got {type(value).__name__}")


S = TypeVar("S", bound=msgspec.Struct)


def _with_plain_members(body: S) -> S:
    """Return a body whose members are plain texts, numbers and tuples: the kinds are for reading,
    and JSON encoders and database drivers know exact types only.
    """
    changed: dict[str, Any] = {}
    for name in body.__struct_fields__:
        value = getattr(body, name)
        plain = _plain(value)
        if plain is not value:
            changed[name] = plain
    return msgspec.structs.replace(body, **changed) if changed else body


def _plain(value: Any) -> Any:
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, Whole | Flag):
        return int(value)
    if isinstance(value, Alternatives):
        return tuple(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, msgspec.Struct):
        return _with_plain_members(value)
    return value


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _checked(word: str | int) -> str:
    """Return a word that files and stores can hold. Raises: ValueError."""
    if isinstance(word, int):
        if abs(word) > _MOST:
            raise ValueError("Expected a number of at most 18 digits, or a text")
        return str(word)
    if len(word) > MAX_TEXT:
        raise ValueError(f"Expected a text of at most {MAX_TEXT} characters")
    if "\0" in word:
        raise ValueError("Expected a text without NUL characters")
    return word
