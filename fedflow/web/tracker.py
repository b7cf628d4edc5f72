"""What this server's executors report and ask for, each with the token of its task attempt."""

from __future__ import annotations

from flask import Blueprint, Response, request

from fedflow.base.errors import BadRequest, ForbiddenRoute
from fedflow.domain.records import TaskKey
from fedflow.web.answers import success
from fedflow.web.auth import PARTY_FLAG, task_token
from fedflow.web.current import services
from fedflow.web.requests import flag, json_body, require, text
from fedflow.wire.fields import table_to_wire
from fedflow.wire.paths import WORKER_COMMANDS, parse_worker_path, task_of

tracker = Blueprint("tracker", __name__)


def _task() -> TaskKey:
    if PARTY_FLAG in request.environ:
        raise ForbiddenRoute(path=request.path[:200])
    match = parse_worker_path(request.path)
    if match is None:
        raise BadRequest(reason="the path names no task")
    return task_of(match.params)


@tracker.post(WORKER_COMMANDS["task_report"])
def task_report(**_params: str) -> Response:
    """Take an executor's report: it runs, how far it is, how it ended."""
    services().workers.report(_task(), task_token(), json_body())
    return success()


@tracker.post(WORKER_COMMANDS["metric_save"])
def metric_save(**_params: str) -> Response:
    """Store metric points."""
    services().workers.save_metrics(_task(), task_token(), json_body())
    return success()


@tracker.post(WORKER_COMMANDS["table_get"])
def table_get(**_params: str) -> Response:
    """Return what is known of a table of this party."""
    key, token, body = _task(), task_token(), json_body()
    table = services().workers.table_get(
        key, token, text(body, "namespace"), text(body, "table_name")
    )
    return success(table_to_wire(table))


@tracker.post(WORKER_COMMANDS["table_create"])
def table_create(**_params: str) -> Response:
    """Register a table that the task wrote."""
    key, token, body = _task(), task_token(), json_body()
    require(body, "table")
    if not isinstance(body["table"], dict):
        raise BadRequest(reason="`table` must be an object")
    drop = flag(body, "drop", default=False)
    services().workers.table_create(key, token, body["table"], drop=drop)
    return success()
