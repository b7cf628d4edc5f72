"""What administrators of a server store: permissions, keys of other parties, addresses.

Frozen values, as in `records.py`. All `_ms` are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from fedflow.base.values import dataclass

ANY: Final = "*"  #: the name that stands for all names of its kind


class GrantKind(StrEnum):
    """What a party may be allowed to use here."""

    COMPONENT = "component"
    DATASET = "dataset"
    ROLE = "role"  #: a role that it may give this party
    COMMAND = "command"  #: create, stop, run


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Grant:
    """One thing that one other party may use here."""

    party_id: str
    kind: GrantKind
    name: str  #: lower-case module, table name, role or command; `ANY` is all
    namespace: str = ""  #: of a table
    role: str = ""  #: the role that the other party must have in the job; empty is any


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteKey:
    """A public key of another party, PEM."""

    party_id: str
    pem: str
    updated_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredServer:
    """Where another program of this party listens."""

    name: str  #: upper case
    host: str
    port: int
    protocol: str = "http"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredService:
    """One address of a server and how it is called."""

    server: str
    name: str
    url: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
