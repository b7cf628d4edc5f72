"""Other parties, as a server sees them and as they tell about themselves."""

from __future__ import annotations

import msgspec


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """Another party, as a server sees it. Times in ms since the epoch, None: never or not known."""

    party_id: str
    address: str | None = None  #: None: there is no route
    state: str = "closed"  #: of its circuit: closed, open or half_open
    since: int | None = None
    failures: int = 0  #: calls in a row that nobody answered
    last_heard: int | None = None
    last_failure: int | None = None
    last_error: str = ""
    waiting: int = 0  #: commands in the outbox
    next_try: int | None = None
    round_trip_ms: float | None = None
    protocol: int | None = None  #: that both speak
    version: str | None = None  #: of its fedflow

    def __repr__(self) -> str:
        return f"<Party {self.party_id}: {self.state}, {self.waiting} commands wait>"


class DialInState(msgspec.Struct, frozen=True, kw_only=True):
    """How the lines of a server to an exchange stand, over which calls for it come. Times in ms
    since the epoch, None: not known yet.
    """

    exchange: str  #: host:port
    connected: bool = False
    since: int | None = None  #: when that began
    last_try: int | None = None  #: when a line was opened last
    last_error: str = ""


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """What a call to a party and its call back met."""

    party: Neighbour
    broken: tuple[str, ...] = ()  #: a sentence per hop that does not work
    dial_in: tuple[DialInState, ...] = ()  #: of the server that was asked

    @property
    def ok(self) -> bool:
        """Tell whether both ways work."""
        return not self.broken


class PartyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A party's server, as it tells about itself."""

    version: str = ""
    host: str = ""
    http_port: int | None = None
    grpc_port: int | None = None
    party_id: int | str | None = None

    def __repr__(self) -> str:
        return f"<Party {self.party_id}: version {self.version}>"
