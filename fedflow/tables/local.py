"""Tables as Arrow files in a folder of this machine.

A table is one uncompressed Arrow IPC file, `<root>/<random id>/rows.arrow`, which readers map into
memory instead of copying it; `columns.json` beside it has what its columns amount to. The folder's
name is random, so no namespace or name ever becomes a path. A table is written in
`<root>/.new-<random id>` and renamed when it is complete: a folder without the prefix is a whole
table. What the columns mean stands in the file's schema (key `fedflow`) as well as in the catalog;
a file that says something else than the catalog is refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors import BadData, TableExists, TableNotFound
from fedflow.base.ids import new_request_id
from fedflow.domain.table_names import checked_name
from fedflow.sdk.table import Table, TableKind, TableSchema
from fedflow.tables.catalog import PATH, Catalog, Origin, TableEntry
from fedflow.tables.csv_header import CsvOptions, FileKind, file_kind
from fedflow.tables.csv_import import RaggedRows
from fedflow.tables.export import write_csv
from fedflow.tables.local_table import LocalTable, where_is
from fedflow.tables.row_source import RowSource
from fedflow.tables.sources import open_source
from fedflow.tables.statistics_file import FILE as FACTS_FILE
from fedflow.tables.unique import IdLedger
from fedflow.tables.writer import (
    NEW,
    ROWS_FILE,
    LocalTableWriter,
    Place,
    Written,
    on_disk,
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
            raise BadData(where=where_is(entry), reason="its file is not where it was bound")
        made = entry.extend_sid
        options = CsvOptions(
            head=entry.have_head,
            id_delimiter=entry.id_delimiter,
            extend_sid=made,
            names=_given_names(entry),
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
                if (facts := self._folder(entry) / FACTS_FILE).exists():
                    _link_or_copy(facts, folder / FACTS_FILE)
        except FileNotFoundError as exc:
            shutil.rmtree(folder, ignore_errors=True)
            raise BadData(where=where_is(entry), reason="its file is missing") from exc
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
        return self._writer(schema, self._output_place(name, namespace=namespace))

    def _output_place(self, name: str | None, *, namespace: str | None = None) -> Place:
        place = Place(
            namespace=namespace or self._output_namespace,
            name=name or new_request_id(),
            origin=Origin.OUTPUT,
        )
        if name is not None:
            self._check_free(place)
        return place

    def create_like(
        self, entry: TableEntry, schema: TableSchema, *, name: str | None = None
    ) -> LocalTableWriter[LocalTable]:
        """Return a writer for a new output table of another one's rows, as `create` does.

        If both are raw, it keeps what the upload of `entry` said: how the rows were split, `meta`.
        """
        place = self._output_place(name)
        if entry.schema.kind is schema.kind is TableKind.RAW:
            place = replace(
                place,
                id_delimiter=entry.id_delimiter,
                have_head=entry.have_head,
                extend_sid=entry.extend_sid,
                extra=_extra_of(entry, schema),
            )
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
        whole: bool = False,
        describe: Callable[[TableSchema], dict[str, Any] | None] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> LocalTable:
        """Return a new RAW table of the rows of a file; `drop` lets it replace an old one.

        It is text, Parquet or Arrow, as its first bytes say. Rows of a text without a head may
        differ in length: each becomes its id and one text then, in the column `x0`; `whole` asks
        for that at once. `names` are those of all columns of a file without a head; what `describe`
        returns for its columns is kept with the table as members of FATE's schema. `progress` is
        told the share of the file that was read, 0 to 1. Memory stays bounded for a file of any
        size (`tables.row_source`, `tables.unique`). An error leaves all as it was.

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
        )
        has_names = head or file_kind(source) is not FileKind.TEXT
        place = Place(
            namespace=namespace,
            name=name,
            origin=Origin.UPLOAD,
            partitions=partitions,
            id_delimiter=id_delimiter,
            have_head=has_names,
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
        try:
            with open_source(source, options) as rows, IdLedger(self._root) as ledger:
                if expected not in (None, rows.schema):
                    if not options.whole and not options.head and expected.columns == ("x0",):
                        raise RaggedRows
                    reason = "its columns are no longer those of the table"
                    raise BadData(where=rows.where, reason=reason)
                kept = place
                if describe is not None:
                    kept = replace(place, extra=describe(rows.schema))
                return self._write(rows, ledger, kept, options=options, progress=progress)
        except RaggedRows:
            again = replace(options, whole=True)
        return self._import(
            source, again, place, expected=expected, describe=describe, progress=progress
        )

    def _write(
        self,
        csv: RowSource,
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
            if progress is not None:
                progress(1.0)
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
            raise BadData(where=where_is(entry), reason="its address is not a folder id")
        return self._root / entry.address


def _link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that cannot be."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _given_names(entry: TableEntry) -> tuple[str, ...] | None:
    """Return the names that somebody gave to the columns of a bound file without a head."""
    names = entry.schema.names[1:] if entry.extend_sid else entry.schema.names
    made = tuple(f"x{i}" for i in range(len(names)))
    is_made = names == (made if entry.extend_sid else ("id", *made[:-1]))
    return None if entry.have_head or is_made else names


def _extra_of(entry: TableEntry, schema: TableSchema) -> dict[str, Any] | None:
    """Return the members of FATE's schema for raw rows that got or lost columns."""
    if entry.extra is None:
        return None
    extra = dict(entry.extra)
    if isinstance(extra.get("header"), list) and extra["header"]:
        kept = [c for c in extra["header"] if c in schema.columns]
        extra["header"] = [*kept, *(c for c in schema.columns if c not in entry.schema.columns)]
    return extra
