"""The first rows of a table as text for people, kept beside its rows (`preview_file`)."""

from __future__ import annotations

import pyarrow as pa

from fedflow.sdk.table import TableSchema
from fedflow.tables.catalog import PREVIEW_CHARACTERS, PREVIEW_ROWS
from fedflow.tables.text import batch_rows


class Preview:
    """Keeps the first rows that it sees, within the bounds of a preview."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._rows: list[tuple[str, ...]] = []
        self._left = PREVIEW_CHARACTERS

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self._rows)

    @property
    def is_full(self) -> bool:
        return self._left <= 0 or len(self._rows) >= PREVIEW_ROWS

    def look(self, batch: pa.RecordBatch) -> None:
        """See further rows."""
        if self.is_full:
            return
        for row in batch_rows(batch.slice(0, PREVIEW_ROWS - len(self._rows)), self._schema):
            self._left -= sum(map(len, row))
            if self._left < 0:
                return
            self._rows.append(row)
