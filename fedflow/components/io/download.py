"""Download: writes a table as a CSV file of this machine."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from fedflow.components.io.engines import ExportsCsv
from fedflow.sdk import BadParameter, Context, NotSupportedYet, Outputs, Params, Table, component


class DownloadParams(Params, frozen=True, kw_only=True):
    """Parameters of Download."""

    namespace: str  #: of the table
    table_name: str | None = None  #: name of the table; this or `name` is required
    name: str | None = None  #: another word for table_name
    output_path: str  #: absolute path at this server; the download route has checked it
    delimiter: str = ","  #: one ASCII character between cells

    def check(self) -> None:
        """A name is needed, and the delimiter is one character."""
        if not (self.table_name or self.name):
            raise ValueError("table_name: it is required")
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n\0':
            raise ValueError("delimiter: it must be one ASCII character")


@component(
    "Download",
    roles=("local",),
    params=DownloadParams,
    data_ports=(),
    needs_input=False,
    outputs=(),
    repeatable=False,
)
class Download:
    """Writes a table as a CSV file, with a header line.

    Only the download route of the party's own server runs it (`/v1/data/download`), which checks
    the path first: a submitted DSL may not name this module. A file that is there is replaced when
    all rows are written. The summary and the metric `download` / `data_access` hold the number of
    rows.
    """

    def run(self, ctx: Context) -> Outputs:
        """Write the rows.

        Raises: TableNotFound. BadParameter: the path is not absolute, or leads elsewhere by a link.
        """
        params: DownloadParams = ctx.params
        engine = ctx.tables
        if not isinstance(engine, ExportsCsv):
            raise NotSupportedYet(what=f"download from tables of {type(engine).__name__}")
        path = Path(params.output_path)
        if not path.is_absolute() or path.parent.resolve() != path.parent or path.is_symlink():
            reason = "it is not an absolute path without links"
            raise BadParameter(path=f"{ctx.component}.output_path", reason=reason)
        table = ctx.tables.open(params.namespace, params.table_name or params.name or "")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        count = _write(engine, table, path, delimiter=params.delimiter)
        ctx.tracker.metric(
            "download", "data_access", metric_type="DOWNLOAD", points=[("count", count)]
        )
        ctx.tracker.progress(1.0)
        ctx.log.info("wrote %s rows", count)
        return Outputs(summary={"count": count})


def _write(engine: ExportsCsv, table: Table, path: Path, *, delimiter: str) -> int:
    """Write beside the place first, so that nobody sees half a file."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".download-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            count = engine.export_csv(table, file, head=True, delimiter=delimiter)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return count
