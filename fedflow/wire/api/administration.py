"""What a server tells of itself, of its cores, logs, accounts and permissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from fedflow.wire.api import prefixed


class JobCores(msgspec.Struct, frozen=True, kw_only=True):
    """The cores that one share of a job holds."""

    job_id: str
    role: str
    party_id: str
    core: int
    memory: int = 0
    engine: str = "STANDALONE"


_OF_ENGINES = {"kind": "type", "free": "remaining_cores", "free_memory": "remaining_memory"}
_ALSO_OF_ENGINES = ("name", "type", "entrance", "config")


def _of_engine(name: str) -> str:
    member = _OF_ENGINES.get(name, name)
    return f"f_engine_{member}" if member in _ALSO_OF_ENGINES else f"f_{member}"


class EngineCores(msgspec.Struct, frozen=True, kw_only=True, rename=_of_engine):
    """A computing engine of a server: its machine, or its Spark cluster."""

    SHOWN: ClassVar = "name cores free memory free_memory"

    name: str
    kind: str = "computing"
    entrance: str = ""
    config: Mapping[str, Any] = {}
    cores: int
    free: int
    memory: int = 0  #: MiB; 0: it is not counted
    free_memory: int = 0  #: MiB
    nodes: int = 1

    def __repr__(self) -> str:
        return f"<EngineCores {self.name}: {self.free} of {self.cores} cores free>"


_OF_RESOURCES = {"jobs": "use_resource_job", "engine": "computing_engine_resource"}


class Resources(msgspec.Struct, frozen=True, kw_only=True, rename=_OF_RESOURCES):
    """The cores of a server, and who holds them."""

    SHOWN: ClassVar = "name cores free jobs memory free_memory engines"

    jobs: tuple[JobCores, ...] = ()  #: of all engines, or of the one that was asked for
    engine: EngineCores  #: of jobs that name none, or the one that was asked for
    engines: tuple[EngineCores, ...] = ()  #: all

    @property
    def name(self) -> str:
        """Return the name of `engine`; the other properties are its, too."""
        return self.engine.name

    @property
    def cores(self) -> int:
        """Return how many cores there are."""
        return self.engine.cores

    @property
    def free(self) -> int:
        """Return how many cores nobody holds."""
        return self.engine.free

    @property
    def memory(self) -> int:
        """Return the memory in MiB; 0: it is not counted."""
        return self.engine.memory

    @property
    def free_memory(self) -> int:
        """Return the memory that nobody holds, in MiB."""
        return self.engine.free_memory

    def __repr__(self) -> str:
        return f"<Resources {self.name}: {self.free} of {self.cores} cores free>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        rows = [(j.job_id, j.role, j.party_id, j.core) for j in self.jobs]
        return html.table(
            ("job", "role", "party", "cores"), rows, title=f"{self.free} of {self.cores} cores free"
        )


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


class LogSize(msgspec.Struct, frozen=True, kw_only=True):
    """How many lines a log has."""

    size: int


class LogsDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A folder on the server."""

    logs_directory: str


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the party that is up, as FATE shows one."""

    instance_id: str
    timestamp: int
    version: str
    host: str
    grpc_port: int
    http_port: int


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults of job parameters after the conf was read again."""

    job_default_config: Mapping[str, Any]
    server_registry: None = None


class ServiceInfo(msgspec.Struct, frozen=True, kw_only=True, rename=prefixed):
    """A service of a registered server."""

    server_name: str
    service_name: str
    url: str
    method: str
    params: Mapping[str, Any] = {}
    data: Mapping[str, Any] = {}
    headers: Mapping[str, Any] = {}


class ServiceInfos(msgspec.Struct, frozen=True, kw_only=True):
    """The services of a name."""

    service_info: tuple[ServiceInfo, ...] = ()


class GrantedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that another party's jobs may read."""

    name: str
    namespace: str


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """What another party's jobs may use here."""

    component: tuple[str, ...] = ()
    dataset: tuple[GrantedTable, ...] = ()


class Privileges(msgspec.Struct, frozen=True, kw_only=True):
    """What a party in a role may use here, in the form of FATE 1.5 to 1.8."""

    src_party_id: str
    role: str
    privilege_role: tuple[str, ...]
    privilege_command: tuple[str, ...]
    privilege_component: tuple[str, ...]


class BoardAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who may sign in to the board. Times in ms since the epoch."""

    name: str
    role: str  #: viewer, operator or admin
    create_time: int
    update_time: int  #: when the role or the password was last set
    sessions: int = 0  #: browsers that are signed in

    def __repr__(self) -> str:
        return f"<Account {self.name}: {self.role}>"


class EndedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions ended."""

    ended: int


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a package of components."""

    name: str
    version: str
    path: str = ""
    components: tuple[str, ...] = ()  #: names of modules in small letters, as FATE shows them
    is_default: bool = False
    modules: tuple[str, ...] = ()  #: their names as they are, of one that was just added
    replaced_path: str | None = None  #: folder that this version was read from before

    def __repr__(self) -> str:
        return f"<Provider {self.name} {self.version}>"


class ProvidedModule(msgspec.Struct, frozen=True, kw_only=True):
    """A component module as FATE shows it."""

    default_provider: str
    support_provider: tuple[str, ...]
    alias: tuple[str, ...]


class DescribedModule(msgspec.Struct, frozen=True, kw_only=True):
    """A component module: what runs where, what it takes and gives."""

    module: str
    roles: tuple[str, ...] = ()
    data_ports: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    summary: str = ""
    parameters: Mapping[str, Any] | None = {}  #: JSON schema
    provider: str = ""  #: registered provider that has it; empty: it comes with fedflow
    #: what it sends to other sites: `name`, `content`, `route`, `value`; None: it does not say
    messages: tuple[Mapping[str, str], ...] | None = None

    def __repr__(self) -> str:
        return f"<Module {self.module}>"
