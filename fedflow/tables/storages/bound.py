"""How the rows of a bound table are read: as what, and with which columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedflow.base.errors.data import BadData, BoundTableChanged
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.domain.data.storages import Connection, PathFile
from fedflow.domain.records import TableRecord
from fedflow.sdk.table import TableSchema
from fedflow.tables.catalog import schema_of, where_is
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.csv_import import RaggedRows
from fedflow.tables.row_source import RowSource
from fedflow.tables.storages.opening import open_rows

Opener = Callable[[CsvOptions], RowSource]


def bound_options(entry: TableRecord) -> CsvOptions:
    """Return how the text of a bound table is read; a database needs none of it but made ids."""
    return CsvOptions(
        head=entry.have_head,
        id_delimiter=entry.id_delimiter,
        extend_sid=entry.extend_sid,
        names=_given_names(entry, schema_of(entry)),
    )


def bound_rows(entry: TableRecord, connection: Connection) -> Opener:
    """Return what opens the rows of a bound table, each time anew.

    The opener raises what `open_rows` does, and RaggedRows: the rows of a file without a head must
    be read whole. Raises: BadData: a bound file is not where it was.
    """
    _check_place(entry, connection)
    address = connection.address
    is_file = isinstance(address, PathFile)
    where = f"file {Path(address.path).name}" if isinstance(address, PathFile) else where_is(entry)
    is_chosen = connection.id_column is not None or connection.feature_columns is not None
    schema = schema_of(entry)
    if is_chosen and _given_names(entry, schema) is not None:
        raise NotSupportedYet(what="A choice of columns of a text whose columns `schema` names")

    def opened(options: CsvOptions) -> RowSource:
        try:
            return open_rows(connection, options, where=where, bound=schema)
        except BoundTableChanged:
            dense = options.whole or options.head or schema.columns != ("x0",)
            if is_file and not dense:
                raise RaggedRows from None
            raise

    return opened


def _check_place(entry: TableRecord, connection: Connection) -> None:
    if isinstance(connection.address, PathFile):
        path = Path(connection.address.path)
        if not path.is_absolute() or path.resolve() != path:
            raise BadData(where=where_is(entry), reason="its file is not where it was bound")


def _given_names(entry: TableRecord, schema: TableSchema) -> tuple[str, ...] | None:
    """Return the names that somebody gave to the columns of a bound file without a head."""
    names = schema.names[1:] if entry.extend_sid else schema.names
    made = tuple(f"x{i}" for i in range(len(names)))
    is_made = names == (made if entry.extend_sid else ("id", *made[:-1]))
    return None if entry.have_head or is_made else names
