"""`/healthz` and `/readyz`, for supervisors and load balancers: open to all, with few details."""

from __future__ import annotations

from typing import Any, TypedDict

from flask import Blueprint, Response

from fedflow.web.auth import has_foreign_name
from fedflow.web.context import services
from fedflow.web.requests import NoBody
from fedflow.web.responses import answer
from fedflow.web.routes import Access, Style, route
from fedflow.wire.api.parties import DialInState

health = Blueprint("health", __name__)


class Health(TypedDict):
    """The process serves requests."""

    status: str


class Readiness(TypedDict, total=False):
    """Whether the server can take jobs, and what each part says."""

    ready: bool
    store: Any
    executor: Any
    disk: bool  #: every folder has as much free space as `health.min_free_mib` asks for
    free_bytes: dict[str, int]  #: by folder: home, shared_home, and others with disks of their own
    closed: list[str]  #: folders that the server may not write to
    reasons: list[str]  #: why it is not ready: the part, what it does not do, what helps
    warnings: list[str]  #: what should be looked at though it is ready
    starting: bool  #: what starts processes is not up yet; it soon is
    draining: bool  #: it was drained: it starts no tasks until it is restarted
    outbox: Any
    cores: Any
    spark_cores: Any  #: only with a Spark cluster
    dial_in: list[DialInState]  #: only of a server that dials in to exchanges
    unreachable: list[str]  #: parties whose circuit is open; the server is ready nevertheless


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
    """Answer 200 if the server can take jobs, else 503; the body has the state of each part.

    A load balancer may use any name; under one that is not this server's the body says no more than
    whether it is ready.
    """
    ready, parts = services().info.ready()
    if has_foreign_name():
        parts = {}
    return answer({"ready": ready, **parts}, status=200 if ready else 503)
