"""Errors become answers, once for all views: a code, a message and a hint; never a traceback.

An unknown URL below `/v1` or `/fateboard` is answered with HTTP 200 and a retcode, as the reference
does: its clients read the retcode. Elsewhere it is HTTP 404 with the same body, for monitors and
people. A route that declares `Style.STATUS` answers every error, also a missing signature, with its
HTTP status: its clients take exactly 200 as the file.
"""

from __future__ import annotations

import logging
from typing import Final, cast

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from fedflow.app.protocol.commands import ASKED
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import NotAuthenticated, NotSupportedYet, RouteNotFound
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.outside import outside_error
from fedflow.web.auth import PARTY_FLAG
from fedflow.web.responses import answer, status_error, status_refusal
from fedflow.web.routes import Style, declaration
from fedflow.web.unsupported import is_later
from fedflow.wire import envelope
from fedflow.wire.paths import PREFIX

logger = logging.getLogger(__name__)

UNKNOWN_PAGE: Final = "fedflow.unknown_page"
"""Extension of the board's application: what answers unknown paths below it, () -> Response."""


def register(app: Flask) -> None:
    """Translate every error of the application's views."""
    app.register_error_handler(FedflowError, _known)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unexpected)


def _known(exc: Exception) -> Response:
    assert isinstance(exc, FedflowError)  # noqa: S101  # registered for it
    if isinstance(exc, StoreUnavailable):  # every request meets it
        logger.error("%s", exc.message, extra={"action": "store_unavailable"})
    else:
        logger.info(
            "%s %s refused: %s", request.method, request.path, exc.message,
            extra={"action": "refuse", "code": exc.code},
        )  # fmt: skip
    style = _style()
    if style is Style.BOARD:
        from fedflow.wire import fate_board  # most servers never answer FATE-Board

        return answer(fate_board.failure(exc))
    if style is not Style.STATUS:
        return answer(envelope.failure(exc))
    if isinstance(exc, NotAuthenticated):  # its retcode is the same everywhere
        return answer(envelope.failure(exc), status=exc.http)
    return status_error(exc)


def _http(exc: Exception) -> Response:
    if isinstance(exc, (NotFound, MethodNotAllowed)):
        page = current_app.extensions.get(UNKNOWN_PAGE)
        if page is not None and request.path.startswith("/board/"):
            return cast(Response, page())
        error = _no_route(request.method, request.path)
        of_fate = request.path.startswith((f"{PREFIX}/", "/fateboard/"))
        return answer(envelope.failure(error), status=200 if of_fate else error.http)
    assert isinstance(exc, HTTPException)  # noqa: S101  # registered for it
    return status_refusal(exc.code or 500, exc.description)


def _no_route(method: str, path: str) -> FedflowError:
    if is_later(path):
        return NotSupportedYet(what=f"The route {path}")
    return RouteNotFound(method=method, path=path[:200])


def _unexpected(exc: Exception) -> Response:
    from fedflow.base.libraries import as_missing  # most processes never need it

    missing = as_missing(exc)
    if missing is not None:
        of_party = PARTY_FLAG in request.environ
        return _known(outside_error(missing, ASKED) if of_party else missing)
    logger.error(
        "%s %s failed", request.method, request.path,
        exc_info=exc, extra={"action": "view_failed"},
    )  # fmt: skip
    style = _style()
    if style is Style.BOARD:
        from fedflow.wire import fate_board

        return answer(fate_board.defect())
    return answer(envelope.internal_error(), status=500 if style is Style.STATUS else 200)


def _style() -> Style:
    """Return how the route that serves this request answers errors."""
    declared = declaration(current_app.view_functions.get(request.endpoint or ""))
    return Style.IN_BAND if declared is None else declared.style
