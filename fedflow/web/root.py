"""`/`: leads people to the board. FATE's clients never call it."""

from __future__ import annotations

from typing import TypedDict

from flask import Blueprint, Response

from fedflow import __version__
from fedflow.web.context import built
from fedflow.web.requests import NoBody
from fedflow.web.responses import answer
from fedflow.web.routes import Access, Style, route

root = Blueprint("root", __name__)


class Root(TypedDict):
    """What answers here, if no board does."""

    server: str
    api: str  #: path of the description of the API
    board: bool


@route(
    root, "/", data=Root, methods=("GET",), style=Style.STATUS, own=True, bare=True,
    access=Access.OPEN,
)  # fmt: skip
def index(_body: NoBody) -> Response:
    """Lead to the board; without one say what this server is."""
    if built().settings.board is not None:
        return Response(status=302, headers={"Location": "/board/"})
    return answer({"server": f"fedflow {__version__}", "api": "/v1/docs", "board": False})
