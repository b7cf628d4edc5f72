"""Connectors: how other storages are reached, with credentials that are stored encrypted.

A connector that people make has a name of theirs. Credentials that stand in the address of a bound
table go to a hidden connector, which comes and goes with the table: its name is a dot and the
table's address. In the store, `info` of both is `{"sealed": text}`; rows of earlier releases have
the members in clear until the server starts (`seal_old`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

import msgspec

from fedflow.app.data.allowed_storages import AllowedStorages
from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.decoding import decode_as
from fedflow.base.errors.data import (
    ConnectorExists,
    ConnectorInUse,
    ConnectorMismatch,
    ConnectorNotFound,
    SecretUnreadable,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.data.storages import (
    Bound,
    Connection,
    Secrets,
    bound_from_json,
    check_connector_info,
    completed,
    connection_without_secrets,
    hidden_connector,
    own_members,
    parse_address,
    secret_info,
    secrets_of,
)
from fedflow.domain.data.table_names import has_control
from fedflow.domain.records import Connector, TableRecord

_SEALED: Final = "sealed"
_HIDDEN: Final = "."  #: before the names of hidden connectors
_NAME_LIMIT: Final = 100  #: characters of a connector's name or engine

logger = logging.getLogger(__name__)


class Sealer(Protocol):
    """Encrypts what only this server may read."""

    def seal(self, text: str) -> str:
        """Return `text` encrypted with the newest key; makes one at the first call."""

    def unseal(self, sealed: str) -> str | None:
        """Return what was sealed, None if none of the keys fits."""

    def is_fresh(self, sealed: str) -> bool:
        """Tell whether the newest key sealed it."""


class Connectors:
    """The use cases of `table/connector`, and the credentials of bound tables."""

    def __init__(
        self, *, store: Store, sealer: Callable[[], Sealer], allowed: AllowedStorages, clock: Clock
    ) -> None:
        self._store = store
        self._sealer = sealer
        self._allowed = allowed
        self._clock = clock

    # --- connectors of people ---------------------------------------------------------------------

    def put(
        self, name: str, engine: str, info: Mapping[str, Any], *, replaces: bool = True
    ) -> None:
        """Store how another storage is reached; `replaces` an older connector of that name.

        Raises: BadRequest: a name is empty, too long or cannot be typed. BadStorage: a member of
            `info` is none of the engine's. StorageNotAllowed: the settings do not allow its host.
            ConnectorExists.
        """
        for what, value in (("connector_name", name), ("engine", engine)):
            if not 1 <= len(value) <= _NAME_LIMIT or has_control(value):
                reason = f"`{what}` must have 1 to {_NAME_LIMIT} characters, no control characters"
                raise BadRequest(reason=reason, path=f"$.{what}")
        if name.startswith(_HIDDEN):
            raise BadRequest(reason="`connector_name` begins with a dot", path="$.connector_name")
        check_connector_info(engine.upper(), info, at="$.connector_info")
        self._allowed.check_connector(engine.upper(), info)
        connector = self._sealed(name, engine.upper(), info)
        with self._store.transaction() as tx:
            older = None if replaces else tx.connectors.get(name)
            if older is not None:
                raise ConnectorExists(name=name, engine=older.engine)
            tx.connectors.put(connector)
        logger.info("Connector %s was stored", name, extra={"action": "connector_stored"})

    def get(self, name: str) -> Connector:
        """Return a connector with its credentials. Raises: ConnectorNotFound, SecretUnreadable."""
        with self._store.read() as tx:
            return self._opened(self._found(tx, name))

    def all(self) -> list[Connector]:
        """Return the connectors of people by name, without what is in them."""
        with self._store.read() as tx:
            return [replace(c, info={}) for c in tx.connectors.all() if not _is_hidden(c.name)]

    def delete(self, name: str) -> None:
        """Forget a connector. Raises: ConnectorNotFound. ConnectorInUse: tables need it."""
        with self._store.transaction() as tx:
            self._found(tx, name)
            if used := tx.tables.of_connector(name):
                (namespace, table), count = used[0], len(used)
                raise ConnectorInUse(name=name, namespace=namespace, table=table, count=count)
            tx.connectors.drop(name)
        logger.info("Connector %s was deleted", name, extra={"action": "connector_deleted"})

    # --- connections ------------------------------------------------------------------------------

    def parsed(self, engine: str, given: Mapping[str, Any], name: str | None) -> Connection:
        """Return the connection that an address and perhaps a connector give; it may be reached.

        Raises: BadStorage, QueryNotAllowed, StorageNotAllowed, FileNotAllowed, ConnectorNotFound.
            ConnectorMismatch: the connector is of another engine, or both say the same.
        """
        if name is not None:
            connector = self.get(name)
            if connector.engine != engine:
                reason = f"the connector is for {connector.engine}"
                raise ConnectorMismatch(name=name, path="$.address.connector_name", reason=reason)
            given = completed(given, connector.info, connector=name)
        address, secrets = parse_address(engine, given)
        return self._limited(Connection(address=self._allowed.checked(address), secrets=secrets))

    def of_table(self, tx: Tx, table: TableRecord) -> Connection:
        """Return how a bound table is reached now, with credentials.

        Raises: StorageNotAllowed, FileNotAllowed: the settings or links changed since it was bound.
            ConnectorNotFound, ConnectorMismatch, SecretUnreadable.
        """
        plain = connection_without_secrets(table.source, table.storage)
        if table.storage is not None:
            bound = bound_from_json(table.storage)
            address, secrets = self._completed(tx, bound, table.engine)
            plain = msgspec.structs.replace(plain, address=address, secrets=secrets)
        self._allowed.check_again(plain.address)
        return self._limited(plain)

    def hide(self, tx: Tx, table: TableRecord, secrets: Secrets) -> None:
        """Store the credentials of one table."""
        info = secret_info(table.engine, secrets)
        tx.connectors.put(self._sealed(hidden_connector(table.address), table.engine, info))

    def seal_old(self) -> int:
        """Encrypt what is stored in clear, or with an older key; return how many were changed."""
        with self._store.read() as tx:
            stale = [c.name for c in tx.connectors.all() if not self._is_fresh(c)]
        for name in stale:
            with self._store.transaction() as tx:
                found = tx.connectors.get(name)
                if found is not None and not self._is_fresh(found):
                    opened = self._opened(found)
                    sealed = self._sealed(name, found.engine, opened.info)
                    tx.connectors.put(replace(sealed, created_ms=found.created_ms))
        if stale:
            logger.info("%d connectors were encrypted anew", len(stale))
        return len(stale)

    def _completed(self, tx: Tx, bound: Bound, engine: str) -> tuple[Any, Secrets]:
        if bound.connector is None:
            return bound.address, Secrets()
        stored = tx.connectors.get(bound.connector)
        if stored is None:
            raise ConnectorNotFound(name=bound.connector)
        info = self._opened(stored).info
        if _is_hidden(bound.connector):
            return bound.address, secrets_of(engine, info)
        if stored.engine != engine:
            reason = f"the connector is for {stored.engine} now"
            raise ConnectorMismatch(name=stored.name, path="address", reason=reason)
        given = completed(own_members(bound, info), info, connector=stored.name, at="address")
        return parse_address(engine, given, at="address")

    def _limited(self, connection: Connection) -> Connection:
        return msgspec.structs.replace(
            connection, roots=self._allowed.roots, limits=self._allowed.limits
        )

    # --- sealing ----------------------------------------------------------------------------------

    def _found(self, tx: Tx, name: str) -> Connector:
        found = None if _is_hidden(name) else tx.connectors.get(name)
        if found is None:
            raise ConnectorNotFound(name=name[:_NAME_LIMIT])
        return found

    def _sealed(self, name: str, engine: str, info: Mapping[str, Any]) -> Connector:
        text = self._sealer().seal(msgspec.json.encode(dict(info)).decode())
        now_ms = self._clock.now_ms()
        return Connector(name=name, engine=engine, info={_SEALED: text}, created_ms=now_ms)

    def _opened(self, connector: Connector) -> Connector:
        """Return a connector with its members in clear. Raises: SecretUnreadable."""
        if not _is_sealed(connector):
            return connector
        text = self._sealer().unseal(connector.info[_SEALED])
        if text is None:
            raise SecretUnreadable(name=connector.name)
        return replace(connector, info=decode_as(text, dict[str, Any]))

    def _is_fresh(self, connector: Connector) -> bool:
        return _is_sealed(connector) and self._sealer().is_fresh(connector.info[_SEALED])


def _is_hidden(name: str) -> bool:
    return name.startswith(_HIDDEN)


def _is_sealed(connector: Connector) -> bool:
    return set(connector.info) == {_SEALED} and isinstance(connector.info[_SEALED], str)
