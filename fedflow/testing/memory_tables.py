"""Tables in memory that satisfy the ports of `fedflow.sdk.table`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.base.errors.data import BadData, TableExists, TableNotFound
from fedflow.sdk.arguments import check_function, check_names, check_rows
from fedflow.sdk.table import Table, TableKind, TableSchema, TableWriter
from fedflow.sdk.workers import Progress, no_progress
from fedflow.testing.pickling import pickled

T = TypeVar("T")

BATCH_ROWS = 65_536


class MemoryTable:
    """One immutable table; the rows are an Arrow table with the columns of `schema`, in order."""

    def __init__(self, namespace: str, name: str, *, schema: TableSchema, rows: pa.Table) -> None:
        if tuple(rows.column_names) != schema.names:
            raise BadData(
                where=f"table {namespace}.{name}",
                reason=f"columns are {rows.column_names}, the schema says {list(schema.names)}",
            )
        self.namespace = namespace
        self.name = name
        self.schema = schema
        self._rows = rows
        self._store: MemoryTableStore | None = None

    @property
    def count(self) -> int:
        return int(self._rows.num_rows)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows.to_batches(max_chunksize=BATCH_ROWS)

    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        if columns is not None:
            check_names(columns, "read(columns)")
        self._check_known(columns or ())
        return self._rows if columns is None else self._rows.select(list(columns))

    def head(self, rows: int) -> pa.Table:
        return self._rows.slice(0, rows)

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        check_function(function, "map_blocks(function, schema=...)")
        work = self._sent(function)
        with self._new(schema, name) as writer:
            for batch in self.to_batches() if self.count else _none(self._rows.schema):
                writer.write(work(batch))
            progress(1.0)
            return writer.close()

    def fold_blocks(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        check_function(function, "fold_blocks(function)")
        return map(self._sent(function), self.to_batches())

    def map_columns(
        self, function: Callable[[str, pa.ChunkedArray], T], names: Sequence[str]
    ) -> Iterator[T]:
        check_function(function, "map_columns(function, names)")
        check_names(names, "map_columns(function, names)")
        work = self._sent(function)
        self._check_known(names)
        return (work(name, self._rows.column(name)) for name in names)

    def take(
        self,
        rows: NDArray[np.int64],
        *,
        schema: TableSchema | None = None,
        made: pa.Table | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        if len(rows) and int(rows.max()) >= self.count:
            raise IndexError(f"row {rows.max()} of {self.count}")
        if made is not None and made.num_rows != len(rows):
            raise ValueError(f"{made.num_rows} made rows for {len(rows)} positions")
        wanted = self.schema if schema is None else schema
        new = {} if made is None else dict(zip(made.column_names, made.columns))
        old = [column for column in wanted.names if column not in new]
        self._check_known(old)
        at = pa.array(rows, pa.int64(), mask=np.asarray(rows) < 0)
        columns = new | {column: self._rows.column(column).take(at) for column in old}
        with self._new(wanted, name) as writer:
            writer.write(pa.table({column: columns[column] for column in wanted.names}))
            progress(1.0)
            return writer.close()

    def _new(self, schema: TableSchema, name: str | None) -> TableWriter:
        return (self._store or MemoryTableStore()).create(schema, name=name)

    def _sent(self, function: Callable[..., T]) -> Callable[..., T]:
        return pickled(function) if self._store is None or self._store.pickles else function

    def _check_known(self, columns: Sequence[str]) -> None:
        if unknown := sorted(set(columns) - set(self.schema.names)):
            where = f"table {self.namespace}.{self.name}"
            raise BadData(where=where, reason=f"it has no columns {unknown}")


class MemoryTableStore:
    """A party's tables, kept until the store is dropped; not for several threads at once.

    Functions of blocks and columns are pickled first, as a cluster would: what they change outside
    of themselves is lost. `pickles` false: they are not, where tests need to look into one.
    """

    def __init__(self, output_namespace: str = "output", *, pickles: bool = True) -> None:
        self.pickles = pickles
        self._tables: dict[tuple[str, str], MemoryTable] = {}
        self._output_namespace = output_namespace
        self._numbers = itertools.count()

    def open(self, namespace: str, name: str) -> Table:
        """Return a table. Raises: TableNotFound."""
        try:
            return self._tables[namespace, name]
        except KeyError:
            raise TableNotFound(namespace=namespace, name=name, party_id="of this test") from None

    def create(
        self, schema: TableSchema, *, namespace: str | None = None, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new table."""
        return _MemoryWriter(
            self,
            schema=schema,
            namespace=namespace or self._output_namespace,
            name=name or f"table_{next(self._numbers)}",
        )

    def add(
        self,
        columns: Mapping[str, Any] | pa.Table,
        *,
        schema: TableSchema | None = None,
        namespace: str = "test",
        name: str | None = None,
    ) -> Table:
        """Return a new table of `columns`: an Arrow table, or values by the column's name.

        Without `schema` the first column is the id, `y` the label, the others are features.
        """
        rows = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
        if schema is None:
            schema = _guess(rows)
            rows = rows.select(list(schema.names))
        table = MemoryTable(
            namespace, name or f"table_{next(self._numbers)}", schema=schema, rows=rows
        )
        return self._keep(table)

    def _keep(self, table: MemoryTable) -> Table:
        key = (table.namespace, table.name)
        if key in self._tables:
            raise TableExists(namespace=table.namespace, name=table.name)
        table._store = self
        self._tables[key] = table
        return table


class _MemoryWriter:
    """Collects rows until `close`."""

    def __init__(
        self, store: MemoryTableStore, *, schema: TableSchema, namespace: str, name: str
    ) -> None:
        self._store = store
        self._schema = schema
        self._namespace = namespace
        self._name = name
        self._parts: list[pa.Table] = []
        self._table: Table | None = None

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. Raises: BadData: the columns are not those of the schema."""
        check_rows(batch)
        if tuple(batch.schema.names) != self._schema.names:
            raise BadData(
                where=f"table {self._namespace}.{self._name}",
                reason=f"columns {batch.schema.names} written, not {list(self._schema.names)}",
            )
        self._parts.append(batch if isinstance(batch, pa.Table) else pa.table(batch))

    def close(self) -> Table:
        """Finish and return the table; a second call returns it again."""
        if self._table is None:
            if self._parts:
                rows = pa.concat_tables(self._parts)
            else:
                rows = pa.table({name: pa.array([], pa.string()) for name in self._schema.names})
            self._table = self._store._keep(
                MemoryTable(self._namespace, self._name, schema=self._schema, rows=rows)
            )
        return self._table

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()


def _none(schema: pa.Schema) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)]


def _guess(rows: pa.Table) -> TableSchema:
    first, *others = rows.column_names
    return TableSchema(
        kind=TableKind.INSTANCES,
        id=first,
        label="y" if "y" in others else None,
        columns=tuple(c for c in others if c != "y"),
    )
