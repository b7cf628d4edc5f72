"""`/healthz` and `/readyz`, for supervisors and load balancers: open to all, telling little."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.answers import answer
from fedflow.web.current import services

health = Blueprint("health", __name__)


@health.get("/healthz")
def healthz() -> Response:
    """Answer 200 as long as the process serves requests."""
    return answer({"status": "ok"})


@health.get("/readyz")
def readyz() -> Response:
    """Answer 200 if the server can take jobs, else 503; the body says what each part says."""
    ready, parts = services().info.ready()
    return answer({"ready": ready, **parts}, status=200 if ready else 503)
