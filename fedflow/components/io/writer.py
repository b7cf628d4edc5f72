"""Writer: gives the rows of a table a second name, or a second place in another storage."""

from __future__ import annotations

from typing import Any

from fedflow.components.io.engines import CopiesTables, WritesElsewhere
from fedflow.sdk import Context, NotSupportedYet, Outputs, Params, component


class WriterParams(Params, frozen=True, kw_only=True):
    """Parameters of Writer."""

    namespace: str  #: of the table that is read
    table_name: str | None = None  #: its name; this or `name` is required
    name: str | None = None  #: another word for table_name
    output_namespace: str | None = None  #: of the new table
    output_name: str | None = None  #: name of the new table
    drop: int = 0  #: 1: replace an existing table
    storage_engine: str | None = None  #: instead of a new name: MYSQL, LOCALFS, S3 or HDFS
    address: dict[str, Any] | None = None  #: where in that storage; without credentials

    def check(self) -> None:
        """Names are needed on both sides."""
        if not (self.table_name or self.name):
            raise ValueError("table_name: it is required")
        if self.output_name is None and (not self.storage_engine or self.address is None):
            raise ValueError("output_name: it is required, or storage_engine and address are")
        if self.output_name is not None and self.output_namespace is None:
            raise ValueError("output_namespace: it is required")


@component(
    "Writer",
    roles=("local",),
    params=WriterParams,
    data_ports=(),
    needs_input=False,
    outputs=("data",),
    repeatable=False,
)
class Writer:
    """Makes a table with the rows of another one.

    Only the writer route of the party's own server runs it (`/v1/data/writer`): a submitted DSL may
    not name this module. The new table does not go with the old one. Rows are not copied where the
    file system can give a file two names. The summary and the metric `writer` / `data_access` hold
    the number of rows.

    With a storage engine instead of a name the rows are written there. That is a new table of MySQL
    or MariaDB, or a new folder on this machine, in a bucket or on HDFS. Files are Parquet, CSV or
    Arrow. All rows come there or none; what is there already is never replaced. The server's
    administrator allows it (`storage.may_write`) and says where; credentials stand in a connector.
    """

    def run(self, ctx: Context) -> Outputs:
        """Make the table.

        Raises: TableNotFound, TableExists; for another storage, what `WritesElsewhere` says.
        """
        params: WriterParams = ctx.params
        source = params.namespace, params.table_name or params.name or ""
        if params.output_name is None:
            return _write_elsewhere(ctx, *source)
        engine = ctx.tables
        if not isinstance(engine, CopiesTables):
            raise NotSupportedYet(what=f"writing tables of {type(engine).__name__}")
        made = engine.copy(
            ctx.tables.open(*source),
            namespace=params.output_namespace or "",
            name=params.output_name,
            drop=params.drop == 1,
        )
        _tell(ctx, made.count)
        return Outputs(data=(made,), summary={"count": made.count})


def _write_elsewhere(ctx: Context, namespace: str, name: str) -> Outputs:
    if not isinstance(ctx.tables, WritesElsewhere):
        raise NotSupportedYet(what=f"writing tables of {type(ctx.tables).__name__} elsewhere")
    table = ctx.tables.open(namespace, name)
    count = ctx.tables.write_elsewhere(table, ctx.tracker.progress)
    _tell(ctx, count)
    ctx.log.info("wrote %s rows to %s", count, ctx.params.storage_engine)
    return Outputs(summary={"count": count, "storage_engine": ctx.params.storage_engine})


def _tell(ctx: Context, count: int) -> None:
    ctx.tracker.metric("writer", "data_access", metric_type="WRITER", points=[("count", count)])
    ctx.tracker.progress(1.0)
