"""What a job's values cost at one server: counts per peer, and each value while it is traced."""

from __future__ import annotations

import msgspec


class PeerTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What one site of a task attempt exchanged with one other. Times in seconds."""

    site: str
    sent: int = 0  #: values
    sent_bytes: int = 0
    arrived: int = 0  #: values
    arrived_bytes: int = 0
    receives: int = 0  #: that waited for this site
    receive_s: float = 0.0  #: for how long
    send_s: float = 0.0  #: how long sends waited for room


class TracedValue(msgspec.Struct, frozen=True, kw_only=True):
    """One value at one moment, without its contents."""

    time_ms: int
    kind: str  #: sent, arrived or received
    site: str  #: the other one
    name: str
    tag: str = ""
    size: int = 0  #: bytes
    waited_s: float = 0.0  #: of a value that was received


class SessionTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One task attempt of one site of this server."""

    component: str
    version: int
    site: str
    is_on: bool  #: its values are recorded
    peers: tuple[PeerTraffic, ...] = ()
    values: tuple[TracedValue, ...] = ()  #: oldest first


class JobTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What the values of a job's tasks cost at this server."""

    sessions: tuple[SessionTrace, ...] = ()
    is_on: bool = False  #: values of its sessions are recorded, also of those that come
