"""What the stored tables of all engines have in common: what is known of them, and block work.

A table engine of this package says how rows are read; all else follows here, for this machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import current_thread
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from fedflow.base.errors.data import BadData
from fedflow.domain.records import TableRecord
from fedflow.sdk.arguments import check_function, check_names
from fedflow.sdk.table import Table, TableSchema, TableWriter
from fedflow.sdk.workers import Progress, no_progress
from fedflow.tables.catalog import schema_of, where_is
from fedflow.tables.gathering import Positions, check_positions, chosen_rows, empty_batch

T = TypeVar("T")

#: of columns that are mapped at a time: opening costs all columns, what was looked at stays in use
MAPPED_CELLS: Final = 1 << 23


class OutputTables(Protocol):
    """Makes tables of the rows of others."""

    def create_like(
        self, entry: TableRecord, schema: TableSchema, *, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new output table; see `LocalTableStore`."""


@contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Give threads that end with the block.

    The garbage collector may end an iterator that somebody left in one of its own threads, which
    cannot wait for itself: then they end by themselves.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=not current_thread().name.startswith(f"{name}_"))


class StoredTable(ABC):
    """One table of the catalog; satisfies `fedflow.sdk.Table`. Subclasses read its rows."""

    def __init__(self, entry: TableRecord, *, store: OutputTables, cores: int = 1) -> None:
        """Raises: BadData: the description is damaged."""
        self.entry = entry
        self.schema = schema_of(entry)
        self._store = store
        self._cores = cores

    @property
    def namespace(self) -> str:
        return self.entry.namespace

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def count(self) -> int:
        return self.entry.count

    @property
    def meta(self) -> Mapping[str, Any] | None:
        """Return what the upload said of the rows' meaning, in FATE's words; None if nothing."""
        found = (self.entry.extra or {}).get("meta")
        return found if isinstance(found, Mapping) else None

    @property
    def said(self) -> Mapping[str, Any]:
        """Return what the upload said, as members of FATE's schema; empty if nothing."""
        return self.entry.extra or {}

    @property
    def id_delimiter(self) -> str:
        """Return what stood between the cells of the uploaded file."""
        return self.entry.id_delimiter

    @property
    def is_named(self) -> bool:
        """Tell whether the uploaded file, or who uploaded it, named the columns."""
        return self.entry.have_head or bool((self.entry.extra or {}).get("header"))

    @property
    def partitions(self) -> int:
        """Return the number of partitions that the upload asked for."""
        return self.entry.partitions

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in stored order. Raises: BadData: a file is damaged or another's."""

    @abstractmethod
    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the rows, or some columns of them.

        Raises: BadData: a file is damaged, or a column is not in the table.
        """

    @abstractmethod
    def head(self, rows: int) -> pa.Table:
        """Return the first `rows` rows. Raises: BadData: a file is damaged."""

    def window(self, offset: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `offset` on, at most `rows`. Raises: BadData: a file is damaged."""
        return cut(self.to_batches(), offset, rows)

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new output table of `function` applied to every batch.

        For a table without rows it is applied to one empty batch, to learn the column types. Raw
        rows of raw rows keep what the upload said of them.
        """
        check_function(function, "map_blocks(function, schema=...)")
        batches = self.to_batches() if self.count else iter([empty_batch(self.head(0).schema)])
        with self._store.create_like(self.entry, schema, name=name) as writer:
            done = 0
            for batch in batches:
                writer.write(function(batch))
                done += batch.num_rows
                progress(done / self.count if self.count else 1.0)
            return writer.close()

    def fold_blocks(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield what `function` makes of every batch, by as many threads as there are cores.

        The threads end with the iterator. Raises: BadData: the file is damaged.
        """
        check_function(function, "fold_blocks(function)")
        if self._cores == 1:
            return map(function, self.to_batches())
        return self._fold_ahead(function)

    def _fold_ahead(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        waiting: deque[Future[T]] = deque()
        with _threads(self._cores, "blocks") as pool:
            try:
                for batch in self.to_batches():
                    waiting.append(pool.submit(function, batch))
                    if len(waiting) > self._cores:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def map_columns(
        self, function: Callable[[str, pa.ChunkedArray], T], names: Sequence[str]
    ) -> Iterator[T]:
        """Yield `function(name, column)` in order, by as many threads as there are cores.

        The threads end with the iterator. Raises: BadData: the file is damaged, or a column is not
        in the table.
        """
        check_function(function, "map_columns(function, names)")
        check_names(names, "map_columns(function, names)")
        self._check_known(names)
        step = max(self._cores, MAPPED_CELLS // max(1, self.count))
        groups = [tuple(names[start : start + step]) for start in range(0, len(names), step)]
        threads = min(self._cores, len(names))
        if threads > 1:
            return self._map_groups(function, groups, threads=threads)
        return (function(name, column) for group in groups for name, column in self._columns(group))

    def _map_groups(
        self,
        function: Callable[[str, pa.ChunkedArray], T],
        groups: Sequence[tuple[str, ...]],
        *,
        threads: int,
    ) -> Iterator[T]:
        with _threads(threads, "columns") as pool:
            for group in groups:
                yield from pool.map(lambda named: function(*named), self._columns(group))

    def _columns(self, names: tuple[str, ...]) -> list[tuple[str, pa.ChunkedArray]]:
        return list(zip(names, self.read(names).columns, strict=True))

    def take(
        self,
        rows: Positions,
        *,
        schema: TableSchema | None = None,
        made: pa.Table | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new output table of the rows at `rows`, gathered a window at a time.

        Raw rows of raw rows keep what the upload said of them. Raises: IndexError: a position is
        not in the table. BadData: the file is damaged, a column is missing, or an id is null.
            ValueError: `made` has another number of rows.
        """
        check_positions(rows, count=self.count, made=made)
        wanted = self.schema if schema is None else schema
        with self._store.create_like(self.entry, wanted, name=name) as writer:
            done = 0
            for block in chosen_rows(self, rows, schema=wanted, made=made):
                writer.write(block)
                done += block.num_rows
                progress(done / len(rows) if len(rows) else 1.0)
            return writer.close()

    def _check_known(self, columns: Sequence[str]) -> None:
        if unknown := sorted(set(columns) - set(self.schema.names)):
            raise BadData(where=where_is(self.entry), reason=f"it has no columns {unknown}")


def cut(batches: Iterator[pa.RecordBatch], skip: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield at most `rows` rows after the first `skip`; what is behind them is not asked for."""
    left = rows
    if left <= 0:
        return
    for batch in batches:
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        part = batch.slice(skip, left)
        skip, left = 0, left - part.num_rows
        yield part
        if left <= 0:
            return
