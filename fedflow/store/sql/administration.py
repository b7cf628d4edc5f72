"""Permissions, keys of other parties, registered servers and services, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.domain.administration.records import (
    Grant,
    GrantKind,
    RegisteredServer,
    RegisteredService,
    SiteKey,
)
from fedflow.store.mapper import JSON, Mapper, word
from fedflow.store.session import Session
from fedflow.store.tables import PERMISSION, SERVER, SERVICE, SITE_KEY

_PUBLIC: Final = "public"
_ONE_GRANT: Final = (
    "f_party_id = ? AND f_role = ? AND f_kind = ? AND f_name = ? AND f_namespace = ?"
)
_GRANTS: Final = Mapper(
    PERMISSION,
    Grant,
    {
        "party_id": "f_party_id",
        "role": "f_role",
        "kind": word(GrantKind)("f_kind"),
        "name": "f_name",
        "namespace": "f_namespace",
    },
    also={"f_create_time": lambda _grant, now_ms: now_ms},
)
_SITE_KEYS: Final = Mapper(
    SITE_KEY,
    SiteKey,
    {"party_id": "f_party_id", "pem": "f_key", "updated_ms": "f_update_time"},
    also={"f_key_name": _PUBLIC},
)
_SERVERS: Final = Mapper(
    SERVER,
    RegisteredServer,
    {"name": "f_server_name", "host": "f_host", "port": "f_port", "protocol": "f_protocol"},
    also={"f_update_time": lambda _value, now_ms: now_ms},
)
_SERVICES: Final = Mapper(
    SERVICE,
    RegisteredService,
    {
        "server": "f_server_name",
        "name": "f_service_name",
        "url": "f_url",
        "method": "f_method",
        "params": JSON("f_params"),
        "data": JSON("f_data"),
        "headers": JSON("f_headers"),
    },
    also={"f_update_time": lambda _value, now_ms: now_ms},
)


class SqlPermissions:
    """See `app.ports.administration.PermissionStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, grants: Sequence[Grant], *, now_ms: int) -> None:
        self._session.insert_many(PERMISSION, (_GRANTS.row(grant, now_ms) for grant in grants))

    def remove(self, grants: Sequence[Grant]) -> int:
        return sum(
            self._session.write(
                f"DELETE FROM t_permission WHERE {_ONE_GRANT}",  # noqa: S608  a constant
                (g.party_id, g.role, g.kind.value, g.name, g.namespace),
            )
            for g in grants
        )

    def of(self, party_id: str) -> list[Grant]:
        found = self._session.rows(f"{_GRANTS.select} WHERE f_party_id = ?", (party_id,))
        return sorted(_GRANTS.all(found))

    def parties(self) -> list[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_party_id FROM t_permission ORDER BY f_party_id"
        )
        return [party_id for (party_id,) in found]


class SqlSiteKeys:
    """See `app.ports.administration.SiteKeyStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, key: SiteKey) -> None:
        self._session.replace(SITE_KEY, _SITE_KEYS.row(key))

    def get(self, party_id: str) -> SiteKey | None:
        found = self._session.row(
            f"{_SITE_KEYS.select} WHERE f_party_id = ? AND f_key_name = ?", (party_id, _PUBLIC)
        )
        return _SITE_KEYS.one(found)

    def drop(self, party_id: str) -> bool:
        sql = "DELETE FROM t_site_key_info WHERE f_party_id = ? AND f_key_name = ?"
        return self._session.write(sql, (party_id, _PUBLIC)) > 0


class SqlRegistry:
    """See `app.ports.administration.RegistryStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put_server(self, server: RegisteredServer, *, now_ms: int) -> None:
        self._session.replace(SERVER, _SERVERS.row(server, now_ms))

    def servers(self) -> list[RegisteredServer]:
        return sorted(_SERVERS.all(self._session.rows(_SERVERS.select)), key=lambda s: s.name)

    def put_service(self, service: RegisteredService, *, now_ms: int) -> None:
        self._session.replace(SERVICE, _SERVICES.row(service, now_ms))

    def services(self, name: str) -> list[RegisteredService]:
        found = self._session.rows(f"{_SERVICES.select} WHERE f_service_name = ?", (name,))
        return sorted(_SERVICES.all(found), key=lambda s: s.server)
