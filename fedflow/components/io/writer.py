"""Writer: gives the rows of a table a second name."""

from __future__ import annotations

from fedflow.components.io.engines import CopiesTables
from fedflow.sdk import Context, NotSupportedYet, Outputs, Params, component


class WriterParams(Params, frozen=True, kw_only=True):
    """Parameters of Writer."""

    namespace: str  #: of the table that is read
    table_name: str | None = None  #: its name; this or `name` is required
    name: str | None = None  #: another word for table_name
    output_namespace: str  #: of the new table
    output_name: str  #: name of the new table
    drop: int = 0  #: 1: replace an existing table

    def check(self) -> None:
        """Names are needed on both sides."""
        if not (self.table_name or self.name):
            raise ValueError("table_name: it is required")


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

    Not yet: writing to another storage, such as MySQL or Hive.
    """

    def run(self, ctx: Context) -> Outputs:
        """Make the table.

        Raises: TableNotFound, TableExists.
        """
        params: WriterParams = ctx.params
        engine = ctx.tables
        if not isinstance(engine, CopiesTables):
            raise NotSupportedYet(what=f"writing tables of {type(engine).__name__}")
        made = engine.copy(
            ctx.tables.open(params.namespace, params.table_name or params.name or ""),
            namespace=params.output_namespace,
            name=params.output_name,
            drop=params.drop == 1,
        )
        ctx.tracker.metric(
            "writer", "data_access", metric_type="WRITER", points=[("count", made.count)]
        )
        ctx.tracker.progress(1.0)
        return Outputs(data=(made,), summary={"count": made.count})
