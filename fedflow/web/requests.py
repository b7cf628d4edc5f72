"""Reading requests: JSON bodies, required members, party ids, sites.

A body is read as JSON whatever its Content-Type, on GET too. Source: `reference/flow-rest-api.md`
sections 1.1 and 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import request

from fedflow.base.errors import BadRequest, FedflowError, MissingArgument
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.wire.json_text import decode_json

Body = dict[str, Any]


def json_body() -> Body:
    """Return the JSON object of a route that needs one.

    Raises: BadRequest: there is no body, it is not JSON, too deep, or no object.
    """
    raw = request.get_data(cache=True)
    if not raw.strip():
        raise BadRequest(reason="the body is empty; send a JSON object")
    value = decode_json(raw)
    if not isinstance(value, dict):
        raise BadRequest(reason="the body must be a JSON object")
    return value


def body_or_empty() -> Body:
    """Return the JSON object of a route that may go without. Raises: BadRequest: malformed."""
    return json_body() if request.get_data(cache=True).strip() else {}


def optional_body() -> Body:
    """Return the JSON object of a route that needs none; what cannot be read counts as absent."""
    try:
        return json_body()
    except FedflowError:
        return {}


def require(body: Mapping[str, Any], *names: str) -> None:
    """Raises: MissingArgument: one of the members is absent or null; it lists all of them."""
    missing = [name for name in names if body.get(name) is None]
    if missing:
        raise MissingArgument(names=",".join(missing))


def text(body: Mapping[str, Any], name: str) -> str:
    """Return a required text. Raises: MissingArgument, BadRequest: it is no text or number."""
    require(body, name)
    return as_text(body[name], name)


def optional_text(body: Mapping[str, Any], name: str) -> str | None:
    """Return a text, None if it is absent or null. Raises: BadRequest."""
    return None if body.get(name) is None else as_text(body[name], name)


def as_text(value: Any, name: str) -> str:
    """Return a text or number as text. Raises: BadRequest: it is something else."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadRequest(reason=f"`{name}` must be a text")
    return str(value)


def integer(body: Mapping[str, Any], name: str, *, default: int) -> int:
    """Return a whole number, also when it is sent as text. Raises: BadRequest."""
    value = body.get(name)
    if value is None:
        return default
    try:
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise BadRequest(reason=f"`{name}` must be a whole number")


def flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a truth value, also when it is sent as a number. Raises: BadRequest."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, (bool, int)):
        return bool(value)
    raise BadRequest(reason=f"`{name}` must be true or false")


def role(value: Any) -> Role:
    """Return a role. Raises: BadRequest: there is no such role."""
    try:
        return Role(value)
    except ValueError as exc:
        roles = ", ".join(r.value for r in Role)
        raise BadRequest(reason=f"{value!r} is not a role; roles are {roles}") from exc


def site(body: Mapping[str, Any]) -> Site:
    """Return the site that `role` and `party_id` name. Raises: MissingArgument, BadRequest."""
    require(body, "role", "party_id")
    return Site(role(body["role"]), PartyId(as_text(body["party_id"], "party_id")))
