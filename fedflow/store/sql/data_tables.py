"""The data sets of this party, and connectors to other storages."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.base.errors.data import TableExists
from fedflow.domain.data.table_lists import TableFilter, TableOrder
from fedflow.domain.data.table_names import REPLACED
from fedflow.domain.records import Connector, TableRecord
from fedflow.store.codec import from_json, to_json
from fedflow.store.mapper import FLAG, JSON, JSON_OR_NONE, Mapper, single
from fedflow.store.session import Session, Value, one_of
from fedflow.store.tables import CONNECTOR, TABLE

_ROWS: Final = single(lambda text: tuple(tuple(row) for row in from_json(text)), to_json)
_RECORDS: Final = Mapper(
    TABLE,
    TableRecord,
    {
        "namespace": "f_namespace",
        "name": "f_name",
        "address": "f_address",
        "schema": JSON("f_schema"),
        "count": "f_count",
        "partitions": "f_partitions",
        "origin": "f_origin",
        "created_ms": "f_create_time",
        "preview": _ROWS("f_part_of_data"),
        "id_delimiter": "f_id_delimiter",
        "have_head": FLAG("f_have_head"),
        "extend_sid": FLAG("f_extend_sid"),
        "engine": "f_engine",
        "source": "f_source",
        "disabled": FLAG("f_disable"),
        "extra": JSON_OR_NONE("f_extra"),
        "storage": JSON_OR_NONE("f_storage"),
    },
)
_BRIEF: Final = _RECORDS.without("preview")  #: for lists: it is long
_CONNECTORS: Final = Mapper(
    CONNECTOR,
    Connector,
    {
        "name": "f_name",
        "engine": "f_engine",
        "info": JSON("f_connector_info"),
        "created_ms": "f_create_time",
    },
)
_ORDERS: Final[Mapping[TableOrder, str]] = {
    TableOrder.CREATED: "f_create_time {way}, f_namespace {way}, f_name {way}",
    TableOrder.NAME: "f_namespace {way}, f_name {way}",
    TableOrder.ROWS: "f_count {way}, f_namespace {way}, f_name {way}",
}
_ONE: Final = "WHERE f_name = ? AND f_namespace = ?"


class SqlTables:
    """See `app.ports.data.DataTableStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, record: TableRecord) -> None:
        if not self._session.insert(TABLE, _RECORDS.row(record)):
            raise TableExists(namespace=record.namespace, name=record.name)

    def get(self, namespace: str, name: str) -> TableRecord | None:
        return _RECORDS.one(self._session.row(f"{_RECORDS.select} {_ONE}", (name, namespace)))

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        found = self._session.row(f"{_RECORDS.select} {_ONE}", (name, namespace), lock=True)
        if found is None:
            return None
        self._session.write(
            "DELETE FROM t_storage_table_meta WHERE f_name = ? AND f_namespace = ?",
            (name, namespace),
        )
        return _RECORDS.read(found)

    def find(self, namespace: str | None = None, *, limit: int = 1000) -> list[TableRecord]:
        where, named = ("", ()) if namespace is None else ("WHERE f_namespace = ?", (namespace,))
        found = self._session.rows(
            f"{_RECORDS.select} {where} ORDER BY f_create_time DESC, f_namespace, f_name LIMIT ?",
            (*named, limit),
        )
        return _RECORDS.all(found)

    def listed(self, which: TableFilter) -> list[TableRecord]:
        conditions, values = _conditions(which)
        order = _ORDERS[which.order].format(way="DESC" if which.descending else "ASC")
        found = self._session.rows(
            f"SELECT {_BRIEF.columns} "
            f"FROM (SELECT f_name, f_namespace FROM t_storage_table_meta "
            f"WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?) AS page "
            f"CROSS JOIN t_storage_table_meta USING (f_name, f_namespace) ORDER BY {order}",
            (*values, which.limit, which.offset),
        )
        return _BRIEF.all(found)

    def count(self, which: TableFilter) -> int:
        conditions, values = _conditions(which)
        found = self._session.row(
            f"SELECT COUNT(*) FROM t_storage_table_meta WHERE {conditions}",
            values,
        )
        return 0 if found is None else int(found[0])

    def disabled(self) -> list[TableRecord]:
        found = self._session.rows(
            f"{_RECORDS.select} WHERE f_disable = 1 ORDER BY f_namespace, f_name"
        )
        return _RECORDS.all(found)

    def set_disabled(self, namespace: str, name: str, *, disabled: bool) -> bool:
        return self._set("f_disable", int(disabled), namespace, name)

    def set_extra(self, namespace: str, name: str, extra: Any) -> bool:
        return self._set("f_extra", _optional(extra), namespace, name)

    def at_address(self, address: str) -> list[tuple[str, str]]:
        found = self._session.rows(
            "SELECT f_namespace, f_name FROM t_storage_table_meta WHERE f_address = ? "
            "ORDER BY f_namespace, f_name",
            (address,),
        )
        return [(namespace, name) for namespace, name in found]

    def of_connector(self, connector: str) -> list[tuple[str, str]]:
        found = self._session.rows(
            "SELECT f_namespace, f_name, f_storage FROM t_storage_table_meta "
            "WHERE f_storage IS NOT NULL ORDER BY f_namespace, f_name"
        )
        return [
            (namespace, name)
            for namespace, name, storage in found
            if _names(from_json(storage), connector)
        ]

    def _set(self, column: str, value: Value, namespace: str, name: str) -> bool:
        written = self._session.write(
            f"UPDATE t_storage_table_meta SET {column} = ? {_ONE}",
            (value, name, namespace),
        )
        return written > 0


class SqlConnectors:
    """See `app.ports.data.ConnectorStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, connector: Connector) -> None:
        self._session.replace(CONNECTOR, _CONNECTORS.row(connector))

    def get(self, name: str) -> Connector | None:
        found = self._session.row(f"{_CONNECTORS.select} WHERE f_name = ?", (name,))
        return _CONNECTORS.one(found)

    def all(self) -> list[Connector]:
        return _CONNECTORS.all(self._session.rows(f"{_CONNECTORS.select} ORDER BY f_name"))

    def drop(self, name: str) -> bool:
        return self._session.write("DELETE FROM t_storage_connector WHERE f_name = ?", (name,)) > 0


def _conditions(which: TableFilter) -> tuple[str, list[Value]]:
    """Return what a listed table fulfils; all columns are in one index."""
    conditions: list[str] = ["f_namespace <> ?"]
    values: list[Value] = [REPLACED]
    if which.part is not None:
        conditions.append("(INSTR(f_namespace, ?) > 0 OR INSTR(f_name, ?) > 0)")
        values += [which.part, which.part]
    if which.namespace is not None:
        conditions.append("f_namespace = ?")
        values.append(which.namespace)
    if which.origins is not None:
        conditions.append(one_of("f_origin", len(which.origins)))
        values += which.origins
    if which.disabled is not None:
        conditions.append("f_disable = ?")
        values.append(int(which.disabled))
    return " AND ".join(conditions), values


def _names(storage: Any, connector: str) -> bool:
    return isinstance(storage, dict) and storage.get("connector") == connector


def _optional(value: Any) -> str | None:
    return None if value is None else to_json(value)
