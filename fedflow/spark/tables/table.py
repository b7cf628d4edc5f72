"""One table whose block work Spark's workers do."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from fedflow.base.errors.data import TablesNotShared
from fedflow.base.ids import new_request_id
from fedflow.domain.records import TableRecord
from fedflow.sdk.arguments import check_function, check_names
from fedflow.sdk.table import Table, TableSchema
from fedflow.sdk.workers import Progress, no_progress
from fedflow.spark.tables.blocks import Block, Source, SourceReader, cut, source_of_file
from fedflow.spark.tables.gather import take_rows
from fedflow.spark.tables.jobs import Cluster, pickled_values, run_numbers, unpickled_values
from fedflow.tables.catalog import where_is
from fedflow.tables.datasets import DatasetTable
from fedflow.tables.gathering import Positions, check_positions
from fedflow.tables.parts import PartWriter, WrittenPart, part_name, tidy_folder
from fedflow.tables.parts_store import NewFolder
from fedflow.tables.stored_table import OutputTables, StoredTable
from fedflow.tables.writer import TableTarget

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

T = TypeVar("T")

COLUMN_BYTES: Final = 256 << 20  #: of the columns of a Spark task, 16 bytes a cell
GROUPS_PER_PARTITION: Final = 4  #: of columns, so that all cores end at about the same time


class SparkTable(StoredTable):
    """A `StoredTable` whose functions run on Spark's workers; satisfies `fedflow.sdk.Table`.

    The driver itself reads with `rows`. Small tables (`Cluster.small_rows`) stay in the driver.
    """

    def __init__(
        self, entry: TableRecord, *, rows: StoredTable, store: Store, cores: int = 1
    ) -> None:
        super().__init__(entry, store=store, cores=cores)
        self._rows = rows
        self._spark = store
        self._known: Source | None = None

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in stored order, in the driver. Raises: BadData: a file is damaged."""
        return self._rows.to_batches()

    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the rows, or some columns of them, in the driver. Raises: BadData."""
        return self._rows.read(columns)

    def head(self, rows: int) -> pa.Table:
        """Return the first `rows` rows. Raises: BadData: a file is damaged."""
        return self._rows.head(rows)

    @property
    def dataframe(self) -> DataFrame:
        """Return the rows as a DataFrame that Spark's workers read, in stored order.

        Spark has fewer types than Arrow. Raises: PySparkTypeError: it lacks one of a column.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        types = self._rows.head(0).schema
        source = self._source()
        blocks = cut(source.batches, self._spark.cluster.partitions)

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    with SourceReader(source) as reader:
                        yield from reader.batches(blocks[number])

        spark = self._spark.cluster.spark
        numbers = spark.range(0, len(blocks), 1, max(1, len(blocks)))
        return numbers.mapInArrow(read, from_arrow_schema(types))

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new output table: each Spark task writes a part of it.

        Raises: BadData: as a table writer. Other FedflowErrors of `function`: that of the first
            block. SparkFailed: it raised something else. SparkLost. TablesNotShared. DiskFull.
        """
        check_function(function, "map_blocks(function, schema=...)")
        if self._is_small():
            return super().map_blocks(function, schema=schema, name=name, progress=progress)
        place = self._spark.target_like(self.entry, schema, name=name)
        folder = self._spark.new_folder()
        with folder.cleanly():
            source = self._source()
            blocks = cut(source.batches, self._spark.cluster.partitions)
            where = f"table {place.namespace}.{place.name}"
            work = _mapping(source, blocks, function, schema=schema, uri=folder.uri, where=where)
            found = run_numbers(self._spark.cluster, len(blocks), work, folder=folder.uri)
            parts = seen(folder.uri, [_part_of(content) for content in found])
        progress(1.0)
        return self._spark.finish(folder, place, schema, parts)

    def fold_blocks(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield what `function` makes of every batch, in order. Raises: as `map_blocks`."""
        check_function(function, "fold_blocks(function)")
        if self._is_small():
            return super().fold_blocks(function)
        source = self._source()
        blocks = cut(source.batches, self._spark.cluster.partitions)

        def work(number: int) -> bytes:
            with SourceReader(source) as reader:
                return pickled_values(map(function, reader.batches(blocks[number])))

        return self._values(len(blocks), work)

    def map_columns(
        self, function: Callable[[str, pa.ChunkedArray], T], names: Sequence[str]
    ) -> Iterator[T]:
        """Yield `function(name, column)` in order; a Spark task does some of the columns.

        A worker holds one column and its result in memory, more if they are short. Raises: as
            `map_blocks`. BadData: a column is not in the table.
        """
        check_function(function, "map_columns(function, names)")
        check_names(names, "map_columns(function, names)")
        if self._is_small():
            return super().map_columns(function, names)
        self._check_known(names)
        source = self._source()
        batches = source.batches
        most = max(1, COLUMN_BYTES // (16 * max(1, self.count)))  # of a task
        tasks = max(GROUPS_PER_PARTITION * self._spark.cluster.partitions, -(-len(names) // most))
        count = min(len(names), tasks)
        cuts = [len(names) * i // max(1, count) for i in range(count + 1)]
        groups = [tuple(names[a:b]) for a, b in pairwise(cuts)]

        def values(group: Sequence[str]) -> Iterator[T]:
            with SourceReader(source) as reader:
                rows = pa.Table.from_batches([reader.batch(batch, group) for batch in batches])
            for name in group:
                yield function(name, rows.column(name))

        def work(number: int) -> bytes:
            return pickled_values(values(groups[number]))

        return self._values(len(groups), work)

    def take(
        self,
        rows: Positions,
        *,
        schema: TableSchema | None = None,
        made: pa.Table | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> Table:
        """Return a new output table of the rows at `rows`; Spark's workers gather them.

        Raises: as `map_blocks`. IndexError: a position is not in the table. ValueError: `made` has
            another number of rows.
        """
        check_positions(rows, count=self.count, made=made)
        wanted = self.schema if schema is None else schema
        new = () if made is None else tuple(n for n in wanted.names if n in made.column_names)
        old = tuple(n for n in wanted.names if n not in new)
        self._check_known(old)
        if not old or not len(rows) or max(self.count, len(rows)) <= self._spark.cluster.small_rows:
            return super().take(rows, schema=schema, made=made, name=name, progress=progress)
        place = self._spark.target_like(self.entry, wanted, name=name)
        folder = self._spark.new_folder()
        with folder.cleanly():
            parts = take_rows(
                self._spark.cluster,
                self._source(),
                rows,
                types=self._rows.head(0).schema,
                made=None if made is None else made.select(list(new)),
                schema=wanted,
                uri=folder.uri,
                where=f"table {place.namespace}.{place.name}",
            )
            seen(folder.uri, parts)
        progress(1.0)
        return self._spark.finish(folder, place, wanted, parts)

    def _is_small(self) -> bool:
        return self.count <= self._spark.cluster.small_rows or not self.count

    def _values(self, count: int, work: Callable[[int], bytes]) -> Iterator[Any]:
        """Yield the values of all lists that `work` pickles."""
        folder = self._spark.new_folder()
        try:
            for content in run_numbers(self._spark.cluster, count, work, folder=folder.uri):
                yield from unpickled_values(content)
        finally:
            folder.discard()

    def _source(self) -> Source:
        """Return the files that Spark's workers read."""
        if self._known is None:
            self._known = self._source_of(self._rows)
        return self._known

    def _source_of(self, rows: StoredTable) -> Source:
        where = where_is(self.entry)
        if isinstance(rows, DatasetTable):
            parts = rows.manifest.parts
            return Source(uri=rows.uri, folder="", parts=parts, schema=self.schema, where=where)
        if self._spark.root_is_shared:
            folder = self._spark.folder_of(self.entry)
            return source_of_file(folder, schema=self.schema, where=where)
        with self._spark.create_like(self.entry, self.schema) as writer:
            for batch in rows.to_batches():
                writer.write(batch)
            copy = writer.close()
        return copy._source() if isinstance(copy, SparkTable) else self._source_of(rows)


class Store(OutputTables, Protocol):
    """What a table needs of `SparkTableStore`."""

    cluster: Cluster
    root_is_shared: bool

    def folder_of(self, entry: TableRecord) -> Path:
        """Return the folder of a table of this machine."""

    def new_folder(self) -> NewFolder:
        """Return an empty folder for parts."""

    def target_like(
        self, entry: TableRecord, schema: TableSchema, *, name: str | None
    ) -> TableTarget:
        """Return where an output of another table's rows goes."""

    def finish(
        self,
        folder: NewFolder,
        place: TableTarget,
        schema: TableSchema,
        parts: Sequence[WrittenPart],
    ) -> StoredTable:
        """Return the table of some parts, in their order."""


def _mapping(
    source: Source,
    blocks: Sequence[Block],
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    schema: TableSchema,
    uri: str,
    where: str,
) -> Callable[[int], bytes]:
    """Return the work of one Spark task of `map_blocks`."""

    def work(number: int) -> bytes:
        writer = PartWriter(uri, part_name(number, new_request_id()), schema=schema, where=where)
        try:
            with SourceReader(source) as reader:
                for batch in reader.batches(blocks[number]):
                    writer.write(function(batch))
            return pickle.dumps(writer.close())
        except BaseException:
            writer.discard()
            raise

    return work


def seen(uri: str, parts: list[WrittenPart]) -> list[WrittenPart]:
    """Return the parts that workers wrote. Raises: TablesNotShared: they are not here."""
    if not tidy_folder(uri, [written.part for written in parts]):
        raise TablesNotShared(uri=uri)
    return parts


def _part_of(content: bytes) -> WrittenPart:
    part: WrittenPart = pickle.loads(content)  # noqa: S301  of this party's own workers
    return part
