"""`/board/rendezvous`: the runs of rendezvous that this server stores for their members."""

from __future__ import annotations

from typing import Final

from flask import Response

from fedflow.board.language import t
from fedflow.board.page import board_blueprint, page
from fedflow.web.context import services

board_rendezvous = board_blueprint("board_rendezvous", "/rendezvous")

SHOWN: Final = 20  #: runs, those that were written to last


@board_rendezvous.get("")
def rendezvous() -> Response:
    """Show the runs that were written to last."""
    from fedflow.board.presenters.rendezvous import run_view  # most servers never need it

    found = services().rendezvous.latest(limit=SHOWN)
    return page(
        "rendezvous.html",
        title=t("Rendezvous"),
        nav="parties",
        runs=[run_view(run) for run in found],
        most=SHOWN,
    )
