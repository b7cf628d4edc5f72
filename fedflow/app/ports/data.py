"""Tables, connectors and caches: parts of the store, and the engines that read rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from fedflow.domain.data.caches import CacheFilter, StoredCache
from fedflow.domain.data.storages import Connection
from fedflow.domain.data.table_lists import TableFilter
from fedflow.domain.records import ColumnFacts, Connector, TableRecord


class DataTableStore(Protocol):
    """The data sets of this party (`t_storage_table_meta`)."""

    def put(self, record: TableRecord) -> None:
        """Store a table. Raises: TableExists."""

    def get(self, namespace: str, name: str) -> TableRecord | None: ...

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        """Forget a table and return what it was."""

    def find(self, namespace: str | None = None, *, limit: int = 1000) -> list[TableRecord]: ...

    def listed(self, which: TableFilter) -> list[TableRecord]:
        """Return the tables of a filter's page, without their previews."""

    def count(self, which: TableFilter) -> int:
        """Return how many tables fit a filter, whatever its page."""

    def disabled(self) -> list[TableRecord]:
        """Return the tables that jobs may not read, by namespace and name."""

    def set_disabled(self, namespace: str, name: str, *, disabled: bool) -> bool:
        """Forbid or allow jobs to read a table; False if there is none."""

    def set_extra(self, namespace: str, name: str, extra: Any) -> bool:
        """Store what FATE's schema holds beyond column names; False if there is no table."""

    def at_address(self, address: str) -> list[tuple[str, str]]:
        """Return namespace and name of all tables whose rows lie in a folder."""

    def of_connector(self, connector: str) -> list[tuple[str, str]]:
        """Return namespace and name of the bound tables that a connector is needed for."""


class ConnectorStore(Protocol):
    """Ways to other storages (`t_storage_connector`)."""

    def put(self, connector: Connector) -> None:
        """Store a connector; it replaces the one with its name."""

    def get(self, name: str) -> Connector | None: ...

    def all(self) -> list[Connector]:
        """Return all connectors by name, those of single tables too."""

    def drop(self, name: str) -> bool:
        """Forget a connector; False if there is none."""


class CacheStore(Protocol):
    """What components keep at their own site for later jobs (`t_cache_record`)."""

    def put(self, cache: StoredCache) -> None:
        """Store a cache; it replaces one of the same attempt and name."""

    def find(self, which: CacheFilter) -> list[StoredCache]:
        """Return matching caches of the latest attempts that made any, oldest first."""

    def drop(self, which: CacheFilter) -> list[StoredCache]:
        """Forget matching caches of all attempts, and return them."""


class BoundFiles(Protocol):
    """Looks at files of this machine that become tables without being copied."""

    def probe(
        self, path: Path, *, head: bool, id_delimiter: str, makes_ids: bool,
        names: tuple[str, ...] | None, whole: bool, id_column: str | None,
        features: tuple[str, ...] | None,
    ) -> tuple[Any, tuple[tuple[str, ...], ...]]:  # fmt: skip
        """Return the schema of a file, and its first rows as text; `whole`: what follows the id is
        one text. `id_column` (None: the first) and `features` (None: all others) are what is read.
        Raises: BadData.
        """


class StorageProbe(Protocol):
    """Looks at storages of others that become tables without being copied."""

    def probe(
        self, connection: Connection, *, head: bool, id_delimiter: str, makes_ids: bool,
        names: tuple[str, ...] | None,
    ) -> tuple[Any, tuple[tuple[str, ...], ...]]:  # fmt: skip
        """Return the schema of a table as it would be read, and its first rows as text.

        It takes a bounded time, and memory of another process. Raises: StorageUnreachable,
        StorageRefused, StorageMissing, BadData, NotSupportedYet.
        """


class TableFacts(Protocol):
    """Knows what was counted of tables when they were written."""

    def read(self, table: TableRecord) -> Sequence[ColumnFacts]:
        """Return the facts of the columns behind the id, as far as they were counted."""


class TablePreviews(Protocol):
    """Has the first rows of tables as text."""

    def read(self, table: TableRecord) -> Sequence[Sequence[str]]:
        """Return up to 100 rows with all columns, nothing if they are not known."""


class TableWindows(Protocol):
    """Reads some rows in the middle of a table of this server."""

    def read(
        self, table: TableRecord, *, offset: int, limit: int, columns: Sequence[int]
    ) -> Sequence[Sequence[str]]:
        """Return rows as text, in the given columns (0 = the id). Raises: BadData: damaged."""


class Archives(Protocol):
    """Packs tables into one file for download."""

    def write(
        self,
        target: IO[bytes],
        tables: Mapping[str, TableRecord],
        *,
        limit: int,
        head: bool,
        modified_ms: int,
    ) -> None:
        """Write a tar.gz of tables by output name; `limit` rows each, -1 = all. Raises: NoData."""
