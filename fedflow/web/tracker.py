"""What this server's executors report and ask for, each with the token of its task attempt."""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response, request

from fedflow.base.errors.parties import ForbiddenRoute
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.data.storages import connection_to_json
from fedflow.domain.records import TaskKey
from fedflow.web.auth import PARTY_FLAG, task_token
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, OpenBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import Access, route
from fedflow.wire.paths import WORKER_COMMANDS, parse_worker_path, task_of

OVER_UNIX: Final = "localhost"  #: REMOTE_ADDR of a unix socket; others have an address there

tracker = Blueprint("tracker", __name__)


class NamesBody(Body, frozen=True):
    """Which table: by its names, or as an output of an earlier job."""

    namespace: Text | None = None
    table_name: Text | None = None
    job_id: Text | None = None
    component_name: Text | None = None
    data_name: Text | None = None


class BoundBody(Body, frozen=True):
    """Which table."""

    namespace: Text
    table_name: Text


class TableBody(Body, frozen=True):
    """A table that a task wrote; `drop` replaces one of that name."""

    table: dict[str, Any]
    drop: Flag = Flag(0)


@tracker.before_request
def require_task() -> None:
    """Refuse calls of other parties, and those without a token; `Workers` checks which token."""
    own_task()
    task_token()


def own_task() -> TaskKey:
    """Return the attempt that the request's path names. Raises: ForbiddenRoute, BadRequest."""
    if PARTY_FLAG in request.environ:
        raise ForbiddenRoute(path=request.path[:200])
    match = parse_worker_path(request.path)
    if match is None:
        raise BadRequest(reason="the path names no task")
    return task_of(match.params)


@route(tracker, WORKER_COMMANDS["task_report"], body=OpenBody, access=Access.EXECUTOR, strict=True)
def task_report(body: OpenBody, **_params: str) -> Response:
    """Take an executor's report: it runs, how far it is, how it ended."""
    services().workers.report(own_task(), task_token(), body.given)
    return success()


@route(tracker, WORKER_COMMANDS["metric_save"], body=OpenBody, access=Access.EXECUTOR, strict=True)
def metric_save(body: OpenBody, **_params: str) -> Response:
    """Store metric points."""
    services().workers.save_metrics(own_task(), task_token(), body.given)
    return success()


@route(
    tracker, WORKER_COMMANDS["table_get"], body=NamesBody, data=dict[str, Any],
    access=Access.EXECUTOR,
)  # fmt: skip
def table_get(body: NamesBody, **_params: str) -> Response:
    """Return what is known of a table of this party."""
    key, token, workers = own_task(), task_token(), services().workers
    if body.job_id and body.component_name and body.data_name:
        output = body.job_id, body.component_name, body.data_name
        return success(workers.output_get(key, token, *output))
    if body.namespace is None or body.table_name is None:
        raise MissingArgument(names="namespace,table_name")
    return success(workers.table_get(key, token, body.namespace, body.table_name))


@route(
    tracker, WORKER_COMMANDS["table_connection"], body=BoundBody, data=dict[str, Any],
    access=Access.EXECUTOR,
)  # fmt: skip
def table_connection(body: BoundBody, **_params: str) -> Response:
    """Return how a bound table is reached, with credentials, to the task that reads it.

    Only through the unix socket: credentials go over no network.
    """
    if request.environ.get("REMOTE_ADDR") != OVER_UNIX:
        raise ForbiddenRoute(path=request.path[:200])
    storages = services().data.worker_storages
    connection = storages.connection(own_task(), task_token(), body.namespace, body.table_name)
    return success(connection_to_json(connection))


@route(
    tracker, WORKER_COMMANDS["table_target"], body=OpenBody, data=dict[str, Any],
    access=Access.EXECUTOR,
)  # fmt: skip
def table_target(body: OpenBody, **_params: str) -> Response:
    """Return how the place is reached that a Writer was told to write to; as `table_connection`."""
    if request.environ.get("REMOTE_ADDR") != OVER_UNIX:
        raise ForbiddenRoute(path=request.path[:200])
    connection = services().data.worker_storages.target(own_task(), task_token())
    return success(connection_to_json(connection))


@route(tracker, WORKER_COMMANDS["table_create"], body=TableBody, access=Access.EXECUTOR)
def table_create(body: TableBody, **_params: str) -> Response:
    """Register a table that the task wrote."""
    services().workers.table_create(own_task(), task_token(), body.table, drop=bool(body.drop))
    return success()
