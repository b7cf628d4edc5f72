"""Permissions, keys of other parties, registered servers and services, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedflow.domain.administration import Grant, RegisteredServer, RegisteredService, SiteKey
from fedflow.store.codec import plain
from fedflow.store.journal import Journal


class MemoryPermissions:
    """See `app.ports.Permissions`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._grants: dict[Grant, None] = {}

    def add(self, grants: Sequence[Grant], *, now_ms: int) -> None:
        for grant in grants:
            self._journal.keep(self._grants, grant, when=True)

    def remove(self, grants: Sequence[Grant]) -> int:
        known = {grant for grant in grants if grant in self._grants}
        for grant in known:
            self._journal.drop(self._grants, grant)
        return len(known)

    def of(self, party_id: str) -> list[Grant]:
        return sorted(grant for grant in self._grants if grant.party_id == party_id)

    def parties(self) -> list[str]:
        return sorted({grant.party_id for grant in self._grants})


class MemorySiteKeys:
    """See `app.ports.SiteKeys`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._keys: dict[str, SiteKey] = {}

    def put(self, key: SiteKey) -> None:
        self._journal.put(self._keys, key.party_id, key)

    def get(self, party_id: str) -> SiteKey | None:
        return self._keys.get(party_id)

    def drop(self, party_id: str) -> bool:
        known = party_id in self._keys
        self._journal.drop(self._keys, party_id)
        return known


class MemoryRegistry:
    """See `app.ports.Registry`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._servers: dict[str, RegisteredServer] = {}
        self._services: dict[tuple[str, str], RegisteredService] = {}

    def put_server(self, server: RegisteredServer, *, now_ms: int) -> None:
        self._journal.put(self._servers, server.name, server)

    def servers(self) -> list[RegisteredServer]:
        return sorted(self._servers.values(), key=lambda s: s.name)

    def put_service(self, service: RegisteredService, *, now_ms: int) -> None:
        stored = replace(
            service,
            params=plain(service.params),
            data=plain(service.data),
            headers=plain(service.headers),
        )
        self._journal.put(self._services, (service.server, service.name), stored)

    def services(self, name: str) -> list[RegisteredService]:
        found = [s for s in self._services.values() if s.name == name]
        return sorted(found, key=lambda s: s.server)
