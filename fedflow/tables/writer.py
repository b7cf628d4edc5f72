"""Writes a table's Arrow file: to a temporary folder first, kept only when it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import ipc

from fedflow.app.data.row_folders import NEW
from fedflow.base.decoding import decode_as
from fedflow.base.disk import writing
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.sdk.table import TableSchema
from fedflow.tables.catalog import TableOrigin
from fedflow.tables.preview import Preview
from fedflow.tables.preview_file import write_preview
from fedflow.tables.row_checks import RowCheck, empty_types
from fedflow.tables.staging import StagedTable, T
from fedflow.tables.statistics import Statistics
from fedflow.tables.statistics_file import write_facts
from fedflow.tables.unique import Rows

BATCH_ROWS = 65_536
META = b"fedflow"  #: key of the table's schema in the Arrow schema
ROWS_FILE = "rows.arrow"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableTarget:
    """What a table will be called, and what the catalog is to remember of its making."""

    namespace: str
    name: str
    origin: TableOrigin
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


class LocalTableWriter(StagedTable[T]):
    """Writes one new table; satisfies `fedflow.sdk.TableWriter`.

    The columns' types are those of the first batch.
    """

    def __init__(
        self,
        root: Path,
        *,
        schema: TableSchema,
        place: TableTarget,
        keep: Callable[[TableTarget, TableSchema, Written], T],
    ) -> None:
        super().__init__()
        self._schema = schema
        self._place = place
        self._keep = keep
        self._folder = root / f"{NEW}{new_request_id()}"
        self._sink: Any = None
        self._writer: Any = None
        self._check = RowCheck(schema, where=f"table {place.namespace}.{place.name}")
        self._count = 0
        self._preview = Preview(schema)
        self._statistics = Statistics(schema)
        self._sealed = False

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
        rows = self._check.checked(batch)
        if self._writer is None:
            self._begin(self._check.types)
        with self._cleanly(), on_disk(self._folder):
            for part in rows.to_batches(max_chunksize=BATCH_ROWS):
                self._writer.write_batch(part)
                self._preview.look(part)
                self._statistics.add(part)
                self._count += part.num_rows

    def seal(self) -> None:
        """Finish the file; no rows can be added, and `ids_at` can be asked. Raises: DiskFull."""
        self._require_open()
        if self._sealed:
            return
        if self._writer is None:
            self._begin(empty_types(self._schema))
        with self._cleanly(), on_disk(self._folder):
            self._writer.close()
            self._sink.close()
            write_facts(self._folder, self._statistics.facts())
            write_preview(self._folder, self._preview.rows)
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

    def _finish(self) -> T:
        self.seal()
        written = Written(folder=self._folder, count=self._count)
        return self._keep(self._place, self._schema, written)

    def _remove(self) -> None:
        if self._sink is not None and not self._sink.closed:
            self._sink.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self, schema: pa.Schema) -> None:
        stored = schema.with_metadata({META: schema_json(self._schema)})
        with self._cleanly(), on_disk(self._folder):
            self._folder.mkdir(mode=0o700)
            self._sink = pa.OSFile(str(self._folder / ROWS_FILE), "wb")
            self._writer = ipc.new_file(self._sink, stored)


def schema_json(schema: TableSchema) -> bytes:
    return msgspec.json.encode(schema, order="sorted")


def read_schema(text: bytes) -> TableSchema | None:
    """Return what `schema_json` wrote, also in an earlier release; None if it is something else."""
    try:
        return decode_as(text, TableSchema)
    except (msgspec.MsgspecError, ValueError):
        return None


def mapped(path: Path) -> Any:
    return pa.memory_map(str(path), "r")


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Name what keeps this process from writing. Raises: DiskFull, FolderNotWritable."""
    with writing(path.parent if path.name.startswith(NEW) else path):
        yield
