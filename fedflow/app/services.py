"""The use cases of one server in one value, for the doors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from fedflow.app.core import Core
from fedflow.app.ports.data import Archives
from fedflow.app.ports.store import Store
from fedflow.app.queries.cleaning import Cleaning
from fedflow.app.queries.deleting import Deletions
from fedflow.app.queries.history import Histories
from fedflow.app.queries.job_lists import JobLists
from fedflow.app.queries.resources import ResourceQueries
from fedflow.app.queries.tracking import Tracking
from fedflow.base.clock import Clock
from fedflow.base.lazy import Lazy
from fedflow.base.values import dataclass

if TYPE_CHECKING:
    from fedflow.app.administration.info import Info
    from fedflow.app.administration.modules import Modules
    from fedflow.app.administration.rendezvous import RendezvousRuns
    from fedflow.app.administration.servers import Servers
    from fedflow.app.administration_services import Administration
    from fedflow.app.data.bindings import Bindings
    from fedflow.app.data.connectors import Connectors
    from fedflow.app.data.provenance import Provenance
    from fedflow.app.data.table_details import TableDetails
    from fedflow.app.data.table_pages import TablePages
    from fedflow.app.data.table_schemas import TableSchemas
    from fedflow.app.data.tables import Tables
    from fedflow.app.local_jobs.model_store import ModelStoring
    from fedflow.app.local_jobs.transfers import Transfers
    from fedflow.app.local_jobs.uploads import Uploads
    from fedflow.app.models.deployment import Deployment
    from fedflow.app.models.history_changes import HistoryChanges
    from fedflow.app.models.migration import Migrations
    from fedflow.app.models.model_exchange import ModelExchange
    from fedflow.app.models.model_history import ModelHistory
    from fedflow.app.models.model_tags import ModelTags
    from fedflow.app.models.model_views import ModelViews
    from fedflow.app.models.models import ModelRepository
    from fedflow.app.models.publishing import Publishing
    from fedflow.app.models.serving_views import ServingViews
    from fedflow.app.models.woe_arrays import WoeArrays
    from fedflow.app.participant.worker_models import WorkerModels
    from fedflow.app.participant.worker_signatures import WorkerSignatures
    from fedflow.app.participant.worker_storages import WorkerStorages
    from fedflow.app.queries.job_ledgers import JobLedgers
    from fedflow.app.queries.job_tags import JobTagging
    from fedflow.app.queries.job_traces import JobTraces
    from fedflow.wire.api.ledgers import SignedLedger

U = TypeVar("U")
U_co = TypeVar("U_co", covariant=True)


class OfStore(Protocol[U_co]):
    """A use case that needs nothing but the store and the time."""

    def __call__(self, *, store: Store, clock: Clock) -> U_co: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DataServices:
    """The use cases of `/v1/data` and `/v1/table`."""

    bindings: Bindings
    connectors: Connectors
    provenance: Provenance
    table_details: TableDetails
    table_pages: TablePages
    table_schemas: TableSchemas
    tables: Tables
    transfers: Transfers
    uploads: Uploads
    worker_storages: WorkerStorages


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelServices:
    """The use cases of `/v1/model`, `/v1/checkpoint`, `/v1/component/woe_array` and executors'."""

    repository: ModelRepository
    deployment: Deployment
    migrations: Migrations
    publishing: Lazy[Publishing]
    serving: Lazy[ServingViews]
    history: ModelHistory
    history_changes: HistoryChanges
    exchange: ModelExchange
    storing: ModelStoring
    tags: ModelTags
    views: ModelViews
    woe_arrays: WoeArrays
    workers: WorkerModels


@dataclass(frozen=True, kw_only=True, slots=True)
class LateServices:
    """What no job needs: each group is made when it is first asked for."""

    administration: Lazy[Administration]
    data: Lazy[DataServices]
    models: Lazy[ModelServices]
    signatures: Lazy[WorkerSignatures]


class Services:
    """What HTTP and gRPC may call."""

    def __init__(
        self, core: Core, late: LateServices, *, info: Info, modules: Modules, servers: Servers,
        tables: Tables, archives: Archives,
    ) -> None:  # fmt: skip
        kernel = core.kernel
        store, folders, clock = kernel.store, kernel.folders, kernel.clock
        self._late = late
        self._store, self._clock, self._sessions = store, clock, core.sessions
        self._started_ms = clock.now_ms()
        self.info, self.modules, self.servers = info, modules, servers
        self.commands, self.queue, self.workers = core.commands, core.queue, core.workers
        self.submissions, self.control, self.reruns = core.submissions, core.control, core.reruns
        self.parameter_updates, self.documents = core.parameter_updates, core.documents
        self.jobs, self.site_jobs, self.explanations = core.jobs, core.site_jobs, core.explanations
        self.cleaning = Cleaning(store=store, tables=tables, wakeup=kernel.wakeup, clock=clock)
        self.deletions = Deletions(store=store, folders=folders, specs=kernel.specs)
        self.histories = Histories(store=store)
        self.job_lists = JobLists(
            store=store, queue=core.queue, party_leases=kernel.party_leases, clock=clock
        )
        self.resources = ResourceQueries(
            store=store, wakeup=kernel.wakeup, clock=clock, engines=kernel.engines
        )
        self.tracking = Tracking(store=store, archives=archives, modules=modules)

    def of(self, use_case: OfStore[U]) -> U:
        """Return a use case that needs nothing but the store and the time."""
        return use_case(store=self._store, clock=self._clock)

    @property
    def job_tags(self) -> JobTagging:
        """Return the use cases of the tags of jobs."""
        from fedflow.app.queries.job_tags import JobTagging

        return self.of(JobTagging)

    @property
    def job_ledgers(self) -> JobLedgers:
        """Return the use cases of the ledgers of jobs."""
        from fedflow.app.queries.job_ledgers import JobLedgers

        return JobLedgers(
            store=self._store, sessions=self._sessions, clock=self._clock,
            contents=self.modules.contents,
        )  # fmt: skip

    def signed_ledger(self, csv: str) -> SignedLedger:
        """Return a ledger, signed with this party's site key. Raises: HomeNotUsable."""
        from fedflow.wire.api.ledgers import SignedLedger

        keys = self.administration.keys
        return SignedLedger(
            csv=csv, signature=keys.sign_message(csv.encode()), public_key=keys.own_pem()
        )

    @property
    def job_traces(self) -> JobTraces:
        """Return the use cases of the traces of jobs."""
        from fedflow.app.queries.job_traces import JobTraces

        return JobTraces(store=self._store, sessions=self._sessions)

    @property
    def rendezvous(self) -> RendezvousRuns:
        """Return the use cases of rendezvous."""
        from fedflow.app.administration.rendezvous import RendezvousRuns

        return RendezvousRuns(store=self._store, clock=self._clock, since_ms=self._started_ms)

    @property
    def administration(self) -> Administration:
        """Return the use cases of administrators."""
        return self._late.administration()

    @property
    def data(self) -> DataServices:
        """Return the use cases of data and tables."""
        return self._late.data()

    @property
    def models(self) -> ModelServices:
        """Return the use cases of models."""
        return self._late.models()

    @property
    def signatures(self) -> WorkerSignatures:
        """Return the signatures of executors."""
        return self._late.signatures()
