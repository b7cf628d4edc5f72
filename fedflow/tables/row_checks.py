"""What every writer of tables checks of the rows that it gets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fedflow.base.errors.data import BadData
from fedflow.sdk.arguments import check_rows
from fedflow.sdk.table import TableKind, TableSchema


class RowCheck:
    """Checks the rows of one new table; their types are those of the first batch."""

    def __init__(self, schema: TableSchema, *, where: str) -> None:
        self._schema = schema
        self._where = where
        self.types: Any = None  #: Arrow schema without metadata, once there was a batch

    def checked(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """Return the rows, with the table's own Arrow schema.

        Raises: BadData: the columns are not those of the schema, their types differ from the first
            batch's, or an id is null or no text. TypeError: it is no Arrow rows.
        """
        check_rows(batch)
        given = batch.schema
        if tuple(given.names) != self._schema.names:
            raise self._bad(f"columns {given.names} written, not {list(self._schema.names)}")
        if self.types is None:
            if not pa.types.is_string(given.field(0).type):
                raise self._bad(f"ids are {given.field(0).type}, not string")
            self.types = pa.schema([pa.field(f.name, f.type) for f in given])
        self.check_types(given)
        if batch.column(0).null_count:
            raise self._bad("an id is null")
        rows = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        return rows.replace_schema_metadata(None).cast(self.types)

    def check_types(self, given: pa.Schema) -> None:
        """Raises: BadData: types differ from those of the rows before."""
        for new, kept in zip(given, self.types, strict=True):
            if new.type != kept.type:
                raise self._bad(f"column {new.name!r} is {new.type}, was {kept.type} before")

    def _bad(self, reason: str) -> BadData:
        return BadData(where=self._where, reason=reason)


def empty_types(schema: TableSchema) -> pa.Schema:
    """Return the column types of a table that got no batch: text, and numbers for features."""
    numbers = set(schema.columns) if schema.kind is TableKind.INSTANCES else set()
    return pa.schema([(n, pa.float64() if n in numbers else pa.string()) for n in schema.names])
