"""Tables as folders of Parquet parts: the manifest, and the files of one part.

Such a table is a folder `<tables_uri>/parts/<address>` on any file system that `filesystems` opens:
files `part-<what>.parquet` and, written last, `_rows.json`, the manifest, which names the parts in
the order of their rows. A folder without it is no table; a file that it does not name is none of
the table's. A row group is a batch of the table (at most 65,536 rows), so what a function makes of
every batch has the same batches wherever it was made; taken rows may be cut elsewhere. What the
columns mean stands in the manifest and in every part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from fedflow.base.decoding import decode_as
from fedflow.base.disk import NO_SPACE
from fedflow.base.errors.data import BadData, DiskFull, StorageRefused, TablesNotShared
from fedflow.base.values import dataclass
from fedflow.domain.data.table_parts import local_path
from fedflow.sdk.table import TableSchema
from fedflow.tables.file_errors import told
from fedflow.tables.filesystems import FilesystemAccess, OpenPath, below, open_place
from fedflow.tables.row_checks import RowCheck, empty_types
from fedflow.tables.statistics import Statistics
from fedflow.tables.writer import BATCH_ROWS, META, read_schema, schema_json

MANIFEST: Final = "_rows.json"
_NAME: Final = re.compile(r"part-[0-9a-z-]{1,100}\.parquet")
_MANIFEST_BYTES: Final = 64 << 20  #: longest manifest that is read: some 10 million batches
_CODEC: Final = "lz4"


class TablePart(msgspec.Struct, frozen=True):
    """One file of a table."""

    name: str
    batches: tuple[int, ...]  #: rows of each row group
    size_bytes: int

    @property
    def rows(self) -> int:
        return sum(self.batches)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What `_rows.json` says."""

    version: int = 1
    schema: TableSchema
    parts: tuple[TablePart, ...]  #: in the order of the rows; at least one, which may have no rows

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


@lru_cache(maxsize=8)
def folder_at(uri: str) -> OpenPath:
    """Return an open folder; each process opens it once. Raises: as `open_place`.

    An object store is entered as the environment says, in the words of AWS: keys, AWS_REGION, and
    AWS_ENDPOINT_URL for one that is not AWS. It must say so to the server and to Spark's workers.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return open_place(uri, FilesystemAccess(endpoint=endpoint, region=region))


def part_name(number: int, attempt: str) -> str:
    """Return a file name that no other attempt at writing the same rows uses."""
    return f"part-{number:06d}-{attempt}.parquet"


def write_manifest(uri: str, manifest: Manifest) -> None:
    """Make the folder a table. Raises: DiskFull, StorageUnreachable and others of `told`."""
    place = below(folder_at(uri), MANIFEST)
    with storing(uri), told(uri), place.files.open_output_stream(place.path) as file:
        file.write(msgspec.json.encode(manifest))


def read_manifest(uri: str, *, where: str) -> Manifest:
    """Return the manifest of a folder, checked.

    Raises: BadData: there is none, or it is damaged. StorageUnreachable, StorageRefused.
    """
    place = below(folder_at(uri), MANIFEST)
    try:
        with told(where), place.files.open_input_stream(place.path) as file:
            found = decode_as(file.read(_MANIFEST_BYTES), Manifest)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise BadData(where=where, reason="its manifest is damaged") from exc
    names = [part.name for part in found.parts]
    bad_name = len(set(names)) != len(names) or any(not _NAME.fullmatch(n) for n in names)
    bad_rows = any(not 0 <= rows <= BATCH_ROWS for part in found.parts for rows in part.batches)
    if found.version != 1 or not names or bad_name or bad_rows:
        raise BadData(where=where, reason="its manifest is damaged")
    return found


# --- one part -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPart:
    """A complete file, and what was counted of its rows."""

    part: TablePart
    types: bytes  #: the Arrow schema, serialized
    statistics: Statistics


class PartWriter:
    """Writes one part; a writer that was not closed leaves a file that no manifest names."""

    def __init__(self, uri: str, name: str, *, schema: TableSchema, where: str) -> None:
        self._uri = uri
        self._name = name
        self._schema = schema
        self._where = where
        self._check = RowCheck(schema, where=where)
        self._statistics = Statistics(schema)
        self._batches: list[int] = []
        self._sink: Any = None
        self._writer: Any = None
        self.bytes = 0  #: of rows in memory that were written

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. Raises: BadData: as `RowCheck`, or a type that Parquet lacks. DiskFull."""
        rows = self._check.checked(batch)
        if self._writer is None:
            self._begin(self._check.types)
        for part in rows.to_batches(max_chunksize=BATCH_ROWS):
            if not part.num_rows:
                continue
            with self._storing():
                self._writer.write_table(pa.Table.from_batches([part]), row_group_size=BATCH_ROWS)
            self._statistics.add(part)
            self._batches.append(part.num_rows)
            self.bytes += part.nbytes

    def close(self) -> WrittenPart:
        """Finish the file. A part that got no batch has columns of the usual types."""
        if self._writer is None:
            self._begin(self._check.types or empty_types(self._schema))
        types = self._check.types or empty_types(self._schema)
        with self._storing():
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
        part = TablePart(self._name, tuple(self._batches), size)
        return WrittenPart(
            part=part, types=types.serialize().to_pybytes(), statistics=self._statistics
        )

    def discard(self) -> None:
        """Close what is open; the file goes with its folder."""
        for opened in (self._writer, self._sink):
            with suppress(OSError, pa.ArrowException, ValueError):
                if opened is not None:
                    opened.close()

    def _begin(self, types: pa.Schema) -> None:
        place = below(folder_at(self._uri), self._name)
        text = [f.name for f in list(types)[1:] if pa.types.is_string(f.type)]
        with self._storing():
            self._sink = place.files.open_output_stream(place.path)
            self._writer = pq.ParquetWriter(
                self._sink,
                types.with_metadata({META: schema_json(self._schema)}),
                compression=_CODEC,
                use_dictionary=text or False,
                write_statistics=False,
            )

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            with storing(self._uri), told(self._uri):
                yield
        except pa.ArrowNotImplementedError as exc:
            raise BadData(where=self._where, reason=f"Parquet cannot keep it ({exc})") from exc


