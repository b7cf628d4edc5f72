"""The data sets of this party, and connectors to other storages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.base.errors import TableExists
from fedflow.domain.records import Connector, TableRecord
from fedflow.domain.table_lists import TableFilter, TableOrder
from fedflow.domain.table_names import REPLACED
from fedflow.store.codec import from_json, to_json
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.tables import CONNECTOR, TABLE

_NAMES: Final = (
    "f_namespace", "f_name", "f_address", "f_schema", "f_count", "f_partitions", "f_origin",
    "f_create_time", "f_part_of_data", "f_id_delimiter", "f_have_head", "f_extend_sid", "f_engine",
    "f_source", "f_disable", "f_extra", "f_storage",
)  # fmt: skip
_SELECT: Final = f"SELECT {', '.join(_NAMES)} FROM t_storage_table_meta"  # noqa: S608
_PREVIEW: Final = _NAMES.index("f_part_of_data")  #: lists go without it: it is long
_SELECT_BRIEF: Final = f"SELECT {', '.join(_NAMES[:_PREVIEW] + _NAMES[_PREVIEW + 1 :])}"
_ORDERS: Final[Mapping[TableOrder, str]] = {
    TableOrder.CREATED: "f_create_time {way}, f_namespace {way}, f_name {way}",
    TableOrder.NAME: "f_namespace {way}, f_name {way}",
    TableOrder.ROWS: "f_count {way}, f_namespace {way}, f_name {way}",
}
_ONE: Final = "WHERE f_name = ? AND f_namespace = ?"


class SqlTables:
    """See `app.ports.Tables`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, record: TableRecord) -> None:
        if not self._session.insert(TABLE, _row(record)):
            raise TableExists(namespace=record.namespace, name=record.name)

    def get(self, namespace: str, name: str) -> TableRecord | None:
        found = self._session.row(f"{_SELECT} {_ONE}", (name, namespace))
        return None if found is None else _record(found)

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        found = self._session.row(f"{_SELECT} {_ONE}", (name, namespace), lock=True)
        if found is None:
            return None
        self._session.write(
            "DELETE FROM t_storage_table_meta WHERE f_name = ? AND f_namespace = ?",
            (name, namespace),
        )
        return _record(found)

    def find(self, namespace: str | None = None, *, limit: int = 1000) -> list[TableRecord]:
        where, named = ("", ()) if namespace is None else ("WHERE f_namespace = ?", (namespace,))
        found = self._session.rows(
            f"{_SELECT} {where} ORDER BY f_create_time DESC, f_namespace, f_name LIMIT ?",
            (*named, limit),
        )
        return [_record(r) for r in found]

    def listed(self, which: TableFilter) -> list[TableRecord]:
        conditions, values = _conditions(which)
        order = _ORDERS[which.order].format(way="DESC" if which.descending else "ASC")
        found = self._session.rows(
            f"{_SELECT_BRIEF} "  # noqa: S608  constants
            f"FROM (SELECT f_name, f_namespace FROM t_storage_table_meta "
            f"WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?) AS page "
            f"CROSS JOIN t_storage_table_meta USING (f_name, f_namespace) ORDER BY {order}",
            (*values, which.limit, which.offset),
        )
        return [_record((*r[:_PREVIEW], "[]", *r[_PREVIEW:])) for r in found]

    def count(self, which: TableFilter) -> int:
        conditions, values = _conditions(which)
        found = self._session.row(
            f"SELECT COUNT(*) FROM t_storage_table_meta WHERE {conditions}",  # noqa: S608  constants
            values,
        )
        return 0 if found is None else int(found[0])

    def disabled(self) -> list[TableRecord]:
        found = self._session.rows(f"{_SELECT} WHERE f_disable = 1 ORDER BY f_namespace, f_name")
        return [_record(r) for r in found]

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
            f"UPDATE t_storage_table_meta SET {column} = ? {_ONE}",  # noqa: S608  a constant
            (value, name, namespace),
        )
        return written > 0


class SqlConnectors:
    """See `app.ports.Connectors`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, connector: Connector) -> None:
        row: dict[str, Value] = {
            "f_name": connector.name,
            "f_engine": connector.engine,
            "f_connector_info": to_json(connector.info),
            "f_create_time": connector.created_ms,
        }
        self._session.replace(CONNECTOR, row)

    def get(self, name: str) -> Connector | None:
        found = self._session.row(
            "SELECT f_engine, f_connector_info, f_create_time FROM t_storage_connector "
            "WHERE f_name = ?",
            (name,),
        )
        if found is None:
            return None
        engine, info, created_ms = found
        return Connector(name=name, engine=engine, info=from_json(info), created_ms=created_ms)

    def all(self) -> list[Connector]:
        found = self._session.rows(
            "SELECT f_name, f_engine, f_connector_info, f_create_time FROM t_storage_connector "
            "ORDER BY f_name"
        )
        return [
            Connector(name=name, engine=engine, info=from_json(info), created_ms=created_ms)
            for name, engine, info, created_ms in found
        ]

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


def _row(record: TableRecord) -> dict[str, Value]:
    return {
        "f_name": record.name,
        "f_namespace": record.namespace,
        "f_address": record.address,
        "f_schema": to_json(record.schema),
        "f_count": record.count,
        "f_partitions": record.partitions,
        "f_origin": record.origin,
        "f_part_of_data": to_json(record.preview),
        "f_id_delimiter": record.id_delimiter,
        "f_have_head": int(record.have_head),
        "f_extend_sid": int(record.extend_sid),
        "f_create_time": record.created_ms,
        "f_engine": record.engine,
        "f_source": record.source,
        "f_disable": int(record.disabled),
        "f_extra": _optional(record.extra),
        "f_storage": _optional(record.storage),
    }


def _record(found: Found) -> TableRecord:
    (
        namespace, name, address, schema, count, partitions, origin, created_ms, preview,
        id_delimiter, have_head, extend_sid, engine, source, disabled, extra, storage,
    ) = found  # fmt: skip
    return TableRecord(
        namespace=namespace,
        name=name,
        address=address,
        schema=from_json(schema),
        count=count,
        partitions=partitions,
        origin=origin,
        created_ms=created_ms,
        preview=tuple(tuple(row) for row in from_json(preview)),
        id_delimiter=id_delimiter,
        have_head=bool(have_head),
        extend_sid=bool(extend_sid),
        engine=engine,
        source=source,
        disabled=bool(disabled),
        extra=None if extra is None else from_json(extra),
        storage=None if storage is None else from_json(storage),
    )
