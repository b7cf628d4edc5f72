"""Upload: makes a table of a file that the server has put in place."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from fedflow.components.io.engines import ImportsCsv
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    NotSupportedYet,
    Outputs,
    Params,
    Table,
    TableSchema,
    component,
)
from fedflow.sdk.uploads import UploadMeta, given_names, schema_members

_HEAD_BYTES: Final = 65_536  #: of the first line
_OTHER_DELIMITERS: Final = {";": "';'", "\t": "a tab", "|": "'|'", ",": "','"}
_IN_SHELL: Final = {";": "';'", "\t": "$'\\t'", "|": "'|'", ",": ","}

Switch = bool | Annotated[int, msgspec.Meta(ge=0)]  #: FATE's clients send 0 and 1, old ones 2


class UploadParams(Params, frozen=True, kw_only=True):
    """Parameters of Upload; docs/reference/data-formats.md#upload."""

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
    storage_engine: str | None = None  #: without effect: the route refuses other storages
    storage_address: dict[str, Any] | None = None  #: without effect: of another storage
    #: names of the columns of a file without a head: `sid`, and `header` (a list, or a text)
    schema: dict[str, Any] | None = None
    with_meta: Switch = 0  #: 1: `meta` has what parameters of DataTransform say otherwise
    meta: UploadMeta | None = None  #: what the columns mean

    def check(self) -> None:
        """A name is needed, and the delimiter is one character."""
        if not (self.table_name or self.name):
            raise ValueError("table_name: it is required")
        if len(self.id_delimiter) != 1 or not self.id_delimiter.isascii():
            raise ValueError("id_delimiter: it must be one ASCII character")
        if self.meta is not None:
            self.meta.check()
        if self.schema and self.head:
            raise ValueError("schema: the file names its columns itself; send head 0 (`--no-head`)")


@component(
    "Upload",
    roles=("local",),
    params=UploadParams,
    data_ports=(),
    needs_input=False,
    outputs=("data",),
    repeatable=False,
)
class Upload:
    """Makes a table of a file.

    Only the upload route of the party's own server runs it (`fedflow data upload`,
    `/v1/data/upload`), which checks the file first. A submitted DSL may not name this module.

    The file is UTF-8 text, one row per line, or Parquet or Arrow (IPC, also a stream). These give
    the same table as the CSV file of their rows. The first column is the sample id, which no two
    rows may share. Cells stay text until DataTransform. Rows of a text without a head may differ in
    length: each is kept as its id and one text then, which DataTransform parts (`delimitor`). A
    mistake is reported with its row, never with the cell, and nothing is stored. The summary and
    the metric `upload` / `data_access` hold the number of rows.

    With `head` 1 the first line is the header, whatever it holds, as at FATE. Names that it repeats
    get a number (`x_2`), empty ones that of their column (`column_3`), with a warning.

    With `with_meta` the table keeps `meta`, and DataTransform goes by it instead of by its own
    parameters of the same meaning. Rows whose ids are made have their old id as match id then.

    A first line without the delimiter, but with another usual one (`;`, a tab, `|`), is a warning.

    Not yet: other storage than this server's.
    """

    def run(self, ctx: Context) -> Outputs:
        """Import the file under its name and record the number of rows.

        Raises: BadData: the file is wrong, with its row; nothing of it is kept. TableExists.
        """
        params: UploadParams = ctx.params
        source = Path(params.file)
        if not source.is_absolute():
            raise BadParameter(path=f"{ctx.component}.file", reason="it is not an absolute path")
        try:
            _look_at_delimiter(ctx, source, params.id_delimiter)
            table = _import(ctx, source, params)
        finally:
            if params.delete_file:
                source.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    source.parent.rmdir()  # made for this file alone
        ctx.tracker.metric(
            "upload", "data_access", metric_type="UPLOAD", points=[("count", table.count)]
        )
        ctx.log.info("uploaded %s rows, %s columns", table.count, len(table.schema.columns))
        return Outputs(data=(table,), summary={"count": table.count})


def _look_at_delimiter(ctx: Context, source: Path, delimiter: str) -> None:
    """Warn if the first line has another delimiter than the one that was named, and not that one.

    Raises: RefusedAsStrict.
    """
    try:
        with source.open("rb") as file:
            line = file.readline(_HEAD_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):  # the import says what is wrong with it, if anything is
        return
    others = [text for text in _OTHER_DELIMITERS if text in line and text != delimiter]
    if delimiter in line or "\0" in line or not others:
        return
    found, shown = max(others, key=line.count), _OTHER_DELIMITERS
    ctx.warn(
        "OtherDelimiter",
        f"the first line has no {shown.get(delimiter, repr(delimiter))} but {shown[found]}: "
        "each row is taken as one cell",
        hint=f"Upload it with `--id-delimiter {_IN_SHELL[found]}`, in a conf `id_delimiter`.",
        path="id_delimiter",
    )


def _import(ctx: Context, source: Path, params: UploadParams) -> Table:
    engine = ctx.tables
    if not isinstance(engine, ImportsCsv):
        raise NotSupportedYet(what=f"upload to tables of {type(engine).__name__}")
    if not params.delete_file and source.resolve() != source:
        # the route gave the place that it had checked: somebody has put a link there since
        raise BadData(where=f"file {source.name}", reason="it is a link")
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
        names=given_names(params.schema, delimiter=params.id_delimiter),
        whole=bool(params.with_meta) and params.meta is not None and not params.meta.is_dense,
        describe=lambda schema: _extra(params, schema),
        progress=ctx.tracker.progress,
        doubt=lambda sentence: ctx.warn(
            "DoubtfulHead",
            f"the first line names the columns (head 1), but {sentence}",
            hint="If the file has no header line, send head 0 (`--no-head`).",
            path="head",
        ),
    )


def _extra(params: UploadParams, schema: TableSchema) -> dict[str, Any] | None:
    """Return what the table keeps of FATE's schema beyond its column names."""
    if params.with_meta:
        made = bool(params.extend_sid or params.auto_increasing_sid)
        meta = params.meta or UploadMeta()
        return schema_members(meta, key=schema.id, columns=schema.columns, makes_ids=made)
    if params.schema:
        return {"header": list(schema.columns), "sid": schema.id}
    return None
