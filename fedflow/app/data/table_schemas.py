"""Changes what FATE's schema of a table says beside the column names.

The column names are those of the stored rows, so they stay.
Source: `docs/reference/rest.md#tables`, `docs/reference/data-formats.md#datatransform`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.data import ColumnsFixed, TableNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import TableRecord
from fedflow.wire.fields import table_schema_row

_COLUMNS: Final = ("header", "sid")
_ANONYMOUS: Final = re.compile(r"([a-z]+)_([0-9A-Za-z]+)_(.+)", re.DOTALL)
_PARTY: Final = re.compile(r"[0-9A-Za-z]{1,32}")

Mapped = Mapping[str, Mapping[str, Any]]  #: role -> old party id -> new party id


class TableSchemas:
    """The use cases of `table/schema`."""

    def __init__(self, *, store: Store, own_party: str) -> None:
        self._store = store
        self._own_party = own_party

    def update(self, namespace: str, name: str, schema: Mapping[str, Any]) -> TableRecord:
        """Change members of a schema; a null takes one away, `meta` is merged into what there is.

        Raises: TableNotFound. BadRequest. ColumnsFixed: `header` or `sid` is another one.
        """
        with self._store.transaction() as tx:
            table = self._table(tx, namespace, name)
            shown = table_schema_row(table)
            for member in _COLUMNS:
                if schema.get(member) not in (None, shown[member], _joined(shown[member], table)):
                    reason = f"`{member}` names the columns of the stored rows"
                    raise ColumnsFixed(namespace=namespace, name=name, reason=reason)
            extra = dict(table.extra or {})
            for member, value in schema.items():
                if member == "meta":
                    extra["meta"] = _merged(extra.get("meta"), value)
                elif member not in _COLUMNS and value is None:
                    extra.pop(member, None)
                elif member not in _COLUMNS:
                    extra[member] = value
            return self._put(tx, namespace, name, extra)

    def migrate(
        self, namespace: str, name: str, *, role: str, party_id: str, mapping: Mapped
    ) -> TableRecord:
        """Give the columns the names by which other parties know them after party ids changed.

        A table without such names gets those of `role` and `party_id` first.

        Raises: TableNotFound. BadRequest: an id in `mapping` is no party id.
        """
        new_ids = _new_ids(mapping)
        with self._store.transaction() as tx:
            table = self._table(tx, namespace, name)
            extra = dict(table.extra or {})
            known = extra.get("anonymous_header")
            if isinstance(known, str):
                known = known.split(table.id_delimiter)
            if not isinstance(known, list):
                header = table_schema_row(table)["header"]
                columns = header.split(table.id_delimiter) if isinstance(header, str) else header
                count = len(columns) if header else 0
                known = [f"{role}_{party_id}_x{i}" for i in range(count)]
            extra["anonymous_header"] = [_renamed(str(column), new_ids) for column in known]
            return self._put(tx, namespace, name, extra)

    def _table(self, tx: Tx, namespace: str, name: str) -> TableRecord:
        found = tx.tables.get(namespace, name)
        if found is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._own_party)
        return found

    def _put(self, tx: Tx, namespace: str, name: str, extra: dict[str, Any]) -> TableRecord:
        tx.tables.set_extra(namespace, name, extra)
        return self._table(tx, namespace, name)


def _merged(known: Any, given: Any) -> Any:
    if given is None:
        return known
    if not isinstance(given, dict):
        raise BadRequest(reason="`schema.meta` must be an object", path="$.schema.meta")
    return {**(known if isinstance(known, dict) else {}), **given}


def _joined(header: Any, table: TableRecord) -> Any:
    return table.id_delimiter.join(header) if isinstance(header, list) else header


def _new_ids(mapping: Mapped) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for role, ids in mapping.items():
        for old, new in ids.items() if isinstance(ids, Mapping) else ():
            if isinstance(new, bool) or not _PARTY.fullmatch(str(new)):
                raise BadRequest(
                    reason="an id in `migrate_mapping` is no party id",
                    path=f"$.migrate_mapping.{role}",
                )
            found[role, str(old)] = str(new)
    return found


def _renamed(column: str, new_ids: Mapping[tuple[str, str], str]) -> str:
    parts = _ANONYMOUS.fullmatch(column)
    if parts is None:
        return column
    role, party_id, rest = parts.groups()
    return f"{role}_{new_ids.get((role, party_id), party_id)}_{rest}"
