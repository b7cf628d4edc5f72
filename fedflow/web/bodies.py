"""What a route's JSON body may hold: `Body` classes, the kinds of their members, and reading them.

A route declares its body as a subclass of `Body` (see `web/routes.py`); the same declaration checks
requests and becomes the OpenAPI schema. FATE's clients are loose with types: a party id is a number
or a text, a switch is true, 1 or "1". `Text`, `Whole` and `Flag` take all of these. Members that a
route does not know are ignored, a null counts as absent.
Source: `reference/flow-rest-api.md` sections 1.1 and 1.3.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fedflow.base.errors import BadRequest, MissingArgument
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site


class Text(str):
    """A text, or a whole number that stands for its digits."""

    __slots__ = ()


class Whole(int):
    """A whole number, also as text."""

    __slots__ = ()


class Flag(int):
    """A switch, 0 or 1: also true, false, "true", "0" ..."""

    __slots__ = ()


class Body(msgspec.Struct, kw_only=True, frozen=True):
    """The members of a route's JSON body. A member without a default is required."""


class NoBody(Body, frozen=True):
    """A route that reads nothing from its body."""


B = TypeVar("B", bound=Body)


def read_body(kind: type[B], given: dict[str, Any]) -> B:
    """Return the declared members of a JSON object.

    Raises: MissingArgument: it lists all required members that are absent or null. BadRequest: a
    member has a wrong type or value; `path` is where.
    """
    present = {name: value for name, value in given.items() if value is not None}
    missing = [
        field.encode_name
        for field in msgspec.structs.fields(kind)
        if field.required and field.encode_name not in present
    ]
    if missing:
        raise MissingArgument(names=",".join(missing))
    try:
        return msgspec.convert(present, kind, dec_hook=_member)
    except msgspec.ValidationError as exc:
        sentence, _, place = str(exc).partition(" - at `")
        path = place.removesuffix("`") or "$"
        raise BadRequest(reason=f"{path}: {sentence.lower()}", path=path) from exc


def schema_of_member(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a kind that msgspec does not know. Raises: NotImplementedError."""
    if kind is Text:
        return {"type": ["string", "integer"]}
    if kind is Whole:
        return {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[+-]?[0-9]{1,18}$"}]}
    if kind is Flag:
        return {"enum": [True, False, 0, 1, *_FLAGS]}
    raise NotImplementedError(kind)


def site_of(role: str, party_id: str) -> Site:
    """Return the site that a role and a party id name. Raises: BadRequest: no such role."""
    try:
        return Site(Role(role), PartyId(party_id))
    except ValueError as exc:
        roles = ", ".join(r.value for r in Role)
        raise BadRequest(reason=f"{role!r} is not a role; roles are {roles}") from exc


_FLAGS = {"true": 1, "false": 0, "1": 1, "0": 0}


def _member(kind: type[Any], value: Any) -> Any:
    """Return a member as its kind. Raises: ValueError: it is none."""
    if kind is Text and isinstance(value, str | int) and not isinstance(value, bool):
        return Text(value)
    if kind is Whole and isinstance(value, str | int) and not isinstance(value, bool):
        if isinstance(value, str) and len(value) > 20:
            raise ValueError("Expected a whole number")
        return Whole(value)
    if kind is Flag:
        if isinstance(value, int):
            return Flag(bool(value))
        if isinstance(value, str) and value.lower() in _FLAGS:
            return Flag(_FLAGS[value.lower()])
    wanted = {Text: "a text", Whole: "a whole number", Flag: "true or false"}
    raise ValueError(f"Expected {wanted.get(kind, kind.__name__)}, got {type(value).__name__}")
