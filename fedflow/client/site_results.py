"""What a server answers about itself, its cores, keys, grants and neighbours, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fedflow.base.values import dataclass
from fedflow.wire.api import html


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyInfo:
    """A party's server, as it tells about itself."""

    version: str = ""
    host: str = ""
    http_port: int | None = None
    grpc_port: int | None = None
    party_id: int | str | None = None

    def __repr__(self) -> str:
        return f"<Party {self.party_id}: version {self.version}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Ping:
    """What a call to a party and its call back met."""

    party: Neighbour
    broken: tuple[str, ...] = ()  #: a sentence per hop that does not work

    @property
    def ok(self) -> bool:
        """Tell whether both ways work."""
        return not self.broken


@dataclass(frozen=True, kw_only=True, slots=True)
class TableName:
    """A table."""

    namespace: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Grants:
    """What another party's jobs may use here."""

    component: tuple[str, ...] = ()
    dataset: tuple[TableName, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCores:
    """The cores that one share of a job holds."""

    job_id: str
    role: str
    party_id: str
    core: int
    memory: int = 0
    engine: str = "STANDALONE"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCores:
    """A computing engine of a server: its machine, or its Spark cluster."""

    name: str
    cores: int
    free: int
    memory: int = 0  #: MiB; 0: it is not counted
    free_memory: int = 0  #: MiB

    def __repr__(self) -> str:
        return f"<EngineCores {self.name}: {self.free} of {self.cores} cores free>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """The cores of a server, and who holds them."""

    name: str  #: of the engine of jobs that name none; the other members are its, too
    cores: int
    free: int
    jobs: tuple[JobCores, ...] = ()  #: of all engines
    memory: int = 0  #: MiB; 0: it is not counted
    free_memory: int = 0  #: MiB
    engines: tuple[EngineCores, ...] = ()  #: all

    def __repr__(self) -> str:
        return f"<Resources {self.name}: {self.free} of {self.cores} cores free>"

    def _repr_html_(self) -> str:
        rows = [(j.job_id, j.role, j.party_id, j.core) for j in self.jobs]
        return html.table(
            ("job", "role", "party", "cores"), rows, title=f"{self.free} of {self.cores} cores free"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReturnedCores:
    """What became of the cores of one share of a job."""

    job_id: str
    role: str
    party_id: str
    resource_in_use: bool  #: before
    resource_return_status: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One version of a package of components."""

    name: str
    version: str
    path: str = ""
    components: tuple[str, ...] = ()
    is_default: bool = False

    def __repr__(self) -> str:
        return f"<Provider {self.name} {self.version}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyServer:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerAddress:
    """Where a server that others look up here listens."""

    host: str
    port: int
    protocol: str = "http"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceInfo:
    """A service of a registered server."""

    server_name: str
    service_name: str
    url: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line of a log, counted from 1."""

    line_num: int
    content: str
