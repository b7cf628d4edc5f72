"""`/board/serving`: services, versions, processes, partners and drift of this party's serving."""

from __future__ import annotations

from typing import Any, Final

from flask import Response, request

from fedflow.base.errors.models import NoServings
from fedflow.board.language import t
from fedflow.board.model_urls import line_url
from fedflow.board.page import board_blueprint, fragment, page
from fedflow.board.presenters.paging import ListPage, number_of
from fedflow.board.presenters.serving import ServingPage, page_of
from fedflow.domain.models.lists import ModelKind, ModelList
from fedflow.web.context import services

board_serving = board_blueprint("board_serving", "/serving")

SIZE: Final = 50


@board_serving.get("")
def serving() -> Response:
    """Show how the serving processes are, and what could be loaded."""
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
        **_shown(),
    )


@board_serving.get("/now")
def now() -> Response:
    """Return what changes of the page. Raises: NoServings."""
    values = _shown()
    if values["serving"] is None:
        raise NoServings
    return fragment("serving_now.html", tag=repr(values["serving"]), **values)


def serving_page(*, after_change: bool = False) -> ServingPage | None:
    """Return what is shown of the serving processes; None: the settings name none."""
    overview = services().models.serving().overview(now=after_change)
    return None if overview is None else page_of(overview)


def _shown() -> dict[str, Any]:
    return {"serving": serving_page(), "trouble_word": trouble_word, "drift_word": drift_word}


def trouble_word(trouble: str) -> str:
    """Return why a process says nothing."""
    words = {
        "silent": t("does not answer"),
        "refused": t("refuses this server"),
        "unreadable": t("answers what cannot be read"),
    }
    return words.get(trouble, trouble)


def drift_word(word: str) -> str:
    """Return how far a column moved."""
    words = {
        "stable": t("stable"),
        "shifting": t("shifting"),
        "shifted": t("shifted"),
        "unknown": t("too few rows"),
    }
    return words[word]
