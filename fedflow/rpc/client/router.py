"""The `PartyClient` of a server: takes the way that the route table names."""

from __future__ import annotations

from typing import Any

from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.rpc.client.commands import Calls
from fedflow.rpc.client.routes import RouteTable


class Router:
    """Calls local parties in process and the others over the network."""

    def __init__(self, routes: RouteTable, *, local: Calls, remote: Calls) -> None:
        self._routes = routes
        self._local = local
        self._remote = remote

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """Send once and return the answer. Raises: PartyUnreachable, NoRoute, BadPacket."""
        way = self._local if self._routes.is_local(destination) else self._remote
        return way.call(
            source, destination, path, body,
            request_id=request_id, job_id=job_id, deadline_s=deadline_s,
        )  # fmt: skip

    def knows(self, party_id: str) -> bool:
        """Tell whether the party is here or there is a route to it."""
        return self._routes.knows(party_id)

    def is_local(self, party_id: str) -> bool:
        """Tell whether this server hosts the party."""
        return self._routes.is_local(party_id)
