"""What the components of this package need of a table engine beyond `fedflow.sdk.TableStore`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

from fedflow.sdk import Table, TableSchema


@runtime_checkable
class ImportsCsv(Protocol):
    """A table engine that makes tables of files."""

    def import_csv(
        self,
        source: Path,
        *,
        namespace: str,
        name: str,
        head: bool,
        partitions: int,
        id_delimiter: str,
        extend_sid: bool,
        auto_increasing_sid: bool,
        drop: bool,
        names: tuple[str, ...] | None,
        whole: bool,
        describe: Callable[[TableSchema], dict[str, Any] | None] | None,
        progress: Callable[[float], None] | None,
        doubt: Callable[[str], None] | None,
    ) -> Table:
        """Return the new table. Raises: BadData, TableExists, BadTableName, DiskFull."""


@runtime_checkable
class ExportsCsv(Protocol):
    """A table engine that writes tables as CSV."""

    def export_csv(self, table: Table, target: IO[bytes], *, head: bool, delimiter: str) -> int:
        """Write all rows and return how many."""


@runtime_checkable
class CopiesTables(Protocol):
    """A table engine that gives the rows of a table a second name."""

    def copy(self, table: Table, *, namespace: str, name: str, drop: bool) -> Table:
        """Return the new table. Raises: TableExists, BadTableName, DiskFull."""


@runtime_checkable
class WritesElsewhere(Protocol):
    """A table engine that writes rows to other storages."""

    def write_elsewhere(self, table: Table, watch: Callable[[float], None]) -> int:
        """Write all rows, or nothing, to the place that the server names; return how many.

        Raises: TableExists: something is there. StorageMissing, StorageRefused,
        StorageUnreachable, DiskFull. BadData: they do not fit there. NotSupportedYet.
        """


@runtime_checkable
class OpensOutputs(Protocol):
    """A table engine that knows what earlier jobs produced."""

    def open_output(self, job_id: str, component: str, data_name: str) -> Table:
        """Return an output of an earlier job of this party. Raises: TableNotFound."""


@runtime_checkable
class ReadsBound(Protocol):
    """A table engine that knows tables whose rows somebody else keeps, and reads them."""

    def open_watched(
        self, namespace: str, name: str, watch: Callable[[int, float | None], None]
    ) -> Table:
        """Return a table as `open` does; `watch` is called while rows of a bound one are read: how
        many, and their share of all, 0 to 1, None where that is not known.
        """

    def engine_of(self, namespace: str, name: str) -> str:
        """Return where the rows of a table lie, in FATE's words; of an unknown one STANDALONE."""
