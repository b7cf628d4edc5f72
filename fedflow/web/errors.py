"""Errors become answers, once for all views: a code, a message and a hint; never a traceback.

An unknown URL is answered with HTTP 200 and a retcode, as the reference does.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from fedflow.base.errors import FedflowError, NotSupportedYet, RouteNotFound
from fedflow.web.answers import answer, status_error, status_refusal
from fedflow.web.later import is_later
from fedflow.wire import envelope

logger = logging.getLogger(__name__)

P = ParamSpec("P")


def register(app: Flask) -> None:
    """Translate every error of the application's views."""
    app.register_error_handler(FedflowError, _known)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unexpected)


def status_errors(view: Callable[P, Response]) -> Callable[P, Response]:
    """Make a view answer errors with their HTTP status, for clients that take 200 as the file."""

    @functools.wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Response:
        try:
            return view(*args, **kwargs)
        except FedflowError as exc:
            return status_error(exc)

    return guarded


def _known(exc: Exception) -> Response:
    assert isinstance(exc, FedflowError)  # noqa: S101  # registered for it
    logger.info(
        "%s %s refused: %s", request.method, request.path, exc.message,
        extra={"action": "refuse", "code": exc.code},
    )  # fmt: skip
    return answer(envelope.failure(exc))


def _http(exc: Exception) -> Response:
    if isinstance(exc, (NotFound, MethodNotAllowed)):
        return answer(envelope.failure(_no_route(request.method, request.path)))
    assert isinstance(exc, HTTPException)  # noqa: S101  # registered for it
    return status_refusal(exc.code or 500, exc.description)


def _no_route(method: str, path: str) -> FedflowError:
    if is_later(path):
        return NotSupportedYet(what=f"The route {path}")
    return RouteNotFound(method=method, path=path[:200])


def _unexpected(exc: Exception) -> Response:
    logger.error(
        "%s %s failed", request.method, request.path,
        exc_info=exc, extra={"action": "view_failed"},
    )  # fmt: skip
    return answer(envelope.internal_error())
