"""The use cases of one server in one value, for the doors."""

from __future__ import annotations

from dataclasses import dataclass

from fedflow.app.administration.administration import Administration
from fedflow.app.administration.info import Info
from fedflow.app.administration.modules import Modules
from fedflow.app.administration.servers import Servers
from fedflow.app.commands import Commands
from fedflow.app.data.bindings import Bindings
from fedflow.app.data.provenance import Provenance
from fedflow.app.data.table_details import TableDetails
from fedflow.app.data.table_schemas import TableSchemas
from fedflow.app.data.tables import Tables
from fedflow.app.data.transfers import Transfers
from fedflow.app.data.uploads import Uploads
from fedflow.app.jobs.cleaning import Cleaning
from fedflow.app.jobs.documents import Documents
from fedflow.app.jobs.explain import Explanations
from fedflow.app.jobs.history import Histories
from fedflow.app.jobs.jobs import Jobs
from fedflow.app.jobs.resources import Resources
from fedflow.app.jobs.tracking import Tracking
from fedflow.app.models.deployment import Deployment
from fedflow.app.models.migration import Migrations
from fedflow.app.models.model_exchange import ModelExchange
from fedflow.app.models.model_store import ModelStoring
from fedflow.app.models.model_tags import ModelTags
from fedflow.app.models.models import ModelRepository
from fedflow.app.models.woe_arrays import WoeArrays
from fedflow.app.party.worker_models import WorkerModels
from fedflow.app.party.workers import Workers
from fedflow.app.scheduling.control import JobControl
from fedflow.app.scheduling.parameter_updates import ParameterUpdates
from fedflow.app.scheduling.queue import Queue
from fedflow.app.scheduling.reruns import Reruns
from fedflow.app.scheduling.submissions import Submissions


@dataclass(frozen=True, kw_only=True, slots=True)
class DataServices:
    """The use cases of `/v1/data` and `/v1/table`."""

    bindings: Bindings
    provenance: Provenance
    table_details: TableDetails
    table_schemas: TableSchemas
    tables: Tables
    transfers: Transfers
    uploads: Uploads


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelServices:
    """The use cases of `/v1/model`, `/v1/checkpoint`, `/v1/component/woe_array` and executors'."""

    repository: ModelRepository
    deployment: Deployment
    migrations: Migrations
    exchange: ModelExchange
    storing: ModelStoring
    tags: ModelTags
    woe_arrays: WoeArrays
    workers: WorkerModels


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """What HTTP and gRPC may call."""

    administration: Administration
    cleaning: Cleaning
    commands: Commands
    control: JobControl
    data: DataServices
    documents: Documents
    explanations: Explanations
    histories: Histories
    info: Info
    jobs: Jobs
    models: ModelServices
    modules: Modules
    parameter_updates: ParameterUpdates
    queue: Queue
    reruns: Reruns
    resources: Resources
    servers: Servers
    submissions: Submissions
    tracking: Tracking
    workers: Workers
