"""Makes tables as folders of Parquet parts, from this process; `spark/tables` adds the cluster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import ipc

from fedflow.app.data.row_folders import NEW, write_note
from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import new_request_id
from fedflow.domain.data.table_parts import FOLDER, parts_storage
from fedflow.domain.records import ColumnFacts, TableRecord
from fedflow.sdk.table import TableSchema, TableWriter
from fedflow.tables.catalog import PREVIEW_ROWS, TableCatalog
from fedflow.tables.local import LocalTableStore
from fedflow.tables.parts import (
    Manifest,
    PartWriter,
    WrittenPart,
    folder_at,
    make_folder,
    part_name,
    remove_folder,
    write_manifest,
)
from fedflow.tables.preview import Preview
from fedflow.tables.preview_file import write_preview
from fedflow.tables.row_checks import RowCheck
from fedflow.tables.staging import StagedTable
from fedflow.tables.statistics_file import write_facts
from fedflow.tables.stored_table import StoredTable
from fedflow.tables.writer import BATCH_ROWS, TableTarget, Written, on_disk

PART_BYTES: Final = 128 << 20  #: of rows in memory: a larger part is followed by another


class NewFolder:
    """The folder of a table that is being made, with a note of it below the table root."""

    def __init__(self, root: Path, tables_uri: str) -> None:
        """Raises: BadData: the URI cannot be used. DiskFull, StorageUnreachable, ..."""
        self.address = new_request_id()
        self.uri = f"{tables_uri.rstrip('/')}/{FOLDER}/{self.address}"
        self.note = root / f"{NEW}{self.address}"
        folder_at(self.uri)  # a bad URI is refused before there is anything
        try:
            with on_disk(self.note):
                self.note.mkdir(mode=0o700)
                write_note(self.note, parts_storage(self.uri))
            make_folder(self.uri)
        except BaseException:
            self.discard()
            raise

    def keep(self) -> None:
        """Tell sweeps that it is in use; one that was not for days is taken for left over."""
        with suppress(OSError):
            os.utime(self.note)

    def discard(self) -> None:
        """Delete all of it; what cannot be deleted now goes with a sweep."""
        try:
            remove_folder(self.uri)
        except (OSError, FedflowError):
            return
        shutil.rmtree(self.note, ignore_errors=True)

    @contextmanager
    def cleanly(self) -> Iterator[None]:
        """Delete the folder if something fails."""
        try:
            yield
        except BaseException:
            self.discard()
            raise


class PartsTableStore(LocalTableStore):
    """A `LocalTableStore` whose outputs are folders of parts below `tables_uri`.

    Files that are uploaded, imported or bound become tables of this machine, as they do there.
    """

    def __init__(
        self,
        root: Path,
        *,
        tables_uri: str,
        catalog: TableCatalog,
        output_namespace: str,
        party_id: str = "0",
        cores: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            root,
            catalog=catalog,
            output_namespace=output_namespace,
            party_id=party_id,
            cores=cores,
            clock=clock,
        )
        self.tables_uri = tables_uri

    def new_folder(self) -> NewFolder:
        """Return an empty folder for parts."""
        return NewFolder(self._root, self.tables_uri)

    def target_like(
        self, entry: TableRecord, schema: TableSchema, *, name: str | None
    ) -> TableTarget:
        """Return where an output of another table's rows goes. Raises: as `create_like`."""
        return self._target_like(entry, schema, name=name)

    def finish(
        self,
        folder: NewFolder,
        place: TableTarget,
        schema: TableSchema,
        parts: Sequence[WrittenPart],
        *,
        preview: Preview | None = None,
    ) -> StoredTable:
        """Return the table of some parts, in their order; parts without rows are left out.

        Raises: BadData: the types of the parts differ. TableExists. The folder goes if it fails.
        """
        with folder.cleanly():
            _check_types(parts, schema, where=f"table {place.namespace}.{place.name}")
            kept = [p for p in parts if p.part.rows] or list(parts[:1])
            manifest = Manifest(schema=schema, parts=tuple(p.part for p in kept))
            write_manifest(folder.uri, manifest)
            entry = replace(
                self._entry(
                    place,
                    schema,
                    address=folder.address,
                    written=Written(folder=folder.note, count=manifest.rows),
                ),
                engine=folder_at(folder.uri).engine,
                storage=parts_storage(folder.uri),
            )
            first = self._preview(entry, schema) if preview is None else preview.rows
            with on_disk(folder.note):
                write_facts(folder.note, _facts(kept))
                write_preview(folder.note, first)
                folder.note.rename(self._folder(entry))
        return self._register(entry, place)

    def _output_writer(self, schema: TableSchema, place: TableTarget) -> TableWriter:
        return PartsTableWriter(self.new_folder, schema=schema, place=place, keep=self.finish)

    def _preview(self, entry: TableRecord, schema: TableSchema) -> tuple[tuple[str, ...], ...]:
        preview = Preview(schema)
        for batch in self.table_of(entry).head(PREVIEW_ROWS).to_batches():
            preview.look(batch)
        return preview.rows


class PartsTableWriter(StagedTable[StoredTable]):
    """Writes one new table; satisfies `fedflow.sdk.TableWriter`. There is no folder before rows."""

    def __init__(
        self,
        folder: Callable[[], NewFolder],
        *,
        schema: TableSchema,
        place: TableTarget,
        keep: Callable[..., StoredTable],
    ) -> None:
        super().__init__()
        self._new_folder = folder
        self._schema = schema
        self._place = place
        self._keep = keep
        self._folder: NewFolder | None = None
        self._part: PartWriter | None = None
        self._parts: list[WrittenPart] = []
        self._where = f"table {place.namespace}.{place.name}"
        self._check = RowCheck(schema, where=self._where)
        self._preview = Preview(schema)

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. Raises: BadData: as `LocalTableWriter`. DiskFull. ValueError: closed."""
        self._require_open()
        rows = self._check.checked(batch)
        with self._cleanly():
            self._open_part().write(rows.slice(0, 0))  # it learns the types, also of no rows
            for piece in rows.to_batches(max_chunksize=BATCH_ROWS):
                self._preview.look(piece)
                self._write(piece)

    def _write(self, piece: pa.RecordBatch) -> None:
        part = self._open_part()
        part.write(piece)
        if part.bytes >= PART_BYTES:
            self._parts.append(part.close())
            self._part = None

    def _finish(self) -> StoredTable:
        folder = self._folder_of_rows()
        if self._part is not None or not self._parts:
            self._parts.append(self._open_part().close())
            self._part = None
        return self._keep(folder, self._place, self._schema, self._parts, preview=self._preview)

    def _remove(self) -> None:
        if self._part is not None:
            self._part.discard()
        if self._folder is not None:
            self._folder.discard()

    def _folder_of_rows(self) -> NewFolder:
        if self._folder is None:
            self._folder = self._new_folder()
        return self._folder

    def _open_part(self) -> PartWriter:
        folder = self._folder_of_rows()
        if self._part is None:
            folder.keep()
            name = part_name(len(self._parts), folder.address)
            self._part = PartWriter(folder.uri, name, schema=self._schema, where=self._where)
        return self._part


def _check_types(parts: Sequence[WrittenPart], schema: TableSchema, *, where: str) -> None:
    check = RowCheck(schema, where=where)
    for part in parts:
        types = ipc.read_schema(pa.py_buffer(part.types))
        if check.types is None:
            check.types = types
        check.check_types(types)


def _facts(parts: Sequence[WrittenPart]) -> list[ColumnFacts]:
    together = parts[0].statistics
    for part in parts[1:]:
        together.merge(part.statistics)
    return together.facts()
