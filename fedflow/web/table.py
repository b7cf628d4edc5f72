"""`/v1/table`: this party's data sets. Source: `reference/flow-rest-api.md` section 2.3."""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response

from fedflow.base.errors import BadRequest, NoData, TableNotFound
from fedflow.web.answers import refusal, success
from fedflow.web.auth import require_client
from fedflow.web.current import services
from fedflow.web.errors import status_errors
from fedflow.web.requests import integer, json_body, require, site, text
from fedflow.wire import envelope, fields

table = Blueprint("table", __name__, url_prefix="/table")
table.before_request(require_client)

MAX_PREVIEW: Final = 100


@table.post("/table_info")
def table_info() -> Response:
    """Return what is known of a table; `exist` 0 if there is none."""
    namespace, name = _names(json_body())
    found = services().tables.get(namespace, name)
    return success(fields.table_info_row(namespace, name, found))


@table.post("/delete")
def delete() -> Response:
    """Delete a table."""
    namespace, name = _names(json_body())
    try:
        services().tables.drop(namespace, name)
    except TableNotFound as exc:
        # fate_test compares this sentence
        return refusal(envelope.ARGUMENT_ERROR, "no find table", error=exc)
    return success({"table_name": name, "namespace": namespace})


@table.post("/list")
def list_tables() -> Response:
    """Return the tables of a job at one site, by component."""
    body = json_body()
    require(body, "job_id", "role", "party_id")
    return success(services().tables.of_job(text(body, "job_id"), site(body)))


@table.post("/preview")
@status_errors
def preview() -> Response:
    """Return the first rows of a table as text, at most 100; HTTP 210 if there is no such table."""
    body = json_body()
    namespace, name = _names(body)
    limit = integer(body, "limit", default=MAX_PREVIEW)
    if not 0 <= limit <= MAX_PREVIEW:
        raise BadRequest(reason=f"`limit` must be between 0 and {MAX_PREVIEW}")
    found = services().tables.get(namespace, name)
    if found is None:
        raise NoData(reason=f"there is no table {namespace}.{name}")
    return success({"header": fields.table_columns(found), "data": found.preview[:limit]})


def _names(body: dict[str, Any]) -> tuple[str, str]:
    """Return namespace and name; the name may stand under either of FATE's two members."""
    given = {"table_name": body.get("name"), **{n: v for n, v in body.items() if v is not None}}
    require(given, "table_name", "namespace")
    return text(given, "namespace"), text(given, "table_name")
