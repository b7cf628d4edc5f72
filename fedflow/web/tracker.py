"""What this server's executors report and ask for, each with the token of its task attempt."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from flask import Blueprint, Response, g, request

from fedflow.base.errors.parties import ForbiddenRoute
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.data.storages import Connection
from fedflow.domain.records import TableRecord, TaskKey
from fedflow.web.auth import PARTY_FLAG, task_token
from fedflow.web.context import services
from fedflow.web.requests import OpenBody
from fedflow.web.responses import success
from fedflow.web.routes import Access, route
from fedflow.wire import worker_commands as wire
from fedflow.wire.paths import WORKER_COMMANDS, WORKER_NAMES, parse_worker_path, task_of
from fedflow.wire.task_report import read_report

OVER_UNIX: Final = "localhost"  #: REMOTE_ADDR of a unix socket; others have an address there

A = TypeVar("A")
C = TypeVar("C", bound=wire.WorkerCommand[Any])
Handler = Callable[[TaskKey, str, C], A]
"""Attempt, token, command -> answer."""

tracker = Blueprint("tracker", __name__)


@tracker.before_request
def require_task() -> None:
    """Refuse what does not come through the unix socket, which no other user and no other machine
    reaches, and calls without a token; `Workers` checks which token.

    Raises: ForbiddenRoute, BadRequest, NotAuthenticated.
    """
    if PARTY_FLAG in request.environ or request.environ.get("REMOTE_ADDR") != OVER_UNIX:
        raise ForbiddenRoute(path=request.path[:200])
    match = parse_worker_path(request.path)
    if match is None:
        raise BadRequest(reason="the path names no task")
    g.task, g.token = task_of(match.params), task_token()


def command(kind: type[C]) -> Callable[[Handler[C, A]], Handler[C, A]]:
    """Serve a worker's command with the decorated function."""

    def mark(handler: Handler[C, A]) -> Handler[C, A]:
        @functools.wraps(handler)
        def view(body: C, **_params: str) -> Response:
            return success(handler(g.task, g.token, body))

        path, answer = WORKER_COMMANDS[WORKER_NAMES[kind]], wire.answer_of(kind)
        data = None if answer is type(None) else answer
        route(tracker, path, body=kind, data=data, access=Access.EXECUTOR, strict=True)(view)
        return handler

    return mark


@route(tracker, WORKER_COMMANDS["task_report"], body=OpenBody, access=Access.EXECUTOR, strict=True)
def task_report(body: OpenBody, **_params: str) -> Response:
    """Take an executor's report: it runs, how far it is, how it ended."""
    services().workers.report(g.task, g.token, read_report(body.given))
    return success()


@command(wire.SaveMetrics)
def metric_save(key: TaskKey, token: str, body: wire.SaveMetrics) -> None:
    """Store metric points."""
    services().workers.save_metrics(key, token, body.metrics)


# --- tables ---------------------------------------------------------------------------------------


@command(wire.FindTable)
def table_get(key: TaskKey, token: str, body: wire.FindTable) -> TableRecord:
    """Return what is known of a table of this party."""
    workers = services().workers
    if body.job_id and body.component_name and body.data_name:
        return workers.output_get(key, token, body.job_id, body.component_name, body.data_name)
    if body.namespace is None or body.table_name is None:
        raise MissingArgument(names="namespace,table_name")
    return workers.table_get(key, token, body.namespace, body.table_name)


@command(wire.ConnectTable)
def table_connection(key: TaskKey, token: str, body: wire.ConnectTable) -> Connection:
    """Return how a bound table is reached, with credentials, to the task that reads it."""
    storages = services().data.worker_storages
    return storages.connection(key, token, body.namespace, body.table_name)


@command(wire.ConnectTarget)
def table_target(key: TaskKey, token: str, _body: wire.ConnectTarget) -> Connection:
    """Return how the place is reached that a Writer was told to write to; as `table_connection`."""
    return services().data.worker_storages.target(key, token)


@command(wire.AddTable)
def table_create(key: TaskKey, token: str, body: wire.AddTable) -> None:
    """Register a table that the task wrote."""
    services().workers.table_create(key, token, body.table, drop=body.drop)


# --- models ---------------------------------------------------------------------------------------


@command(wire.SaveModel)
def model_save(key: TaskKey, token: str, body: wire.SaveModel) -> None:
    """Store a task's model before its end."""
    services().models.workers.save(
        key, token, model_id=body.model_id, model_version=body.model_version,
        model=body.component_model,
    )  # fmt: skip


@command(wire.GetModel)
def model_get(key: TaskKey, token: str, body: wire.GetModel) -> dict[str, list[str]]:
    """Return the model that the task's component has in a version."""
    return services().models.workers.get(
        key, token, model_id=body.model_id, model_version=body.model_version,
        alias=body.search_model_alias,
    )  # fmt: skip


@command(wire.GetRunParameters)
def run_parameters_get(key: TaskKey, token: str, body: wire.GetRunParameters) -> dict[str, Any]:
    """Return the parameters that the components of a version ran with."""
    return services().models.workers.run_parameters(
        key, token, model_id=body.model_id, model_version=body.model_version
    )


@command(wire.StoreModel)
def model_store(key: TaskKey, token: str, _body: wire.StoreModel) -> wire.ExternalArchive:
    """Copy the model that the task's parameters name to the external store."""
    return services().models.storing.store_for(key, token)


@command(wire.RestoreModel)
def model_restore(key: TaskKey, token: str, _body: wire.RestoreModel) -> wire.ExternalArchive:
    """Bring the model that the task's parameters name back from the external store."""
    return services().models.storing.restore_for(key, token)


# --- checkpoints ----------------------------------------------------------------------------------


@command(wire.SaveCheckpoint)
def checkpoint_save(key: TaskKey, token: str, body: wire.SaveCheckpoint) -> None:
    """Store the state of a task's model after a step."""
    services().models.workers.save_checkpoint(
        key, token, step_index=body.step_index, step_name=body.step_name,
        model=body.model,
    )  # fmt: skip


@command(wire.ListCheckpoints)
def checkpoint_list(key: TaskKey, token: str, _body: wire.ListCheckpoints) -> list[tuple[int, str]]:
    """Return the steps of the task's component: index and name."""
    return services().models.workers.checkpoints(key, token)


@command(wire.GetCheckpoint)
def checkpoint_get(key: TaskKey, token: str, body: wire.GetCheckpoint) -> wire.SavedStep:
    """Return a step of the task's component with its model."""
    return services().models.workers.checkpoint(key, token, body.step_index)


# --- signatures -----------------------------------------------------------------------------------


@command(wire.SignContent)
def content_sign(key: TaskKey, token: str, body: wire.SignContent) -> str:
    """Sign for the task by the key of this party's certificate."""
    return services().signatures.sign(key, token, body.content)


@command(wire.VerifySignatures)
def signature_verify(key: TaskKey, token: str, body: wire.VerifySignatures) -> list[bool]:
    """Tell of each signature whether its site made it in this task."""
    return services().signatures.verify(key, token, body.signed)
