"""Caches of components (`t_cache_record`)."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from typing import Final

from fedflow.base.ids import PartyId
from fedflow.domain.caches import CacheFilter, StoredCache, TableName
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Role, Site
from fedflow.store.codec import from_json, to_json
from fedflow.store.session import Session, Value
from fedflow.store.tables import CACHE

_COLUMNS: Final = (
    "f_cache_key, f_job_id, f_component_name, f_task_version, f_role, f_party_id, f_cache_name, "
    "f_tables, f_meta, "
    "f_private, f_same_as, f_create_time"
)


class SqlCaches:
    """See `app.ports.Caches`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, cache: StoredCache) -> None:
        key = cache.key
        tables = {name: [t.namespace, t.name] for name, t in cache.tables.items()}
        row: dict[str, Value] = {
            "f_cache_key": cache.cache_key,
            "f_job_id": key.job_id,
            "f_component_name": key.component,
            "f_task_version": key.version,
            "f_role": key.site.role.value,
            "f_party_id": key.site.party_id,
            "f_cache_name": cache.name,
            "f_tables": to_json(tables),
            "f_meta": to_json(cache.meta),
            "f_private": to_json(cache.private),
            "f_same_as": cache.same_as,
            "f_create_time": cache.created_ms,
        }
        self._session.replace(CACHE, row)

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
        found = self._session.rows(
            f"SELECT {_COLUMNS} FROM t_cache_record AS c WHERE {where}", values
        )
        return [
            StoredCache(
                cache_key=cache_key,
                key=TaskKey(
                    job_id=job_id, component=component, version=version,
                    site=Site(Role(role), PartyId(party_id)),
                ),
                name=name,
                tables={
                    table: TableName(namespace=namespace, name=table_name)
                    for table, (namespace, table_name) in from_json(tables).items()
                },
                meta=from_json(meta),
                private=from_json(private),
                same_as=same_as,
                created_ms=created_ms,
            )
            for (
                cache_key, job_id, component, version, role, party_id, name, tables, meta, private,
                same_as, created_ms,
            ) in found
        ]  # fmt: skip


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
