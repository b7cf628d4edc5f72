"""`/v1/version`, `/v1/info`, `/v1/server`: what this server is. Source: reference section 2.8."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.answers import status_refusal, success
from fedflow.web.auth import require_client
from fedflow.web.bodies import Body, Text
from fedflow.web.current import services
from fedflow.web.routes import route
from fedflow.wire.headers import API_VERSION

version = Blueprint("version", __name__)
version.before_request(require_client)


class ModuleBody(Body, frozen=True):
    """Which software."""

    module: Text | None = None


@route(version, "/version/get", body=ModuleBody, data=dict[str, str])
@route(version, "/info/version", body=ModuleBody, data=dict[str, str])
def version_get(body: ModuleBody) -> Response:
    """Return the version of one module, `FATE` unless the body names another."""
    return _version_of(body.module or "FATE")


@route(version, "/server/version/get", body=ModuleBody, data=dict[str, str])
def server_version_get(body: ModuleBody) -> Response:
    """Return the version of one module, or of all."""
    if body.module is not None:
        return _version_of(body.module)
    return success({**services().info.versions(), "API": API_VERSION})


def _version_of(module: str) -> Response:
    known = services().info.versions()
    if module not in known:
        return status_refusal(404, f"unknown module {module[:100]}")
    return success({module: known[module], "API": API_VERSION})
