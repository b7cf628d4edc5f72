"""Rows of a table in another order, gathered by Spark's workers (`Table.take`).

The result is cut into buckets of consecutive rows. If the rows of a bucket lie close together, as
after sampling, a task reads the batches that it needs. Else Spark shuffles: a task per block of the
table sends each bucket its rows, and a task per bucket puts them in order. Rows travel as Arrow
bytes, which Spark does not look into, so types that it does not know pass unchanged.

Positions and made columns are written to the folder of the new table, and deleted before it is one.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.sdk.table import TableSchema
from fedflow.spark.tables.blocks import Source, SourceReader, TableBatch, cut
from fedflow.spark.tables.jobs import (
    DONE,
    FAILED,
    RESULTS,
    Cluster,
    contents_of,
    failure,
    result,
    results_of,
    run_numbers,
)
from fedflow.tables.file_errors import told
from fedflow.tables.filesystems import below
from fedflow.tables.gathering import Positions
from fedflow.tables.parts import (
    PartWriter,
    WrittenPart,
    folder_at,
    part_name,
    require_folder,
    storing,
)
from fedflow.tables.writer import BATCH_ROWS

MOST_READS: Final = 4  #: readings of a table that are cheaper than a shuffle of it
SENT_BYTES: Final = 16 << 20  #: of rows that a worker collects before it sends them to buckets
MOST_BATCHES: Final = 8  #: of a bucket
BUCKET_BYTES: Final = 256 << 20  #: of one, 16 bytes a cell; but it has one batch at least

_POSITIONS: Final = "positions"
_ASCENDING: Final = "ascending"
_ORDER: Final = "order"
_MADE: Final = "made"
_ERROR: Final = -1  #: the bucket of errors
_SENT: Final = "bucket long, content binary"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What all tasks of one `take` know."""

    source: Source
    batches: tuple[TableBatch, ...]
    count: int  #: rows of the result
    bucket_rows: int
    old: tuple[str, ...]  #: columns that come from the table
    types: pa.Schema  #: of these
    made: pa.Schema | None  #: of the others
    schema: TableSchema
    uri: str  #: folder of the result
    where: str

    @property
    def buckets(self) -> int:
        return -(-self.count // self.bucket_rows)

    def range_of(self, bucket: int) -> tuple[int, int]:
        """Return the first row of a bucket, and the row behind its last one."""
        start = bucket * self.bucket_rows
        return start, min(self.count, start + self.bucket_rows)


def take_rows(
    cluster: Cluster,
    source: Source,
    rows: Positions,
    *,
    types: pa.Schema,
    made: pa.Table | None,
    schema: TableSchema,
    uri: str,
    where: str,
) -> list[WrittenPart]:
    """Return the parts of the rows at `rows`, written to the folder `uri`, in order.

    Args:
        types: Arrow schema of the source.
        made: the columns of the result that are not taken, one row per position.

    Raises: BadData: an id is null, or the source is damaged. FedflowErrors of the file system.
        SparkFailed, SparkLost.
    """
    old = tuple(n for n in schema.names if made is None or n not in made.column_names)
    many = len(rows) // (BATCH_ROWS * 2 * cluster.partitions)
    many = min(many, MOST_BATCHES, BUCKET_BYTES // (BATCH_ROWS * 16 * len(schema.names)))
    plan = _Plan(
        source=source,
        batches=tuple(source.batches),
        count=len(rows),
        bucket_rows=BATCH_ROWS * max(1, many),
        old=old,
        types=pa.schema([types.field(name) for name in old]),
        made=None if made is None else made.schema.remove_metadata(),
        schema=schema,
        uri=uri,
        where=where,
    )
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    if made is not None:
        _write_made(uri, made)
    try:
        if _reads(plan, rows) <= MOST_READS * len(plan.batches):
            return _directly(cluster, plan, rows)
        return _by_shuffle(cluster, plan, rows)
    finally:
        _remove(uri, (_POSITIONS, _ASCENDING, _ORDER, _MADE))


def _reads(plan: _Plan, rows: Positions) -> int:
    """Return how many batches all buckets together read, if each reads those that it needs."""
    begins = np.array([batch.start for batch in plan.batches])
    reads = 0
    for bucket in range(plan.buckets):
        start, end = plan.range_of(bucket)
        at = rows[start:end]
        found = np.searchsorted(begins, at[at >= 0], side="right")
        reads += int(np.count_nonzero(np.bincount(found, minlength=1)))
    return reads


# --- buckets that read what they need -------------------------------------------------------------


def _directly(cluster: Cluster, plan: _Plan, rows: Positions) -> list[WrittenPart]:
    _write_numbers(plan.uri, _POSITIONS, rows)
    tasks = min(plan.buckets, cluster.partitions)
    cuts = [plan.buckets * i // tasks for i in range(tasks + 1)]

    def work(number: int) -> bytes:
        with SourceReader(plan.source) as reader, _Output(plan, number) as output:
            for bucket in range(cuts[number], cuts[number + 1]):
                start, end = plan.range_of(bucket)
                at = _read_numbers(plan.uri, _POSITIONS, start, end)
                found, index = _gathered(plan, reader, at)
                output.write(found, index, start=start)
            return output.done()

    done = run_numbers(cluster, tasks, work, folder=plan.uri)
    return [pickle.loads(content) for content in done]  # noqa: S301  of this party's own workers


def _gathered(plan: _Plan, reader: SourceReader, at: Positions) -> tuple[pa.Table, Positions]:
    """Return the rows that some positions need, ascending, and for each position its row there."""
    order = np.argsort(at, kind="stable")
    ascending = at[order]
    absent = int(np.searchsorted(ascending, 0))
    index = np.full(len(at), -1, dtype=np.int64)
    index[order[absent:]] = np.arange(len(at) - absent)
    found = [pa.RecordBatch.from_pylist([], schema=plan.types)]
    for batch in plan.batches:
        low, high = np.searchsorted(ascending, [batch.start, batch.end])
        if high > low:
            rows = reader.batch(batch, plan.old)
            found.append(rows.take(pa.array(ascending[low:high] - batch.start)))
    return pa.Table.from_batches(found), index


# --- a shuffle ------------------------------------------------------------------------------------


def _by_shuffle(cluster: Cluster, plan: _Plan, rows: Positions) -> list[WrittenPart]:
    order = np.argsort(rows, kind="stable")
    order = order[np.searchsorted(rows[order], 0) :]
    ascending = rows[order]
    _write_numbers(plan.uri, _ASCENDING, ascending)
    _write_numbers(plan.uri, _ORDER, order.astype(np.int64))
    blocks = cut(plan.batches, cluster.partitions)
    starts = [block[0].start for block in blocks]
    cuts = [*map(int, np.searchsorted(ascending, starts)), len(ascending)]
    alone = set(range(plan.buckets)) - set(np.unique(order // plan.bucket_rows).tolist())

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if number == 0:
                    for bucket in sorted(alone):  # all their rows are rows of nulls
                        yield _sent(bucket, b"")
                try:
                    require_folder(plan.uri)
                    yield from _send(plan, blocks[number], cuts[number], cuts[number + 1])
                except FedflowError as exc:
                    yield _sent(_ERROR, failure(exc))

    def put(sent: pa.Table) -> pa.Table:
        bucket = sent.column("bucket")[0].as_py()
        contents = sent.column("content")
        try:
            if bucket == _ERROR:
                done = result(bucket, FAILED, contents[0].as_py())
            else:
                done = result(bucket, DONE, _put(plan, bucket, contents))
        except FedflowError as exc:
            done = result(bucket, FAILED, failure(exc))
        return pa.Table.from_batches([done])

    numbers = cluster.spark.range(0, len(blocks), 1, len(blocks))
    rows_sent = numbers.mapInArrow(send, _SENT)
    frame = rows_sent.groupBy("bucket").applyInArrow(put, RESULTS)
    found = contents_of(results_of(cluster, frame), plan.uri)
    return [pickle.loads(content) for content in found]  # noqa: S301  of this party's own workers


def _send(
    plan: _Plan, block: Sequence[TableBatch], low: int, high: int
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of a block, by bucket."""
    ascending = _read_numbers(plan.uri, _ASCENDING, low, high)
    order = _read_numbers(plan.uri, _ORDER, low, high)
    kept: list[pa.RecordBatch] = []
    kept_order: list[Positions] = []
    size = 0
    with SourceReader(plan.source) as reader:
        for batch in block:
            a, b = np.searchsorted(ascending, [batch.start, batch.end])
            if a == b:
                continue
            rows = reader.batch(batch, plan.old).take(pa.array(ascending[a:b] - batch.start))
            kept.append(rows)
            kept_order.append(order[a:b])
            size += rows.nbytes
            if size >= SENT_BYTES:
                yield from _by_bucket(plan, kept, kept_order)
                kept, kept_order, size = [], [], 0
    if kept:
        yield from _by_bucket(plan, kept, kept_order)


def _by_bucket(
    plan: _Plan, kept: list[pa.RecordBatch], kept_order: list[Positions]
) -> Iterator[pa.RecordBatch]:
    order = np.concatenate(kept_order)
    by_bucket = np.argsort(order // plan.bucket_rows, kind="stable")
    rows = pa.Table.from_batches(kept).take(pa.array(by_bucket))
    order = order[by_bucket]
    buckets, starts = np.unique(order // plan.bucket_rows, return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for bucket, start, end in zip(buckets.tolist(), starts.tolist(), ends):
        part = rows.slice(start, end - start).combine_chunks()
        columns = [pa.chunked_array([pa.array(order[start:end])]), *part.columns]
        names = [str(i) for i in range(len(columns))]
        sink = pa.BufferOutputStream()
        named = pa.Table.from_arrays(columns, names=names)
        with ipc.new_stream(sink, named.schema) as stream:
            stream.write_table(named)
        yield _sent(bucket, sink.getvalue().to_pybytes())


def _sent(bucket: int, content: bytes) -> pa.RecordBatch:
    columns = [pa.array([bucket], pa.int64()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["bucket", "content"])


def _put(plan: _Plan, bucket: int, contents: pa.ChunkedArray) -> bytes:
    """Write the rows of one bucket in their order."""
    start, end = plan.range_of(bucket)
    index = np.full(end - start, -1, dtype=np.int64)
    found = [plan.types.empty_table()]
    seen = 0
    for content in contents:
        if not len(content.as_buffer()):
            continue
        rows = ipc.open_stream(content.as_buffer()).read_all()
        order = rows.column(0).to_numpy()
        index[order - start] = np.arange(seen, seen + len(order))
        seen += len(order)
        found.append(pa.Table.from_arrays(rows.columns[1:], schema=plan.types))
    with _Output(plan, bucket) as output:
        output.write(pa.concat_tables(found), index, start=start)
        return output.done()


# --- what both ways do ----------------------------------------------------------------------------


class _Output:
    """Writes one part of the result."""

    def __init__(self, plan: _Plan, number: int) -> None:
        self._plan = plan
        self._writer = PartWriter(
            plan.uri, part_name(number, new_request_id()), schema=plan.schema, where=plan.where
        )

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._writer.discard()

    def write(self, found: pa.Table, index: Positions, *, start: int) -> None:
        """Append the rows of `found` at `index` (negative: nulls), beside made ones at `start`."""
        plan = self._plan
        found = found.combine_chunks()
        for offset in range(0, len(index), BATCH_ROWS):
            at = index[offset : offset + BATCH_ROWS]
            rows = found.take(pa.array(at, mask=at < 0))
            if plan.made is not None:
                made = _read_made(plan.uri, (start + offset) // BATCH_ROWS)
                for name in plan.made.names:
                    rows = rows.append_column(plan.made.field(name), made.column(name))
            self._writer.write(rows.select(list(plan.schema.names)).combine_chunks())

    def done(self) -> bytes:
        """Return the finished part."""
        return pickle.dumps(self._writer.close())


def _write_numbers(uri: str, name: str, numbers: Positions) -> None:
    place = below(folder_at(uri), name)
    with storing(uri), told(uri), place.files.open_output_stream(place.path) as file:
        file.write(pa.py_buffer(np.ascontiguousarray(numbers)))


def _read_numbers(uri: str, name: str, start: int, end: int) -> Positions:
    place = below(folder_at(uri), name)
    with told(uri), place.files.open_input_file(place.path) as file:
        return np.frombuffer(file.read_at((end - start) * 8, start * 8), dtype=np.int64)


def _write_made(uri: str, made: pa.Table) -> None:
    """Keep made columns as batches of `BATCH_ROWS` rows."""
    place = below(folder_at(uri), _MADE)
    types = made.schema.remove_metadata()
    with (
        storing(uri),
        told(uri),
        place.files.open_output_stream(place.path) as file,
        ipc.new_file(file, types) as stream,
    ):
        for start in range(0, made.num_rows, BATCH_ROWS):
            rows = made.slice(start, BATCH_ROWS).replace_schema_metadata(None).combine_chunks()
            stream.write_batch(rows.to_batches()[0])


def _read_made(uri: str, number: int) -> pa.RecordBatch:
    place = below(folder_at(uri), _MADE)
    with told(uri), place.files.open_input_file(place.path) as file:
        reader: Any = ipc.open_file(file)
        return reader.get_batch(number)


def _remove(uri: str, names: Sequence[str]) -> None:
    for name in names:
        place = below(folder_at(uri), name)
        with suppress(OSError, FedflowError):
            place.files.delete_file(place.path)
