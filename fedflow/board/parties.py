"""`/board/parties`: the other parties and how they can be reached; the servers of this party."""

from __future__ import annotations

from typing import Any, Final

from flask import Response, url_for
from msgspec.structs import replace

from fedflow.app.initiator.neighbours import Neighbour, Neighbours
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.message_catalog import told
from fedflow.board.page import board_blueprint, fragment, page, redirect_to
from fedflow.board.presenters import parties as shapes
from fedflow.board.presenters.job_list import shown_status
from fedflow.board.urls import site_url
from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.records import JobFilter
from fedflow.web.context import services

board_parties = board_blueprint("board_parties", "/parties")

PARTIES: Final = 500  #: that are listed
JOBS: Final = 20  #: of one party that are listed
_LOOKED: Final = 100  #: party jobs that are searched for these


@board_parties.get("")
def parties() -> Response:
    """Show all other parties, and the servers of this one."""
    return page("parties.html", title=t("Parties"), nav="parties", **_all())


@board_parties.get("/now")
def now() -> Response:
    """Return what changes of the page; the parties are called while somebody looks at it."""
    _neighbours().watch()
    values = _all()
    return fragment("parties_now.html", tag=repr(values), **values)


@board_parties.get("/<party_id>")
def party(party_id: str) -> Response:
    """Show one party, and the jobs in which it took part last."""
    one = _row(_neighbours().one(party_id))
    found = services().job_lists.lines(JobFilter(partner_part=party_id, limit=_LOOKED))
    return page(
        "party.html",
        title=t("Party {party}", party=party_id),
        nav="parties",
        party=one,
        jobs=shapes.jobs_with(found, party_id, limit=JOBS),
        job_page=site_url,
        shown_status=shown_status,
    )


@board_parties.get("/<party_id>/now")
def party_now(party_id: str) -> Response:
    """Return what changes of a party's page; it is called while somebody looks at it."""
    one = _row(_neighbours().one(party_id))
    _neighbours().watch(party_id)
    return fragment("party_now.html", tag=repr(one), party=one)


@act(board_parties, "/<party_id>/call", role=AccountRole.OPERATOR)
def call(party_id: str) -> Response:
    """Call a party now and let it call back; say which way is broken."""
    found, broken = _neighbours().ping(party_id)
    url = url_for("board_parties.party", party_id=party_id)
    if broken:
        return redirect_to(url, message=" ".join(told(one) for one in broken), kind="bad")
    trip = _row(found).round_trip_ms
    if trip is None:
        message = t("Party {party} answered, and its call back arrived.", party=party_id)
    else:
        message = t(
            "Party {party} answered, and its call back arrived. A round trip takes {n} ms.",
            party=party_id,
            n=trip,
        )
    return redirect_to(url, message=message)


@act(board_parties, "/drain", role=AccountRole.ADMIN)
def drain() -> Response:
    """Start no executors at this server any more and let another one of the party lead."""
    services().servers.drain()
    message = t("This server starts nothing any more; another one leads. It may be stopped now.")
    return redirect_to(url_for("board_parties.parties"), message=message)


def _all() -> dict[str, Any]:
    found = [_row(one) for one in _neighbours().all()]
    place = services().info.place
    return {
        "parties": found[:PARTIES],
        "count": len(found),
        "own": place.party_id or "",
        "lines": [replace(one, last_try=None) for one in services().info.dial_in()],
        "servers": shapes.servers(services().servers.listed()),
    }


def _row(one: Neighbour) -> shapes.PartyRow:
    return shapes.row(one, services().info.now_ms())


def _neighbours() -> Neighbours:
    return services().administration.neighbours
