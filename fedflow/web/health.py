"""`/healthz` and `/readyz`, for supervisors and load balancers: open to all, telling little."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.context import services
from fedflow.web.records import Health, Readiness
from fedflow.web.requests import NoBody
from fedflow.web.responses import answer
from fedflow.web.routes import Access, Style, route

health = Blueprint("health", __name__)


@route(
    health, "/healthz", data=Health, methods=("GET",), style=Style.STATUS, own=True, bare=True,
    access=Access.OPEN,
)  # fmt: skip
def healthz(_body: NoBody) -> Response:
    """Answer 200 as long as the process serves requests."""
    return answer({"status": "ok"})


@route(
    health, "/readyz", data=Readiness, methods=("GET",), style=Style.STATUS, own=True, bare=True,
    access=Access.OPEN,
)  # fmt: skip
def readyz(_body: NoBody) -> Response:
    """Answer 200 if the server can take jobs, else 503; the body says what each part says."""
    ready, parts = services().info.ready()
    return answer({"ready": ready, **parts}, status=200 if ready else 503)
