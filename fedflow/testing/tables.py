"""Real local tables for tests, with a catalog in memory instead of the server's."""

from __future__ import annotations

import threading
from pathlib import Path

from fedflow.base.errors import TableExists
from fedflow.tables.catalog import TableEntry
from fedflow.tables.local import LocalTableStore


class MemoryCatalog:
    """Satisfies `fedflow.tables.catalog.Catalog`; safe for threads."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], TableEntry] = {}
        self._outputs: dict[tuple[str, str, str], TableEntry] = {}
        self._lock = threading.Lock()

    def register(self, entry: TableEntry) -> None:
        """Add a table. Raises: TableExists."""
        with self._lock:
            key = (entry.namespace, entry.name)
            if key in self._entries:
                raise TableExists(namespace=entry.namespace, name=entry.name)
            self._entries[key] = entry

    def find(self, namespace: str, name: str) -> TableEntry | None:
        """Return a table, or None."""
        with self._lock:
            return self._entries.get((namespace, name))

    def put_output(self, job_id: str, component: str, data_name: str, entry: TableEntry) -> None:
        """Let a table be an output of an earlier job."""
        with self._lock:
            self._outputs[job_id, component, data_name] = entry

    def find_output(self, job_id: str, component: str, data_name: str) -> TableEntry | None:
        """Return an output of an earlier job, or None."""
        with self._lock:
            return self._outputs.get((job_id, component, data_name))

    def drop(self, namespace: str, name: str) -> TableEntry | None:
        """Forget a table and return what was known of it."""
        with self._lock:
            return self._entries.pop((namespace, name), None)

    def entries(self) -> list[TableEntry]:
        """Return all tables, oldest first."""
        with self._lock:
            return list(self._entries.values())


def local_store(root: Path, *, catalog: MemoryCatalog | None = None) -> LocalTableStore:
    """Return a store of Arrow files below `root` whose outputs go to the namespace `output`."""
    return LocalTableStore(root, catalog=catalog or MemoryCatalog(), output_namespace="output")
