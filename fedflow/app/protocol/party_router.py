"""The `PartyClient` of a server: the network to other parties, the handlers to its own ones."""

from __future__ import annotations

import logging
from typing import Any

from fedflow.app.ports.parties import CommandSender, PartyRoutes, PartyServers
from fedflow.app.protocol.commands import Commands, incoming_of, serve
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import ForbiddenRoute
from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.wire import envelope
from fedflow.wire.headers import party_headers
from fedflow.wire.packet import Dispatch
from fedflow.wire.paths import PREFIX, parse_party_path

logger = logging.getLogger(__name__)


class PartyRouter:
    """Calls the handlers of a party that this server hosts, and others over the network.

    A server that does not lead asks the leader of its party's servers.
    """

    def __init__(
        self, routes: PartyRoutes, *, remote: CommandSender, servers: PartyServers, own_party: str
    ) -> None:
        """`own_party` is the source of commands that are of no site."""
        self._routes = routes
        self._remote = remote
        self._servers = servers
        self._own_party = own_party
        self._commands: Commands | None = None
        self._forward: Dispatch | None = None

    def connect(self, commands: Commands, *, forward: Dispatch) -> None:
        """Name the handlers of this server, and the way to the one that leads."""
        self._commands, self._forward = commands, forward

    def call(
        self,
        source: Site | None,
        destination: str,
        path: str,
        body: Any,
        *,
        request_id: str,
        job_id: str,
        deadline_s: float,
    ) -> Reply:
        """Send once and return the answer; the deadline has no effect on a handler.

        Raises: PartyUnreachable, NoRoute, BadPacket.
        """
        if not self._routes.is_local(destination):
            return self._remote.call(
                source,
                destination,
                path,
                body,
                request_id=request_id,
                job_id=job_id,
                deadline_s=deadline_s,
            )
        if self._commands is None or self._forward is None:
            raise RuntimeError("the server is not open yet")
        own = source.party_id if source is not None else self._own_party
        if not self._servers.leads:
            headers = party_headers(
                source=own,
                destination=destination,
                source_role=source.role.value if source is not None else "",
                request_id=request_id,
            )
            _, answer = self._forward(PREFIX + path, headers, envelope.encode(body))
            return envelope.parse_reply(answer)
        return _handled(self._commands, path, body, source_party=own, request_id=request_id)

    def knows(self, party_id: str) -> bool:
        """Tell whether the party is here or there is a route to it."""
        return self._routes.knows(party_id)

    def is_local(self, party_id: str) -> bool:
        """Tell whether this server hosts the party."""
        return self._routes.is_local(party_id)


def _handled(
    commands: Commands, path: str, body: Any, *, source_party: str, request_id: str
) -> Reply:
    """Return a handler's answer as plain JSON values, as it would come over the network."""
    full = PREFIX + path
    try:
        match = parse_party_path(full)
        if match is None:
            raise ForbiddenRoute(path=full[:200])
        incoming = incoming_of(match, body, source_party=source_party, request_id=request_id)
        answer = envelope.encode(envelope.of_reply(serve(commands, incoming)))
    except FedflowError as exc:
        logger.info(
            "POST %s refused: %s", full, exc.message, extra={"action": "refuse", "code": exc.code}
        )
        answer = envelope.encode(envelope.failure(exc))
    except Exception:
        logger.exception("POST %s failed", full, extra={"action": "view_failed"})
        answer = envelope.encode(envelope.internal_error())
    return envelope.parse_reply(answer)
