"""Permissions, keys of other parties, registered servers and services, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.domain.administration import (
    Grant,
    GrantKind,
    RegisteredServer,
    RegisteredService,
    SiteKey,
)
from fedflow.store.codec import from_json, to_json
from fedflow.store.session import Found, Session
from fedflow.store.tables import PERMISSION, SERVER, SERVICE, SITE_KEY

_PUBLIC: Final = "public"
_ONE_GRANT: Final = (
    "f_party_id = ? AND f_role = ? AND f_kind = ? AND f_name = ? AND f_namespace = ?"
)
_SERVICE: Final = (
    "SELECT f_server_name, f_service_name, f_url, f_method, f_params, f_data, f_headers "
    "FROM t_service_registry_info"
)


class SqlPermissions:
    """See `app.ports.Permissions`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, grants: Sequence[Grant], *, now_ms: int) -> None:
        self._session.insert_many(
            PERMISSION,
            (
                {
                    "f_party_id": g.party_id,
                    "f_role": g.role,
                    "f_kind": g.kind.value,
                    "f_name": g.name,
                    "f_namespace": g.namespace,
                    "f_create_time": now_ms,
                }
                for g in grants
            ),
        )

    def remove(self, grants: Sequence[Grant]) -> int:
        return sum(
            self._session.write(
                f"DELETE FROM t_permission WHERE {_ONE_GRANT}",  # noqa: S608  a constant
                (g.party_id, g.role, g.kind.value, g.name, g.namespace),
            )
            for g in grants
        )

    def of(self, party_id: str) -> list[Grant]:
        found = self._session.rows(
            "SELECT f_party_id, f_role, f_kind, f_name, f_namespace FROM t_permission "
            "WHERE f_party_id = ?",
            (party_id,),
        )
        return sorted(
            Grant(party_id=party, role=role, kind=GrantKind(kind), name=name, namespace=namespace)
            for party, role, kind, name, namespace in found
        )

    def parties(self) -> list[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_party_id FROM t_permission ORDER BY f_party_id"
        )
        return [party_id for (party_id,) in found]


class SqlSiteKeys:
    """See `app.ports.SiteKeys`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, key: SiteKey) -> None:
        self._session.replace(
            SITE_KEY,
            {
                "f_party_id": key.party_id,
                "f_key_name": _PUBLIC,
                "f_key": key.pem,
                "f_update_time": key.updated_ms,
            },
        )

    def get(self, party_id: str) -> SiteKey | None:
        found = self._session.row(
            "SELECT f_party_id, f_key, f_update_time FROM t_site_key_info "
            "WHERE f_party_id = ? AND f_key_name = ?",
            (party_id, _PUBLIC),
        )
        if found is None:
            return None
        return SiteKey(party_id=found[0], pem=found[1], updated_ms=found[2])

    def drop(self, party_id: str) -> bool:
        sql = "DELETE FROM t_site_key_info WHERE f_party_id = ? AND f_key_name = ?"
        return self._session.write(sql, (party_id, _PUBLIC)) > 0


class SqlRegistry:
    """See `app.ports.Registry`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put_server(self, server: RegisteredServer, *, now_ms: int) -> None:
        self._session.replace(
            SERVER,
            {
                "f_server_name": server.name,
                "f_host": server.host,
                "f_port": server.port,
                "f_protocol": server.protocol,
                "f_update_time": now_ms,
            },
        )

    def servers(self) -> list[RegisteredServer]:
        found = self._session.rows(
            "SELECT f_server_name, f_host, f_port, f_protocol FROM t_server_registry_info"
        )
        servers = (
            RegisteredServer(name=name, host=host, port=port, protocol=protocol)
            for name, host, port, protocol in found
        )
        return sorted(servers, key=lambda s: s.name)

    def put_service(self, service: RegisteredService, *, now_ms: int) -> None:
        self._session.replace(
            SERVICE,
            {
                "f_server_name": service.server,
                "f_service_name": service.name,
                "f_url": service.url,
                "f_method": service.method,
                "f_params": to_json(service.params),
                "f_data": to_json(service.data),
                "f_headers": to_json(service.headers),
                "f_update_time": now_ms,
            },
        )

    def services(self, name: str) -> list[RegisteredService]:
        found = self._session.rows(f"{_SERVICE} WHERE f_service_name = ?", (name,))
        return sorted((_service(row) for row in found), key=lambda s: s.server)


def _service(row: Found) -> RegisteredService:
    server, name, url, method, params, data, headers = row
    return RegisteredService(
        server=server,
        name=name,
        url=url,
        method=method,
        params=from_json(params),
        data=from_json(data),
        headers=from_json(headers),
    )
