"""What servers of different parties tell each other about themselves, and how all of them stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fedflow.app.administration.info import Info
from fedflow.app.initiator.preflight import REACH, Preflight, reach
from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Store
from fedflow.app.protocol.circuit_breakers import CircuitBreakers, CircuitView
from fedflow.app.protocol.commands import Incoming
from fedflow.base.errors.parties import NoRoute, PartyRefused
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.records import Reply
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import fits
from fedflow.wire.versions import common

OWN: Final = "0"  #: the party id of a server that hosts all


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """Another party, as this server sees it."""

    party_id: str
    address: str | None  #: where its server is called, None: there is no route
    circuit: CircuitView
    protocol: int | None  #: that both speak, None: unknown, or they have none in common
    waiting: int  #: commands in the outbox


class Neighbours:
    """The use cases of `/v1/info/party` and `/v1/party`, and the handler at the other side.

    `routes` returns the address by party id.
    """

    def __init__(
        self,
        *,
        info: Info,
        parties: PartyClient,
        circuit_breakers: CircuitBreakers,
        store: Store,
        routes: Callable[[], Mapping[str, str]],
        preflight: Preflight,
        call_timeout_s: float,
    ) -> None:
        self._info = info
        self._parties = parties
        self._circuit_breakers = circuit_breakers
        self._store = store
        self._routes = routes
        self._preflight = preflight
        self._call_timeout_s = call_timeout_s

    def ask(self, party_id: str) -> Any:
        """Return what the server of a party says about itself, through a real call.

        Raises: BadRequest, NoRoute, PartyUnreachable, BadPacket, PartyRefused.
        """
        self._check(party_id)
        self._circuit_breakers.hurry(party_id, after_s=0.0)
        reply = reach(self._parties, party_id, timeout_s=self._call_timeout_s)
        if reply.retcode != 0:
            raise PartyRefused(party_id=party_id, command=REACH, reason=reply.retmsg)
        return reply.data

    def answer(self, _incoming: Incoming) -> Reply:
        """Answer the call of another party."""
        return Reply(retcode=0, data=msgspec.to_builtins(self._info.common()))

    def all(self) -> list[Neighbour]:
        """Return all other parties with a route, a grant, a job under way or a waiting command."""
        routes = self._routes()
        with self._store.read() as tx:
            waiting = tx.outbox.sizes()
            granted = tx.permissions.parties()
        known = {*routes, *waiting, *granted, *self._circuit_breakers.parties()}
        return [
            self._neighbour(party_id, routes, waiting)
            for party_id in sorted(known)
            if not self._parties.is_local(party_id) and party_id != "default"
        ]

    def watch(self, party_id: str | None = None) -> None:
        """Have a party, or all with a route, called now and then for as long as this is repeated:
        somebody looks how they stand.
        """
        named = sorted(self._routes()) if party_id is None else [party_id]
        self._circuit_breakers.watch(
            p for p in named if p != "default" and not self._parties.is_local(p)
        )  # fmt: skip

    def one(self, party_id: str) -> Neighbour:
        """Return one other party. Raises: BadRequest, NoRoute."""
        self._check(party_id)
        with self._store.read() as tx:
            waiting = tx.outbox.sizes()
        return self._neighbour(party_id, self._routes(), waiting)

    def ping(self, party_id: str) -> tuple[Neighbour, list[str]]:
        """Call a party now and let it call back; return it, and what is broken.

        Raises: BadRequest, NoRoute.
        """
        self._check(party_id)
        broken: list[str] = []
        if not self._parties.is_local(party_id):
            own = Site(Role.GUEST, PartyId(self._info.place.party_id or OWN))
            broken = [hop.reason for hop in self._preflight.ping(own, party_id)]
        return self.one(party_id), broken

    def _check(self, party_id: str) -> None:
        if not fits("party_id", party_id):
            raise BadRequest(reason=f"{party_id[:100]!r} is not a party id")
        if not self._parties.knows(party_id):
            raise NoRoute(party_id=party_id)

    def _neighbour(
        self, party_id: str, routes: Mapping[str, str], waiting: Mapping[str, int]
    ) -> Neighbour:
        circuit = self._circuit_breakers.view(party_id)
        return Neighbour(
            party_id=party_id,
            address=routes.get(party_id, routes.get("default")),
            circuit=circuit,
            protocol=common(self._circuit_breakers.speaks, circuit.speaks)
            if circuit.speaks
            else None,
            waiting=waiting.get(party_id, 0),
        )
