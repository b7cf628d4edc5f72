"""`/v1/openapi.json` and `/v1/docs`: the API described for programs and for people.

The page is Swagger UI, served from this package: it needs no other server, and its
Content-Security-Policy lets it reach none. What it shows is public, so it needs no signature.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

from flask import Blueprint, Response, current_app, request

from fedflow import __version__
from fedflow.base.errors.requests import RouteNotFound
from fedflow.web.context import built
from fedflow.web.openapi import document
from fedflow.web.requests import NoBody
from fedflow.web.routes import Access, Style, route
from fedflow.wire import envelope

docs = Blueprint("docs", __name__)

_EXTENSION: Final = "fedflow.openapi"
_FILES: Final = {
    "page.html": "text/html",
    "page.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js.LICENSE.txt": "text/plain",
    "LICENSE": "text/plain",
    "NOTICE": "text/plain",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@route(
    docs, "/openapi.json", data=dict[str, Any], methods=("GET",), own=True, bare=True,
    access=Access.OPEN, style=Style.STATUS,
)  # fmt: skip
def openapi_json(_body: NoBody) -> Response:
    """Return the description of this API as an OpenAPI 3.1 document."""
    return _cacheable(Response(_document(), mimetype="application/json"))


@route(
    docs, "/docs", produces="text/html", methods=("GET",), own=True, access=Access.OPEN,
    style=Style.STATUS,
)  # fmt: skip
def page(_body: NoBody) -> Response:
    """Return the page that shows the description."""
    return _file("page.html")


@route(
    docs, "/docs/<name>", produces="*/*", methods=("GET",), own=True, access=Access.OPEN,
    style=Style.STATUS,
)  # fmt: skip
def page_part(_body: NoBody, name: str) -> Response:
    """Return a part of that page: a script, a style sheet, a licence."""
    if name not in _FILES:
        raise RouteNotFound(method=request.method, path=request.path[:200])
    return _file(name)


def _file(name: str) -> Response:
    content = (resources.files("fedflow.web") / "apidocs" / name).read_bytes()
    answer = _cacheable(Response(content, mimetype=_FILES[name]))
    answer.headers["Content-Security-Policy"] = _POLICY
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Referrer-Policy"] = "no-referrer"
    return answer


def _document() -> bytes:
    """Return the document, which is made once for each application."""
    known = current_app.extensions.get(_EXTENSION)
    if isinstance(known, bytes):
        return known
    signed = built().clients is not None
    made = envelope.encode(document(current_app, version=__version__, signed=signed))
    current_app.extensions[_EXTENSION] = made
    return made


def _cacheable(answer: Response) -> Response:
    """Let a browser keep an answer as long as it asks whether it is still the same."""
    answer.add_etag()
    answer.headers["Cache-Control"] = "no-cache"
    answer.make_conditional(request)
    return answer
