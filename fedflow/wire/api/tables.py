"""Tables of a party, where they come from, and the connectors to other storages.

FATE's names of members differ from the attributes here: `rename` says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

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


class ProducedBy(msgspec.Struct, frozen=True, kw_only=True):
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


class TableName(msgspec.Struct, frozen=True, kw_only=True, rename=_OF_TABLES):
    """A table."""

    name: str
    namespace: str


class NoTable(TableName, frozen=True, kw_only=True):
    """What is answered of a table that does not exist."""

    exist: int = 0  #: 1 or 0
    count: int = 0  #: rows


class TableInfo(NoTable, frozen=True, kw_only=True, rename=_OF_TABLES):
    """What a server knows of a table; of one that does not exist, members are absent."""

    SHOWN: ClassVar = (
        "namespace name exists count partitions schema origin engine address enabled made_by"
        " columns"
    )

    partitions: int = 0
    schema: Mapping[str, Any] = {}
    enabled: bool = True  #: jobs may read it
    origin: str = ""
    extend_sid: bool = False
    engine: str = ""  #: storage engine: STANDALONE, PATH, MYSQL ...
    address: Mapping[str, Any] = {}  #: where the rows are, without credentials
    created_ms: int = 0
    made_by: ProducedBy | None = None  #: None: no task that the server knows
    columns: tuple[TableColumn, ...] = ()  #: behind the id, at most 1,000

    @property
    def exists(self) -> bool:
        """Tell whether there is such a table."""
        return bool(self.exist)

    def __repr__(self) -> str:
        rows = f"{self.count} rows" if self.exists else "does not exist"
        return f"<Table {self.namespace}.{self.name}: {rows}>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        return html.facts(
            (("table", f"{self.namespace}.{self.name}"), ("exists", self.exists),
             ("rows", self.count), ("partitions", self.partitions), ("origin", self.origin))
        )  # fmt: skip


class Preview(
    msgspec.Struct, frozen=True, kw_only=True, rename={"rows": "data"}, omit_defaults=True
):
    """The first rows of a table as the server shows them."""

    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    name: str = ""  #: this and the next are the client's
    total: int | None = None  #: rows of the whole table

    def __repr__(self) -> str:
        return f"<Preview {self.name} {len(self.rows)} x {len(self.header)}>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        return html.table(self.header, self.rows, title=self.name)


class Deleted(TableName, frozen=True, kw_only=True, omit_defaults=True):
    """A deleted table; where several were, the first of `tables`."""

    tables: tuple[TableName, ...] = ()


class ComponentTables(msgspec.Struct, frozen=True, kw_only=True):
    """What a component is told to read, and the tables that it made, by the output's name."""

    input: Mapping[str, Any] = {}
    output: dict[str, Mapping[str, str]] = {}


class UploadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an upload."""

    table_name: str
    namespace: str
    partition: int = 0
    upload_count: int = 0  #: rows


class Upload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier upload."""

    SHOWN: ClassVar = "job_id namespace table_name count partitions created_ms gone notes"

    upload_info: UploadInfo
    notes: str | None
    schema: Mapping[str, Any] | None
    created_ms: int | None = None  #: of the upload's job
    gone: bool = False  #: the table was deleted, or the name has other rows by now
    job_id: str = ""  #: an answer has it as the upload's name

    @property
    def namespace(self) -> str:
        """Return the table's namespace."""
        return self.upload_info.namespace

    @property
    def table_name(self) -> str:
        """Return the table's name."""
        return self.upload_info.table_name

    @property
    def count(self) -> int:
        """Return how many rows were uploaded."""
        return self.upload_info.upload_count

    @property
    def partitions(self) -> int:
        """Return how many partitions the table has."""
        return self.upload_info.partition


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


class Connector(msgspec.Struct, frozen=True, kw_only=True):
    """How a storage is reached; what could be a credential is hidden."""

    connector_name: str
    engine: str
    connector_info: Mapping[str, Any]


class ConnectorColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns that were seen through a connector."""

    columns: tuple[str, ...]


class JobsOfTable(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the jobs that made or read a table."""

    count: int
    job: tuple[str, ...]
