"""Tables of Hive, read by Spark's workers into tables of the job.

Spark finds them by its own session: the metastore that `hive-site.xml` names in its configuration,
or whatever catalog the application has. So host and credentials of the address are not used here;
they say what the administrator allows. Only tables and views are read, never a query: SQL can run
programs at the driver and read any file. Rows become text as those of Parquet files do, and pass
the same checks; row numbers in messages count within the Spark partition that read them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fedflow.base.errors.data import BadData, BoundTableChanged, StorageMissing
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.base.ids import new_request_id
from fedflow.domain.data.storages import Connection, HiveRows
from fedflow.sdk.table import TableSchema
from fedflow.spark.tables.blocks import Source, SourceReader, cut
from fedflow.spark.tables.jobs import (
    DONE,
    FAILED,
    RESULTS,
    Cluster,
    contents_of,
    failure,
    result,
    results_of,
)
from fedflow.tables.arrow_import import as_text
from fedflow.tables.csv_header import CsvOptions, raw_schema
from fedflow.tables.parts import PartWriter, WrittenPart, part_name, require_folder
from fedflow.tables.row_source import RowSource
from fedflow.tables.storages.data_sets import changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_hive(
    cluster: Cluster,
    connection: Connection,
    options: CsvOptions,
    *,
    bound: TableSchema,
    uri: str,
    where: str,
) -> list[WrittenPart]:
    """Return the parts, written to the folder `uri`, of a table that was bound.

    Raises: StorageMissing: Spark's session has no such table. BoundTableChanged: it has other
        columns. NotSupportedYet: a query. BadData: a row is wrong, ids repeat, or there is no row.
        SparkFailed, SparkLost, TablesNotShared, DiskFull.
    """
    chosen = replace(options, id_column=connection.id_column, columns=connection.feature_columns)
    frame = _frame(cluster, connection.address, where)
    schema = raw_schema(tuple(frame.columns), chosen, where=where)
    if schema != bound:
        reason = f"of its columns {changes(bound.names, schema.names)}"
        raise BoundTableChanged(where=where, reason=reason)
    own = schema.names[1:] if chosen.makes_ids else schema.names
    found = frame.select(*map(_quoted, own)).mapInArrow(
        _writing(schema, chosen, uri=uri, where=where), RESULTS
    )
    contents = contents_of(results_of(cluster, found), uri)
    parts: list[WrittenPart] = [pickle.loads(content) for content in contents]  # noqa: S301
    if not sum(written.part.rows for written in parts):
        raise BadData(where=where, reason="it has no rows")
    if not chosen.makes_ids:
        _check_ids(cluster, parts, schema, uri=uri, where=where)
    return parts


def _frame(cluster: Cluster, address: object, where: str) -> DataFrame:
    if not isinstance(address, HiveRows) or address.name is None:
        raise NotSupportedYet(what="A query of Hive; a view of it can be bound")
    name = f"{_quoted(address.database)}.{_quoted(address.name)}"
    with cluster.errors():
        if not cluster.spark.catalog.tableExists(name):
            raise StorageMissing(where=where, reason="Spark's session knows no such table")
        return cluster.spark.table(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class _PartitionRows(RowSource):
    """The rows of one Spark partition, checked like those of a file."""

    def __init__(
        self, rows: Iterator[pa.RecordBatch], schema: TableSchema, options: CsvOptions, where: str
    ) -> None:
        super().__init__(where, options)
        self.schema = schema
        self.names = schema.names
        self._given = rows

    @property
    def done(self) -> float | None:
        return None

    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._given:
            columns = [self._text(column, i) for i, column in enumerate(batch.columns)]
            yield pa.RecordBatch.from_arrays(columns, names=list(self._file_names))

    def _text(self, column: pa.Array, index: int) -> pa.Array:
        try:
            return as_text(column)
        except pa.ArrowException:
            reason = f"column {self._file_names[index]!r} is {column.type}, which is no text"
            raise self._bad(reason) from None


def _writing(schema: TableSchema, options: CsvOptions, *, uri: str, where: str) -> Any:
    """Return what writes the rows of a partition to a part."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        writer = PartWriter(uri, part_name(number, new_request_id()), schema=schema, where=where)
        try:
            require_folder(uri)
            rows = (batch for batch in batches if batch.num_rows)
            first = next(rows, None)
            if first is not None:
                source = _PartitionRows(chain([first], rows), schema, options, where)
                for batch in source.batches():
                    writer.write(batch)
            yield result(number, DONE, pickle.dumps(writer.close()))
        except FedflowError as exc:
            writer.discard()
            yield result(number, FAILED, failure(exc))

    return write


def _check_ids(
    cluster: Cluster, parts: list[WrittenPart], schema: TableSchema, *, uri: str, where: str
) -> None:
    """Raises: BadData: two rows have one id. Spark compares them."""
    from pyspark.sql import functions as f

    files = tuple(written.part for written in parts)
    source = Source(uri=uri, folder="", parts=files, schema=schema, where=where)
    blocks = cut(source.batches, cluster.partitions)
    key = schema.id

    def ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with SourceReader(source) as reader:
                    for at in blocks[number]:
                        rows = pa.array(range(at.start, at.end), pa.int64())
                        column = reader.batch(at, (key,)).column(0)
                        yield pa.RecordBatch.from_arrays([column, rows], names=["id", "row"])

    numbers = cluster.spark.range(0, len(blocks), 1, len(blocks))
    frame = numbers.mapInArrow(ids, "id string, row long").groupBy("id")
    repeated = frame.agg(f.count("row").alias("rows"), f.min("row"), f.max("row"))
    repeated = repeated.filter("rows > 1").select(
        f.sum(f.col("rows") - 1), f.min(f.struct("max(row)", "min(row)"))
    )
    with cluster.errors():
        many, pair = repeated.toArrow().to_pylist()[0].values()
    if many:
        again, first = pair.values()
        reason = (
            f"row {again + 1} repeats the id of row {first + 1}; rows that repeat an id: {many}"
        )
        raise BadData(where=where, reason=reason)
