"""One table of this machine: an Arrow file that readers map into memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from fedflow.base.errors.data import BadData
from fedflow.domain.records import TableRecord
from fedflow.sdk.arguments import check_names
from fedflow.tables.catalog import where_is
from fedflow.tables.stored_table import OutputTables, StoredTable
from fedflow.tables.writer import META, ROWS_FILE, mapped, read_schema


class LocalTable(StoredTable):
    """One table; satisfies `fedflow.sdk.Table`."""

    def __init__(
        self, entry: TableRecord, *, folder: Path, store: OutputTables, cores: int = 1
    ) -> None:
        super().__init__(entry, store=store, cores=cores)
        self._path = folder / ROWS_FILE

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
        if columns is not None:
            check_names(columns, "read(columns)")
        self._check_known(columns or ())
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
