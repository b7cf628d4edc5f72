"""The tables of a task that computes on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fedflow.domain.data.table_parts import local_path
from fedflow.domain.records import TableRecord
from fedflow.spark.tables.hive import read_hive
from fedflow.spark.tables.jobs import Cluster
from fedflow.spark.tables.table import SparkTable, seen
from fedflow.tables.catalog import TableCatalog, schema_of, where_is
from fedflow.tables.local import Watch
from fedflow.tables.parts_store import PartsTableStore
from fedflow.tables.storages.bound import bound_options
from fedflow.tables.stored_table import StoredTable

HIVE: Final = "HIVE"  #: the engine of tables that Spark finds by its own session


class SparkTableStore(PartsTableStore):
    """A `PartsTableStore` whose tables let Spark's workers do their block work.

    Files that are uploaded, imported or bound become tables of this machine, of Arrow, written by
    the task itself; Spark's workers map them if `tables_uri` holds the table root, else they are
    copied into parts first, when Spark first needs them. `copy` makes tables of this machine too.
    """

    def __init__(
        self,
        root: Path,
        *,
        cluster: Cluster,
        tables_uri: str,
        catalog: TableCatalog,
        output_namespace: str,
        party_id: str = "0",
        cores: int = 1,
    ) -> None:
        super().__init__(
            root,
            tables_uri=tables_uri,
            catalog=catalog,
            output_namespace=output_namespace,
            party_id=party_id,
            cores=cores,
        )
        self.cluster = cluster
        shared = local_path(tables_uri)
        #: Spark's workers reach the files of this machine's tables
        self.root_is_shared = shared is not None and root.resolve().is_relative_to(
            Path(shared).resolve()
        )

    def table_of(self, entry: TableRecord) -> StoredTable:
        """Return the table of a catalog entry. Raises: BadData: its address is wrong."""
        return SparkTable(entry, rows=super().table_of(entry), store=self, cores=self._cores)

    def copy_bound(self, entry: TableRecord, *, watch: Watch | None = None) -> StoredTable:
        """Return a new output table with the rows of a bound table.

        Spark's workers read those of Hive; all others stream through this process.
        Raises: as `LocalTableStore.copy_bound`, and `read_hive`.
        """
        if entry.engine != HIVE:
            return super().copy_bound(entry, watch=watch)
        place, schema = self._place_of_bound(entry), schema_of(entry)
        connection = self._connection(entry)
        folder = self.new_folder()
        with folder.cleanly():
            parts = read_hive(
                self.cluster,
                connection,
                bound_options(entry),
                bound=schema,
                uri=folder.uri,
                where=where_is(entry),
            )
            seen(folder.uri, parts)
        table = self.finish(folder, place, schema, parts)
        if watch is not None:
            watch(table.count, 1.0)
        return table

    def folder_of(self, entry: TableRecord) -> Path:
        """Return the folder of a table of this machine. Raises: BadData: its address is wrong."""
        return self._folder(entry)
