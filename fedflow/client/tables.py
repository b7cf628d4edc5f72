"""`client.tables`: the tables of this party."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedflow.client.archive import unpack
from fedflow.client.connection import Connection
from fedflow.client.documents import Document, read_document
from fedflow.wire.api.tables import (
    ConnectorColumns,
    ConnectorName,
    Deleted,
    JobsOfTable,
    ListedTables,
    Preview,
    TableInfo,
    TableName,
    TableSource,
)


class TableCalls:
    """What can be asked about tables."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def info(self, namespace: str, name: str) -> TableInfo:
        """Return what the server knows of a table, also if it does not exist."""
        found: TableInfo = self._connection.look_up(
            "table/table_info", _table(namespace, name), TableInfo
        )
        return found

    def listed(
        self, part: str = "", *, namespace: str | None = None, limit: int = 50, offset: int = 0
    ) -> ListedTables:
        """Return tables, newest first: at most `limit` (1,000) of those after `offset`.

        `part` is a text that the namespace or the name has.
        """
        body = {"part": part, "limit": limit, "offset": offset}
        if namespace is not None:
            body["namespace"] = namespace
        found: ListedTables = self._connection.look_up("table/list/all", body, ListedTables)
        return found

    def preview(self, namespace: str, name: str, *, limit: int = 20) -> Preview:
        """Return the first rows of a table, at most 100. Raises: NoData, TableNotFound."""
        found: Preview = self._connection.look_up(
            "table/preview", {**_table(namespace, name), "limit": limit}, Preview
        )
        return msgspec.structs.replace(found, name=name)

    def delete(self, namespace: str, name: str) -> None:
        """Delete a table and its files. Raises: ClientError: there is no such table."""
        self._connection.envelope(
            "/v1/table/delete",
            {"namespace": namespace, "table_name": name},
            command="table/delete",
        )

    def delete_outputs(self, job_id: str, *, component: str | None = None) -> list[TableName]:
        """Delete the tables that a job made, or one component of it; return their names."""
        body = {"job_id": job_id}
        if component is not None:
            body["component_name"] = component
        found: Deleted = self._connection.do("table/delete", body, Deleted)
        return list(found.tables)

    def download(self, namespace: str, name: str, target: Path, *, head: bool = True) -> list[Path]:
        """Unpack `table.csv` and `table.meta` of a table into the folder `target`; return them.

        Raises: NoData, TableNotFound; BadData: the archive is not acceptable.
        """
        command = "table/download"
        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
            archive = Path(folder) / "table.tar.gz"
            with archive.open("wb") as file:
                self._connection.fetch(
                    f"/v1/{command}", {**_table(namespace, name), "head": head}, file,
                    command=command, method="GET",
                )  # fmt: skip
            return unpack(archive, target)

    def bind(self, conf: Document, *, drop: bool = False) -> None:
        """Give a name to data that lie elsewhere: files, a database's table, or another table.

        `conf`: `engine`, `address`, `namespace`, `name`, ... as FATE's; see docs/storages.md.

        Raises: TableExists. BadStorage, QueryNotAllowed: the address. StorageNotAllowed: the server
        may not reach the place. StorageUnreachable, StorageRefused, StorageMissing.
        """
        body = dict(read_document(conf))
        self._connection.do("table/bind", {**body, "drop": True} if drop else body)

    def disable(self, namespace: str, name: str) -> None:
        """Let no job read a table any more, until `enable`."""
        self._connection.do("table/disable", _table(namespace, name))

    def enable(self, namespace: str, name: str) -> None:
        """Let jobs read a disabled table again."""
        self._connection.do("table/enable", _table(namespace, name))

    def delete_disabled(self) -> int:
        """Delete all disabled tables; return how many."""
        found: list[Any] = self._connection.do("table/disable/delete", {}, list[Any])
        return len(found)

    def sources(self, namespace: str, name: str) -> list[TableSource]:
        """Return which tables a table was made from."""
        found: list[TableSource] = self._connection.look_up(
            "table/tracking/source", _table(namespace, name), list[TableSource]
        )
        return found

    def used_by(self, namespace: str, name: str) -> list[str]:
        """Return the ids of the jobs that made or read a table."""
        found: JobsOfTable = self._connection.look_up(
            "table/tracking/job", _table(namespace, name), JobsOfTable
        )
        return list(found.job)

    def create_connector(self, conf: Document, *, replace: bool = True) -> None:
        """Store how an external source is reached: `connector_name`, `engine`, `connector_info`.

        As in FATE, it replaces a connector of that name, unless told not to. The server encrypts
        it. Raises: BadStorage, StorageNotAllowed, ConnectorExists.
        """
        body = {**read_document(conf), **({} if replace else {"replace": 0})}
        self._connection.do("table/connector/create", body)

    def connectors(self) -> list[ConnectorName]:
        """Return the names and engines of all connectors."""
        found: list[ConnectorName] = self._connection.look_up(
            "table/connector/list", {}, list[ConnectorName]
        )
        return found

    def test_connector(self, name: str, address: Mapping[str, Any] | None = None) -> list[str]:
        """Reach a storage with a connector and the rest of an address; return its columns.

        Raises: as `bind`, and ConnectorNotFound.
        """
        body = {"connector_name": name, "address": dict(address or {})}
        found: ConnectorColumns = self._connection.do(
            "table/connector/test", body, ConnectorColumns
        )
        return list(found.columns)

    def delete_connector(self, name: str) -> None:
        """Forget a connector. Raises: ConnectorNotFound. ConnectorInUse: tables need it."""
        self._connection.do("table/connector/delete", {"connector_name": name})

    def connector(self, name: str) -> Mapping[str, Any]:
        """Return a stored connector; what could be a credential is masked."""
        found: Mapping[str, Any] = self._connection.look_up(
            "table/connector/query", {"connector_name": name}, dict[str, Any]
        )
        return found


def _table(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "table_name": name}
