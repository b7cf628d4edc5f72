"""`/v1/party/list` and `/v1/party/ping`: other parties, as this server sees them. fedflow's own."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.app.initiator import neighbours as known
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.parties import Neighbour, Ping

parties = Blueprint("parties", __name__, url_prefix="/party")
parties.before_request(require_client)


class WhichBody(Body, frozen=True):
    """One party, or all."""

    party_id: Text | None = None


class PingBody(Body, frozen=True):
    """A party."""

    party_id: Text


@route(parties, "/list", body=WhichBody, data=list[Neighbour], own=True)
@route(parties, "/list", body=WhichBody, data=list[Neighbour], methods=("GET",), own=True)
def party_list(body: WhichBody) -> Response:
    """Return the state of calls to other parties: all with a route, a grant or commands."""
    found = _neighbours().all() if body.party_id is None else [_neighbours().one(body.party_id)]
    return success([_shown(one) for one in found])


@route(parties, "/ping", body=PingBody, data=Ping, own=True)
def party_ping(body: PingBody) -> Response:
    """Call a party now and let it call back; the answer names what is broken."""
    party, broken = _neighbours().ping(body.party_id)
    dial_in = tuple(services().info.dial_in())
    return success(Ping(party=_shown(party), broken=tuple(broken), dial_in=dial_in))


def _neighbours() -> known.Neighbours:
    return services().administration.neighbours


def _shown(one: known.Neighbour) -> Neighbour:
    circuit = one.circuit
    return Neighbour(
        party_id=one.party_id,
        address=one.address,
        state=circuit.state.value,
        since=circuit.since_ms,
        failures=circuit.failures,
        last_heard=circuit.answered_ms,
        last_failure=circuit.failed_ms,
        last_error=circuit.error,
        waiting=one.waiting,
        next_try=circuit.next_try_ms,
        round_trip_ms=circuit.round_trip_ms,
        protocol=one.protocol,
        version=(circuit.speaks.product or None) if circuit.speaks else None,
    )
