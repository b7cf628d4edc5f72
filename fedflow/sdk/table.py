"""Tables of one party: Arrow record batches, and a schema that says what each column is.

The first column is the sample id: text, unique, never null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

from fedflow.sdk.workers import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

T = TypeVar("T")


class TableKind(StrEnum):
    """What the rows of a table are."""

    RAW = "raw"  #: text, as uploaded
    INSTANCES = "instances"  #: numbers: features, perhaps a label and a weight
    #: label, predict_result, predict_score, predict_detail, type; Evaluation measures these
    PREDICTIONS = "predictions"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """Names and meaning of the columns, in order: id, [match_id], [label], [weight], columns.

    A changed schema is `dataclasses.replace(schema, ...)`; `select` keeps some of the columns.
    """

    kind: TableKind  #: what the rows are
    id: str  #: name of the sample-id column, the first
    columns: tuple[str, ...]  #: features, or the other columns of raw and prediction tables
    label: str | None = None  #: name of the label column
    match_id: str | None = None  #: name of a further id, by which Intersection matches rows
    weight: str | None = None  #: name of the column with sample weights
    #: by which names other parties know the features, one per column; empty: not known
    anonymous: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises: ValueError: not one anonymous name per column."""
        if self.anonymous and len(self.anonymous) != len(self.columns):
            raise ValueError(f"{len(self.anonymous)} anonymous names, {len(self.columns)} columns")

    def select(self, columns: Sequence[str]) -> TableSchema:
        """Return the schema with some of the columns, which keep their anonymous names.

        Raises: ValueError: one of `columns` is not among them.
        """
        known = {name: index for index, name in enumerate(self.columns)}
        if unknown := [name for name in columns if name not in known]:
            raise ValueError(f"no columns {unknown}")
        kept = tuple(self.anonymous[known[c]] for c in columns) if self.anonymous else ()
        return replace(self, columns=tuple(columns), anonymous=kept)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all column names in order."""
        leading = (self.id, self.match_id, self.label, self.weight)
        return (*(n for n in leading if n is not None), *self.columns)


class Table(Protocol):
    """A stored data set of one party; it never changes.

    Functions that are given to its methods change nothing outside of themselves. They may run in
    another process and twice. They capture little: no context, no table, no column.
    """

    @property
    def namespace(self) -> str:
        """Return the namespace of the table's name."""

    @property
    def name(self) -> str:
        """Return the table's name in its namespace."""

    @property
    def schema(self) -> TableSchema:
        """Return the names and meaning of the columns."""

    @property
    def count(self) -> int:
        """Return the number of rows."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in stored order, at most 65,536 at a time."""

    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the whole table, or the columns that are named, as an Arrow table.

        It is mapped from disk: what nobody looks at costs no memory. Numbers of a column are
        `table.read(("x0",)).column(0).to_numpy()`.

        Raises: BadData: a column is not in the table, or a file is damaged.
        """

    def head(self, rows: int) -> pa.Table:
        """Return the first `rows` rows, or all if there are fewer."""

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new table: what `function` makes of every batch, one after the other.

        Args:
            function: gets at most 65,536 rows and returns rows with the columns of `schema`, as
                many as it likes. If the table has no rows it gets one empty batch.
            schema: of the result; `self.schema` if the columns stay.
            name: of the result; None: one is made up.
            progress: gets how far that is, up to 1.0.

        Raises: BadData: the rows do not have the columns of `schema`, or their types change between
            batches. What `function` raises.
        """

    def fold_blocks(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield what `function` makes of every batch, in stored order: small values, for sums.

        It makes no table, and does nothing until the values are taken: `sum(table.fold_blocks(f))`.
        A table without rows yields nothing.

        Raises: BadData: a file is damaged. What `function` raises.
        """

    def map_columns(
        self, function: Callable[[str, pa.ChunkedArray], T], names: Sequence[str]
    ) -> Iterator[T]:
        """Yield `function(name, column)` for each of the named columns, in the order of `names`.

        The function comes first. It gets the whole column and returns any value, best a small one.
        It makes no table, and does nothing until the values are taken:
        `means = list(table.map_columns(mean, table.schema.columns))`. For a new table of changed
        columns use `map_blocks`. Several columns are done at once.

        Raises: BadData: a column is not in the table. TypeError: the arguments are the other way
            round. What `function` raises.
        """

    def take(
        self,
        rows: NDArray[np.int64],
        *,
        schema: TableSchema | None = None,
        made: pa.Table | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new table of the rows at the positions `rows`.

        Args:
            rows: int64, from 0, in any order; repeats are allowed. A negative position gives a row
                of nulls, as in a left join.
            schema: of the result; None: the same.
            made: further columns, one row per position: a column of `schema` that it has comes from
                it, others from this table.
            name: of the result; None: one is made up.
            progress: gets how far that is, up to 1.0.

        Raises: IndexError: a position is not in the table. ValueError: `made` has another number of
            rows. BadData: a column is missing, or an id is null.
        """


class TableWriter(Protocol):
    """Writes one new table, in a `with` block; an error in the block leaves nothing behind."""

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows.

        Raises: BadData: other columns than the schema's, in their order; other types than in the
            rows before; an id that is null or no text. DiskFull.
        """

    def close(self) -> Table:
        """Finish and return the table; called inside of the `with` block."""

    def __enter__(self) -> TableWriter: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...


class TableStore(Protocol):
    """Makes and finds tables of this party: `ctx.tables`."""

    def open(self, namespace: str, name: str) -> Table:
        """Return a table that is there already. Raises: TableNotFound."""

    def create(
        self, schema: TableSchema, *, namespace: str | None = None, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new table.

        Without names the table belongs to the running task. It is kept if `Outputs` or a cache
        names it, else it is deleted with the end of the task.
        """
