"""Tables whose rows somebody else keeps: files of this machine, second names, connectors.

A bound file is looked at once, for its columns; a reader copies its rows when a job runs.
Source: `reference/flow-rest-api.md` section 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.table_use import STANDALONE, make_way, remove_rows
from fedflow.app.folders import Folders
from fedflow.app.ports import BoundFiles, Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors import (
    BadRequest,
    ConnectorNotFound,
    NotSupportedYet,
    TableExists,
    TableNotFound,
)
from fedflow.base.reading import read_as
from fedflow.domain.records import Connector, TableRecord
from fedflow.domain.table_names import checked_name, names_in_schema, new_namespace
from fedflow.domain.upload_meta import UploadMeta, schema_members

PATH: Final = "PATH"
_OTHERS: Final = frozenset(
    {"EGGROLL", "HDFS", "HIVE", "LINKIS_HIVE", "MYSQL", "LOCALFS", "API", "SIMPLE"}
)
_ORIGIN: Final = "table_bind"
_CONNECTOR_LIMIT: Final = 100  #: characters of a connector's name or engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """What to bind under which name."""

    engine: str
    address: Mapping[str, Any]
    namespace: str
    name: str
    drop: bool = False
    head: bool = True
    id_delimiter: str = ","
    partitions: int = 1
    id_column: str | None = None
    feature_column: str | None = None
    extend_sid: bool = False
    with_meta: bool = False
    meta: Mapping[str, Any] | None = None  #: what the columns mean, as for uploads
    schema: Mapping[str, Any] | None = None  #: `sid` and `header` of a file without a head


class Bindings:
    """The use cases of `table/bind` and `table/connector`."""

    def __init__(
        self,
        *,
        store: Store,
        folders: Folders,
        sources: AllowedFolders,
        files: BoundFiles,
        clock: Clock,
        new_address: Callable[[], str],
        own_party: str,
    ) -> None:
        self._store = store
        self._folders = folders
        self._sources = sources
        self._files = files
        self._clock = clock
        self._new_address = new_address
        self._own_party = own_party

    def bind(self, given: Binding) -> TableRecord:
        """Register a table without copying its rows.

        Raises: BadRequest: the address lacks a member. BadTableName. FileNotAllowed. BadData: the
            file is no CSV file. TableNotFound: the table of the address. TableExists: there is one,
            and `drop` is not set. NotSupportedYet: the engine.
        """
        engine = given.engine.upper()
        given = replace(
            given,
            namespace=new_namespace(given.namespace),
            name=checked_name("name", given.name),
        )
        if not 1 <= given.partitions <= 1023:
            raise BadRequest(reason="`partitions` must be between 1 and 1023")
        if engine == PATH:
            return self._put(self._of_file(given), drop=given.drop)
        if engine == STANDALONE:
            return self._put(self._of_table(given), drop=given.drop)
        if engine in _OTHERS:
            raise NotSupportedYet(what=f"Binding tables of the storage engine {engine}")
        raise BadRequest(reason=f"{engine[:50]!r} is no storage engine; PATH and STANDALONE are")

    def _of_file(self, given: Binding) -> TableRecord:
        path = self._sources.existing_file(_member(given.address, "path"))
        meta = _meta(given)
        schema, preview = self._files.look(
            path,
            head=given.head,
            id_delimiter=given.id_delimiter,
            makes_ids=given.extend_sid,
            names=_names(given),
            whole=meta is not None and not meta.is_dense and not given.head,
        )
        _check_columns(given, schema)
        extra = None
        if meta is not None:
            extra = schema_members(
                meta, key=schema["id"], columns=schema["columns"], makes_ids=given.extend_sid
            )
        return TableRecord(
            namespace=given.namespace,
            name=given.name,
            address=self._new_address(),
            schema=schema,
            count=0,  # nobody has read it yet
            partitions=given.partitions,
            origin=_ORIGIN,
            created_ms=self._clock.now_ms(),
            preview=preview,
            id_delimiter=given.id_delimiter,
            have_head=given.head,
            extend_sid=given.extend_sid,
            engine=PATH,
            source=str(path),
            extra=extra,
        )

    def _of_table(self, given: Binding) -> TableRecord:
        namespace, name = _member(given.address, "namespace"), _member(given.address, "name")
        with self._store.read() as tx:
            table = tx.tables.get(namespace, name)
        if table is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._own_party)
        if (namespace, name) == (given.namespace, given.name):
            raise BadRequest(reason="a table cannot be bound to itself")
        return replace(
            table,
            namespace=given.namespace,
            name=given.name,
            origin=_ORIGIN,
            created_ms=self._clock.now_ms(),
            disabled=False,
        )

    def _put(self, table: TableRecord, *, drop: bool) -> TableRecord:
        with self._store.transaction() as tx:
            old = tx.tables.get(table.namespace, table.name)
            if old is not None and not drop:
                raise TableExists(namespace=table.namespace, name=table.name)
            self._still_there(tx, table)
            free = old is not None and make_way(tx, old, now_ms=self._clock.now_ms())
            tx.tables.put(table)
        if old is not None and free and old.address != table.address:
            remove_rows(self._folders, old)
        return table

    def _still_there(self, tx: Tx, table: TableRecord) -> None:
        """Raises: TableNotFound: the table whose rows get a second name was dropped meanwhile."""
        if table.engine == STANDALONE and not tx.tables.at_address(table.address):
            raise TableNotFound(
                namespace=table.namespace, name=table.name, party_id=self._own_party
            )

    # --- connectors -------------------------------------------------------------------------------

    def put_connector(self, name: str, engine: str, info: Mapping[str, Any]) -> None:
        """Store how another storage is reached, in place of an older connector of that name.

        Raises: BadRequest: a name is empty or too long.
        """
        for what, value in (("connector_name", name), ("engine", engine)):
            if not 1 <= len(value) <= _CONNECTOR_LIMIT:
                raise BadRequest(reason=f"`{what}` must have 1 to {_CONNECTOR_LIMIT} characters")
        connector = Connector(
            name=name, engine=engine.upper(), info=dict(info), created_ms=self._clock.now_ms()
        )
        with self._store.transaction() as tx:
            tx.connectors.put(connector)

    def connector(self, name: str) -> Connector:
        """Return a connector with its credentials. Raises: ConnectorNotFound."""
        with self._store.read() as tx:
            found = tx.connectors.get(name)
        if found is None:
            raise ConnectorNotFound(name=name[:_CONNECTOR_LIMIT])
        return found


def _member(address: Mapping[str, Any], name: str) -> str:
    value = address.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(reason=f"`address.{name}` must be a text", path=f"$.address.{name}")
    return value


def _meta(given: Binding) -> UploadMeta | None:
    """Return what a request says of the columns. Raises: BadRequest: it cannot be read."""
    if not given.with_meta:
        return None
    try:
        meta = read_as(dict(given.meta or {}), UploadMeta)
        meta.check()
    except (msgspec.ValidationError, ValueError) as exc:
        raise BadRequest(reason=f"`meta`: {exc}", path="$.meta") from exc
    return meta


def _names(given: Binding) -> tuple[str, ...] | None:
    """Return the column names that a request gives for a file without a head."""
    if given.head or not given.schema:
        return None
    try:
        return names_in_schema(given.schema, delimiter=given.id_delimiter)
    except ValueError as exc:
        raise BadRequest(reason=f"`schema`: {exc}", path="$.schema") from exc


def _check_columns(given: Binding, schema: Any) -> None:
    """Refuse a choice of columns: all are read, the first is the id."""
    if given.id_column not in (None, "", schema["id"]):
        raise NotSupportedYet(what="Binding a file whose id is not its first column")
    wanted = given.feature_column
    if wanted and [c.strip() for c in wanted.split(",")] != list(schema["columns"]):
        raise NotSupportedYet(what="Binding some columns of a file")
