"""Upload: makes a table of a CSV file that the server has put in place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec

from fedflow.sdk import BadParameter, Context, NotSupportedYet, Outputs, Params, Table, component

Switch = bool | Annotated[int, msgspec.Meta(ge=0)]  #: FATE's clients send 0 and 1, old ones 2


class UploadParams(Params, frozen=True, kw_only=True):
    """Parameters of Upload; reference/components.md section 4.2."""

    file: str  #: absolute path at this server; the upload route fills it in
    namespace: str  #: of the table
    table_name: str | None = None  #: name of the table; this or `name` is required
    name: str | None = None  #: another word for table_name
    head: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1  #: 1: the first line names the columns
    partition: Annotated[int, msgspec.Meta(ge=1, le=1023)] = 1  #: kept with the table, for FATE
    id_delimiter: str = ","  #: one ASCII character between cells
    delete_file: bool = False  #: delete the file afterwards; the upload route fills it in
    drop: Switch = 0  #: 1: replace an existing table (2 is an old client's word for no)
    destroy: bool = False  #: another word for drop
    extend_sid: Switch = 0  #: make unique ids of a random prefix and the row's index
    auto_increasing_sid: Switch = 0  #: make ids of the row's index alone
    storage_engine: str | None = None  #: without effect: tables are local files
    storage_address: dict[str, Any] | None = None  #: a value is not supported yet
    schema: dict[str, Any] | None = None  #: a value is not supported yet
    with_meta: bool = False  #: true is not supported yet
    meta: dict[str, Any] | None = None  #: without effect

    def check(self) -> None:
        """A name is needed, and the delimiter is one character."""
        if not (self.table_name or self.name):
            raise ValueError("table_name: it is required")
        if len(self.id_delimiter) != 1 or not self.id_delimiter.isascii():
            raise ValueError("id_delimiter: it must be one ASCII character")


@runtime_checkable
class ImportsCsv(Protocol):
    """A table engine that makes tables of CSV files."""

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
        progress: Callable[[float], None] | None,
    ) -> Table:
        """Return the new table. Raises: BadData, TableExists, BadTableName, DiskFull."""


@component(
    "Upload", roles=("local",), params=UploadParams, data_ports=(), needs_input=False, outputs=()
)
class Upload:
    """Makes a table of a CSV file.

    Only the upload route of the party's own server runs it (`fedflow data upload`,
    `/v1/data/upload`), which checks the file first: a submitted DSL may not name this module.

    The file is UTF-8 text, one row per line; the first column is the sample id, which no two rows
    may share. Cells stay text until DataTransform. A mistake is told with its row, never with the
    cell, and nothing of the file is kept. The summary and the metric `upload` / `data_access` hold
    the number of rows.

    Not yet: `with_meta`, an own schema, other storage than this server's folder.
    """

    def run(self, ctx: Context) -> Outputs:
        """Import the file under its name and record the number of rows.

        Raises: BadData: the file is wrong, with its row; nothing of it is kept. TableExists.
        """
        params: UploadParams = ctx.params
        _refuse_unsupported(params)
        engine = ctx.tables
        if not isinstance(engine, ImportsCsv):
            raise NotSupportedYet(what=f"upload to tables of {type(engine).__name__}")
        source = Path(params.file)
        if not source.is_absolute():
            raise BadParameter(path=f"{ctx.component}.file", reason="it is not an absolute path")
        try:
            table = _import(engine, source, params, progress=ctx.tracker.progress)
        finally:
            if params.delete_file:
                source.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    source.parent.rmdir()  # made for this file alone
        ctx.tracker.metric(
            "upload", "data_access", metric_type="UPLOAD", points=[("count", table.count)]
        )
        ctx.log.info("uploaded %s rows", table.count)
        return Outputs(summary={"count": table.count})


def _import(
    engine: ImportsCsv, source: Path, params: UploadParams, *, progress: Callable[[float], None]
) -> Table:
    return engine.import_csv(
        source,
        namespace=params.namespace,
        name=params.table_name or params.name or "",
        head=params.head == 1,
        partitions=params.partition,
        id_delimiter=params.id_delimiter,
        extend_sid=bool(params.extend_sid),
        auto_increasing_sid=bool(params.auto_increasing_sid),
        drop=params.destroy or params.drop == 1,
        progress=progress,
    )


def _refuse_unsupported(params: UploadParams) -> None:
    if params.with_meta:
        raise NotSupportedYet(what="upload with_meta")
    if params.schema:
        raise NotSupportedYet(what="upload with an own schema")
    if params.storage_address:
        raise NotSupportedYet(what="upload to a storage_address")
