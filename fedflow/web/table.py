"""`/v1/table`: this party's data sets. Source: `docs/reference/rest.md#tables`.

What is made of elsewhere, and where a table comes from: `web/table_sources.py`.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from fedflow.base.errors.data import NoData, TableNotFound
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.data.table_lists import TableFilter, TableOrder
from fedflow.domain.records import TableRecord
from fedflow.web import downloads
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.job import PartyJobBody
from fedflow.web.requests import Alternatives, Body, Flag, NoBody, Text, Whole, site_of
from fedflow.web.responses import refusal, success
from fedflow.web.routes import Style, route
from fedflow.wire import envelope, fields
from fedflow.wire.api.tables import (
    ComponentTables,
    Deleted,
    ListedTables,
    NoTable,
    Preview,
    TableInfo,
    TableName,
)

table = Blueprint("table", __name__, url_prefix="/table")
table.before_request(require_client)

MAX_PREVIEW: Final = 100
MAX_LISTED: Final = 1000  #: tables of one answer
MAX_OFFSET: Final = 10**9
_NO_TABLE: Final = "no find table"  #: fate_test compares this sentence


class NamesBody(Body, frozen=True):
    """Which table; its name may stand under either of FATE's two members."""

    table_name: Text | None = None
    name: Text | None = None
    namespace: Text | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Return namespace and name. Raises: MissingArgument."""
        name = self.table_name if self.table_name is not None else self.name
        given = {"table_name": name, "namespace": self.namespace}
        missing = [member for member, value in given.items() if value is None]
        if missing:
            raise MissingArgument(names=",".join(missing))
        return str(self.namespace), str(name)


class DeleteBody(NamesBody, frozen=True):
    """Which table, or whose outputs: of a job, of one site, of one component."""

    job_id: Text | None = None
    role: Text | None = None
    party_id: Text | None = None
    component_name: Text | None = None


class PreviewBody(NamesBody, frozen=True):
    """Which table, and how many rows."""

    limit: Whole = Whole(MAX_PREVIEW)


class DownloadBody(NamesBody, frozen=True):
    """Which table, and whether with a header line."""

    head: Flag = Flag(1)


class ListBody(Body, frozen=True):
    """Which tables, in which order, and which part of the list."""

    part: Text | None = None
    namespace: Text | None = None
    origin: Alternatives | None = None
    disabled: Flag | None = None
    order: Text = Text(TableOrder.CREATED.value)
    descending: Flag = Flag(1)
    limit: Whole = Whole(50)
    offset: Whole = Whole(0)


@route(table, "/table_info", body=NamesBody, data=TableInfo)
def table_info(body: NamesBody) -> Response:
    """Return what is known of a table; `exist` 0 if there is none."""
    namespace, name = body.names
    found = services().data.table_details.get(namespace, name)
    if found is None:
        return success(NoTable(name=name, namespace=namespace))
    return success(fields.table_info(found.table, maker=found.maker, columns=found.columns))


@route(table, "/delete", body=DeleteBody, data=Deleted)
def delete(body: DeleteBody) -> Response:
    """Delete a table, or what a job created at this server: without a name, `job_id` says which.

    Tables that a job only read stay, and so do outputs that another job inherited.
    """
    try:
        if body.table_name is None and body.name is None and body.job_id is not None:
            return _delete_outputs(body, body.job_id)
        namespace, name = body.names
        services().data.tables.drop(namespace, name)
    except (TableNotFound, JobNotFound) as exc:
        return refusal(envelope.ARGUMENT_ERROR, _NO_TABLE, error=exc)
    return success(Deleted(name=name, namespace=namespace))


def _delete_outputs(body: DeleteBody, job_id: str) -> Response:
    site = None
    if body.role is not None and body.party_id is not None:
        site = site_of(body.role, body.party_id)
    dropped = services().data.tables.drop_outputs(job_id, site=site, component=body.component_name)
    if not dropped:
        return _nothing(NoData(reason=f"job {job_id} has no such output table"))
    names = tuple(map(_name_of, dropped))
    return success(Deleted(name=names[0].name, namespace=names[0].namespace, tables=names))


@route(table, "/list", body=PartyJobBody, data=dict[str, ComponentTables])
def list_tables(body: PartyJobBody) -> Response:
    """Return what each component of a job reads at one site, and the tables that it created."""
    site = body.site  # an unknown role is a bad request, not a job without tables
    try:
        return success(services().data.tables.of_job(body.job_id, site))
    except JobNotFound as exc:
        return refusal(envelope.ARGUMENT_ERROR, exc.advice, error=exc)


@route(table, "/list/all", body=ListBody, data=ListedTables)
def list_all(body: ListBody) -> Response:
    """Return this party's tables, at most 1,000 at a time, and how many fit in all.

    `order` is `created`, `name` or `rows`.
    """
    if not 0 <= body.limit <= MAX_LISTED or not 0 <= body.offset <= MAX_OFFSET:
        raise BadRequest(reason=f"`limit` must be between 0 and {MAX_LISTED}, `offset` not below 0")
    if str(body.order) not in [one.value for one in TableOrder]:
        raise BadRequest(reason=f"`order` must be one of {', '.join(TableOrder)}")
    which = TableFilter(
        part=body.part or None,
        namespace=body.namespace,
        origins=None if body.origin is None else tuple(body.origin),
        disabled=None if body.disabled is None else bool(body.disabled),
        order=TableOrder(body.order),
        descending=bool(body.descending),
        limit=body.limit,
        offset=body.offset,
    )
    found, count = services().data.table_pages.listed(which)
    return success(
        ListedTables(count=count, tables=tuple(fields.listed_table(one) for one in found))
    )


@route(table, "/preview", body=PreviewBody, data=Preview, style=Style.STATUS)
def preview(body: PreviewBody) -> Response:
    """Return the first rows of a table as text, at most 100; HTTP 210 if there is no such table."""
    namespace, name = body.names
    if not 0 <= body.limit <= MAX_PREVIEW:
        raise BadRequest(reason=f"`limit` must be between 0 and {MAX_PREVIEW}")
    found = services().data.tables.get(namespace, name)
    if found is None:
        raise NoData(reason=f"there is no table {namespace}.{name}")
    header = tuple(fields.table_columns(found))
    rows = services().data.table_pages.preview(found)[: body.limit]
    return success(Preview(header=header, rows=tuple(tuple(row) for row in rows)))


@route(
    table, "/download", body=DownloadBody, methods=("GET",), style=Style.STATUS,
    produces="application/gzip",
)  # fmt: skip
def table_download(body: DownloadBody) -> Response:
    """Return a table as tar.gz with `table.csv` and `table.meta`; HTTP 210 if there is none."""
    namespace, name = body.names
    return downloads.made(
        lambda content: services().data.tables.write_archive(
            namespace, name, content, head=bool(body.head)
        ),
        f"table_{downloads.file_word(namespace)}_{downloads.file_word(name)}.tar.gz",
    )


@route(table, "/disable", body=NamesBody, data=list[TableName])
def disable(body: NamesBody) -> Response:
    """Keep jobs from reading a table, or all of a namespace."""
    return _set_disabled(body, disabled=True)


@route(table, "/enable", body=NamesBody, data=list[TableName])
def enable(body: NamesBody) -> Response:
    """Let jobs read a table again, or all of a namespace."""
    return _set_disabled(body, disabled=False)


def _set_disabled(body: NamesBody, *, disabled: bool) -> Response:
    name = body.table_name if body.table_name is not None else body.name
    if name is None and body.namespace is None:
        raise MissingArgument(names="table_name,namespace")
    changed = services().data.tables.set_disabled(body.namespace, name, disabled=disabled)
    return success([_name_of(t) for t in changed])


@route(table, "/disable/delete", data=list[TableName])
def delete_disabled(body: NoBody) -> Response:
    """Delete the disabled tables."""
    dropped = services().data.tables.drop_disabled()
    if not dropped:
        return _nothing(NoData(reason="no disabled table can be deleted"))
    return success([_name_of(t) for t in dropped])


@route(table, "/<access_module>")
def anything_else(body: NoBody, access_module: str) -> Response:
    """Do nothing: FATE Flow answers every other word like this, and clients rely on it."""
    return success()


def _nothing(exc: FedflowError) -> Response:
    return refusal(envelope.ARGUMENT_ERROR, _NO_TABLE, error=exc)


def _name_of(found: TableRecord) -> TableName:
    return TableName(name=found.name, namespace=found.namespace)
