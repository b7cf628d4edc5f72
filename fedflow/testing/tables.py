"""Real local tables for tests, with a catalog in memory instead of the server's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from fedflow.base.errors.data import BadData, TableExists
from fedflow.domain.data.storages import Connection, connection_without_secrets
from fedflow.domain.records import TableRecord
from fedflow.sdk.table import Table, TableSchema
from fedflow.sdk.workers import Progress, no_progress
from fedflow.spark.tables.jobs import Cluster
from fedflow.spark.tables.store import SparkTableStore
from fedflow.tables.local import LocalTableStore
from fedflow.tables.local_table import LocalTable
from fedflow.tables.parts_store import PartsTableStore
from fedflow.testing.pickling import pickled

T = TypeVar("T")


class MemoryCatalog:
    """Satisfies `fedflow.tables.catalog.TableCatalog`; safe for threads."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], TableRecord] = {}
        self._outputs: dict[tuple[str, str, str], TableRecord] = {}
        self._connections: dict[tuple[str, str], Connection] = {}
        self._target: Connection | None = None
        self._lock = threading.Lock()

    def register(self, entry: TableRecord) -> None:
        """Add a table. Raises: TableExists."""
        with self._lock:
            key = (entry.namespace, entry.name)
            if key in self._entries:
                raise TableExists(namespace=entry.namespace, name=entry.name)
            self._entries[key] = entry

    def find(self, namespace: str, name: str) -> TableRecord | None:
        """Return a table, or None."""
        with self._lock:
            return self._entries.get((namespace, name))

    def put_output(self, job_id: str, component: str, data_name: str, entry: TableRecord) -> None:
        """Let a table be an output of an earlier job."""
        with self._lock:
            self._outputs[job_id, component, data_name] = entry

    def find_output(self, job_id: str, component: str, data_name: str) -> TableRecord | None:
        """Return an output of an earlier job, or None."""
        with self._lock:
            return self._outputs.get((job_id, component, data_name))

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        """Forget a table and return what was known of it."""
        with self._lock:
            return self._entries.pop((namespace, name), None)

    def put_connection(self, namespace: str, name: str, connection: Connection) -> None:
        """Say how the rows of a bound table are reached."""
        with self._lock:
            self._connections[namespace, name] = connection

    def connection(self, entry: TableRecord) -> Connection:
        """Return what `put_connection` said, else what the entry says; that has no credentials."""
        with self._lock:
            known = self._connections.get((entry.namespace, entry.name))
        return known or connection_without_secrets(entry.source, entry.storage)

    def put_target(self, connection: Connection) -> None:
        """Say where the task is to write."""
        with self._lock:
            self._target = connection

    def target(self) -> Connection:
        """Return what `put_target` said. Raises: BadData: nothing."""
        with self._lock:
            if self._target is None:
                raise BadData(where="the task", reason="it is not to write to another storage")
            return self._target

    def entries(self) -> list[TableRecord]:
        """Return all tables, oldest first."""
        with self._lock:
            return list(self._entries.values())


class PicklingTable(LocalTable):
    """A table whose functions of blocks and columns are pickled first, as a cluster would."""

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        return super().map_blocks(pickled(function), schema=schema, name=name, progress=progress)

    def fold_blocks(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        return super().fold_blocks(pickled(function))

    def map_columns(
        self, function: Callable[[str, pa.ChunkedArray], T], names: Sequence[str]
    ) -> Iterator[T]:
        return super().map_columns(pickled(function), names)


class PicklingTableStore(LocalTableStore):
    """Real local tables that show whether components keep to the rules of the Table port."""

    def table_of(self, entry: TableRecord) -> PicklingTable:
        """Return the table of a catalog entry. Raises: BadData: its address is wrong."""
        return PicklingTable(entry, folder=self._folder(entry), store=self, cores=self._cores)


def local_store(
    root: Path, *, catalog: MemoryCatalog | None = None, cores: int = 1
) -> LocalTableStore:
    """Return a store of Arrow files below `root` whose outputs go to the namespace `output`.

    It pickles the functions that components give to tables.
    """
    return PicklingTableStore(
        root, catalog=catalog or MemoryCatalog(), output_namespace="output", cores=cores
    )


def parts_store(root: Path, *, catalog: MemoryCatalog | None = None) -> PartsTableStore:
    """Return a store of folders of Parquet parts below `root`, without a cluster."""
    return PartsTableStore(
        root,
        tables_uri=str(root),
        catalog=catalog or MemoryCatalog(),
        output_namespace="output",
        cores=2,
    )


def spark_store(
    root: Path, *, cluster: Cluster, catalog: MemoryCatalog | None = None
) -> SparkTableStore:
    """Return a store whose tables are worked on by Spark, however small they are."""
    return SparkTableStore(
        root,
        cluster=cluster,
        tables_uri=str(root),
        catalog=catalog or MemoryCatalog(),
        output_namespace="output",
    )
