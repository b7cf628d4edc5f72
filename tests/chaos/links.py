"""How bytes travel from one party to another at this moment: what a fault of the network changes.

A `Network` is a way to put parties at addresses between which these conditions hold. There are two:
`proxy.py` (any user, any system) and `namespaces.py` (root on Linux: real packets).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What happens to bytes on their way in one direction."""

    cut: bool = False  #: nothing arrives, and nobody is told so
    refused: bool = False  #: no new connection is made; only a `ProxyNetwork` can do that
    delay_s: float = 0.0
    loss: float = 0.0  #: the part of the packets that is lost, 0 to 1


CLEAR = Condition()


class Links:
    """The conditions of all directions; set by the faults, read for each packet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conditions: dict[tuple[str, str], Condition] = {}

    def set(self, source: str, destination: str, condition: Condition) -> None:
        with self._lock:
            self._conditions[source, destination] = condition

    def clear(self) -> None:
        with self._lock:
            self._conditions = {}

    def get(self, source: str, destination: str) -> Condition:
        with self._lock:
            return self._conditions.get((source, destination), CLEAR)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a party's server listens, and how a process is started at that place."""

    http_host: str
    http_port: int
    grpc_host: str
    grpc_port: int
    routes: Mapping[str, str]  #: party id -> where its server is called from here
    prefix: tuple[str, ...] = field(default=())  #: words before a command that shall run there
    settings: Mapping[str, str] = field(default_factory=dict)


class Network(Protocol):
    """Parties, and the conditions between them."""

    links: Links

    def address(self, party: str) -> Address:
        """Return where a party lives."""

    def reset(self, source: str, destination: str) -> None:
        """Break all connections between two parties, as a restarted firewall does."""

    def close(self) -> None:
        """End all that it started."""
