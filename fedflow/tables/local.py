"""Tables as Arrow files in a folder of this machine.

A table is one uncompressed Arrow IPC file, `<root>/<random id>/rows.arrow`, which readers map into
memory instead of copying it. Beside it `columns.json` has what its columns amount to, and
`preview.json` its first rows as text. The folder's name is random, so no namespace or name ever
becomes a path. A table is written in `<root>/.new-<random id>` and renamed when it is complete: a
folder without the prefix is a whole table. What the columns mean stands in the file's schema (key
`fedflow`) as well as in the catalog; a file that says something else than the catalog is refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedflow.app.data.row_folders import NEW
from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors.data import BadData, TableExists, TableNotFound
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.base.ids import new_request_id
from fedflow.domain.data.storages import Connection, connection_without_secrets, is_bound
from fedflow.domain.data.table_names import checked_name
from fedflow.domain.data.table_parts import is_parts_folder, parts_uri
from fedflow.domain.records import TableRecord
from fedflow.sdk.table import Table, TableKind, TableSchema, TableWriter
from fedflow.tables.catalog import (
    PATH,
    STANDALONE,
    TableCatalog,
    TableOrigin,
    schema_of,
    schema_to_json,
    where_is,
)
from fedflow.tables.csv_header import CsvOptions, FileKind, file_kind
from fedflow.tables.csv_import import RaggedRows
from fedflow.tables.export import write_csv
from fedflow.tables.local_table import LocalTable
from fedflow.tables.preview_file import FILE as PREVIEW_FILE
from fedflow.tables.remote_gc import remove_all
from fedflow.tables.row_source import RowSource
from fedflow.tables.sources import open_source
from fedflow.tables.statistics_file import FILE as FACTS_FILE
from fedflow.tables.stored_table import StoredTable
from fedflow.tables.unique import IdLedger
from fedflow.tables.writer import ROWS_FILE, LocalTableWriter, TableTarget, Written, on_disk

if TYPE_CHECKING:
    from fedflow.tables.storages.bound import Opener

Watch = Callable[[int, float | None], None]
"""Is called with rows that are read: how many, and what part of all (None: not known)."""

_ADDRESS = re.compile(r"[0-9a-f]{32}")


class LocalTables:
    """Tables below `root` that are described by who uses them: nobody remembers new ones.

    `cores` is how many columns of a table are worked on at a time.
    """

    def __init__(
        self,
        root: Path,
        *,
        output_namespace: str = "",
        cores: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self._root = root
        self._cores = cores
        self._output_namespace = output_namespace
        self._clock = clock or SystemClock()
        if not root.is_dir():  # as a rule it is there, and each task comes by
            with on_disk(root):
                root.mkdir(parents=True, exist_ok=True)

    def table_of(self, entry: TableRecord) -> StoredTable:
        """Return the table of a catalog entry. Raises: BadData: its address is wrong."""
        folder = self._folder(entry)
        uri = parts_uri(entry.storage)
        if uri is not None:
            if not is_parts_folder(uri, entry.address):
                raise BadData(where=where_is(entry), reason="its parts lie in a strange folder")
            from fedflow.tables.datasets import DatasetTable  # Parquet: not loaded by every task

            return DatasetTable(entry, store=self, scratch=self._root, cores=self._cores)
        return LocalTable(entry, folder=folder, store=self, cores=self._cores)

    def copy_bound(self, entry: TableRecord, *, watch: Watch | None = None) -> StoredTable:
        """Return a new output table with the rows of a bound table, wherever they lie.

        Raises: BoundTableChanged: its columns are not those that were bound, or a file changed
        while it was read. StorageMissing, StorageRefused, StorageUnreachable. BadData: a row is
        wrong, ids repeat, or there is no row. DiskFull. NotAuthenticated,
        BoundTableRefused: the task may not read it.
        """
        from fedflow.tables.storages.bound import bound_options, bound_rows  # file systems

        options, place = bound_options(entry), self._place_of_bound(entry)
        return self._import(bound_rows(entry, self._connection(entry)), options, place, watch=watch)

    def _place_of_bound(self, entry: TableRecord) -> TableTarget:
        return TableTarget(
            namespace=self._output_namespace,
            name=new_request_id(),
            origin=TableOrigin.READER,
            partitions=entry.partitions,
            id_delimiter=entry.id_delimiter,
            have_head=entry.have_head,
            extend_sid=entry.extend_sid,
            extra=entry.extra,
        )

    def copy(self, table: Table, *, namespace: str, name: str, drop: bool = False) -> StoredTable:
        """Return a new table with the rows of a table of this store; `drop` lets it replace one.

        Files of this machine are shared where the file system allows it: tables never change. Rows
        of a folder of parts become a table of this machine.

        Raises: TableExists, BadTableName, DiskFull. BadData: the files of the table are missing.
        """
        if not isinstance(table, StoredTable):
            raise BadData(where=f"table {table.name}", reason="it is no table of this store")
        entry = table.entry
        place = TableTarget(
            namespace=namespace,
            name=name,
            origin=TableOrigin.OUTPUT,
            partitions=entry.partitions,
            id_delimiter=entry.id_delimiter,
            have_head=entry.have_head,
            extend_sid=entry.extend_sid,
            replace=drop,
            extra=entry.extra,
        )
        self._check_free(place)
        if parts_uri(entry.storage) is None:
            return self._copy_files(table, place)
        with self._writer(table.schema, place) as writer:
            writer.write(table.head(0))
            for batch in table.to_batches():
                writer.write(batch)
            return writer.close()

    def _copy_files(self, table: StoredTable, place: TableTarget) -> StoredTable:
        entry = table.entry
        folder = self._root / f"{NEW}{new_request_id()}"
        try:
            with on_disk(folder):
                folder.mkdir(mode=0o700)
                _link_or_copy(self._folder(entry) / ROWS_FILE, folder / ROWS_FILE)
                for name in (FACTS_FILE, PREVIEW_FILE):
                    if (file := self._folder(entry) / name).exists():
                        _link_or_copy(file, folder / name)
        except FileNotFoundError as exc:
            shutil.rmtree(folder, ignore_errors=True)
            raise BadData(where=where_is(entry), reason="its file is missing") from exc
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        written = Written(folder=folder, count=entry.count)
        try:
            return self._keep(place, table.schema, written)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # it was moved, unless something failed

    def export_csv(
        self, table: Table, target: IO[bytes], *, head: bool = True, delimiter: str = ","
    ) -> int:
        """Write the rows as CSV and return how many; see `tables.export.write_csv`."""
        return write_csv(table, target, head=head, delimiter=delimiter)

    def create(
        self, schema: TableSchema, *, namespace: str | None = None, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new table.

        Raises: TableExists: the name is taken. BadTableName: the name cannot be used.
        """
        return self._output_writer(schema, self._output_place(name, namespace=namespace))

    def _output_place(self, name: str | None, *, namespace: str | None = None) -> TableTarget:
        place = TableTarget(
            namespace=namespace or self._output_namespace,
            name=name or new_request_id(),
            origin=TableOrigin.OUTPUT,
        )
        if name is not None:
            self._check_free(place)
        return place

    def create_like(
        self, entry: TableRecord, schema: TableSchema, *, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new output table of another one's rows, as `create` does.

        If both are raw, it keeps what the upload of `entry` said: how the rows were split, `meta`.
        """
        return self._output_writer(schema, self._target_like(entry, schema, name=name))

    def _target_like(
        self, entry: TableRecord, schema: TableSchema, *, name: str | None
    ) -> TableTarget:
        place = self._output_place(name)
        own = schema_of(entry)
        if own.kind is schema.kind is TableKind.RAW:
            place = replace(
                place,
                id_delimiter=entry.id_delimiter,
                have_head=entry.have_head,
                extend_sid=entry.extend_sid,
                extra=_extra_of(entry.extra, own, schema),
            )
        return place

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
        whole: bool = False,
        describe: Callable[[TableSchema], dict[str, Any] | None] | None = None,
        progress: Callable[[float], None] | None = None,
        doubt: Callable[[str], None] | None = None,
    ) -> StoredTable:
        """Return a new RAW table of the rows of a file; `drop` lets it replace an old one.

        It is text, Parquet or Arrow, as its first bytes say. Rows of a text without a head may
        differ in length: each becomes its id and one text then, in the column `x0`; `whole` asks
        for that at once. `names` are those of all columns of a file without a head; what `describe`
        returns for its columns is kept with the table as members of FATE's schema. `progress` is
        called with the part of the file that was read, 0 to 1. With `doubt`, repeated and empty
        names of a text's head get others; it is called with sentences on that. Memory is bounded
        for a file of any size (`tables.row_source`, `tables.unique`). An error leaves all as it is.

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
            whole=whole and not head,
            lenient=doubt is not None,
        )
        has_names = head or file_kind(source) is not FileKind.TEXT
        place = TableTarget(
            namespace=namespace,
            name=name,
            origin=TableOrigin.UPLOAD,
            partitions=partitions,
            id_delimiter=id_delimiter,
            have_head=has_names,
            extend_sid=options.makes_ids,
            replace=drop,
        )
        self._check_free(place)

        def told(rows: int, done: float | None) -> None:
            if progress is not None and done is not None:
                progress(done)

        opener = partial(open_source, source)
        return self._import(opener, options, place, describe=describe, watch=told, doubt=doubt)

    def _import(
        self,
        opener: Opener,
        options: CsvOptions,
        place: TableTarget,
        *,
        describe: Callable[[TableSchema], dict[str, Any] | None] | None = None,
        watch: Watch | None = None,
        doubt: Callable[[str], None] | None = None,
    ) -> StoredTable:
        """Write the rows that `opener` opens to a table."""
        try:
            with opener(options) as rows, IdLedger(self._root) as ledger:
                kept = place
                if doubt is not None:
                    for sentence in rows.doubts:
                        doubt(sentence)
                if describe is not None:
                    kept = replace(place, extra=describe(rows.schema))
                return self._write(rows, ledger, kept, options=options, watch=watch)
        except RaggedRows:
            again = replace(options, whole=True)
        return self._import(opener, again, place, describe=describe, watch=watch, doubt=doubt)

    def _write(
        self,
        source: RowSource,
        ledger: IdLedger,
        place: TableTarget,
        *,
        options: CsvOptions,
        watch: Watch | None,
    ) -> StoredTable:
        with self._writer(source.schema, place) as writer:
            for batch in source.batches():
                with on_disk(self._root):
                    writer.write(batch)
                    if not options.makes_ids:
                        ledger.add(batch.column(0))
                if watch is not None:
                    watch(writer.count, source.done)
            writer.seal()
            if repeated := ledger.repeated(writer.ids_at):
                many = f"{'at least ' if repeated.at_least else ''}{repeated.count}"
                reason = f"row {repeated.again + 1} repeats the id of row {repeated.first + 1}"
                reason = f"{reason}; rows that repeat an id: {many}"
                raise BadData(where=source.where, reason=reason)
            if watch is not None:
                watch(writer.count, 1.0)
            return writer.close()

    def remove_files(self, entry: TableRecord) -> None:
        """Delete the rows of a table that the catalog has forgotten; readers keep what they map."""
        self._folder(entry)  # its address is checked
        remove_all(self._root, entry.address, parts_uri(entry.storage))

    def _writer(self, schema: TableSchema, place: TableTarget) -> LocalTableWriter[StoredTable]:
        return LocalTableWriter(self._root, schema=schema, place=place, keep=self._keep)

    def _output_writer(self, schema: TableSchema, place: TableTarget) -> TableWriter:
        """Return a writer for what components make."""
        return self._writer(schema, place)

    def _keep(self, place: TableTarget, schema: TableSchema, written: Written) -> StoredTable:
        """Move a complete folder to its address and tell the catalog, or delete it."""
        entry = self._entry(place, schema, address=new_request_id(), written=written)
        written.folder.rename(self._folder(entry))
        return self._register(entry, place)

    def _entry(
        self, place: TableTarget, schema: TableSchema, *, address: str, written: Written
    ) -> TableRecord:
        return TableRecord(
            namespace=place.namespace,
            name=place.name,
            address=address,
            schema=schema_to_json(schema),
            count=written.count,
            partitions=place.partitions,
            id_delimiter=place.id_delimiter,
            have_head=place.have_head,
            extend_sid=place.extend_sid,
            origin=place.origin,
            created_ms=self._clock.now_ms(),
            extra=place.extra,
        )

    def _folder(self, entry: TableRecord) -> Path:
        if not _ADDRESS.fullmatch(entry.address):
            raise BadData(where=where_is(entry), reason="its address is not a folder id")
        return self._root / entry.address

    def _connection(self, entry: TableRecord) -> Connection:
        """Return where a bound file is. Raises: NotSupportedYet: rows of another storage."""
        if entry.engine != PATH:
            raise NotSupportedYet(what=f"Downloading a bound table of the engine {entry.engine}")
        return connection_without_secrets(entry.source, entry.storage)

    def _check_free(self, place: TableTarget) -> None:
        checked_name("namespace", place.namespace)
        checked_name("table name", place.name)

    def _register(self, entry: TableRecord, place: TableTarget) -> StoredTable:
        """Return a complete table."""
        return self.table_of(entry)


