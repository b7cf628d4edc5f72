"""The Table port: a data set of Arrow record batches with a schema that says what each column is.

The first column is the sample id (string, unique). `TableKind.RAW` tables hold text columns as
uploaded; `INSTANCES` hold an optional label, an optional weight and numeric features;
`PREDICTIONS` hold label, predict_result, predict_score, predict_detail and type.
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
    INSTANCES = "instances"  #: features, perhaps label and weight
    PREDICTIONS = "predictions"  #: label, predict_result, predict_score, predict_detail, type


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """Names and meaning of the columns, in order: id, [match_id], [label], [weight], columns."""

    kind: TableKind
    id: str  #: name of the sample-id column, the first
    columns: tuple[str, ...]  #: features, or the other columns of raw and prediction tables
    label: str | None = None
    match_id: str | None = None
    weight: str | None = None
    #: by which names other parties know the features, one per column; empty where that is not known
    #: (docs/reference/data-formats.md#anonymous-names)
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
    """A stored, immutable data set of one party."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> TableSchema: ...

    @property
    def count(self) -> int:
        """Return the number of rows."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in stored order, in batches of bounded size (at most 65,536 rows)."""

    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the whole table, or some columns of it, in memory (mapped from disk, not
        copied).
        """

    def head(self, rows: int) -> pa.Table:
        """Return the first `rows` rows."""

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new table of `function` applied to every batch; the result has `schema`.

        `progress` gets how far that is, 1.0 at the end; an engine may call it only then.
        `function` keeps to the rules of `fedflow.sdk.workers`: it may run elsewhere, and twice.
        """

    def fold_blocks(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield what `function` makes of every batch, in stored order; small values, for sums.

        The same rules hold as for `map_blocks`. A table without rows yields nothing.
        """

    def map_columns(
        self, function: Callable[[str, pa.ChunkedArray], T], names: Sequence[str]
    ) -> Iterator[T]:
        """Yield `function(name, column)` for each of some columns, in their order; several at once.

        The same rules hold as for `map_blocks`. Raises: BadData: a column is not in the table.
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
        """Return a new table of the rows at `rows` (from 0, any order, repeats allowed).

        A negative position gives a row of nulls, as in a left join. `schema` is that of the result
        (None: the same); its columns come from `made` (one row per position, in their order) where
        that has them, else from this table. Raises: IndexError: a position is not in the table.
        """


class TableWriter(Protocol):
    """Writes one new table; leaving the `with` block with an error leaves nothing behind."""

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. The column names must be those of the schema, in order."""

    def close(self) -> Table:
        """Finish and return the table."""

    def __enter__(self) -> TableWriter: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...


class TableStore(Protocol):
    """Makes and finds tables of this party."""

    def open(self, namespace: str, name: str) -> Table:
        """Return a table. Raises: TableNotFound."""

    def create(
        self, schema: TableSchema, *, namespace: str | None = None, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new table; without names it becomes an output of the running
        task.
        """
