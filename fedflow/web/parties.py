"""`/v1/party/list` and `/v1/party/ping`: other parties, as this server sees them. fedflow's own."""

from __future__ import annotations

from typing import TypedDict

from flask import Blueprint, Response

from fedflow.app.initiator.neighbours import Neighbour, Neighbours
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Text
from fedflow.web.responses import success
from fedflow.web.routes import route

parties = Blueprint("parties", __name__, url_prefix="/party")
parties.before_request(require_client)


class WhichBody(Body, frozen=True):
    """One party, or all."""

    party_id: Text | None = None


class PingBody(Body, frozen=True):
    """A party."""

    party_id: Text


class NeighbourRow(TypedDict):
    """Another party. Times are in ms since the epoch; null is never, or not known."""

    party_id: str
    address: str | None  #: null: there is no route
    state: str  #: of its circuit: closed, open or half_open
    since: int | None
    failures: int  #: calls in a row that nobody answered
    last_heard: int | None
    last_failure: int | None
    last_error: str
    waiting: int  #: commands in the outbox
    next_try: int | None
    round_trip_ms: float | None
    protocol: int | None  #: that both speak
    version: str | None  #: of its fedflow


class PingRow(TypedDict):
    """What a call and the call back met."""

    party: NeighbourRow
    broken: list[str]  #: a sentence per hop that does not work


@route(parties, "/list", body=WhichBody, data=list[NeighbourRow], own=True)
@route(parties, "/list", body=WhichBody, data=list[NeighbourRow], methods=("GET",), own=True)
def party_list(body: WhichBody) -> Response:
    """Return how the calls to other parties go: all that have a route, a grant or commands."""
    found = _neighbours().all() if body.party_id is None else [_neighbours().one(body.party_id)]
    return success([_row(one) for one in found])


@route(parties, "/ping", body=PingBody, data=PingRow, own=True)
def party_ping(body: PingBody) -> Response:
    """Call a party now and let it call back; the answer names what is broken."""
    party, broken = _neighbours().ping(body.party_id)
    return success({"party": _row(party), "broken": broken})


def _neighbours() -> Neighbours:
    return services().administration.neighbours


def _row(one: Neighbour) -> NeighbourRow:
    circuit = one.circuit
    return {
        "party_id": one.party_id,
        "address": one.address,
        "state": circuit.state.value,
        "since": circuit.since_ms,
        "failures": circuit.failures,
        "last_heard": circuit.answered_ms,
        "last_failure": circuit.failed_ms,
        "last_error": circuit.error,
        "waiting": one.waiting,
        "next_try": circuit.next_try_ms,
        "round_trip_ms": circuit.round_trip_ms,
        "protocol": one.protocol,
        "version": (circuit.speaks.product or None) if circuit.speaks else None,
    }
