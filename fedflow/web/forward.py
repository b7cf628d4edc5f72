"""`/v1/forward`: requests that are passed on to a server of the conf.

Never an open proxy: the address comes from the conf, the request names only a path. Source:
reference section 2.9.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from fedflow.base.errors.requests import BadRequest
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import OpenBody
from fedflow.web.routes import route

forward = Blueprint("forward", __name__, url_prefix="/forward")
forward.before_request(require_client)

_JSON = "application/json"


class ForwardBody(OpenBody, frozen=True):
    """`header` {METHOD, ENDPOINT, DEST-PARTY-ID} and `body`; or the body, and HTTP headers."""

    header: dict[str, Any] | None = None
    body: dict[str, Any] | None = None


@route(forward, "/<role>", body=ForwardBody, data=Any)
@route(forward, "/<role>/do", body=ForwardBody, data=Any)
def pass_on(body: ForwardBody, role: str) -> Response:
    """Forward a request to the server of this name in the conf, and return its answer."""
    wrapped = body.header is not None
    head = body.header or {
        n: request.headers.get(n) for n in ("METHOD", "ENDPOINT", "DEST-PARTY-ID")
    }
    content = (body.body or {}) if wrapped else body.given
    party = head.get("DEST-PARTY-ID")
    answer = services().administration.registry.forward(
        role,
        _text(head, "METHOD") or "POST",
        _text(head, "ENDPOINT") or "",
        content,
        destination=str(party) if party not in (None, "") else None,
    )
    # another server's pages must not run in a browser as if they were this server's
    is_json = answer.content_type.partition(";")[0].strip().lower() == _JSON
    passed = Response(answer.content, answer.status, mimetype=_JSON if is_json else "text/plain")
    passed.headers["X-Content-Type-Options"] = "nosniff"
    return passed


def _text(head: dict[str, Any], name: str) -> str | None:
    value = head.get(name)
    if value is None or isinstance(value, str):
        return value
    raise BadRequest(reason=f"{name} must be a text")
