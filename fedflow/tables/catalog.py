"""What is known of a table without opening it, and the port that remembers it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import msgspec

from fedflow.base.decoding import read_as
from fedflow.base.errors.data import BadData
from fedflow.domain.data.storages import Connection
from fedflow.domain.records import TableRecord
from fedflow.sdk.table import TableSchema

PREVIEW_ROWS = 100  #: rows kept as text for people
PREVIEW_CHARACTERS = 500_000  #: of all cells of a preview; wide tables get fewer rows


class TableOrigin(StrEnum):
    """How a table came to be."""

    UPLOAD = "upload"
    OUTPUT = "output"  #: of a component
    READER = "reader"
    BIND = "table_bind"  #: of a file of this machine, which stays where it is


STANDALONE = "STANDALONE"  #: the engine of tables below the table root
PATH = "PATH"  #: the engine of bound files
DATASETS = ("LOCALFS", "S3", "HDFS")  #: engines of folders of files, by kind of file system


def schema_of(table: TableRecord) -> TableSchema:
    """Return what a table's columns are. Raises: BadData: its description is damaged."""
    try:
        return read_as(table.schema, TableSchema)
    except msgspec.ValidationError as exc:
        raise BadData(where=where_is(table), reason=f"its description is damaged: {exc}") from exc


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """Return a schema as `TableRecord.schema` holds it."""
    plain: dict[str, Any] = msgspec.to_builtins(schema)
    return {**plain, "columns": list(schema.columns), "anonymous": list(schema.anonymous)}


def where_is(table: TableRecord) -> str:
    """Return how errors name a table."""
    return f"table {table.namespace}.{table.name}"


class TableCatalog(Protocol):
    """Remembers the tables of one party by (namespace, name)."""

    def register(self, entry: TableRecord) -> None:
        """Add a table. Raises: TableExists: the name is taken."""

    def find(self, namespace: str, name: str) -> TableRecord | None:
        """Return a table, or None."""

    def find_output(self, job_id: str, component: str, data_name: str) -> TableRecord | None:
        """Return an output of an earlier job of this party, or None."""

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        """Forget a table and return what was known of it, or None if there was none."""

    def connection(self, entry: TableRecord) -> Connection:
        """Return how the rows of a bound table are reached, with credentials.

        Raises: NotAuthenticated: the task's inputs do not name the table.
            BoundTableRefused: the server may not reach the storage any more.
        """

    def target(self) -> Connection:
        """Return how the place is reached that the task writes to, with credentials.

        Raises: NotAuthenticated: it does not. StorageNotAllowed, PlaceNotAllowed and others:
            the server may not write there any more.
        """
