"""Calls to other parties, and to the other servers of this one."""

from __future__ import annotations

from typing import Any, Protocol

from fedflow.app.ports.store import Store
from fedflow.domain.records import Reply
from fedflow.domain.site import Site


class PartyServers(Protocol):
    """The servers of this party, as this one of them sees them; see
    `domain/administration/servers.py`.
    """

    @property
    def own_id(self) -> str:
        """Return what this server is called among them."""

    @property
    def leads(self) -> bool:
        """Tell whether this server is the one that schedules."""

    @property
    def has_others(self) -> bool:
        """Tell whether another server is alive."""

    def is_local(self, instance_id: str) -> bool:
        """Tell whether this server looks after an attempt that names a server."""

    def lost_for_s(self, instance_id: str) -> int | None:
        """Return for how many seconds a server has been lost, None if it is not."""

    def scan_now(self, instance_id: str) -> None:
        """Let another server look at its executors now."""

    def guarded(self, store: Store) -> Store:
        """Return the store for what only the leader does: its transactions raise NotLeading."""


class CommandSender(Protocol):
    """Delivers one command to a party's server."""

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
        """Send once and return the answer. Raises: PartyUnreachable, NoRoute, BadPacket."""


class PartyRoutes(Protocol):
    """Where parties are."""

    def knows(self, party_id: str) -> bool:
        """Tell whether the party is here or there is a route to it."""

    def is_local(self, party_id: str) -> bool:
        """Tell whether this server hosts the party."""


class PartyClient(CommandSender, PartyRoutes, Protocol):
    """Delivers commands to parties, this server's own among them."""
