"""`/board/`: how this server and its jobs stand, at a glance."""

from __future__ import annotations

from typing import Any

from flask import Response

from fedflow.app.initiator.neighbours import Neighbour
from fedflow.board import site_roles
from fedflow.board.language import t
from fedflow.board.message_catalog import told
from fedflow.board.page import board_blueprint, fragment, page, unchanged
from fedflow.board.presenters import home as shape
from fedflow.board.urls import site_url
from fedflow.domain.job_lines import JobLine
from fedflow.domain.states import JobStatus
from fedflow.web.context import services

board_home = board_blueprint("board_home")


@board_home.get("/")
def home() -> Response:
    """Show the page."""
    return page("home.html", title=t("Home"), nav="home", **_values())


@board_home.get("/live")
def live() -> Response:
    """Return what changes of the page."""
    values = _values()
    tag = shape.tag_of(values["seen"], values["health"], values["silent"])
    return unchanged(tag) or fragment("home_live.html", tag=tag, **values)


def _values() -> dict[str, Any]:
    seen = services().job_lists.overview()
    ready, parts = services().info.ready()
    silent = [
        _party(one) for one in services().administration.neighbours.all() if one.circuit.is_silent
    ]
    return {
        "seen": seen,
        "counts": shape.counts(seen),
        "health": shape.health(ready, parts),
        "silent": silent,
        "site_url": site_url,
        "role_word": site_roles.word,
        "reason_of": _reason_of,
    }


def _party(one: Neighbour) -> shape.SilentParty:
    return shape.SilentParty(
        party_id=one.party_id,
        since_ms=one.circuit.since_ms,
        error=one.circuit.error,
        waiting=one.waiting,
    )


def _reason_of(line: JobLine) -> str:
    if line.reason is not None:
        return told(line.reason.message)
    if line.status in (JobStatus.FAILED, JobStatus.TIMEOUT):
        return t("The initiator knows why.")
    return t("It waits for its initiator.")
