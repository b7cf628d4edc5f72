"""What belongs to no page: static files, and the visitor's choice of language and theme."""

from __future__ import annotations

from typing import Final

from flask import Response, request

from fedflow.base.errors.requests import FormRefused, RouteNotFound
from fedflow.board import assets
from fedflow.board.forms import is_own_page
from fedflow.board.language import COOKIE, LANGUAGES
from fedflow.board.page import (
    THEME_COOKIE,
    THEMES,
    board_blueprint,
    came_from,
    redirect_to,
)

board_site = board_blueprint("board_site", is_open=True)

_YEAR_S: Final = 365 * 86400


@board_site.get("/static/<digest>/<path:path>")
def static_file(digest: str, path: str) -> Response:
    """Return a static file; the digest is there for caches."""
    return assets.serve(path)


@board_site.post("/choose/<what>/<value>")
def choose(what: str, value: str) -> Response:
    """Remember the visitor's choice of `language` or `theme` in a cookie. It needs no CSRF token:
    it changes nothing but how this visitor sees pages. Raises: FormRefused: another site's page.
    """
    if not is_own_page():
        raise FormRefused(reason="a page of another site sent it")
    known = {"language": (COOKIE, tuple(LANGUAGES)), "theme": (THEME_COOKIE, THEMES)}
    cookie, values = known.get(what, ("", ()))
    if value not in values:
        raise RouteNotFound(method=request.method, path=request.path[:200])
    answer = redirect_to(came_from("/board/"))
    answer.set_cookie(cookie, value, max_age=_YEAR_S, samesite="Lax", path="/board", httponly=True)
    return answer
