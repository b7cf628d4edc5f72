"""What is known of a table without opening it, and the port that remembers it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from fedflow.base.decoding import read_as
from fedflow.base.errors.data import BadData
from fedflow.base.values import dataclass
from fedflow.domain.data.storages import Connection
from fedflow.domain.data.table_parts import parts_uri
from fedflow.sdk.table import TableSchema

PREVIEW_ROWS = 100  #: rows kept as text for people
PREVIEW_CHARACTERS = 500_000  #: of all cells of a preview; wide tables get fewer rows


class Origin(StrEnum):
    """How a table came to be."""

    UPLOAD = "upload"
    OUTPUT = "output"  #: of a component
    READER = "reader"
    BIND = "table_bind"  #: of a file of this machine, which stays where it is


STANDALONE = "STANDALONE"  #: the engine of tables below the table root
PATH = "PATH"  #: the engine of bound files
DATASETS = ("LOCALFS", "S3", "HDFS")  #: engines of folders of files, by kind of file system


@dataclass(frozen=True, kw_only=True, slots=True)
class TableEntry:
    """One table in the catalog. `to_json` and `entry_from_json` carry it between processes."""

    namespace: str
    name: str
    address: str  #: the random id of its folder, 32 hexadecimal digits; of a bound file empty
    schema: TableSchema
    count: int  #: rows
    partitions: int  #: as the upload asked; 1 to 1023
    id_delimiter: str
    have_head: bool  #: the uploaded file named its columns
    extend_sid: bool  #: the ids were made at upload
    origin: Origin
    preview: tuple[tuple[str, ...], ...]  #: the first rows as text, at most 100
    created_ms: int
    engine: str = STANDALONE
    source: str | None = None  #: absolute path of a bound file
    #: where else the rows are, without credentials; see `domain/data/storages.py`. None: in
    #: `source`, or
    #: below the table root
    storage: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None  #: members of FATE's schema beyond the column names

    @property
    def parts_uri(self) -> str | None:
        """Return the folder of the Parquet parts of a table that was made on Spark, else None."""
        return parts_uri(self.storage)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def entry_from_json(value: Mapping[str, Any]) -> TableEntry:
    """Return the entry that `to_json` wrote. Raises: BadData: it is not one."""
    try:
        return read_as(value, TableEntry)
    except msgspec.ValidationError as exc:
        raise BadData(where="table entry", reason=str(exc)) from exc


class Catalog(Protocol):
    """Remembers the tables of one party by (namespace, name)."""

    def register(self, entry: TableEntry) -> None:
        """Add a table. Raises: TableExists: the name is taken."""

    def find(self, namespace: str, name: str) -> TableEntry | None:
        """Return a table, or None."""

    def find_output(self, job_id: str, component: str, data_name: str) -> TableEntry | None:
        """Return an output of an earlier job of this party, or None."""

    def drop(self, namespace: str, name: str) -> TableEntry | None:
        """Forget a table and return what was known of it, or None if there was none."""

    def connection(self, entry: TableEntry) -> Connection:
        """Return how the rows of a bound table are reached, with credentials.

        Raises: NotAuthenticated: the table is not what the task was told to read.
            BoundTableRefused: the server may not reach the storage any more.
        """

    def target(self) -> Connection:
        """Return how the place is reached that the task was told to write to, with credentials.

        Raises: NotAuthenticated: it was not told so. StorageNotAllowed, PlaceNotAllowed and others:
            the server may not write there any more.
        """
