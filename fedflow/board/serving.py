"""`/board/serving`: says that there is no online serving yet, and what could be loaded."""

from __future__ import annotations

from typing import Final

from flask import Response, request

from fedflow.board.language import t
from fedflow.board.model_urls import line_url
from fedflow.board.page import board_blueprint, page
from fedflow.board.presenters.paging import ListPage, number_of
from fedflow.domain.models.lists import ModelKind, ModelList
from fedflow.web.context import services

board_serving = board_blueprint("board_serving", "/serving")

SIZE: Final = 50


@board_serving.get("")
def serving() -> Response:
    """Show what there is: deployed versions."""
    number = number_of(request.args.get("page", ""))
    which = ModelList(kind=ModelKind.DEPLOYED, limit=SIZE, offset=(number - 1) * SIZE)
    found = services().models.views.page(which)
    return page(
        "serving.html",
        title=t("Serving"),
        nav="serving",
        lines=found.lines,
        line_url=line_url,
        pages=ListPage(number=number, size=SIZE, count=found.count),
    )
