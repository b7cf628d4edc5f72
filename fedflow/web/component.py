"""`/v1/component`: the component modules of this server. Source: reference section 2.6."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fedflow.web.answers import success
from fedflow.web.auth import require_client
from fedflow.web.bodies import NoBody
from fedflow.web.current import services
from fedflow.web.routes import route

component = Blueprint("component", __name__, url_prefix="/component")
component.before_request(require_client)


@route(component, "/describe", data=list[dict[str, Any]], methods=("GET", "POST"), own=True)
def describe(_body: NoBody) -> Response:
    """Return each module with its roles, ports, outputs and parameters."""
    return success(services().modules.describe())
