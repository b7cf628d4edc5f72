"""What a provider's interpreter says of its components, read before the server believes it.

The members are those of `fedflow.components.registry.describe`. An interpreter may be any program,
and one that was asked by an earlier release may have said less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fedflow.base.decoding import read_as
from fedflow.domain.site import Role

_Name = Annotated[str, Meta(pattern=r"^[A-Za-z][\w.-]{0,99}$")]


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=200)]
    content: Annotated[str, Meta(pattern=r"^[a-z ]{1,50}$")]
    route: str = ""
    value: str = ""


class _Described(msgspec.Struct, frozen=True, kw_only=True):
    module: _Name
    roles: list[Role]
    data_ports: list[str]
    needs_input: bool
    outputs: list[Literal["data", "model", "cache"]]
    repeatable: bool
    absence: Literal["rounds", "apart"] | None = None
    messages: list[_Message] | None = None
    aliases: list[_Name]
    summary: str
    parameters: dict[str, Any] | None
    param_name: str
    defaults: dict[str, Any]
    checks_run: bool


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `describe`; see `fedflow.worker.provider`."""

    fedflow: str
    described: list[dict[str, Any]]
    problems: list[str]


def check_described(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises: msgspec.ValidationError: a description lacks a member, or it is of another type."""
    read_as(list(rows), list[_Described])
