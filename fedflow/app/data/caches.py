"""Caches that components keep for later jobs: stored with a task's end, handed to tasks as input.

Source: `docs/reference/jobs.md#caches`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.app.ports.store import Tx
from fedflow.base.errors.components import BadParameter, CacheNotFound
from fedflow.base.ids import new_request_id
from fedflow.domain.data.caches import CacheFilter, StoredCache, TableName
from fedflow.domain.records import Metric, TableRecord, TaskRecord
from fedflow.domain.site import Site
from fedflow.wire.task_report import ReportedCache
from fedflow.wire.task_spec import CacheInput

CACHE_LOADER: Final = "CacheLoader"


def put_caches(tx: Tx, task: TaskRecord, caches: Sequence[ReportedCache], *, now_ms: int) -> None:
    """Store what a task kept, its tables included.

    What a CacheLoader loaded is not stored again, so that no secret has a copy: its cache points to
    the one that it loaded. Raises: CacheNotFound.
    """
    if not caches:
        return
    key = task.key
    loaded = cache_request(task)
    source = None if loaded is None else one_cache(tx, loaded)
    for cache in caches:
        tables = {} if source else cache.tables
        for table in tables.values():
            if tx.tables.get(table.namespace, table.name) is None:
                tx.tables.put(table)
        cache_key = new_request_id()
        meta = {"name": cache.name, "metric_type": "cache_info", "cache_key": cache_key}
        tx.tracking.add_metric(
            key, Metric(namespace="cache", name=cache.name, meta=meta), now_ms=now_ms
        )
        tx.caches.put(
            StoredCache(
                cache_key=cache_key,
                key=key,
                name=cache.name,
                tables={
                    name: TableName(namespace=table.namespace, name=table.name)
                    for name, table in tables.items()
                },
                meta=cache.meta,
                private={} if source else cache.private,
                same_as=(source.same_as or source.cache_key) if source else None,
                created_ms=now_ms,
            )
        )


def cache_request(task: TaskRecord) -> CacheFilter | None:
    """Return which cache a CacheLoader's parameters name, None for another module.

    Raises: BadParameter: they name nothing.
    """
    if task.module.lower() != CACHE_LOADER.lower():
        return None
    given = {
        name: _text(task.parameters, name)
        for name in ("cache_key", "job_id", "component_name", "cache_name")
    }
    if given["cache_key"] is None and (given["job_id"] is None or given["component_name"] is None):
        raise BadParameter(
            path=task.key.component, reason="needs cache_key, or job_id and component_name"
        )
    return CacheFilter(
        site=task.key.site,
        cache_key=given["cache_key"],
        job_id=given["job_id"],
        component=given["component_name"],
        name=given["cache_name"],
    )


def one_cache(tx: Tx, which: CacheFilter) -> StoredCache:
    """Return the only match. Raises: CacheNotFound: there is none, or several."""
    found = tx.caches.find(which)
    if len(found) != 1:
        names = {
            "cache_key": which.cache_key,
            "job_id": which.job_id,
            "component_name": which.component,
            "cache_name": which.name,
        }
        what = ", ".join(f"{n} {v}" for n, v in names.items() if v is not None)
        raise CacheNotFound(found=len(found), what=what, site=which.site)
    return found[0]


def cache_input(tx: Tx, cache: StoredCache, site: Site) -> CacheInput:
    """Return a cache as a worker's spec file has it. Raises: CacheNotFound: a table was deleted."""
    if cache.same_as is not None:
        cache = one_cache(tx, CacheFilter(site=site, cache_key=cache.same_as))
    tables = {}
    for name, where in cache.tables.items():
        table = tx.tables.get(where.namespace, where.name)
        if table is None:
            what = f"table {where.namespace}.{where.name} of a cache (it was deleted)"
            raise CacheNotFound(found=0, what=what, site=site)
        tables[name] = table
    return CacheInput(tables=tables, meta=dict(cache.meta), private=dict(cache.private))


def drop_caches(tx: Tx, which: CacheFilter) -> list[TableRecord]:
    """Forget caches with their secrets, and the tables that were made for them; return these."""
    dropped = []
    for cache in tx.caches.drop(which):
        for where in cache.tables.values():
            table = tx.tables.drop(where.namespace, where.name)
            if table is not None:
                dropped.append(table)
    return dropped


def _text(parameters: Mapping[str, Any], name: str) -> str | None:
    value = parameters.get(name)
    return None if value is None else str(value)
