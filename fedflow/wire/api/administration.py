"""What a server tells of itself, of its cores and logs, and of other parties."""

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


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """What a call to a party and its call back met."""

    party: Neighbour
    broken: tuple[str, ...] = ()  #: a sentence per hop that does not work

    @property
    def ok(self) -> bool:
        """Tell whether both ways work."""
        return not self.broken


class JobCores(msgspec.Struct, frozen=True, kw_only=True):
    """The cores that one share of a job holds."""

    job_id: str
    role: str
    party_id: str
    core: int
    memory: int = 0
    engine: str = "STANDALONE"


class ReturnedCores(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the cores of one share of a job."""

    job_id: str
    role: str
    party_id: str
    resource_in_use: bool  #: before
    resource_return_status: bool


class PartyServer(msgspec.Struct, frozen=True, kw_only=True):
    """One of the servers of a party that share its database."""

    instance_id: str
    http: str  #: host:port of its REST API
    grpc: str  #: host:port for other servers
    host: str  #: the machine
    version: str
    state: str  #: up, draining, stopped or lost
    leads: bool  #: it schedules
    is_this: bool  #: it is the one that answered
    start_time: int  #: milliseconds since the epoch
    beat_age: int  #: milliseconds since it was last heard of
    executors: int  #: processes of tasks that it looks after


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server that others look up here listens."""

    host: str
    port: int
    protocol: str = "http"


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log, counted from 1."""

    line_num: int
    content: str
