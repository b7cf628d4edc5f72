"""The data sets of this party, and connectors to other storages."""

from __future__ import annotations

from typing import Any, Final

from fedflow.base.errors import TableExists
from fedflow.domain.records import Connector, TableRecord
from fedflow.store.codec import from_json, to_json
from fedflow.store.session import Found, Session, Value
from fedflow.store.tables import ConnectorRow, TableRow

_FIELDS: Final = (
    TableRow.f_namespace, TableRow.f_name, TableRow.f_address, TableRow.f_schema, TableRow.f_count,
    TableRow.f_partitions, TableRow.f_origin, TableRow.f_create_time, TableRow.f_part_of_data,
    TableRow.f_id_delimiter, TableRow.f_have_head, TableRow.f_extend_sid, TableRow.f_engine,
    TableRow.f_source, TableRow.f_disable, TableRow.f_extra,
)  # fmt: skip
_SELECT: Final = f"SELECT {', '.join(f.column_name for f in _FIELDS)} FROM t_storage_table_meta"  # noqa: S608
_ONE: Final = "WHERE f_name = ? AND f_namespace = ?"


class SqlTables:
    """See `app.ports.Tables`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, record: TableRecord) -> None:
        if not self._session.insert(TableRow, _row(record)):
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

    def disabled(self) -> list[TableRecord]:
        found = self._session.rows(f"{_SELECT} WHERE f_disable = 1 ORDER BY f_namespace, f_name")
        return [_record(r) for r in found]

    def set_disabled(self, namespace: str, name: str, *, disabled: bool) -> bool:
        return self._set("f_disable", int(disabled), namespace, name)

    def set_extra(self, namespace: str, name: str, extra: Any) -> bool:
        return self._set("f_extra", _extra(extra), namespace, name)

    def at_address(self, address: str) -> list[tuple[str, str]]:
        found = self._session.rows(
            "SELECT f_namespace, f_name FROM t_storage_table_meta WHERE f_address = ? "
            "ORDER BY f_namespace, f_name",
            (address,),
        )
        return [(namespace, name) for namespace, name in found]

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
        self._session.replace(ConnectorRow, row)

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


def _extra(extra: Any) -> str | None:
    return None if extra is None else to_json(extra)


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
        "f_extra": _extra(record.extra),
    }


def _record(found: Found) -> TableRecord:
    (
        namespace, name, address, schema, count, partitions, origin, created_ms, preview,
        id_delimiter, have_head, extend_sid, engine, source, disabled, extra,
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
    )
