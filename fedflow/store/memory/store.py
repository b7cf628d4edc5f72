"""The store in memory: the same rules as over SQL, with a real rollback, for simulations only. It
has the parts that they use.

Records are frozen and shared, not copied; JSON in them is copied once, when it is stored, and must
not be changed by readers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import cast

from fedflow.app.ports.data import ConnectorStore, DataTableStore
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
from fedflow.app.ports.scheduling import LeaseStore, Outbox, QueueStore, ReplyCache, ScheduleStore
from fedflow.app.ports.store import Tx
from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.memory.events import MemoryEvents
from fedflow.store.memory.job_lists import MemoryJobLists
from fedflow.store.memory.job_tags import MemoryJobTags
from fedflow.store.memory.jobs import MemoryEngines, MemoryJobs
from fedflow.store.memory.journal import Journal
from fedflow.store.memory.models import MemoryCaches, MemoryModels
from fedflow.store.memory.outbox import MemoryLeases, MemoryOutbox, MemoryReplyCache
from fedflow.store.memory.queue import MemoryQueue
from fedflow.store.memory.schedules import MemorySchedules
from fedflow.store.memory.submits import MemorySubmits
from fedflow.store.memory.tasks import MemoryTasks
from fedflow.store.memory.tracking import MemoryConnectors, MemoryTables, MemoryTracking
from fedflow.store.recording import Recent


class MemoryTx:
    """One transaction: what simulations use of `app.ports.store.Tx`."""

    def __init__(self, journal: Journal) -> None:
        engines = MemoryEngines(journal)
        self.engines: EngineStore = engines
        tags, tasks = MemoryJobTags(journal), MemoryTasks(journal)
        jobs, schedules = MemoryJobs(journal, engines, tags), MemorySchedules(journal)
        self.jobs: JobStore = jobs
        self.job_tags: JobTagStore = tags
        self.job_lists: JobListStore = MemoryJobLists(jobs, schedules, tags, tasks)
        self.tasks: TaskStore = tasks
        self.schedules: ScheduleStore = schedules
        self.queue: QueueStore = MemoryQueue(journal, schedules, jobs)
        self.outbox: Outbox = MemoryOutbox(journal)
        self.reply_cache: ReplyCache = MemoryReplyCache(journal)
        self.leases: LeaseStore = MemoryLeases(journal)
        self.tracking: TrackingStore = MemoryTracking(journal)
        self.tables: DataTableStore = MemoryTables(journal)
        self.models = MemoryModels(journal)
        self.caches = MemoryCaches()
        self.connectors: ConnectorStore = MemoryConnectors(journal)
        self.submits: SubmitKeyStore = MemorySubmits(journal)
        events = MemoryEvents(journal)
        self.events: EventStore = events
        self.write_events = events.write


class MemoryStore:
    """See `app.ports.store.Store`. One transaction at a time, reading ones too."""

    def __init__(self) -> None:
        self._journal = Journal()
        self._tx = MemoryTx(self._journal)
        self._recent = Recent()
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._closed = False

    def transaction(self) -> AbstractContextManager[Tx]:
        return self._run(write=True)

    def read(self) -> AbstractContextManager[Tx]:
        return self._run(write=False)

    @property
    def writes(self) -> int:
        """How often something was written: as long as this stays, so does what is stored."""
        return self._journal.writes

    def close(self) -> None:
        """Refuse everything from now on; what is stored is gone with the object."""
        self._closed = True

    @contextmanager
    def _run(self, *, write: bool) -> Iterator[Tx]:
        if self._closed:
            raise StoreUnavailable(reason="memory: closed")
        me = threading.get_ident()
        if self._owner == me:
            raise RuntimeError("a transaction of this thread is open already")
        with self._lock:
            self._owner = me
            self._journal.begin(write=write)
            try:
                yield cast(Tx, self._tx)
                if write:
                    self._recent.wrote(self._tx.write_events(self._recent))
            except BaseException:
                self._journal.undo()
                raise
            finally:
                self._journal.end()
                self._owner = None
