"""Reader: brings an uploaded table of the own party into the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from fedflow.components.io.engines import OpensOutputs, ReadsBound
from fedflow.components.samples.columns import anonymous_header, anonymous_label
from fedflow.sdk import (
    BadParameter,
    Context,
    NotSupportedYet,
    Outputs,
    Params,
    Role,
    Site,
    Table,
    component,
)

SAMPLE_ROWS = 100  #: rows looked at for the sample values of a column
SAMPLES = 5  #: distinct values shown per column
LOGGED_ROWS = 1_000_000  #: rows of another storage between two lines of the log


class ReaderTable(Params, frozen=True, kw_only=True):
    """Which table: by namespace and name, or as an output of an earlier job of this party."""

    namespace: str | int | None = None  #: as it was given to the upload
    name: str | int | None = None  #: as it was given to the upload
    job_id: str | None = None  #: of an earlier job, instead of the names
    component_name: str | None = None  #: its component
    data_name: str | None = None  #: the component's output, such as `data`

    def check(self) -> None:
        """Both namespace and name, or all that names an output."""
        if self.job_id is None:
            if self.namespace is None or self.name is None:
                raise ValueError("table: namespace and name are required")
        elif not (self.component_name and self.data_name):
            raise ValueError("table: job_id needs component_name and data_name")


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


@runtime_checkable
class UploadedTable(Protocol):
    """A table that keeps what its upload said of the columns, in the words of FATE's schema."""

    @property
    def said(self) -> Mapping[str, Any]: ...


@component(
    "Reader",
    roles=("guest", "host", "arbiter"),
    params=ReaderParams,
    data_ports=(),
    needs_input=False,
    absence="apart",
)
class Reader:
    """Brings an uploaded table into the job.

    Each party names a table of its own, in `component_parameters.role.<role>.<index>`, or an output
    of an earlier job at this party. Whether it exists is checked when the job is created. The
    output is that table itself, and nothing is copied. Only the rows of a bound table
    (`table/bind`) are read once, from their file, data set or database, into a table of the job.
    Its columns must be those that were bound. The metric `reader_namespace` / `reader_name`
    (storage engine, row count, sample values of each column, anonymous names as far as they are
    known) stays at the party.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return the named table itself as the output; an arbiter without a table has none.

        Raises: BadParameter: no table is named. TableNotFound: this party has no such table. Of a
        bound table: BoundTableChanged, StorageMissing, StorageRefused, StorageUnreachable, BadData,
        DiskFull.
        """
        params: ReaderParams = ctx.params
        named = params.table
        if named is None:
            if ctx.site.role is Role.ARBITER:
                return Outputs(data=(None,))
            raise BadParameter(path=f"{ctx.component}.table", reason=f"{ctx.site} names no table")
        table = _open(ctx, named)
        shown = _data_info(table, ctx.site)
        if named.job_id is None:
            names = {"table_name": str(named.name), "namespace": str(named.namespace)}
            shown = {**shown, **names, "storage_engine": _engine(ctx, named)}
        ctx.tracker.metric("reader_namespace", "reader_name", metric_type="data_info", meta=shown)
        ctx.tracker.progress(1.0)
        return Outputs(data=(table,))


def _open(ctx: Context, named: ReaderTable) -> Table:
    if named.job_id is None:
        namespace, name = str(named.namespace), str(named.name)
        if isinstance(ctx.tables, ReadsBound):
            return ctx.tables.open_watched(namespace, name, _watch(ctx))
        return ctx.tables.open(namespace, name)
    if not isinstance(ctx.tables, OpensOutputs):
        raise NotSupportedYet(what=f"an earlier job's output in {type(ctx.tables).__name__}")
    component, data_name = str(named.component_name), str(named.data_name)
    return ctx.tables.open_output(named.job_id, component, data_name)


def _watch(ctx: Context) -> Callable[[int, float | None], None]:
    """Return what tells people how far the reading of a bound table is."""
    logged = 0

    def watch(rows: int, done: float | None) -> None:
        nonlocal logged
        if done is not None:
            ctx.tracker.progress(done)
        if rows // LOGGED_ROWS > logged // LOGGED_ROWS:
            ctx.log.info("read %s rows", rows)
            logged = rows

    return watch


def _engine(ctx: Context, named: ReaderTable) -> str:
    if not isinstance(ctx.tables, ReadsBound):
        return "STANDALONE"
    return ctx.tables.engine_of(str(named.namespace), str(named.name))


def _data_info(table: Table, site: Site) -> dict[str, Any]:
    """Return what the board shows of a table; it stays at this party."""
    return {
        "table_name": table.name,
        "namespace": table.namespace,
        "table_info": _samples(table),
        "anonymous_info": _anonymous(table, site),
        "attribute_info": {},
        "partitions": table.partitions if isinstance(table, Partitioned) else 1,
        "storage_engine": "STANDALONE",
        "count": table.count,
    }


def _anonymous(table: Table, site: Site) -> dict[str, str]:
    """Return by which names other parties will know the columns, as far as that is known already:
    DataTransform tells features from labels, unless the upload's `meta` did.
    """
    schema = table.schema
    if schema.anonymous:
        return {c: a for c, a in zip(schema.columns, schema.anonymous, strict=True) if a}
    said = table.said if isinstance(table, UploadedTable) else {}
    header, label = said.get("header"), said.get("label_name")
    if not isinstance(header, list) or not header:
        return {}
    known = dict(zip(map(str, header), anonymous_header(site, header), strict=True))
    return {**known, str(label): anonymous_label(site)} if label else known


def _samples(table: Table) -> dict[str, str]:
    """Return for each column but the id its first distinct values, joined by commas."""
    rows = table.head(SAMPLE_ROWS)
    return {
        name: ",".join(str(v) for v in rows.column(name).unique().to_pylist()[:SAMPLES])
        for name in table.schema.names[1:]
    }