class PartFile:
    """One open part; a context manager."""

    def __init__(
        self, uri: str, part: TablePart, *, schema: TableSchema, where: str, threads: bool = False
    ) -> None:
        """Open the file. Raises: BadData: it is damaged or another table's. StorageMissing and
        others of `told`.
        """
        self._where = where
        self._part = part
        self._threads = threads
        place = below(folder_at(uri), part.name)
        with reading(where), told(where, found="a part of it is missing"):
            self._file = place.files.open_input_file(place.path)
            try:
                self._parquet = pq.ParquetFile(self._file)
                self._check_is_of(schema)
            except BaseException:
                self._file.close()
                raise
        self.types: Any = self._parquet.schema_arrow.remove_metadata()

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def batch(self, number: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return one batch. Raises: BadData."""
        rows = self._group(number, columns)
        batches = rows.to_batches()
        if len(batches) == 1:
            return batches[0]
        return pa.RecordBatch.from_arrays(
            [pa.array([], f.type) for f in rows.schema], schema=rows.schema
        )

    def head(self, rows: int, *, batch: int) -> pa.Table:
        """Return the first rows of a batch without reading the others. Raises: BadData."""
        if rows <= 0:
            return self.types.empty_table()
        with reading(self._where), told(self._where):
            found = self._parquet.iter_batches(batch_size=rows, row_groups=[batch])
            first = [next(found)] if self._part.batches[batch] else []
            return pa.Table.from_batches(first, self.types).slice(0, rows)

    def _group(self, group: int, columns: Sequence[str] | None) -> pa.Table:
        wanted = None if columns is None else list(columns)
        with reading(self._where), told(self._where):
            rows = self._parquet.read_row_group(group, columns=wanted, use_threads=self._threads)
            if rows.num_rows != self._part.batches[group]:
                raise BadData(where=self._where, reason="a part of it has other rows than noted")
            rows.validate()
        rows = rows.replace_schema_metadata(None).combine_chunks()
        return rows if wanted is None else rows.select(wanted)

    def _check_is_of(self, schema: TableSchema) -> None:
        stored = self._parquet.schema_arrow
        said = read_schema((stored.metadata or {}).get(META, b""))
        if said != schema or tuple(stored.names) != schema.names:
            raise BadData(where=self._where, reason="a part of it is another table's")
        about = self._parquet.metadata
        rows = tuple(about.row_group(i).num_rows for i in range(about.num_row_groups))
        if rows != self._part.batches:
            raise BadData(where=self._where, reason="a part of it has other rows than noted")


# --- making and removing folders ------------------------------------------------------------------


def make_folder(uri: str) -> None:
    """Make a folder that only this user can read. Raises: DiskFull, and others of `told`."""
    place = folder_at(uri)
    with storing(uri), told(uri):
        if (path := local_path(uri)) is not None:
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            place.files.create_dir(place.path, recursive=True)


def tidy_folder(uri: str, parts: Sequence[TablePart]) -> bool:
    """Tell whether all parts are in a folder, as this process sees it, and delete other files.

    Those are of attempts that Spark repeated, and of nothing else. Raises: as `told`.
    """
    place = folder_at(uri)
    with told(uri):
        found = place.files.get_file_info(fs.FileSelector(place.path))
    sizes = {info.base_name: info.size for info in found if info.type == fs.FileType.File}
    for name in sizes.keys() - {part.name for part in parts}:
        with suppress(OSError):
            place.files.delete_file(below(place, name).path)
    return all(sizes.get(part.name) == part.size_bytes for part in parts)


def require_folder(uri: str) -> None:
    """Raises: TablesNotShared: this process does not see a folder that the driver made."""
    place = folder_at(uri)
    try:
        with told(uri):
            info = place.files.get_file_info(place.path)
    except StorageRefused as exc:
        if local_path(uri) is None:
            raise
        raise TablesNotShared(uri=uri) from exc  # this process runs as another user
    if info.type != fs.FileType.Directory or not _may_write(uri):
        raise TablesNotShared(uri=uri)


def _may_write(uri: str) -> bool:
    path = local_path(uri)
    return path is None or os.access(path, os.W_OK | os.X_OK, effective_ids=True)


def remove_folder(uri: str) -> None:
    """Delete a folder and all in it; one that is gone is fine. Raises: OSError, FedflowError."""
    place = folder_at(uri)
    with suppress(FileNotFoundError):
        place.files.delete_dir(place.path)


@contextmanager
def storing(uri: str) -> Iterator[None]:
    """Name a full disk as such."""
    try:
        yield
    except OSError as exc:
        if exc.errno in NO_SPACE:
            raise DiskFull(path=uri) from exc
        raise


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn what Arrow says of a bad file into BadData."""
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException too
        raise
    except (pa.ArrowException, ValueError, OSError) as exc:
        raise BadData(where=where, reason="a part of it is damaged") from exc
