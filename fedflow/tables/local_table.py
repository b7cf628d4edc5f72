"""One table of this machine: an Arrow file that readers map into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import ipc

from fedflow.base.errors import BadData
from fedflow.sdk.table import Table, TableSchema, TableWriter
from fedflow.tables.catalog import TableEntry
from fedflow.tables.writer import META, ROWS_FILE, mapped, read_schema


class Outputs(Protocol):
    """Makes tables of the rows of others."""

    def create_like(
        self, entry: TableEntry, schema: TableSchema, *, name: str | None = None
    ) -> TableWriter:
        """Return a writer for a new output table; see `LocalTableStore`."""


class LocalTable:
    """One table; satisfies `fedflow.sdk.Table`."""

    def __init__(self, entry: TableEntry, *, folder: Path, store: Outputs) -> None:
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
    def said(self) -> Mapping[str, Any]:
        """Return what the upload said, as members of FATE's schema; empty if nothing."""
        return self.entry.extra or {}

    @property
    def id_delimiter(self) -> str:
        """Return what stood between the cells of the uploaded file."""
        return self.entry.id_delimiter

    @property
    def is_named(self) -> bool:
        """Tell whether the uploaded file, or who uploaded it, named the columns."""
        return self.entry.have_head or bool((self.entry.extra or {}).get("header"))

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
        """Return the rows, mapped from disk: columns that nobody looks at cost nothing.

        Raises: BadData: the file is damaged, or a column is not in the table.
        """
        unknown = sorted(set(columns or ()) - set(self.schema.names))
        if unknown:
            raise BadData(where=where_is(self.entry), reason=f"it has no columns {unknown}")
        with self._guard(), mapped(self._path) as file:
            # Arrow's own choice of columns (`included_fields`) copies all of them into memory.
            rows = self._reader(file).read_all()
            self._check_count(rows.num_rows)
            rows = rows if columns is None else rows.select(list(columns))
            rows.validate()
            return rows.replace_schema_metadata(None)

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

        For a table without rows it is applied to one empty batch, to learn the column types. Raw
        rows of raw rows keep what the upload said of them.
        """
        batches = self.to_batches() if self.count else iter([_empty_batch(self.head(0).schema)])
        with self._store.create_like(self.entry, schema, name=name) as writer:
            for batch in batches:
                writer.write(function(batch))
            return writer.close()

    def _reader(self, file: Any) -> Any:
        reader = ipc.open_file(file)
        said = read_schema((reader.schema.metadata or {}).get(META, b""))
        if said != self.schema or tuple(reader.schema.names) != self.schema.names:
            raise BadData(where=where_is(self.entry), reason="its file is another table's")
        return reader

    def _check_count(self, rows: int) -> None:
        if rows != self.count:
            reason = f"its file has {rows} rows, not {self.count}"
            raise BadData(where=where_is(self.entry), reason=reason)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn what Arrow says of a bad file into BadData."""
        try:
            yield
        except FileNotFoundError as exc:
            raise BadData(where=where_is(self.entry), reason="its file is missing") from exc
        except MemoryError:  # Arrow's is an ArrowException too
            raise
        except (pa.ArrowException, ValueError, OSError) as exc:
            raise BadData(where=where_is(self.entry), reason="its file is damaged") from exc


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def where_is(entry: TableEntry) -> str:
    return f"table {entry.namespace}.{entry.name}"
