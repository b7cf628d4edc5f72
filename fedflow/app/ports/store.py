"""The store: a transaction with all its parts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fedflow.app.ports.administration import Accounts, Permissions, Registry, SiteKeys
from fedflow.app.ports.data import Caches, Connectors, Tables
from fedflow.app.ports.jobs import (
    Engines,
    Events,
    JobLists,
    Jobs,
    JobTags,
    Submits,
    Tasks,
    Tracking,
)
from fedflow.app.ports.models import ModelLists, Models, ModelTags
from fedflow.app.ports.scheduling import Instances, Leases, Outbox, Queue, Received, Schedules


class Tx(Protocol):
    """One transaction on the store."""

    events: Events

    jobs: Jobs
    job_lists: JobLists
    job_tags: JobTags
    engines: Engines
    tasks: Tasks
    schedules: Schedules
    queue: Queue
    outbox: Outbox
    received: Received
    leases: Leases
    instances: Instances
    tracking: Tracking
    tables: Tables
    caches: Caches
    connectors: Connectors
    models: Models
    model_lists: ModelLists
    model_tags: ModelTags
    permissions: Permissions
    site_keys: SiteKeys
    registry: Registry
    submits: Submits
    accounts: Accounts


class Store(Protocol):
    """The memory of one server."""

    def transaction(self) -> AbstractContextManager[Tx]:
        """Return a context for reads and writes; an exception inside undoes all. Not re-entrant."""

    def read(self) -> AbstractContextManager[Tx]:
        """Return a context for reads."""

    def close(self) -> None: ...
