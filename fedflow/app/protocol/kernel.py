"""What most use cases of a server need: one value, given to each of them."""

from __future__ import annotations

from collections.abc import Callable

from fedflow.app.ports.components import Catalog
from fedflow.app.ports.parties import PartyClient, PartyServers
from fedflow.app.ports.scheduling import Wakeup
from fedflow.app.ports.store import Store
from fedflow.app.protocol.circuit_breakers import CircuitBreakers
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_limits import JobLimits
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.app.protocol.party_commands import PartyCommands
from fedflow.app.protocol.party_leases import PartyLeases
from fedflow.app.protocol.queue import JobQueue
from fedflow.app.protocol.status_pull import StatusPull
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock
from fedflow.base.ids import JobId
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import OwnEngines


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """The store, the time, the parsed jobs, and the ways to threads and to other parties."""

    store: Store
    folders: Folders
    clock: Clock
    timing: Timing
    limits: JobLimits
    new_job_id: Callable[[int], JobId]  #: from the time, ms
    catalog: Catalog
    specs: ParsedJobs
    engines: OwnEngines
    queue: JobQueue
    wakeup: Wakeup
    notifier: JobNotifier
    servers: PartyServers  #: of this party
    parties: PartyClient  #: asks the circuits first
    circuit_breakers: CircuitBreakers
    party_commands: PartyCommands
    party_leases: PartyLeases
    status_pull: StatusPull


class UseCase:
    """Has the parts of the kernel as its own."""

    def __init__(self, kernel: Kernel) -> None:
        self._store = kernel.store
        self._folders = kernel.folders
        self._clock = kernel.clock
        self._timing = kernel.timing
        self._limits = kernel.limits
        self._new_job_id = kernel.new_job_id
        self._catalog = kernel.catalog
        self._specs = kernel.specs
        self._engines = kernel.engines
        self._queue = kernel.queue
        self._wakeup = kernel.wakeup
        self._notifier = kernel.notifier
        self._servers = kernel.servers
        self._parties = kernel.parties
        self._circuit_breakers = kernel.circuit_breakers
        self._party_commands = kernel.party_commands
        self._party_leases = kernel.party_leases
        self._status_pull = kernel.status_pull
