"""Caches of components (`t_cache_record`)."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from typing import Final

from fedflow.domain.data.caches import CacheFilter, StoredCache, TableName
from fedflow.store.codec import from_json, to_json
from fedflow.store.job_tables import CACHE
from fedflow.store.mapper import JSON, TASK_KEY, Mapper, single
from fedflow.store.session import Session, Value

_TABLE_NAMES: Final = single(
    lambda text: {
        name: TableName(namespace=space, name=table)
        for name, (space, table) in from_json(text).items()
    },
    lambda tables: to_json({name: [t.namespace, t.name] for name, t in tables.items()}),
)
_CACHES: Final = Mapper(
    CACHE,
    StoredCache,
    {
        "cache_key": "f_cache_key",
        "key": TASK_KEY("f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id"),
        "name": "f_cache_name",
        "tables": _TABLE_NAMES("f_tables"),
        "meta": JSON("f_meta"),
        "private": JSON("f_private"),
        "same_as": "f_same_as",
        "created_ms": "f_create_time",
    },
)


class SqlCaches:
    """See `app.ports.data.CacheStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, cache: StoredCache) -> None:
        self._session.replace(CACHE, _CACHES.row(cache))

    def find(self, which: CacheFilter) -> list[StoredCache]:
        where, values = _conditions(which)
        return self._select(
            f"{where} AND NOT EXISTS (SELECT 1 FROM t_cache_record AS newer "
            "WHERE newer.f_job_id = c.f_job_id AND newer.f_component_name = c.f_component_name "
            "AND newer.f_role = c.f_role AND newer.f_party_id = c.f_party_id "
            "AND newer.f_task_version > c.f_task_version) "
            "ORDER BY f_create_time, f_job_id, f_component_name, f_cache_name",
            values,
        )

    def drop(self, which: CacheFilter) -> list[StoredCache]:
        where, values = _conditions(which)
        found = self._select(where, values)
        self._session.write(f"DELETE FROM t_cache_record WHERE {where}", values)
        return found

    def _select(self, where: str, values: list[Value]) -> list[StoredCache]:
        return _CACHES.all(self._session.rows(f"{_CACHES.select} AS c WHERE {where}", values))


def _conditions(which: CacheFilter) -> tuple[str, list[Value]]:
    """Return an SQL condition and its values."""
    conditions: dict[str, Value] = {
        "f_role": which.site.role.value,
        "f_party_id": which.site.party_id,
        "f_cache_key": which.cache_key,
        "f_job_id": which.job_id,
        "f_component_name": which.component,
        "f_cache_name": which.name,
    }
    asked = {column: value for column, value in conditions.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in asked), list(asked.values())
