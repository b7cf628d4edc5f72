"""This party's tables as people look at them: lists, pages of rows, and what uses one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.app.data.table_use import users, uses
from fedflow.app.ports.data import TablePreviews, TableWindows
from fedflow.app.ports.store import Store
from fedflow.base.errors.data import NoData
from fedflow.base.values import dataclass
from fedflow.domain.data.storages import is_bound
from fedflow.domain.data.table_lists import TableFilter
from fedflow.domain.records import OutputTable, TableRecord

MOST_ROWS: Final = 500  #: of one page

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """What uses a table."""

    made: Sequence[OutputTable]  #: outputs of tasks with the rows that it has now, as written
    running: Sequence[str]  #: jobs that read or made it and have not ended


class TablePages:
    """The use case of the board's pages of tables and of outputs."""

    def __init__(self, *, store: Store, previews: TablePreviews, windows: TableWindows) -> None:
        self._store = store
        self._previews = previews
        self._windows = windows

    def listed(self, which: TableFilter) -> tuple[list[TableRecord], int]:
        """Return a page of the tables, and how many there are in all."""
        with self._store.read() as tx:
            return tx.tables.listed(which), tx.tables.count(which)

    def use(self, namespace: str, name: str) -> Use:
        """Return what uses a table, empty if there is no such table or nothing does."""
        with self._store.read() as tx:
            return Use(
                made=uses(tx, namespace, name),
                running=users(tx, namespace, name),
            )

    def preview(self, table: TableRecord) -> Rows:
        """Return the first rows as text, at most 100; a wide table has fewer."""
        return self._previews.read(table)

    def reachable(self, table: TableRecord) -> int:
        """Return how many rows `rows` can show: of a bound table those of its preview."""
        bound = is_bound(table.engine, table.storage)
        return len(table.preview) if bound else table.count

    def rows(self, table: TableRecord, *, offset: int, limit: int, columns: Sequence[int]) -> Rows:
        """Return rows of a table as text, in some of its columns (0 = the id).

        The first rows come from what is kept of each table; only others cost a look at its file.

        Raises: NoData: there are no such columns. BadData: a file is damaged or missing.
        """
        first = self.preview(table)
        width = len(first[0]) if first else None
        offset, limit = max(0, offset), min(max(0, limit), MOST_ROWS)
        if any(i < 0 or (width is not None and i >= width) for i in columns):
            raise NoData(reason="the table has no such columns")
        end = min(offset + limit, self.reachable(table))
        if offset >= end:
            return []
        if end <= len(first):
            return [[row[i] for i in columns] for row in first[offset:end]]
        return self._windows.read(table, offset=offset, limit=end - offset, columns=columns)
