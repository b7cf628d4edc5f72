"""The use cases of one server in one value, for the doors."""

from __future__ import annotations

from dataclasses import dataclass

from fedflow.app.administration import Administration
from fedflow.app.bindings import Bindings
from fedflow.app.cleaning import Cleaning
from fedflow.app.commands import Commands
from fedflow.app.deployment import Deployment
from fedflow.app.documents import Documents
from fedflow.app.info import Info
from fedflow.app.jobs import Jobs
from fedflow.app.migration import Migrations
from fedflow.app.model_exchange import ModelExchange
from fedflow.app.model_store import ModelStoring
from fedflow.app.model_tags import ModelTags
from fedflow.app.models import ModelRepository
from fedflow.app.modules import Modules
from fedflow.app.parameter_updates import ParameterUpdates
from fedflow.app.provenance import Provenance
from fedflow.app.reruns import Reruns
from fedflow.app.resources import Resources
from fedflow.app.submissions import Submissions
from fedflow.app.table_schemas import TableSchemas
from fedflow.app.tables import Tables
from fedflow.app.tracking import Tracking
from fedflow.app.transfers import Transfers
from fedflow.app.uploads import Uploads
from fedflow.app.worker_models import WorkerModels
from fedflow.app.workers import Workers


@dataclass(frozen=True, kw_only=True, slots=True)
class DataServices:
    """The use cases of `/v1/data` and `/v1/table`."""

    bindings: Bindings
    provenance: Provenance
    table_schemas: TableSchemas
    tables: Tables
    transfers: Transfers
    uploads: Uploads


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelServices:
    """The use cases of `/v1/model`, `/v1/checkpoint` and of executors' models."""

    repository: ModelRepository
    deployment: Deployment
    migrations: Migrations
    exchange: ModelExchange
    storing: ModelStoring
    tags: ModelTags
    workers: WorkerModels


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """What HTTP and gRPC may call."""

    administration: Administration
    cleaning: Cleaning
    commands: Commands
    data: DataServices
    documents: Documents
    info: Info
    jobs: Jobs
    models: ModelServices
    modules: Modules
    parameter_updates: ParameterUpdates
    reruns: Reruns
    resources: Resources
    submissions: Submissions
    tracking: Tracking
    workers: Workers
