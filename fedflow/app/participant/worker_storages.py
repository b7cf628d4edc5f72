"""How executors reach the rows of bound tables: with credentials, for the task that reads them."""

from __future__ import annotations

import logging
from typing import Final

from fedflow.app.data.connectors import Connectors
from fedflow.app.data.table_use import named_table, readable
from fedflow.app.data.writing_targets import WRITABLE, WritingTargets
from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.store import Store
from fedflow.base.errors.data import (
    BoundTableRefused,
    ConnectorNotFound,
    FileNotAllowed,
    SecretUnreadable,
    StorageMissing,
    StorageNotAllowed,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import NotAuthenticated
from fedflow.domain.data.storages import Connection, is_bound
from fedflow.domain.records import TaskKey

logger = logging.getLogger(__name__)


class WorkerStorages:
    """The executors' counterpart for storages of others."""

    def __init__(
        self,
        *,
        store: Store,
        workers: Workers,
        connectors: Connectors,
        targets: WritingTargets | None = None,
    ) -> None:
        """`targets` checks where tasks may write; None: nothing is written to other storages."""
        self._store = store
        self._targets = targets
        self._workers = workers
        self._connectors = connectors

    def connection(self, key: TaskKey, token: str, namespace: str, name: str) -> Connection:
        """Return how a bound table is reached; only for a running task whose parameters name it.

        Raises: TaskNotFound. LaunchRefused: the task has ended. NotAuthenticated: it has another
            token, or does not read the table, or nobody else keeps its rows. TableNotFound,
            TableDisabled. BoundTableRefused: settings, links or the connector changed since the
            table was bound.
        """
        with self._store.read() as tx:
            task = self._workers.authentic(tx, key, token)
            if named_table(task) != (namespace, name):
                reason = "the task is not to read this table"
                raise NotAuthenticated(reason=reason)
            found = readable(tx, key.site, {"namespace": namespace, "name": name}, path="table")
            if not is_bound(found.engine, found.storage):
                raise NotAuthenticated(reason="the table is not bound")
            try:
                connection = self._connectors.of_table(tx, found)
            except FedflowError as exc:
                logger.warning("Table %s.%s is not read by %s: %s", namespace, name, key, exc)
                raise BoundTableRefused(
                    namespace=namespace, name=name, reason=_reason(exc)
                ) from exc
        logger.info(
            "Table %s.%s at %s is read by %s", namespace, name, connection.address.engine, key,
            extra={"action": "storage_opened", "job_id": key.job_id},
        )  # fmt: skip
        return connection

    def target(self, key: TaskKey, token: str) -> Connection:
        """Return how the place is reached that a running Writer's parameters name.

        Raises: TaskNotFound. LaunchRefused: the task has ended. NotAuthenticated: it has another
            token, or was not told to write. What `WritingTargets.checked` does.
        """
        with self._store.read() as tx:
            task = self._workers.authentic(tx, key, token)
        engine, address = (task.parameters.get(name) for name in ("storage_engine", "address"))
        if task.module.lower() != "writer" or engine not in WRITABLE or self._targets is None:
            raise NotAuthenticated(reason="the task is not to write to another storage")
        connection = self._targets.checked(engine, address)
        logger.info(
            "%s is written by %s", engine, key,
            extra={"action": "storage_opened", "job_id": key.job_id},
        )  # fmt: skip
        return connection


_REASONS: Final[dict[type[FedflowError], str]] = {
    FileNotAllowed: "the settings do not allow its folder any more",
    StorageMissing: "its files are not there",
    ConnectorNotFound: "its connector is not there",
    SecretUnreadable: "its credentials cannot be decrypted",
}


def _reason(exc: FedflowError) -> str:
    """Return why a table is not read, without its place: all parties of the job see this."""
    if isinstance(exc, StorageNotAllowed):
        return f"`{exc.fields['setting']}` does not allow its storage any more"
    return _REASONS.get(type(exc), "its connector does not fit its address any more")
