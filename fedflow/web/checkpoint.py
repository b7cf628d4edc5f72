"""`/v1/checkpoint`: states of models while they were trained.

Source: `docs/reference/rest.md#components-and-checkpoints`.
"""

from __future__ import annotations

import base64

from flask import Blueprint, Response

from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import StepChoice
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.model_requests import SiteModelBody
from fedflow.web.requests import Text, Whole
from fedflow.web.responses import success
from fedflow.web.routes import Style, route
from fedflow.wire.api.models import Checkpoint
from fedflow.wire.model_fields import with_contents, with_digests

checkpoint = Blueprint("checkpoint", __name__, url_prefix="/checkpoint")
checkpoint.before_request(require_client)


class StepsBody(SiteModelBody, frozen=True):
    """Whose checkpoints: a component of a version at one site, also of a running job."""

    component_name: Text


class CheckpointStepBody(StepsBody, frozen=True):
    """Which checkpoint: one of the two is needed."""

    step_index: Whole | None = None
    step_name: Text | None = None


@route(checkpoint, "/list", body=StepsBody, data=list[Checkpoint], style=Style.STATUS)
def checkpoint_list(body: StepsBody) -> Response:
    """Return the checkpoints of a component by step; an empty list if there are none."""
    found = services().models.repository.checkpoints(body.key, body.component_name)
    return success([with_digests(step) for step in found])


@route(checkpoint, "/get", body=CheckpointStepBody, data=Checkpoint, style=Style.STATUS)
def checkpoint_get(body: CheckpointStepBody) -> Response:
    """Return one checkpoint with its contents; HTTP 404 if there is none."""
    if (body.step_index is None) == (body.step_name is None):
        raise BadRequest(reason="give either step_index or step_name")
    choice = StepChoice(step_index=body.step_index, step_name=body.step_name)
    step = services().models.repository.checkpoint(body.key, body.component_name, choice)
    contents = {
        part.name: base64.b64encode(services().models.repository.raw(step, part)).decode("ascii")
        for part in (step.meta, step.param)
    }
    return success(with_contents(step, contents))
