"""The use cases of one server in one value, for the doors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedflow.base.lazy import Lazy
from fedflow.base.values import dataclass

if TYPE_CHECKING:
    from fedflow.app.administration.info import Info
    from fedflow.app.administration.modules import Modules
    from fedflow.app.administration.servers import Servers
    from fedflow.app.administration_services import Administration
    from fedflow.app.data.bindings import Bindings
    from fedflow.app.data.connectors import Connectors
    from fedflow.app.data.provenance import Provenance
    from fedflow.app.data.table_details import TableDetails
    from fedflow.app.data.table_pages import TablePages
    from fedflow.app.data.table_schemas import TableSchemas
    from fedflow.app.data.tables import Tables
    from fedflow.app.initiator.control import JobControl
    from fedflow.app.initiator.parameter_updates import ParameterUpdates
    from fedflow.app.initiator.reruns import Reruns
    from fedflow.app.initiator.submissions import Submissions
    from fedflow.app.local_jobs.model_store import ModelStoring
    from fedflow.app.local_jobs.transfers import Transfers
    from fedflow.app.local_jobs.uploads import Uploads
    from fedflow.app.models.deployment import Deployment
    from fedflow.app.models.migration import Migrations
    from fedflow.app.models.model_exchange import ModelExchange
    from fedflow.app.models.model_tags import ModelTags
    from fedflow.app.models.model_views import ModelViews
    from fedflow.app.models.models import ModelRepository
    from fedflow.app.models.woe_arrays import WoeArrays
    from fedflow.app.participant.task_reports import Workers
    from fedflow.app.participant.worker_models import WorkerModels
    from fedflow.app.participant.worker_storages import WorkerStorages
    from fedflow.app.protocol.commands import Commands
    from fedflow.app.protocol.queue import Queue
    from fedflow.app.queries.cleaning import Cleaning
    from fedflow.app.queries.deleting import Deletions
    from fedflow.app.queries.documents import Documents
    from fedflow.app.queries.explain import Explanations
    from fedflow.app.queries.history import Histories
    from fedflow.app.queries.job_lists import JobLists
    from fedflow.app.queries.job_tags import JobTags
    from fedflow.app.queries.jobs import Jobs
    from fedflow.app.queries.resources import Resources
    from fedflow.app.queries.site_jobs import SiteJobs
    from fedflow.app.queries.tracking import Tracking


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
    exchange: ModelExchange
    storing: ModelStoring
    tags: ModelTags
    views: ModelViews
    woe_arrays: WoeArrays
    workers: WorkerModels


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """What HTTP and gRPC may call. A group that no job needs is made when it is first asked for."""

    later_administration: Lazy[Administration]
    later_data: Lazy[DataServices]
    later_models: Lazy[ModelServices]
    cleaning: Cleaning
    commands: Commands
    control: JobControl
    deletions: Deletions
    documents: Documents
    explanations: Explanations
    histories: Histories
    info: Info
    job_lists: JobLists
    job_tags: JobTags
    jobs: Jobs
    modules: Modules
    parameter_updates: ParameterUpdates
    queue: Queue
    reruns: Reruns
    resources: Resources
    servers: Servers
    site_jobs: SiteJobs
    submissions: Submissions
    tracking: Tracking
    workers: Workers

    @property
    def administration(self) -> Administration:
        """Return the use cases of administrators."""
        return self.later_administration()

    @property
    def data(self) -> DataServices:
        """Return the use cases of data and tables."""
        return self.later_data()

    @property
    def models(self) -> ModelServices:
        """Return the use cases of models."""
        return self.later_models()
