"""What administrators ask a server: `client.keys`, `.permissions`, `.providers`, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from fedflow.base.errors.data import NoData
from fedflow.client.connection import Connection
from fedflow.client.documents import Document, read_document
from fedflow.wire.api.administration import (
    Grants,
    PartyServer,
    Provider,
    Resources,
    ReturnedCores,
    ServerAddress,
    ServiceInfo,
    ServiceInfos,
)
from fedflow.wire.api.parties import Neighbour, PartyInfo, Ping


class _Calls:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class KeyCalls(_Calls):
    """Public keys of parties, which their signatures are checked with."""

    def get(self, party_id: int | str) -> str:
        """Return a party's public key, PEM; this server's own too. Raises: NoData: not known."""
        found: str | None = self._connection.look_up(
            "key/query", {"party_id": str(party_id), "key_name": "public"}, str | None
        )
        if found is None:
            raise NoData(reason=f"no public key of party {party_id} is stored")
        return found

    def save(self, party_id: int | str, key: str) -> None:
        """Store another party's public key, PEM. Raises: BadKey."""
        self._connection.do("key/public/save", {"party_id": str(party_id), "key": key})

    def delete(self, party_id: int | str) -> None:
        """Forget another party's public key."""
        self._connection.do("key/public/delete", {"party_id": str(party_id)})


class PermissionCalls(_Calls):
    """What jobs of other parties may use at this server."""

    def get(self, party_id: int | str) -> Grants:
        """Return what was granted to a party."""
        found: Grants = self._connection.look_up(
            "permission/query", {"party_id": str(party_id)}, Grants
        )
        return found

    def grant(
        self,
        party_id: int | str,
        *,
        components: Sequence[str] = (),
        tables: Sequence[tuple[str, str]] | None = (),
    ) -> None:
        """Let a party use components (`*`: all) and tables (namespace, name; None: all, later too).

        Raises: PermissionsOff, UnknownGrant.
        """
        self._change("permission/grant", party_id, components, tables)

    def revoke(
        self,
        party_id: int | str,
        *,
        components: Sequence[str] = (),
        tables: Sequence[tuple[str, str]] | None = (),
    ) -> None:
        """Take back what was granted; `tables` None means all of them."""
        self._change("permission/delete", party_id, components, tables)

    def _change(
        self,
        command: str,
        party_id: int | str,
        components: Sequence[str],
        tables: Sequence[tuple[str, str]] | None,
    ) -> None:
        body: dict[str, Any] = {"party_id": str(party_id)}
        if components:
            body["component"] = ",".join(components)
        if tables is None:
            body["dataset"] = "all"
        elif tables:
            body["dataset"] = [{"namespace": space, "name": name} for space, name in tables]
        self._connection.do(command, body)


class ProviderCalls(_Calls):
    """Packages of components."""

    def all(self) -> list[Provider]:
        """Return every version of every provider."""
        rows: dict[str, dict[str, Any]] = self._connection.look_up(
            "provider/get", {}, dict[str, dict[str, Any]]
        )
        found = [
            {**version, "name": name, "version": key,
             "is_default": (versions.get("default") or {}).get("version") == key}
            for name, versions in rows.items()
            for key, version in versions.items()
            if key != "default"
        ]  # fmt: skip
        typed: list[Provider] = self._connection.typed(
            found, list[Provider], command="provider/get"
        )
        return typed

    def register(self, path: str, *, name: str = "", version: str = "") -> Provider:
        """Add the provider in a folder of the server's machine, and return it.

        A name or version that is given must be the folder's own. Raises: ProviderRefused.
        """
        body = {"path": path, "name": name, "version": version}
        found: Provider = self._connection.do(
            "provider/register", {k: v for k, v in body.items() if v}, Provider
        )
        return replace(found, is_default=True)

    def delete(self, name: str, version: str) -> None:
        """Forget a version of a provider; its folder stays."""
        self._connection.do("provider/delete", {"name": name, "version": version})


