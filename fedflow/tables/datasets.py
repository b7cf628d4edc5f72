"""One table in Parquet parts, read by this process; made by `tables/parts_store.py` or on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from fedflow.base.errors.data import BadData
from fedflow.domain.data.table_parts import parts_uri
from fedflow.domain.records import TableRecord
from fedflow.sdk.arguments import check_names
from fedflow.tables.catalog import where_is
from fedflow.tables.parts import Manifest, PartFile, TablePart, read_manifest
from fedflow.tables.spool import BatchSpool
from fedflow.tables.stored_table import OutputTables, StoredTable, cut


class DatasetTable(StoredTable):
    """A folder of parts; satisfies `fedflow.sdk.Table`.

    Parts are unpacked, not mapped. What `read` returns is held in memory; what is longer than
    `spool.SPOOL_BYTES` goes to a file in `scratch` that is mapped, and is gone with what was read.
    """

    def __init__(
        self,
        entry: TableRecord,
        *,
        store: OutputTables,
        scratch: Path | None = None,
        cores: int = 1,
    ) -> None:
        """`scratch` is a folder of this machine; None: all stays in memory.

        Raises: BadData: the entry names no folder of parts.
        """
        super().__init__(entry, store=store, cores=cores)
        self._scratch = scratch
        uri = parts_uri(entry.storage)
        if uri is None:
            raise BadData(where=where_is(entry), reason="it has no folder of parts")
        self.uri = uri

    @cached_property
    def manifest(self) -> Manifest:
        """Return the checked manifest. Raises: BadData, StorageMissing, StorageUnreachable."""
        found = read_manifest(self.uri, where=where_is(self.entry))
        if found.schema != self.schema:
            raise BadData(where=where_is(self.entry), reason="its folder is another table's")
        if found.rows != self.count:
            reason = f"its parts have {found.rows} rows, not {self.count}"
            raise BadData(where=where_is(self.entry), reason=reason)
        return found

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in stored order. Raises: BadData: a part is damaged or another table's."""
        return self._batches(None)

    def window(self, offset: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `offset` on, at most `rows`; batches before them are not read.

        Raises: BadData: a part is damaged.
        """
        return cut(*self._from(offset), rows)

    def _from(self, offset: int) -> tuple[Iterator[pa.RecordBatch], int]:
        """Return the batches from the one that holds row `offset`, and its place in that one."""
        wanted: list[tuple[TablePart, int]] = []
        before = 0
        for part in self.manifest.parts:
            for number, count in enumerate(part.batches):
                if not wanted and before + count <= offset:
                    before += count
                elif count:
                    wanted.append((part, number))
        return self._some(wanted), offset - before

    def _some(self, wanted: list[tuple[TablePart, int]]) -> Iterator[pa.RecordBatch]:
        for part, number in wanted:
            with self._open(part) as file:
                yield file.batch(number, None)

    def _batches(self, columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
        for part in self.manifest.parts:
            with self._open(part) as file:
                for number, rows in enumerate(part.batches):
                    if rows:
                        yield file.batch(number, columns)

    def read(self, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the rows, or some columns of them; others are not read.

        Raises: BadData: a part is damaged, or a column is not in the table. DiskFull.
        """
        if columns is not None:
            check_names(columns, "read(columns)")
        self._check_known(columns or ())
        none = self.head(0)
        none = none if columns is None else none.select(list(columns))
        if columns == ():
            return none
        spool = BatchSpool(none.schema, self._scratch)
        try:
            for batch in self._batches(columns):
                if batch.schema != none.schema:
                    raise BadData(where=where_is(self.entry), reason="its parts do not match")
                spool.add(batch)
            return spool.rows()
        finally:
            spool.close()

    def head(self, rows: int) -> pa.Table:
        """Return the first `rows` rows. Raises: BadData: a part is damaged."""
        tables: list[pa.Table] = []
        missing = rows
        for part in self.manifest.parts:
            with self._open(part) as file:
                tables.append(file.head(0, batch=0))
                for number in range(len(part.batches)):
                    if missing <= 0:
                        break
                    tables.append(file.head(missing, batch=number))
                    missing -= tables[-1].num_rows
            if missing <= 0:
                break
        return self._joined(tables)

    def _open(self, part: TablePart) -> PartFile:
        where = where_is(self.entry)
        return PartFile(self.uri, part, schema=self.schema, where=where, threads=self._cores > 1)

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        try:
            return pa.concat_tables(tables)
        except pa.ArrowInvalid as exc:
            raise BadData(where=where_is(self.entry), reason="its parts do not match") from exc
