"""Tables whose rows somebody else keeps: files, databases, object stores; and second names.

A storage is looked at once, for its columns; a reader copies its rows when a job runs. What the
administrator allows is checked both times.
Source: `docs/reference/rest.md#tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.connectors import Connectors
from fedflow.app.data.table_use import STANDALONE, make_way, remove_rows
from fedflow.app.ports.data import BoundFiles, StorageProbe
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.decoding import read_as
from fedflow.base.errors.data import TableExists, TableNotFound
from fedflow.base.errors.requests import BadRequest, NotSupportedYet
from fedflow.base.values import dataclass
from fedflow.domain.data.storages import (
    CONNECTOR,
    ENGINES,
    Bound,
    Connection,
    HiveRows,
    PathFile,
    Secrets,
    bound_from_json,
    bound_to_json,
    hidden_connector,
)
from fedflow.domain.data.table_names import checked_name, names_in_schema, new_namespace
from fedflow.domain.data.table_parts import is_own
from fedflow.domain.data.upload_meta import UploadMeta, schema_members
from fedflow.domain.records import TableRecord

PATH: Final = "PATH"
_OTHERS: Final = frozenset({"EGGROLL", "LINKIS_HIVE", "API", "SIMPLE"})
_ORIGIN: Final = "table_bind"
Rows: TypeAlias = tuple[tuple[str, ...], ...]


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


class Bindings(UseCase):
    """The use cases of `table/bind`."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        sources: AllowedFolders,
        files: BoundFiles,
        probes: StorageProbe,
        connectors: Connectors,
        new_address: Callable[[], str],
        own_party: str,
    ) -> None:
        super().__init__(kernel)
        self._sources = sources
        self._files = files
        self._probes = probes
        self._connectors = connectors
        self._new_address = new_address
        self._own_party = own_party

    def bind(self, given: Binding) -> TableRecord:
        """Register a table without copying its rows.

        The storage is looked at once: for its columns, and for its first rows.

        Raises: BadRequest, BadStorage: the address lacks a member, or one is wrong. BadTableName.
            FileNotAllowed, StorageNotAllowed. QueryNotAllowed. ConnectorNotFound,
            ConnectorMismatch. StorageUnreachable, StorageRefused, StorageMissing. BadData: what is
            there is no table, or has no such columns. TableNotFound: the table of the address.
            TableExists: there is one, and `drop` is not set. NotSupportedYet: the engine.
        """
        engine = given.engine.upper()
        given = replace(
            given,
            namespace=new_namespace(given.namespace),
            name=checked_name("name", given.name),
        )
        if not 1 <= given.partitions <= 1023:
            raise BadRequest(reason="`partitions` must be between 1 and 1023")
        if engine == STANDALONE:
            return self._put(self._of_table(given), drop=given.drop)
        if engine == PATH:
            connection = self._file(given)
        elif engine in ENGINES:
            connection = self._storage(engine, given)
        elif engine in _OTHERS:
            raise NotSupportedYet(what=f"Binding tables of the storage engine {engine}")
        else:
            known = ", ".join((STANDALONE, *ENGINES))
            raise BadRequest(reason=f"{engine[:50]!r} is no storage engine; there are {known}")
        self._check_free(given)
        schema, preview = self._looked(given, connection)
        table = self._of_storage(given, connection, schema, preview)
        return self._put(table, drop=given.drop, secrets=connection.secrets)

    def try_connector(self, name: str, address: Mapping[str, Any]) -> list[str]:
        """Reach a storage with a connector and the rest of an address; return its columns.

        Raises: as `bind`.
        """
        connector = self._connectors.get(name)
        is_whole = not {"name", "query"}.isdisjoint(connector.info)
        if connector.engine == "MYSQL" and not address and not is_whole:
            own = {"query": "SELECT 1 AS one", "db": "information_schema"}
            address = {n: value for n, value in own.items() if n not in connector.info}
        if connector.engine not in ENGINES or connector.engine in (PATH, "HIVE"):
            raise NotSupportedYet(what=f"Trying connectors of the engine {connector.engine}")
        connection = self._connectors.parsed(connector.engine, address, name)
        schema, _ = self._probes.probe(
            connection, head=True, id_delimiter=",", makes_ids=False, names=None
        )
        return [schema["id"], *schema["columns"]]

    def _file(self, given: Binding) -> Connection:
        path = self._sources.existing_file(_member(given.address, "path"))
        return Connection(address=PathFile(path=str(path)), **_choice(given))

    def _storage(self, engine: str, given: Binding) -> Connection:
        """Return how a storage of others is reached."""
        name = given.address.get(CONNECTOR)
        if name is not None and not isinstance(name, str):
            raise BadRequest(
                reason="`address.connector_name` must be a text", path="$.address.connector_name"
            )
        connection = self._connectors.parsed(engine, given.address, name or None)
        return msgspec.structs.replace(connection, **_choice(given))

    def _looked(self, given: Binding, connection: Connection) -> tuple[Any, Rows]:
        """Return the schema of the table, and its first rows as text."""
        meta = _meta(given)
        if isinstance(connection.address, HiveRows):
            if connection.address.query is not None:  # SQL of Spark can run programs, read files
                raise NotSupportedYet(what="A query of Hive (a view of it can be bound)")
            return _said_columns(given), ()
        if not isinstance(connection.address, PathFile):
            return self._probes.probe(
                connection,
                head=given.head,
                id_delimiter=given.id_delimiter,
                makes_ids=given.extend_sid,
                names=_names(given),
            )
        return self._files.probe(
            Path(connection.address.path),
            head=given.head,
            id_delimiter=given.id_delimiter,
            makes_ids=given.extend_sid,
            names=_names(given),
            whole=meta is not None and not meta.is_dense and not given.head,
            id_column=connection.id_column,
            features=connection.feature_columns,
        )

    def _of_storage(
        self, given: Binding, connection: Connection, schema: Any, preview: Rows
    ) -> TableRecord:
        address = connection.address
        meta = _meta(given)
        extra = None
        if meta is not None:
            extra = schema_members(
                meta, key=schema["id"], columns=schema["columns"], makes_ids=given.extend_sid
            )
        where = self._new_address()
        connector = None
        if not isinstance(address, PathFile):  # a file needs none, whatever its address says
            hidden = hidden_connector(where) if connection.secrets != Secrets() else None
            connector = given.address.get(CONNECTOR) or hidden
        bound = Bound(
            address=address,
            connector=connector,
            id_column=connection.id_column,
            feature_columns=connection.feature_columns,
        )
        return TableRecord(
            namespace=given.namespace,
            name=given.name,
            address=where,
            schema=schema,
            count=0,  # nobody has read it yet
            partitions=given.partitions,
            origin=_ORIGIN,
            created_ms=self._clock.now_ms(),
            preview=preview,
            id_delimiter=given.id_delimiter,
            have_head=given.head,
            extend_sid=given.extend_sid,
            engine=address.engine,
            source=address.path if isinstance(address, PathFile) else None,
            storage=bound_to_json(bound),
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

    def _check_free(self, given: Binding) -> None:
        """Raises: TableExists: before a storage is looked at, which may take long."""
        with self._store.read() as tx:
            if not given.drop and tx.tables.get(given.namespace, given.name) is not None:
                raise TableExists(namespace=given.namespace, name=given.name)

    def _put(
        self, table: TableRecord, *, drop: bool, secrets: Secrets | None = None
    ) -> TableRecord:
        with self._store.transaction() as tx:
            old = tx.tables.get(table.namespace, table.name)
            if old is not None and not drop:
                raise TableExists(namespace=table.namespace, name=table.name)
            self._still_there(tx, table)
            free = old is not None and make_way(tx, old, now_ms=self._clock.now_ms())
            tx.tables.put(table)
            if secrets is not None and _hides(table):
                self._connectors.hide(tx, table, secrets)
        if old is not None and free and old.address != table.address:
            remove_rows(self._folders, old)
        return table

    def _still_there(self, tx: Tx, table: TableRecord) -> None:
        """Raises: TableNotFound: the table whose rows get a second name was dropped meanwhile."""
        if is_own(table.engine, table.storage) and not tx.tables.at_address(table.address):
            raise TableNotFound(
                namespace=table.namespace, name=table.name, party_id=self._own_party
            )


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


def _said_columns(given: Binding) -> dict[str, Any]:
    """Return the schema that a request gives for a table that this server cannot look at.

    Raises: BadRequest: it gives none.
    """
    try:
        names = names_in_schema(given.schema or {}, delimiter=given.id_delimiter)
    except ValueError as exc:
        reason = f"`schema`: {exc}, since this server does not look at Hive itself"
        raise BadRequest(reason=reason, path="$.schema") from exc
    if len(set(names)) < len(names):
        raise BadRequest(reason="`schema`: two columns have one name", path="$.schema.header")
    return {"kind": "raw", "id": names[0], "columns": list(names[1:])}


def _choice(given: Binding) -> dict[str, Any]:
    """Return the wanted id column and features. Raises: BadRequest: they cannot be wanted."""
    key = (given.id_column or "").strip() or None
    features: tuple[str, ...] | None = None
    if given.feature_column is not None and given.feature_column.strip():
        features = tuple(name.strip() for name in given.feature_column.split(","))
    if key is None and features is None:
        return {}
    if given.extend_sid and key is not None:
        raise BadRequest(reason="`id_column` has no meaning with `extend_sid`", path="$.id_column")
    if not given.head:  # a reader finds columns by the names that the rows have
        path = "$.id_column" if key is not None else "$.feature_column"
        reason = "columns can be chosen of rows with a head only (`head`: 1)"
        raise BadRequest(reason=reason, path=path)
    meta = _meta(given)
    if meta is not None and not meta.is_dense:
        reason = "columns can be chosen of dense rows only"
        raise BadRequest(reason=reason, path="$.meta.input_format")
    return {"id_column": key, "feature_columns": features}


def _hides(table: TableRecord) -> bool:
    bound = bound_from_json(table.storage)
    return bound.connector == hidden_connector(table.address)
