"""The store over a SQL database: transactions, and the parts that one gives access to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

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
from fedflow.app.ports.store import Tx
from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.migrate import migrate
from fedflow.store.recording import Recent
from fedflow.store.schema import Schema
from fedflow.store.session import Session
from fedflow.store.sql.accounts import SqlAccounts
from fedflow.store.sql.administration import SqlPermissions, SqlRegistry, SqlSiteKeys
from fedflow.store.sql.caches import SqlCaches
from fedflow.store.sql.data_tables import SqlConnectors, SqlTables
from fedflow.store.sql.events import SqlEvents, write_events
from fedflow.store.sql.instances import SqlInstances
from fedflow.store.sql.job_lists import SqlJobLists
from fedflow.store.sql.job_tags import SqlJobTags
from fedflow.store.sql.jobs import SqlEngines, SqlJobs
from fedflow.store.sql.leases import SqlLeases
from fedflow.store.sql.model_lists import SqlModelLists
from fedflow.store.sql.model_tags import SqlModelTags
from fedflow.store.sql.models import SqlModels
from fedflow.store.sql.outbox import SqlOutbox, SqlReplyCache
from fedflow.store.sql.queue import SqlQueue
from fedflow.store.sql.schedules import SqlSchedules
from fedflow.store.sql.submits import SqlSubmits
from fedflow.store.sql.tasks import SqlTasks
from fedflow.store.sql.tracking import SqlTracking


class Database(Protocol):
    """A place for tables: a SQLite file or a MySQL server."""

    @property
    def where(self) -> str:
        """What to call it in messages."""

    def session(self, *, write: bool) -> AbstractContextManager[Session]: ...

    def schema(self) -> AbstractContextManager[Schema]: ...

    def close(self) -> None: ...


def _model_history(session: Session) -> ModelHistoryStore:
    from fedflow.store.sql.model_history import SqlModelHistory  # no job needs it

    return SqlModelHistory(session)


def _rendezvous(session: Session) -> RendezvousStore:
    from fedflow.store.sql.rendezvous import SqlRendezvous  # no job needs it

    return SqlRendezvous(session)


_PARTS: Final[Mapping[str, Callable[[Session], Any]]] = {
    "jobs": SqlJobs,
    "job_lists": SqlJobLists,
    "job_tags": SqlJobTags,
    "engines": SqlEngines,
    "tasks": SqlTasks,
    "schedules": SqlSchedules,
    "queue": SqlQueue,
    "outbox": SqlOutbox,
    "reply_cache": SqlReplyCache,
    "leases": SqlLeases,
    "instances": SqlInstances,
    "tracking": SqlTracking,
    "tables": SqlTables,
    "caches": SqlCaches,
    "models": SqlModels,
    "model_lists": SqlModelLists,
    "model_tags": SqlModelTags,
    "model_history": _model_history,
    "connectors": SqlConnectors,
    "permissions": SqlPermissions,
    "site_keys": SqlSiteKeys,
    "registry": SqlRegistry,
    "submits": SqlSubmits,
    "events": SqlEvents,
    "accounts": SqlAccounts,
    "rendezvous": _rendezvous,
}


class SqlTx:
    """One transaction; see `app.ports.store.Tx`. A part is made when it is first asked for."""

    __slots__ = ("_session", *_PARTS)

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
    models: ModelVersionStore
    model_lists: ModelListStore
    model_tags: ModelTagStore
    model_history: ModelHistoryStore
    connectors: ConnectorStore
    permissions: PermissionStore
    site_keys: SiteKeyStore
    registry: RegistryStore
    submits: SubmitKeyStore
    events: EventStore
    accounts: AccountStore
    rendezvous: RendezvousStore

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name not in _PARTS:
            raise AttributeError(name)
        part = _PARTS[name](self._session)
        setattr(self, name, part)
        return part


class SqlStore:
    """See `app.ports.store.Store`. Every transaction may raise StoreUnavailable."""

    def __init__(self, database: Database, *, clock: Clock | None = None) -> None:
        """Bring the schema up to date. Raises: StoreUnavailable, SchemaTooNew."""
        self._database = database
        self._local = threading.local()
        self._closed = False
        self._recent = Recent()
        try:
            with database.schema() as schema:
                migrate(schema, clock or SystemClock())
        except BaseException:
            database.close()
            raise

    def transaction(self) -> AbstractContextManager[Tx]:
        return self._run(write=True)

    def read(self) -> AbstractContextManager[Tx]:
        return self._run(write=False)

    def close(self) -> None:
        """Close all connections; do it when no thread uses the store any more."""
        self._closed = True
        self._database.close()

    @contextmanager
    def _run(self, *, write: bool) -> Iterator[Tx]:
        if self._closed:
            raise StoreUnavailable(reason=f"{self._database.where}: closed")
        if getattr(self._local, "inside", False):
            raise RuntimeError("a transaction of this thread is open already")
        self._local.inside = True
        try:
            with self._database.session(write=write) as session:
                yield SqlTx(session)
                events = write_events(session, self._recent)
            self._recent.wrote(events)
        finally:
            self._local.inside = False
