"""Reads some rows in the middle of a table, on behalf of the server, which may have no Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedflow.domain.records import TableRecord


class LocalWindows:
    """Satisfies `app.ports.data.TableWindows` for the tables below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(
        self, table: TableRecord, *, offset: int, limit: int, columns: Sequence[int]
    ) -> list[tuple[str, ...]]:
        """Return rows as text, in the given columns (0 = the id).

        It opens the batches that hold these rows; of others it learns the length at most. Raises:
            BadData: a file of the table is damaged or missing.
        """
        # Arrow costs 50 MiB; a server whose users look at first pages does without.
        from fedflow.tables.local import LocalTables
        from fedflow.tables.text import column_text, is_detail

        store = LocalTables(self._root)
        opened = store.table_of(table)
        names = [opened.schema.names[i] for i in columns]
        found: list[tuple[str, ...]] = []
        for batch in opened.window(offset, limit):
            cells = [
                column_text(batch.column(i), detail=is_detail(opened.schema, name))
                for i, name in zip(columns, names, strict=True)
            ]
            found.extend(zip(*cells, strict=True))
        return found
