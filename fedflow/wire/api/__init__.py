"""What the REST API answers, one class for each answer, by noun.

A server makes an instance and encodes it, OpenAPI describes the class (`web/openapi.py`), and the
Python client returns what it reads into it. Members have the names and the order of the JSON, their
defaults are for answers of servers that do not send them. `SHOWN` names the attributes that the
command line shows as JSON, where these are not all members. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

PartyNumber = int | str  #: a party id as a number, or as it is if it is none
S = TypeVar("S", bound=msgspec.Struct)


def prefixed(name: str) -> str:
    """Return an attribute's name in a record, for `rename`."""
    return f"f_{name}"


def without_prefix(kind: type[S]) -> type[S]:
    """Let all members of a Struct have their attributes' names, those that it inherits too."""
    members = []
    for f in msgspec.structs.fields(kind):
        given = {"default": f.default, "default_factory": f.default_factory}
        members.append((f.name, f.type, msgspec.field(name=f.name, **given)))
    made: Any = msgspec.defstruct(
        kind.__name__, members, bases=(kind,), module=kind.__module__,
        namespace={"__doc__": kind.__doc__}, frozen=True, kw_only=True,
    )  # fmt: skip
    return made  # type: ignore[no-any-return]
