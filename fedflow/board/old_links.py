"""`/index.html`: links to FATE-Board, which name a page behind `#`, lead to the same one here.

A browser does not send what stands behind `#`, so a script reads it; who has no scripts gets a link
to the list. The page tells nothing, so it is open to everybody.
"""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.board.language import t
from fedflow.board.page import finish, page

board_old_links = Blueprint("board_old_links", __name__, template_folder="templates")
board_old_links.after_request(finish)


@board_old_links.get("/index.html")
def index() -> Response:
    """Show the page that leads on."""
    return page("old_links.html", title=t("An old link"), nav="")
