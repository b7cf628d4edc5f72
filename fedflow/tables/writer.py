"""Writes a table's Arrow file: to a temporary folder first, kept only when it is complete."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import ipc

from fedflow.base.errors import BadData, DiskFull
from fedflow.base.ids import new_request_id
from fedflow.base.reading import decode_as
from fedflow.sdk.table import Table, TableKind, TableSchema
from fedflow.tables.catalog import PREVIEW_CHARACTERS, PREVIEW_ROWS, Origin
from fedflow.tables.statistics import Statistics
from fedflow.tables.statistics_file import write_facts
from fedflow.tables.text import batch_rows
from fedflow.tables.unique import Rows

T = TypeVar("T", bound=Table)

BATCH_ROWS = 65_536
META = b"fedflow"  #: key of the table's schema in the Arrow schema
ROWS_FILE = "rows.arrow"
NEW = ".new-"  #: begin of the folder of a table that is being written
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a table will be called, and what the catalog is to remember of its making."""

    namespace: str
    name: str
    origin: Origin
    partitions: int = 1
    id_delimiter: str = ","
    have_head: bool = True
    extend_sid: bool = False
    replace: bool = False
    extra: dict[str, Any] | None = None  #: members of FATE's schema beyond the column names


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A complete file in its temporary folder."""

    folder: Path
    count: int
    preview: tuple[tuple[str, ...], ...]


class LocalTableWriter(Generic[T]):
    """Writes one new table; satisfies `fedflow.sdk.TableWriter`.

    The columns' types are those of the first batch. Nothing of the table can be seen before
    `close`. Leaving the `with` block by an error, or a file or catalog that fails, removes what was
    written; without a `with` block `discard` does.
    """

    def __init__(
        self,
        root: Path,
        *,
        schema: TableSchema,
        place: Place,
        keep: Callable[[Place, TableSchema, Written], T],
    ) -> None:
        self._schema = schema
        self._place = place
        self._keep = keep
        self._folder = root / f"{NEW}{new_request_id()}"
        self._sink: Any = None
        self._writer: Any = None
        self._arrow_schema: Any = None
        self._count = 0
        self._preview: list[tuple[str, ...]] = []
        self._preview_left = PREVIEW_CHARACTERS
        self._statistics = Statistics(schema)
        self._sealed = False
        self._gone = False
        self._table: T | None = None

    @property
    def count(self) -> int:
        """Return the number of rows written so far."""
        return self._count

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows.

        Raises: BadData: the columns are not those of the schema, their types differ from the first
            batch's, or an id is null or no text. DiskFull. ValueError: the writer was closed.
        """
        if self._sealed or self._gone:
            raise ValueError("the table is closed")
        self._check(batch.schema)
        if batch.column(0).null_count:
            raise self._bad("an id is null")
        rows = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        rows = rows.replace_schema_metadata(None).cast(self._arrow_schema)
        with self._cleanly(), on_disk(self._folder):
            for part in rows.to_batches(max_chunksize=BATCH_ROWS):
                self._writer.write_batch(part)
                self._look(part)
                self._statistics.add(part)
                self._count += part.num_rows

    def _look(self, part: pa.RecordBatch) -> None:
        """Keep the first rows as text, within the bounds of a preview."""
        if self._preview_left <= 0 or len(self._preview) >= PREVIEW_ROWS:
            return
        for row in batch_rows(part.slice(0, PREVIEW_ROWS - len(self._preview)), self._schema):
            self._preview_left -= sum(map(len, row))
            if self._preview_left < 0:
                return
            self._preview.append(row)

    def seal(self) -> None:
        """Finish the file; no rows can be added, and `ids_at` can be asked. Raises: DiskFull."""
        if self._gone:
            raise ValueError("the table is closed")
        if self._sealed:
            return
        if self._writer is None:
            self._begin(_empty_schema(self._schema))
        with self._cleanly(), on_disk(self._folder):
            self._writer.close()
            self._sink.close()
            write_facts(self._folder, self._statistics.facts())
        self._sealed = True

    def ids_at(self, rows: Rows) -> Iterator[tuple[int, str]]:
        """Yield (row, id) for `rows` (ascending, from 0) of the sealed file."""
        with mapped(self._folder / ROWS_FILE) as file:
            reader = ipc.open_file(file)
            start = 0
            for i in range(reader.num_record_batches):
                ids = reader.get_batch(i).column(0)
                low, high = rows.searchsorted([start, start + len(ids)])
                here = rows[low:high]
                yield from zip(here.tolist(), ids.take(pa.array(here - start)).to_pylist())
                start += len(ids)

    def close(self) -> T:
        """Finish and return the table; a second call returns it again.

        Raises: TableExists: another writer took the name meanwhile. DiskFull.
        """
        if self._table is None:
            self.seal()
            written = Written(folder=self._folder, count=self._count, preview=tuple(self._preview))
            with self._cleanly():
                self._table = self._keep(self._place, self._schema, written)
        return self._table

    def discard(self) -> None:
        """Remove what was written, unless the table is complete."""
        if self._table is not None or self._gone:
            return
        self._gone = True
        if self._sink is not None and not self._sink.closed:
            self._sink.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalTableWriter[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None and not self._gone:
            self.close()
        else:
            self.discard()

    def _check(self, schema: pa.Schema) -> None:
        if tuple(schema.names) != self._schema.names:
            raise self._bad(f"columns {schema.names} written, not {list(self._schema.names)}")
        if self._arrow_schema is None:
            if not pa.types.is_string(schema.field(0).type):
                raise self._bad(f"ids are {schema.field(0).type}, not string")
            self._begin(schema)
        for given, kept in zip(schema, self._arrow_schema, strict=True):
            if given.type != kept.type:
                raise self._bad(f"column {given.name!r} is {given.type}, was {kept.type} before")

    def _begin(self, schema: pa.Schema) -> None:
        fields = [pa.field(f.name, f.type) for f in schema]
        self._arrow_schema = pa.schema(fields)
        stored = self._arrow_schema.with_metadata({META: schema_json(self._schema)})
        with self._cleanly(), on_disk(self._folder):
            self._folder.mkdir(mode=0o700)
            self._sink = pa.OSFile(str(self._folder / ROWS_FILE), "wb")
            self._writer = ipc.new_file(self._sink, stored)

    @contextmanager
    def _cleanly(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def _bad(self, reason: str) -> BadData:
        return BadData(where=f"table {self._place.namespace}.{self._place.name}", reason=reason)


def schema_json(schema: TableSchema) -> bytes:
    return msgspec.json.encode(schema, order="sorted")


def read_schema(text: bytes) -> TableSchema | None:
    """Return what `schema_json` wrote, also in an earlier release; None if it is something else."""
    try:
        return decode_as(text, TableSchema)
    except (msgspec.MsgspecError, ValueError):
        return None


def _empty_schema(schema: TableSchema) -> pa.Schema:
    """Return the column types of a table that got no batch: text, and numbers for features."""
    numbers = set(schema.columns) if schema.kind is TableKind.INSTANCES else set()
    return pa.schema([(n, pa.float64() if n in numbers else pa.string()) for n in schema.names])


def mapped(path: Path) -> Any:
    return pa.memory_map(str(path), "r")


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Name a full disk as such."""
    try:
        yield
    except OSError as exc:
        if exc.errno in _NO_SPACE:
            raise DiskFull(path=path.parent if path.name.startswith(NEW) else path) from exc
        raise