class LocalTableStore(LocalTables):
    """The tables of one party below `root`; satisfies `fedflow.sdk.TableStore`.

    Tables made without a name go to `output_namespace`. Several processes may use one root. `cores`
    is how many columns of a table are worked on at a time.
    """

    def __init__(
        self,
        root: Path,
        *,
        catalog: TableCatalog,
        output_namespace: str,
        party_id: str = "0",
        cores: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(root, output_namespace=output_namespace, cores=cores, clock=clock)
        self._catalog = catalog
        self._party_id = party_id

    def open(self, namespace: str, name: str) -> StoredTable:
        """Return a table; its file is opened at the first read. The rows of a bound one are copied
        into a new output table.

        Raises: TableNotFound; what `copy_bound` does.
        """
        return self._opened(self._catalog.find(namespace, name), namespace, name)

    def open_output(self, job_id: str, component: str, data_name: str) -> StoredTable:
        """Return an output of an earlier job of this party. Raises: TableNotFound."""
        found = self._catalog.find_output(job_id, component, data_name)
        return self._opened(found, f"job {job_id}", f"{component}.{data_name}")

    def open_watched(self, namespace: str, name: str, watch: Watch) -> StoredTable:
        """Return a table as `open` does; `watch` is called while rows of a bound one are read: how
        many, and their share of all, 0 to 1, None where that is not known.
        """
        return self._opened(self._catalog.find(namespace, name), namespace, name, watch=watch)

    def engine_of(self, namespace: str, name: str) -> str:
        """Return where the rows of a table lie, in FATE's words; of an unknown one STANDALONE."""
        entry = self._catalog.find(namespace, name)
        return STANDALONE if entry is None else entry.engine

    def _opened(
        self, entry: TableRecord | None, namespace: str, name: str, *, watch: Watch | None = None
    ) -> StoredTable:
        if entry is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._party_id)
        if is_bound(entry.engine, entry.storage):
            return self.copy_bound(entry, watch=watch)
        return self.table_of(entry)

    def write_elsewhere(self, table: Table, watch: Callable[[float], None]) -> int:
        """Write the rows to the place of the task's target, and return how many they are.

        Raises: NotAuthenticated: it has no target. What `write_rows` does, and what the server says
        if it may not write there.
        """
        from fedflow.tables.storages.writing import write_rows  # databases, file systems

        target = self._catalog.target()
        where = f"the {target.address.engine} to write to"
        return write_rows(table, target, where=where, watch=watch)

    def drop(self, namespace: str, name: str) -> None:
        """Delete a table. Raises: TableNotFound."""
        entry = self._catalog.drop(namespace, name)
        if entry is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._party_id)
        self.remove_files(entry)

    def _check_free(self, place: TableTarget) -> None:
        super()._check_free(place)
        if not place.replace and self._catalog.find(place.namespace, place.name) is not None:
            raise TableExists(namespace=place.namespace, name=place.name)

    def _register(self, entry: TableRecord, place: TableTarget) -> StoredTable:
        """Tell the catalog of a complete table, or delete it."""
        old = self._catalog.drop(place.namespace, place.name) if place.replace else None
        try:
            self._catalog.register(entry)
        except BaseException:
            self.remove_files(entry)
            if old is not None:
                self._catalog.register(old)
            raise
        if old is not None:
            self.remove_files(old)
        return self.table_of(entry)

    def _connection(self, entry: TableRecord) -> Connection:
        return self._catalog.connection(entry)


def _link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that cannot be."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _extra_of(
    extra: dict[str, Any] | None, before: TableSchema, schema: TableSchema
) -> dict[str, Any] | None:
    """Return the members of FATE's schema for raw rows that got or lost columns."""
    if extra is None:
        return None
    extra = dict(extra)
    if isinstance(extra.get("header"), list) and extra["header"]:
        kept = [c for c in extra["header"] if c in schema.columns]
        extra["header"] = [*kept, *(c for c in schema.columns if c not in before.columns)]
    return extra
