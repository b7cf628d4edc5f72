"""The store: a transaction with all its parts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fedflow.app.ports.administration import (
    AccountStore,
    PermissionStore,
    RegistryStore,
    RendezvousStore,
    SiteKeyStore,
)
from fedflow.app.ports.data import CacheStore, ConnectorStore, DataTableStore
from fedflow.app.ports.jobs import (
    EngineStore,
    EventStore,
    JobListStore,
    JobStore,
    JobTagStore,
    SubmitKeyStore,
    TaskStore,
    TrackingStore,
)
from fedflow.app.ports.models import (
    ModelHistoryStore,
    ModelListStore,
    ModelTagStore,
    ModelVersionStore,
)
from fedflow.app.ports.scheduling import (
    InstanceStore,
    LeaseStore,
    Outbox,
    QueueStore,
    ReplyCache,
    ScheduleStore,
)


class Tx(Protocol):
    """One transaction on the store."""

    events: EventStore

    jobs: JobStore
    job_lists: JobListStore
    job_tags: JobTagStore
    engines: EngineStore
    tasks: TaskStore
    schedules: ScheduleStore
    queue: QueueStore
    outbox: Outbox
    reply_cache: ReplyCache
    leases: LeaseStore
    instances: InstanceStore
    tracking: TrackingStore
    tables: DataTableStore
    caches: CacheStore
    connectors: ConnectorStore
    models: ModelVersionStore
    model_lists: ModelListStore
    model_tags: ModelTagStore
    model_history: ModelHistoryStore
    permissions: PermissionStore
    site_keys: SiteKeyStore
    registry: RegistryStore
    submits: SubmitKeyStore
    accounts: AccountStore
    rendezvous: RendezvousStore


class Store(Protocol):
    """The memory of one server."""

    def transaction(self) -> AbstractContextManager[Tx]:
        """Return a context for reads and writes; an exception inside undoes all. Not re-entrant."""

    def read(self) -> AbstractContextManager[Tx]:
        """Return a context for reads."""

    def close(self) -> None: ...
