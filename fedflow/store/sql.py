"""The store over a SQL database: transactions, and the parts that one gives access to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from fedflow.app import ports
from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors import StoreUnavailable
from fedflow.store.administration import SqlPermissions, SqlRegistry, SqlSiteKeys
from fedflow.store.caches import SqlCaches
from fedflow.store.data_tables import SqlConnectors, SqlTables
from fedflow.store.jobs import SqlEngines, SqlJobs
from fedflow.store.leases import SqlLeases
from fedflow.store.migrate import migrate
from fedflow.store.model_tags import SqlModelTags
from fedflow.store.models import SqlModels
from fedflow.store.outbox import SqlOutbox, SqlReceived
from fedflow.store.schedules import SqlSchedules
from fedflow.store.schema import Schema
from fedflow.store.session import Session
from fedflow.store.tasks import SqlTasks
from fedflow.store.tracking import SqlTracking


class Database(Protocol):
    """A place for tables: a SQLite file or a MySQL server."""

    @property
    def where(self) -> str:
        """What to call it in messages."""

    def session(self, *, write: bool) -> AbstractContextManager[Session]: ...

    def schema(self) -> AbstractContextManager[Schema]: ...

    def close(self) -> None: ...


class SqlTx:
    """One transaction; see `app.ports.Tx`."""

    __slots__ = (
        "caches",
        "connectors",
        "engines",
        "jobs",
        "leases",
        "model_tags",
        "models",
        "outbox",
        "permissions",
        "received",
        "registry",
        "schedules",
        "site_keys",
        "tables",
        "tasks",
        "tracking",
    )

    def __init__(self, session: Session) -> None:
        self.jobs: ports.Jobs = SqlJobs(session)
        self.engines: ports.Engines = SqlEngines(session)
        self.tasks: ports.Tasks = SqlTasks(session)
        self.schedules: ports.Schedules = SqlSchedules(session)
        self.outbox: ports.Outbox = SqlOutbox(session)
        self.received: ports.Received = SqlReceived(session)
        self.leases: ports.Leases = SqlLeases(session)
        self.tracking: ports.Tracking = SqlTracking(session)
        self.tables: ports.Tables = SqlTables(session)
        self.caches: ports.Caches = SqlCaches(session)
        self.models: ports.Models = SqlModels(session)
        self.model_tags: ports.ModelTags = SqlModelTags(session)
        self.connectors: ports.Connectors = SqlConnectors(session)
        self.permissions: ports.Permissions = SqlPermissions(session)
        self.site_keys: ports.SiteKeys = SqlSiteKeys(session)
        self.registry: ports.Registry = SqlRegistry(session)


class SqlStore:
    """See `app.ports.Store`. Every transaction may raise StoreUnavailable."""

    def __init__(self, database: Database, *, clock: Clock | None = None) -> None:
        """Bring the schema up to date. Raises: StoreUnavailable, SchemaTooNew."""
        self._database = database
        self._local = threading.local()
        self._closed = False
        try:
            with database.schema() as schema:
                migrate(schema, clock or SystemClock())
        except BaseException:
            database.close()
            raise

    def transaction(self) -> AbstractContextManager[ports.Tx]:
        return self._run(write=True)

    def read(self) -> AbstractContextManager[ports.Tx]:
        return self._run(write=False)

    def close(self) -> None:
        """Close all connections; do it when no thread uses the store any more."""
        self._closed = True
        self._database.close()

    @contextmanager
    def _run(self, *, write: bool) -> Iterator[ports.Tx]:
        if self._closed:
            raise StoreUnavailable(reason=f"{self._database.where}: closed")
        if getattr(self._local, "inside", False):
            raise RuntimeError("a transaction of this thread is open already")
        self._local.inside = True
        try:
            with self._database.session(write=write) as session:
                yield SqlTx(session)
        finally:
            self._local.inside = False
