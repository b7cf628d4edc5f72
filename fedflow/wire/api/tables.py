"""Tables of a party, where they come from, and the connectors to other storages.

FATE's names of members differ from the attributes here: `rename` says how.
"""

from __future__ import annotations

import msgspec


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """What the cells of one column amount to."""

    name: str
    kind: str  #: `number` or `text`
    count: int  #: rows
    missing: int
    min: float | None = None  #: None: there is no number
    max: float | None = None
    mean: float | None = None


class MadeBy(msgspec.Struct, frozen=True, kw_only=True):
    """The task that made a table, and the name of that output."""

    job_id: str
    component_name: str
    task_version: int = 0
    role: str
    party_id: str
    data_name: str


_OF_TABLES = {
    "name": "table_name", "partitions": "partition", "enabled": "enable", "created_ms": "created",
}  # fmt: skip


class ListedTable(msgspec.Struct, frozen=True, kw_only=True, rename=_OF_TABLES):
    """A table in a list."""

    name: str
    namespace: str
    count: int = 0  #: rows
    columns: int = 0
    partitions: int = 0
    origin: str = ""
    engine: str = ""  #: storage engine: STANDALONE, PATH, MYSQL ...
    enabled: bool = True  #: jobs may read it
    created_ms: int = 0


class ListedTables(msgspec.Struct, frozen=True, kw_only=True):
    """Some tables of a party; `count` is how many there are in all."""

    count: int
    tables: tuple[ListedTable, ...] = ()


class TableSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a table's rows come from: the table before, and the first one."""

    parent_table_name: str = ""
    parent_table_namespace: str = ""
    source_table_name: str = ""
    source_table_namespace: str = ""


_OF_CONNECTORS = {"name": "connector_name", "created_ms": "created"}


class ConnectorName(msgspec.Struct, frozen=True, kw_only=True, rename=_OF_CONNECTORS):
    """A connector without what is in it."""

    name: str
    engine: str
    created_ms: int = 0
