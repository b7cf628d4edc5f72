"""Reader: brings an uploaded table of the own party into the job."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from fedflow.sdk import (
    BadParameter,
    Context,
    NotSupportedYet,
    Outputs,
    Params,
    Role,
    Table,
    component,
)

SAMPLE_ROWS = 100  #: rows looked at for the sample values of a column
SAMPLES = 5  #: distinct values shown per column


class ReaderTable(Params, frozen=True, kw_only=True):
    """Which table: by namespace and name, or as an output of an earlier job of this party."""

    namespace: str | int | None = None  #: as it was given to the upload
    name: str | int | None = None  #: as it was given to the upload
    job_id: str | None = None  #: a value is not supported yet
    component_name: str | None = None  #: without effect
    data_name: str | None = None  #: without effect

    def check(self) -> None:
        """Both namespace and name, or a job."""
        if self.job_id is None and (self.namespace is None or self.name is None):
            raise ValueError("table: namespace and name are required")


class ReaderParams(Params, frozen=True, kw_only=True):
    """Parameters of Reader."""

    #: table below; every party but the arbiter needs one
    table: ReaderTable | None = None

    def check(self) -> None:
        """The table's own rules."""
        if self.table is not None:
            self.table.check()


@runtime_checkable
class Partitioned(Protocol):
    """A table that knows how many partitions its upload asked for."""

    @property
    def partitions(self) -> int: ...


@component(
    "Reader",
    roles=("guest", "host", "arbiter"),
    params=ReaderParams,
    data_ports=(),
    needs_input=False,
)
class Reader:
    """Brings an uploaded table into the job.

    Each party names a table of its own, in `component_parameters.role.<role>.<index>`; whether
    it exists is checked when the job is created. The output is that table itself, nothing is
    copied. The metric `reader_namespace` / `reader_name` (row count, sample values of each column)
    stays at the party.

    Not yet: a table named by the job that made it.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return the named table itself as the output; an arbiter without a table has none.

        Raises: BadParameter: no table is named. TableNotFound: this party has no such table.
        """
        params: ReaderParams = ctx.params
        named = params.table
        if named is None:
            if ctx.site.role is Role.ARBITER:
                return Outputs(data=(None,))
            raise BadParameter(path=f"{ctx.component}.table", reason=f"{ctx.site} names no table")
        if named.job_id is not None:
            raise NotSupportedYet(what="Reader's table by job_id")
        table = ctx.tables.open(str(named.namespace), str(named.name))
        ctx.tracker.metric(
            "reader_namespace", "reader_name", metric_type="data_info", meta=_data_info(table)
        )
        ctx.tracker.progress(1.0)
        return Outputs(data=(table,))


def _data_info(table: Table) -> dict[str, Any]:
    """Return what the board shows of a table; it stays at this party."""
    return {
        "table_name": table.name,
        "namespace": table.namespace,
        "table_info": _samples(table),
        "anonymous_info": {},  # known from DataTransform on, which tells features from labels
        "attribute_info": {},
        "partitions": table.partitions if isinstance(table, Partitioned) else 1,
        "storage_engine": "STANDALONE",
        "count": table.count,
    }


def _samples(table: Table) -> dict[str, str]:
    """Return for each column but the id its first distinct values, joined by commas."""
    rows = table.head(SAMPLE_ROWS)
    return {
        name: ",".join(str(v) for v in rows.column(name).unique().to_pylist()[:SAMPLES])
        for name in table.schema.names[1:]
    }
