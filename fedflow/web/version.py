"""`/v1/version`, `/v1/info`, `/v1/server`: what this server is. Source: reference section 2.8."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.answers import status_refusal, success
from fedflow.web.auth import require_client
from fedflow.web.current import services
from fedflow.web.requests import optional_body, optional_text
from fedflow.wire.headers import API_VERSION

version = Blueprint("version", __name__)
version.before_request(require_client)


@version.post("/version/get")
@version.post("/info/version")
def version_get() -> Response:
    """Return the version of one module, `FATE` unless the body names another."""
    return _version_of(optional_text(optional_body(), "module") or "FATE")


@version.post("/server/version/get")
def server_version_get() -> Response:
    """Return the version of one module, or of all."""
    module = optional_text(optional_body(), "module")
    if module is not None:
        return _version_of(module)
    return success({**services().info.versions(), "API": API_VERSION})


def _version_of(module: str) -> Response:
    known = services().info.versions()
    if module not in known:
        return status_refusal(404, f"unknown module {module[:100]}")
    return success({module: known[module], "API": API_VERSION})
