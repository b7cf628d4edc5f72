"""Caches between a component, which sees tables, and the server, which knows their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fedflow.domain.records import TableRecord
from fedflow.sdk.outputs import Cache
from fedflow.tables.local import LocalTableStore
from fedflow.tables.stored_table import StoredTable
from fedflow.wire.task_report import ReportedCache
from fedflow.wire.task_spec import CacheInput
from fedflow.worker.catalog import WorkerCatalog


def cache_of(given: CacheInput, *, catalog: WorkerCatalog, tables: LocalTableStore) -> Cache:
    """Return a cache that the server handed over. Raises: BadData: a table is none."""
    opened = {name: tables.table_of(catalog.know(t)) for name, t in given.tables.items()}
    return Cache(tables=opened, meta=given.meta, private=given.private)


def own_tables(cache: Cache, own: Mapping[tuple[str, str], TableRecord]) -> list[TableRecord]:
    """Return the tables of a cache that this run made."""
    entries = [table.entry for table in cache.tables.values() if isinstance(table, StoredTable)]
    return [entry for entry in entries if own.get((entry.namespace, entry.name)) == entry]


def cache_to_wire(
    cache: Cache, *, name: str, namespace: str, made: list[TableRecord]
) -> ReportedCache:
    """Return the report of a cache; tables that were `made` in this run move to `namespace`.

    Raises: TypeError: a table is none of this engine.
    """
    tables = {}
    for key, table in cache.tables.items():
        if not isinstance(table, StoredTable):
            raise TypeError(f"a {type(table).__name__}, no table of this engine")
        entry = table.entry
        tables[key] = replace(entry, namespace=namespace) if entry in made else entry
    return ReportedCache(
        name=name, tables=tables, meta=dict(cache.meta), private=dict(cache.private)
    )
