"""Calls of other parties, dispatched to the application in process: no socket, no second hop.

The gRPC door calls a `Relay`. It serves the party routes of `wire/paths.py`
and nothing else. The views find in the WSGI environment from whom a call is, its parsed path and
its decoded body, so that none of these is read twice.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flask import Flask

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import ForbiddenRoute
from fedflow.base.errors.requests import NotAuthenticated
from fedflow.web.auth import PARTY_FLAG
from fedflow.web.party import MATCH
from fedflow.web.routes import DECODED, object_of
from fedflow.wire import envelope, headers
from fedflow.wire.paths import BODIES, parse_party_path

logger = logging.getLogger(__name__)

_BYTES_PER_VALUE: Final = 16  #: what a value of a long text takes at least, on an average
_DENSE_BYTES: Final = 8 * 1024 * 1024  #: shorter texts may have as many values as one of this size
_PASSED: Final = {
    name: "HTTP_" + name.replace("-", "_")
    for name in (
        headers.REQUEST_ID, headers.SOURCE_VERSION, headers.SOURCE_PARTY,
        headers.DESTINATION_PARTY, headers.SOURCE_ROLE,
    )
}  # fmt: skip


class Relay:
    """Callable: path with prefix, headers, body -> HTTP status, body.

    Used by many threads; never raises. The caller has proven the header `SRC-PARTY-ID`.
    """

    def __init__(self, app: Flask) -> None:
        self._app = app

    def __call__(self, path: str, given: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        try:
            match = parse_party_path(path)
            if match is None:
                raise ForbiddenRoute(path=path[:200])
            source = given.get(headers.SOURCE_PARTY)
            if not source:
                raise NotAuthenticated(reason="the call does not say which party it is from")
            environ = _environ(path, given, body, source=source)
            environ[MATCH] = match
            most = min(BODIES[match.name].MAX_BYTES, max(len(body), _DENSE_BYTES))
            environ[DECODED] = object_of(body, max_values=most // _BYTES_PER_VALUE)
            return _run(self._app, environ)
        except FedflowError as exc:
            return 200, envelope.encode(envelope.failure(exc))
        except Exception:
            logger.exception("The relay failed", extra={"action": "relay_failed"})
            return 200, envelope.encode(envelope.internal_error())


def _environ(path: str, given: Mapping[str, str], body: bytes, *, source: str) -> dict[str, Any]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "fedflow",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        PARTY_FLAG: source,
    }
    for name, key in _PASSED.items():
        if name in given:
            environ[key] = given[name]
    return environ


def _run(app: Flask, environ: dict[str, Any]) -> tuple[int, bytes]:
    status = ["500"]

    def start_response(
        line: str, _headers: list[tuple[str, str]], _exc_info: Any = None
    ) -> Callable[[bytes], object]:
        status[0] = line
        return lambda _data: None

    chunks: Iterable[bytes] = app.wsgi_app(environ, start_response)
    try:
        return int(status[0][:3]), b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
