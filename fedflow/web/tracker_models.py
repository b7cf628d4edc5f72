"""What this server's executors keep and read of models while they run."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fedflow.web.auth import task_token
from fedflow.web.context import services
from fedflow.web.requests import Body, Text, Whole
from fedflow.web.responses import success
from fedflow.web.routes import Access, route
from fedflow.web.tracker import own_task, require_task
from fedflow.wire.paths import WORKER_COMMANDS

tracker_models = Blueprint("tracker_models", __name__)
tracker_models.before_request(require_task)


class VersionBody(Body, frozen=True):
    """Which version of the task's site."""

    model_id: Text
    model_version: Text


class SaveBody(VersionBody, frozen=True):
    """A model: alias, meta_name, param_name, meta and param."""

    component_model: dict[str, Any]


class GetBody(VersionBody, frozen=True):
    """Which of the component's models."""

    search_model_alias: Text | None = None


class CheckpointBody(Body, frozen=True):
    """A model as it is after a step."""

    step_index: Whole
    step_name: Text
    model: dict[str, Any]


class StepBody(Body, frozen=True):
    """Which step."""

    step_index: Whole


@route(tracker_models, WORKER_COMMANDS["model_save"], body=SaveBody, access=Access.EXECUTOR)
def model_save(body: SaveBody, **_params: str) -> Response:
    """Store a task's model before its end."""
    services().models.workers.save(
        own_task(), task_token(), model_id=body.model_id, model_version=body.model_version,
        model=body.component_model,
    )  # fmt: skip
    return success()


@route(
    tracker_models, WORKER_COMMANDS["model_get"], body=GetBody, data=dict[str, list[str]],
    access=Access.EXECUTOR,
)  # fmt: skip
def model_get(body: GetBody, **_params: str) -> Response:
    """Return the model that the task's component has in a version."""
    found = services().models.workers.get(
        own_task(), task_token(), model_id=body.model_id, model_version=body.model_version,
        alias=body.search_model_alias,
    )  # fmt: skip
    return success(found)


@route(
    tracker_models, WORKER_COMMANDS["run_parameters_get"], body=VersionBody,
    data=dict[str, Any], access=Access.EXECUTOR,
)  # fmt: skip
def run_parameters_get(body: VersionBody, **_params: str) -> Response:
    """Return the parameters that the components of a version ran with."""
    found = services().models.workers.run_parameters(
        own_task(), task_token(), model_id=body.model_id, model_version=body.model_version
    )
    return success(found)


@route(
    tracker_models, WORKER_COMMANDS["checkpoint_save"], body=CheckpointBody,
    access=Access.EXECUTOR,
)  # fmt: skip
def checkpoint_save(body: CheckpointBody, **_params: str) -> Response:
    """Store the state of a task's model after a step."""
    services().models.workers.save_checkpoint(
        own_task(), task_token(), step_index=body.step_index, step_name=body.step_name,
        model=body.model,
    )  # fmt: skip
    return success()


@route(
    tracker_models, WORKER_COMMANDS["checkpoint_list"], data=list[tuple[int, str]],
    access=Access.EXECUTOR,
)  # fmt: skip
def checkpoint_list(_body: Body, **_params: str) -> Response:
    """Return the steps of the task's component: index and name."""
    return success(services().models.workers.checkpoints(own_task(), task_token()))


@route(
    tracker_models, WORKER_COMMANDS["checkpoint_get"], body=StepBody, data=dict[str, Any],
    access=Access.EXECUTOR,
)  # fmt: skip
def checkpoint_get(body: StepBody, **_params: str) -> Response:
    """Return a step of the task's component with its model."""
    return success(services().models.workers.checkpoint(own_task(), task_token(), body.step_index))


@route(tracker_models, WORKER_COMMANDS["model_store"], data=dict[str, Any], access=Access.EXECUTOR)
def model_store(_body: Body, **_params: str) -> Response:
    """Copy the model that the task's parameters name to the external store."""
    return success(services().models.storing.store_for(own_task(), task_token()))


@route(
    tracker_models, WORKER_COMMANDS["model_restore"], data=dict[str, Any], access=Access.EXECUTOR
)
def model_restore(_body: Body, **_params: str) -> Response:
    """Bring the model that the task's parameters name back from the external store."""
    return success(services().models.storing.restore_for(own_task(), task_token()))