class ResourceCalls(_Calls):
    """The cores of a server."""

    def get(self) -> Resources:
        """Return the cores, and the jobs that hold them."""
        found: Resources = self._connection.look_up("resource/query", {}, Resources)
        return found

    def give_back(self, job_id: str) -> list[ReturnedCores]:
        """Return the cores of an ended job that no process of it uses. Raises: JobNotFound."""
        found: list[ReturnedCores] = self._connection.do(
            "resource/return", {"job_id": job_id}, list[ReturnedCores]
        )
        return found


class ServerCalls(_Calls):
    """This server, and the servers and services that others look up here."""

    def versions(self) -> dict[str, str]:
        """Return the versions by module: FATE, FATEFlow, fedflow, API."""
        found: dict[str, str] = self._connection.look_up("server/version/get", {}, dict[str, str])
        return found

    def reload(self) -> dict[str, Any]:
        """Let the server read its conf again. Raises: ReloadRefused: nothing was changed."""
        found: dict[str, Any] = self._connection.do("server/reload", {}, dict[str, Any])
        return found

    def job_defaults(self) -> dict[str, Any]:
        """Return the defaults of job parameters."""
        found: dict[str, Any] = self._connection.look_up(
            "server/config/job/default", {}, dict[str, Any]
        )
        return found

    def party_servers(self) -> list[PartyServer]:
        """Return the servers of this party, the one that answers first."""
        found: list[PartyServer] = self._connection.look_up("server/list", {}, list[PartyServer])
        return found

    def drain(self) -> list[PartyServer]:
        """Let this server start no executors any more, and another one lead.

        Raises: NoOtherServer.
        """
        found: list[PartyServer] = self._connection.do("server/drain", {}, list[PartyServer])
        return found

    def all(self) -> dict[str, ServerAddress]:
        """Return the servers that the conf names or that were registered, by name."""
        found: dict[str, ServerAddress] = self._connection.look_up(
            "server/get", {}, dict[str, ServerAddress]
        )
        return found

    def register(self, name: str, host: str, port: int, protocol: str = "http") -> None:
        """Store where a server listens. Raises: BadAddress."""
        body = {"host": host, "port": port, "protocol": protocol}
        self._connection.do(f"server/{_word(name)}/register", body)

    def services(self, service: str, server: str | None = None) -> list[ServiceInfo]:
        """Return the services of a name, of one server or of all."""
        body = {"service_name": service}
        if server is not None:
            body["server_name"] = server
        found: ServiceInfos = self._connection.look_up("service/query", body, ServiceInfos)
        return list(found.service_info)

    def register_service(self, conf: Document) -> None:
        """Store a service: `server_name`, `service_name`, `uri`, ... Raises: BadAddress."""
        self._connection.do("service/registry", read_document(conf))


class PartyCalls(_Calls):
    """Other parties' servers."""

    def own(self) -> PartyInfo:
        """Return what this server tells about itself."""
        found: PartyInfo = self._connection.look_up("info/common", {}, PartyInfo)
        return found

    def all(self) -> list[Neighbour]:
        """Return all other parties that this server knows, and how the calls to them go."""
        found: list[Neighbour] = self._connection.look_up("party/list", {}, list[Neighbour])
        return found

    def get(self, party_id: int | str) -> Neighbour:
        """Return how the calls to a party go. Raises: NoRoute."""
        body = {"party_id": str(party_id)}
        found: list[Neighbour] = self._connection.look_up("party/list", body, list[Neighbour])
        return found[0]

    def ping(self, party_id: int | str) -> Ping:
        """Let this server call a party, and that one call back. Raises: NoRoute."""
        found: Ping = self._connection.look_up("party/ping", {"party_id": str(party_id)}, Ping)
        return found

    def check(self, party_id: int | str) -> PartyInfo:
        """Ask another party's server through this one: a test of the way there and back.

        Raises: NoRoute, PartyUnreachable.
        """
        found: PartyInfo = self._connection.look_up(
            f"info/party/{_word(str(party_id))}", {}, PartyInfo
        )
        return found


def _word(name: str) -> str:
    return quote(name, safe="")
