"""`/v1/component`: the component modules of this server. Source: reference section 2.6."""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response

from fedflow.web.answers import success
from fedflow.web.auth import require_client
from fedflow.web.current import services

component = Blueprint("component", __name__, url_prefix="/component")
component.before_request(require_client)

_PROVIDER: Final = "fedflow"


@component.route("/describe", methods=["GET", "POST"])
def describe() -> Response:
    """Return each module with its roles, ports, outputs and parameters (fedflow's own)."""
    return success(services().modules.describe())


@component.post("/get")
def get() -> Response:
    """Return the modules by lower-case name, as FATE shows them."""
    return success({one["module"].lower(): _shown(one) for one in services().modules.describe()})


@component.post("/<name>/get")
def get_one(name: str) -> Response:
    """Return one module; no data if there is no such."""
    for one in services().modules.describe():
        if name.lower() in (alias.lower() for alias in (one["module"], *one["aliases"])):
            return success(_shown(one))
    return success()


def _shown(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "default_provider": _PROVIDER,
        "support_provider": [_PROVIDER],
        "alias": [one["module"], *one["aliases"]],
    }
