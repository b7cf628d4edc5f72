"""Places of other storages at which a Writer may make a table or a data set, named by requests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.allowed_storages import AllowedStorages
from fedflow.app.data.connectors import Connectors
from fedflow.base.errors.data import BadStorage, FileNotAllowed
from fedflow.domain.data.storages import (
    CONNECTOR,
    Connection,
    LocalFiles,
    MysqlRows,
    PathFile,
    Secrets,
    parse_address,
)

WRITABLE: Final = ("MYSQL", "LOCALFS", "S3", "HDFS")


class WritingTargets:
    """Checks where somebody wants to write."""

    def __init__(
        self, *, connectors: Connectors, allowed: AllowedStorages, folders: AllowedFolders
    ) -> None:
        """`folders` are those of this machine that may be written to."""
        self._connectors = connectors
        self._allowed = allowed
        self._folders = folders

    def checked(self, engine: str, given: Mapping[str, Any]) -> Connection:
        """Return how a new place is reached; `engine` is one of `WRITABLE`.

        Raises: BadStorage: the address is wrong, no new place, or has credentials (a job's
            parameters are stored and shown). StorageNotAllowed, PlaceNotAllowed. ConnectorNotFound,
            ConnectorMismatch.
        """
        name = given.get(CONNECTOR)
        if name is not None and not isinstance(name, str):
            raise BadStorage(path=f"$.address.{CONNECTOR}", reason="it must be a text")
        if engine == "LOCALFS":
            address, _ = parse_address(engine, given)
            self._allowed.check_writing(address)
            return Connection(address=self._on_this_machine(address))
        connection = self._connectors.parsed(engine, given, name or None)
        if name is None and connection.secrets != Secrets():
            reason = f"credentials belong into a connector, which `{CONNECTOR}` names"
            raise BadStorage(path="$.address", reason=reason)
        self._allowed.check_writing(connection.address)
        _check_new(connection.address)
        return connection

    def _on_this_machine(self, address: Any) -> LocalFiles:
        _check_new(address)
        with suppress(FileNotAllowed):  # the error below says that it is outside
            if self._folders.place(address.path).exists():
                reason = "there is something of that name already; nothing is replaced"
                raise BadStorage(path="$.address.path", reason=reason)
        true = self._folders.new_file(address.path)
        return LocalFiles(path=str(true), format=address.format)


def _check_new(address: Any) -> None:
    """Raises: BadStorage: the address names no place at which something can be made."""
    if isinstance(address, MysqlRows):
        if address.name is None:
            raise BadStorage(path="$.address.name", reason="the new table needs a name")
    elif (
        isinstance(address, PathFile) or not address.path.strip("/") or set(address.path) & {*"*?"}
    ):
        raise BadStorage(path="$.address.path", reason="it must name one new folder")
