"""`/board/queue`: the engines of this server, who holds their cores, who waits for them and why."""

from __future__ import annotations

from typing import Any, Final

from flask import Response, request, url_for

from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, came_from, fragment, page, redirect_to
from fedflow.board.presenters import queue as shapes
from fedflow.board.presenters.paging import ListPage, number_of
from fedflow.board.recent import RecentOfApp
from fedflow.board.urls import site_url
from fedflow.domain.administration.accounts import AccountRole
from fedflow.web.context import services

board_queue = board_blueprint("board_queue", "/queue")

SIZE: Final = 50  #: waiting jobs of one page
GUESTS: Final = 50  #: waiting party jobs of other initiators that are listed
HELD: Final = 200  #: party jobs with cores that are listed
FRESH_S: Final = 1.5  #: less than the pause between two requests of one page, seconds

_NOW: Final = RecentOfApp[int, tuple[str, dict[str, Any]]](name="queue", limit=32, fresh_s=FRESH_S)


@board_queue.get("")
def queue() -> Response:
    """Show the queue."""
    return page("queue.html", title=t("Queue and resources"), nav="queue", **_values())


@board_queue.get("/now")
def now() -> Response:
    """Return what changes of the page."""
    number = number_of(request.args.get("page", ""))
    tag, values = _NOW.get(number, lambda: _tagged(number))
    return fragment("queue_now.html", tag=tag, **values)


@act(board_queue, "/return/<job_id>", role=AccountRole.OPERATOR)
def give_back(job_id: str) -> Response:
    """Give back the cores of an ended job that none of its processes uses any more."""
    done = services().resources.give_back(job_id)
    if any(one.returned for one in done):
        message, kind = t("The cores of job {job_id} were given back.", job_id=job_id), "ok"
    else:
        message = t("Job {job_id} keeps its cores: a process of it runs.", job_id=job_id)
        kind = "bad"
    return redirect_to(came_from(url_for("board_queue.queue")), message=message, kind=kind)


def _tagged(number: int) -> tuple[str, dict[str, Any]]:
    values = _values(number)
    held = [(job.key, job.status, job.applied_ms) for job, _ in values["holders"]]
    return repr(sorted({**values, "holders": held}.items())), values


def _values(number: int | None = None) -> dict[str, Any]:
    number = number or number_of(request.args.get("page", ""))
    use = services().resources.query()
    places, count = services().queue.page(limit=SIZE, offset=(number - 1) * SIZE)
    last = ListPage(number=number, size=SIZE, count=count).last
    if number > last:  # others have gone since
        return _values(last)
    guests = services().resources.asked_for(limit=GUESTS + 1)
    return {
        "engines": shapes.engine_rows(use.engines),
        "holders": shapes.holders(use.jobs)[:HELD],
        "held_count": len(use.jobs),
        "waiters": shapes.waiters(places),
        "pages": ListPage(number=number, size=SIZE, count=count),
        "guests": shapes.guests(guests[:GUESTS]),
        "more_guests": len(guests) > GUESTS,
        "job_page": site_url,
    }
