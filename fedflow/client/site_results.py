"""What a server answers about itself, its cores, keys, grants and neighbours, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fedflow.base.values import dataclass
from fedflow.wire.api import html
from fedflow.wire.api.administration import JobCores


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
class ServiceInfo:
    """A service of a registered server."""

    server_name: str
    service_name: str
    url: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
