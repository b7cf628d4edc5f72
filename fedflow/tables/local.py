"""Tables as Arrow files in a folder of this machine.

A table is one uncompressed Arrow IPC file, `<root>/<random id>/rows.arrow`, which readers map into
memory instead of copying it. The folder's name is random, so no namespace or name ever becomes a
path. A table is written in `<root>/.new-<random id>` and renamed when it is complete: a folder
without the prefix is a whole table. What the columns mean stands in the file's schema (key
`fedflow`) as well as in the catalog; a file that says something else than the catalog is refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import ipc

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors import BadData, TableExists, TableNotFound
from fedflow.base.ids import new_request_id
from fedflow.domain.table_names import checked_name
from fedflow.sdk.table import Table, TableSchema
from fedflow.tables.catalog import PATH, Catalog, Origin, TableEntry
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.csv_import import CsvSource
from fedflow.tables.export import write_csv
from fedflow.tables.unique import IdLedger
from fedflow.tables.writer import (
    META,
    NEW,
    ROWS_FILE,
    LocalTableWriter,
    Place,
    Written,
    mapped,
    on_disk,
    read_schema,
)

_ADDRESS = re.compile(r"[0-9a-f]{32}")


class LocalTableStore:
    """The tables of one party below `root`; satisfies `fedflow.sdk.TableStore`.

    Tables made without a name go to `output_namespace`. Several processes may use one root.
    """

    def __init__(
        self,
        root: Path,
        *,
        catalog: Catalog,
        output_namespace: str,
        party_id: str = "0",
        clock: Clock | None = None,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._output_namespace = output_namespace
        self._party_id = party_id
        self._clock = clock or SystemClock()
        root.mkdir(parents=True, exist_ok=True)

    def open(self, namespace: str, name: str) -> LocalTable:
        """Return a table; its file is opened at the first read. A bound file is copied into a new
        output table.

        Raises: TableNotFound. BadData: a bound file is wrong, with its row.
        """
        return self._opened(self._catalog.find(namespace, name), namespace, name)

    def open_output(self, job_id: str, component: str, data_name: str) -> LocalTable:
        """Return an output of an earlier job of this party. Raises: TableNotFound."""
        found = self._catalog.find_output(job_id, component, data_name)
        return self._opened(found, f"job {job_id}", f"{component}.{data_name}")

    def _opened(self, entry: TableEntry | None, namespace: str, name: str) -> LocalTable:
        if entry is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._party_id)
        return self.copy_bound(entry) if entry.engine == PATH else self.table_of(entry)

    def table_of(self, entry: TableEntry) -> LocalTable:
        """Return the table of a catalog entry. Raises: BadData: its address is wrong."""
        return LocalTable(entry, folder=self._folder(entry), store=self)

    def copy_bound(self, entry: TableEntry) -> LocalTable:
        """Return a new output table with the rows of a bound file.

        Raises: BadData: the file is wrong or gone, or its columns are not those that were bound.
        """
        source = Path(entry.source or "")
        if not source.is_absolute() or source.resolve() != source:
            raise BadData(where=_where(entry), reason="its file is not where it was bound")
        made = entry.extend_sid
        options = CsvOptions(
            head=entry.have_head,
            id_delimiter=entry.id_delimiter,
            extend_sid=made,
            names=None if entry.have_head else entry.schema.names[1 if made else 0 :],
        )
        place = Place(
            namespace=self._output_namespace,
            name=new_request_id(),
            origin=Origin.READER,
            partitions=entry.partitions,
            id_delimiter=entry.id_delimiter,
            have_head=entry.have_head,
            extend_sid=made,
            extra=entry.extra,
        )
        return self._import(source, options, place, expected=entry.schema)

    def copy(self, table: Table, *, namespace: str, name: str, drop: bool = False) -> LocalTable:
        """Return a new table with the rows of a table of this store; `drop` lets it replace one.

        The files are shared where the file system allows it: tables never change.

        Raises: TableExists, BadTableName, DiskFull. BadData: the files of the table are missing.
        """
        if not isinstance(table, LocalTable):
            raise BadData(where=f"table {table.name}", reason="it is no table of this store")
        entry = table.entry
        place = Place(
            namespace=namespace,
            name=name,
            origin=Origin.OUTPUT,
            partitions=entry.partitions,
            id_delimiter=entry.id_delimiter,
            have_head=entry.have_head,
            extend_sid=entry.extend_sid,
            replace=drop,
            extra=entry.extra,
        )
        self._check_free(place)
        folder = self._root / f"{NEW}{new_request_id()}"
        try:
            with on_disk(folder):
                folder.mkdir(mode=0o700)
                _link_or_copy(self._folder(entry) / ROWS_FILE, folder / ROWS_FILE)
        except FileNotFoundError as exc:
            shutil.rmtree(folder, ignore_errors=True)
            raise BadData(where=_where(entry), reason="its file is missing") from exc
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        written = Written(folder=folder, count=entry.count, preview=entry.preview)
        try:
            return self._keep(place, entry.schema, written)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # it was moved, unless something failed

    def export_csv(
        self, table: Table, target: IO[bytes], *, head: bool = True, delimiter: str = ","
    ) -> int:
        """Write the rows as CSV and return how many; see `tables.export.write_csv`."""
        return write_csv(table, target, head=head, delimiter=delimiter)

    def create(
        self, schema: TableSchema, *, namespace: str | None = None, name: str | None = None
    ) -> LocalTableWriter[LocalTable]:
        """Return a writer for a new table.

        Raises: TableExists: the name is taken. BadTableName: the name cannot be used.
        """
        place = Place(
            namespace=namespace or self._output_namespace,
            name=name or new_request_id(),
            origin=Origin.OUTPUT,
        )
        if name is not None:
            self._check_free(place)
        return self._writer(schema, place)

    def import_csv(
        self,
        source: Path,
        *,
        namespace: str,
        name: str,
        head: bool = True,
        partitions: int = 1,
        id_delimiter: str = ",",
        extend_sid: bool = False,
        auto_increasing_sid: bool = False,
        drop: bool = False,
        names: tuple[str, ...] | None = None,
        describe: Callable[[TableSchema], dict[str, Any] | None] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> LocalTable:
        """Return a new RAW table of the rows of a CSV file; `drop` lets it replace an old one.

        `names` are those of all columns of a file without a head; what `describe` returns for its
        columns is kept with the table as members of FATE's schema.
        `progress` is told the share of the file that was read, 0 to 1. Memory stays bounded for a
        file of any size (`tables.csv_import`, `tables.unique`). An error leaves all as it was.

        Raises: BadData: the file is wrong, with its row. TableExists, BadTableName, DiskFull.
        """
        if not 1 <= partitions <= 1023:
            raise BadData(where="partition", reason=f"{partitions} is not within 1 to 1023")
        options = CsvOptions(
            head=head,
            id_delimiter=id_delimiter,
            extend_sid=extend_sid,
            auto_increasing_sid=auto_increasing_sid,
            names=None if head else names,
        )
        place = Place(
            namespace=namespace,
            name=name,
            origin=Origin.UPLOAD,
            partitions=partitions,
            id_delimiter=id_delimiter,
            have_head=head,
            extend_sid=options.makes_ids,
            replace=drop,
        )
        self._check_free(place)
        return self._import(source, options, place, describe=describe, progress=progress)

    def _import(
        self,
        source: Path,
        options: CsvOptions,
        place: Place,
        *,
        expected: TableSchema | None = None,
        describe: Callable[[TableSchema], dict[str, Any] | None] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> LocalTable:
        """Write the rows of a file to a table; its columns must be the `expected` ones, if any."""
        with CsvSource(source, options) as csv, IdLedger(self._root) as ledger:
            if expected not in (None, csv.schema):
                reason = "its columns are no longer those of the table"
                raise BadData(where=csv.where, reason=reason)
            if describe is not None:
                place = replace(place, extra=describe(csv.schema))
            return self._write(csv, ledger, place, options=options, progress=progress)

    def _write(
        self,
        csv: CsvSource,
        ledger: IdLedger,
        place: Place,
        *,
        options: CsvOptions,
        progress: Callable[[float], None] | None,
    ) -> LocalTable:
        with self._writer(csv.schema, place) as writer:
            for batch in csv.batches():
                with on_disk(self._root):
                    writer.write(batch)
                    if not options.makes_ids:
                        ledger.add(batch.column(0))
                if progress is not None:
                    progress(csv.done)
            writer.seal()
            if repeated := ledger.repeated(writer.ids_at):
                many = f"{'at least ' if repeated.at_least else ''}{repeated.count}"
                reason = f"row {repeated.again + 1} repeats the id of row {repeated.first + 1}"
                raise BadData(where=csv.where, reason=f"{reason}; rows that repeat an id: {many}")
            return writer.close()

    def drop(self, namespace: str, name: str) -> None:
        """Delete a table. Raises: TableNotFound."""
        entry = self._catalog.drop(namespace, name)
        if entry is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._party_id)
        self.remove_files(entry)

    def remove_files(self, entry: TableEntry) -> None:
        """Delete the rows of a table that the catalog has forgotten; readers keep what they map."""
        shutil.rmtree(self._folder(entry), ignore_errors=True)

    def sweep(self) -> int:
        """Delete what killed writers left, and return how many; only while nothing is written."""
        left = [p for p in self._root.iterdir() if p.name.startswith(NEW)]
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
        return len(left)

    def _writer(self, schema: TableSchema, place: Place) -> LocalTableWriter[LocalTable]:
        return LocalTableWriter(self._root, schema=schema, place=place, keep=self._keep)

    def _check_free(self, place: Place) -> None:
        checked_name("namespace", place.namespace)
        checked_name("table name", place.name)
        if not place.replace and self._catalog.find(place.namespace, place.name) is not None:
            raise TableExists(namespace=place.namespace, name=place.name)

    def _keep(self, place: Place, schema: TableSchema, written: Written) -> LocalTable:
        """Move a complete folder to its address and tell the catalog, or delete it."""
        entry = TableEntry(
            namespace=place.namespace,
            name=place.name,
            address=new_request_id(),
            schema=schema,
            count=written.count,
            partitions=place.partitions,
            id_delimiter=place.id_delimiter,
            have_head=place.have_head,
            extend_sid=place.extend_sid,
            origin=place.origin,
            preview=written.preview,
            created_ms=self._clock.now_ms(),
            extra=place.extra,
        )
        folder = self._folder(entry)
        written.folder.rename(folder)
        old = self._catalog.drop(place.namespace, place.name) if place.replace else None
        try:
            self._catalog.register(entry)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if old is not None:
                self._catalog.register(old)
            raise
        if old is not None:
            self.remove_files(old)
        return LocalTable(entry, folder=folder, store=self)

    def _folder(self, entry: TableEntry) -> Path:
        if not _ADDRESS.fullmatch(entry.address):
            raise BadData(where=_where(entry), reason="its address is not a folder id")
        return self._root / entry.address


class LocalTable:
    """One table; satisfies `fedflow.sdk.Table`."""

    def __init__(self, entry: TableEntry, *, folder: Path, store: LocalTableStore) -> None:
        self.entry = entry
        self._path = folder / ROWS_FILE
        self._store = store

    @property
    def namespace(self) -> str:
        return self.entry.namespace

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def schema(self) -> TableSchema:
        return self.entry.schema

    @property
    def count(self) -> int:
        return self.entry.count

    @property
    def meta(self) -> Mapping[str, Any] | None:
        """Return what the upload said of the rows' meaning, in FATE's words; None if nothing."""
        found = (self.entry.extra or {}).get("meta")
        return found if isinstance(found, Mapping) else None

    @property
    def partitions(self) -> int:
        """Return the number of partitions that the upload asked for."""
        return self.entry.partitions

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in stored order. Raises: BadData: the file is damaged or another's."""
        with self._guard(), mapped(self._path) as file:
            reader = self._reader(file)
            rows = 0
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                batch.validate()
                rows += batch.num_rows
                yield batch.replace_schema_metadata(None)
            self._check_count(rows)

    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the rows, mapped from disk.

        Raises: BadData: the file is damaged, or a column is not in the table.
        """
        with self._guard(), mapped(self._path) as file:
            rows = self._reader(file, columns=columns).read_all()
            rows.validate()
            self._check_count(rows.num_rows)
            rows = rows.replace_schema_metadata(None)
            return rows if columns is None else rows.select(list(columns))

    def head(self, rows: int) -> pa.Table:
        """Return the first `rows` rows. Raises: BadData: the file is damaged."""
        with self._guard(), mapped(self._path) as file:
            reader = self._reader(file)
            batches: list[pa.RecordBatch] = []
            for i in range(reader.num_record_batches):
                if sum(b.num_rows for b in batches) >= rows:
                    break
                batches.append(reader.get_batch(i))
            found = pa.Table.from_batches(batches, schema=reader.schema).slice(0, rows)
            return found.replace_schema_metadata(None)

    def map_blocks(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: TableSchema,
        name: str | None = None,
    ) -> Table:
        """Return a new output table of `function` applied to every batch.

        For a table without rows it is applied to one empty batch, to learn the column types.
        """
        batches = self.to_batches() if self.count else iter([_empty_batch(self.head(0).schema)])
        with self._store.create(schema, name=name) as writer:
            for batch in batches:
                writer.write(function(batch))
            return writer.close()

    def _reader(self, file: Any, *, columns: tuple[str, ...] | None = None) -> Any:
        names = self.schema.names
        if columns is not None and (unknown := sorted(set(columns) - set(names))):
            raise BadData(where=_where(self.entry), reason=f"it has no columns {unknown}")
        if columns is not None:
            names = tuple(n for n in names if n in columns) or (self.schema.id,)
        options = ipc.IpcReadOptions(
            included_fields=None if columns is None else [self.schema.names.index(n) for n in names]
        )
        reader = ipc.open_file(file, options=options)
        said = read_schema((reader.schema.metadata or {}).get(META, b""))
        if said != self.schema or tuple(reader.schema.names) != names:
            raise BadData(where=_where(self.entry), reason="its file is another table's")
        return reader

    def _check_count(self, rows: int) -> None:
        if rows != self.count:
            reason = f"its file has {rows} rows, not {self.count}"
            raise BadData(where=_where(self.entry), reason=reason)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn what Arrow says of a bad file into BadData."""
        try:
            yield
        except FileNotFoundError as exc:
            raise BadData(where=_where(self.entry), reason="its file is missing") from exc
        except (pa.ArrowException, ValueError, OSError) as exc:
            raise BadData(where=_where(self.entry), reason="its file is damaged") from exc


def _link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that cannot be."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _where(entry: TableEntry) -> str:
    return f"table {entry.namespace}.{entry.name}"
