"""Other programs of this party: where they listen, what they offer, and passing requests on.

Anybody who may use the API can register a server or a service, so that others find it there. But
this server itself calls only those that its conf lists below `servers`: else it would be an open
proxy into the party's network. Source: `docs/reference/rest.md#servers-and-services`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.requests import BadAddress, BadRequest, NotSupportedYet, ServerNotListed
from fedflow.base.values import dataclass
from fedflow.domain.administration.records import RegisteredServer, RegisteredService

PROTOCOLS: Final = ("http", "https")
METHODS: Final = ("GET", "POST", "PUT", "DELETE")

_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,30}")
_SERVICE: Final = re.compile(r"[0-9A-Za-z_./-]{1,100}")
_HOST: Final = re.compile(r"[0-9A-Za-z.-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_ENDPOINT: Final = re.compile(r"/(?!/)[!-\[\]-~]{0,1999}")  #: printable ASCII without a backslash
_MAX_URL: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Forwarded:
    """What another server answered."""

    status: int
    content: bytes
    content_type: str


class ServerCaller(Protocol):
    """Calls other programs over HTTP."""

    def call(
        self, server: RegisteredServer, method: str, endpoint: str, body: Mapping[str, Any]
    ) -> Forwarded:
        """Send JSON and return the answer. Raises: ServerCallFailed."""

    def reach(self, server: RegisteredServer) -> None:
        """Open a connection and close it. Raises: ServerCallFailed."""


class Registry:
    """The use cases of `/v1/server`, `/v1/service` and `/v1/forward`.

    `listed` are the servers of the conf; it may be replaced while the server runs.
    """

    def __init__(
        self, *, store: Store, clock: Clock, parties: PartyClient, caller: ServerCaller,
        listed: Mapping[str, RegisteredServer],
    ) -> None:  # fmt: skip
        self._store = store
        self._clock = clock
        self._parties = parties
        self._caller = caller
        self.listed = listed

    # --- servers ----------------------------------------------------------------------------------

    def servers(self) -> dict[str, RegisteredServer]:
        """Return all servers by upper-case name; the conf wins."""
        with self._store.read() as tx:
            stored = {server.name: server for server in tx.registry.servers()}
        return {**stored, **self.listed}

    def server(self, name: str) -> RegisteredServer | None:
        """Return one server, None if it is not known."""
        return self.servers().get(name.upper())

    def register(self, name: str, host: str, port: int, protocol: str = "http") -> None:
        """Store where a server listens.

        Raises: BadAddress; BadRequest: the conf lists this name.
        """
        server = _server(name, host, port, protocol)
        if server.name in self.listed:
            raise BadRequest(reason=f"the server {server.name} is set in the conf")
        with self._store.transaction() as tx:
            tx.registry.put_server(server, now_ms=self._clock.now_ms())

    # --- services ---------------------------------------------------------------------------------

    def register_service(self, service: RegisteredService, uri: str, protocol: str | None) -> None:
        """Store a service of a known server; its URL is the server's address and `uri`.

        Raises: BadAddress, BadRequest.
        """
        server = self.server(service.server)
        if server is None:
            raise BadAddress(
                what=f"The server {service.server[:100]}", reason="it is not registered"
            )
        self._put_services(server, {service.name: (service, uri)}, protocol)

    def register_server(
        self, name: str, host: str, port: int, protocol: str | None,
        services: Mapping[str, tuple[RegisteredService, str]],
    ) -> None:  # fmt: skip
        """Store a server with its services; one that the conf lists must be reachable.

        Raises: BadAddress, BadRequest, ServerCallFailed.
        """
        server = _server(name, host, port, protocol or "http")
        listed = self.listed.get(server.name)
        if listed is not None and (listed.host, listed.port) != (server.host, server.port):
            raise BadRequest(reason=f"the server {server.name} is set in the conf")
        if listed is not None:
            self._caller.reach(listed)
        self._put_services(server, services, protocol, and_server=listed is None)

    def services(self, name: str, server: str | None = None) -> list[RegisteredService]:
        """Return the services of a name, of one server or of all."""
        with self._store.read() as tx:
            found = tx.registry.services(name)
        return [s for s in found if server is None or s.server == server]

    def _put_services(
        self, server: RegisteredServer, services: Mapping[str, tuple[RegisteredService, str]],
        protocol: str | None, *, and_server: bool = False,
    ) -> None:  # fmt: skip
        checked = [_service(server, one, uri, protocol) for one, uri in services.values()]
        now_ms = self._clock.now_ms()
        with self._store.transaction() as tx:
            if and_server:
                tx.registry.put_server(server, now_ms=now_ms)
            for service in checked:
                tx.registry.put_service(service, now_ms=now_ms)

    # --- forward ----------------------------------------------------------------------------------

    def forward(
        self, name: str, method: str, endpoint: str, body: Mapping[str, Any], *,
        destination: str | None = None,
    ) -> Forwarded:  # fmt: skip
        """Pass a request on to a server that the conf lists.

        Raises: ServerNotListed, BadRequest, ServerCallFailed; NotSupportedYet: `destination` is a
            party of another server.
        """
        server = self.listed.get(name.upper())
        if server is None:
            raise ServerNotListed(name=name[:100])
        if destination is not None and not self._parties.is_local(destination):
            raise NotSupportedYet(what="Passing a request on to a server of another party")
        if method.upper() not in METHODS:
            raise BadRequest(reason=f"METHOD must be one of {', '.join(METHODS)}")
        if not _ENDPOINT.fullmatch(endpoint):
            raise BadRequest(reason="ENDPOINT must be a path that begins with one /")
        return self._caller.call(server, method.upper(), endpoint, body)


def _server(name: str, host: str, port: int, protocol: str) -> RegisteredServer:
    """Return a checked address. Raises: BadAddress."""
    what = f"The address {protocol[:20]}://{host[:100]}:{port}"
    if not _NAME.fullmatch(name):
        raise BadAddress(what=what, reason="a name has 1 to 30 letters, digits, _ and -")
    if not _HOST.fullmatch(host):
        raise BadAddress(what=what, reason="that is no host")
    if not 0 < port < 65_536:
        raise BadAddress(what=what, reason="that is no port")
    if protocol not in PROTOCOLS:
        raise BadAddress(what=what, reason="the protocol must be http or https")
    return RegisteredServer(name=name.upper(), host=host, port=port, protocol=protocol)


def _service(
    server: RegisteredServer, service: RegisteredService, uri: str, protocol: str | None
) -> RegisteredService:
    """Return a service with its URL. Raises: BadAddress, BadRequest."""
    if not _SERVICE.fullmatch(service.name):
        raise BadRequest(reason="a service name has 1 to 100 letters, digits and _ . / -")
    if service.method.upper() not in METHODS:
        raise BadRequest(reason=f"method must be one of {', '.join(METHODS)}")
    host = f"[{server.host}]" if ":" in server.host else server.host
    url = (
        uri
        if "://" in uri
        else f"{protocol or server.protocol}://{host}:{server.port}/{uri.lstrip('/')}"
    )
    _check_url(url)
    return RegisteredService(
        server=service.server,
        name=service.name,
        url=url,
        method=service.method.upper(),
        params=service.params,
        data=service.data,
        headers=service.headers,
    )


def _check_url(url: str) -> None:
    """Raises: BadAddress: not http or https, credentials in it, or no host."""
    what = f"The URL {url[:200]}"
    if len(url) > _MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise BadAddress(what=what, reason=f"it is no plain URL of at most {_MAX_URL} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise BadAddress(what=what, reason="it is no URL") from exc
    if parts.scheme not in PROTOCOLS:
        raise BadAddress(what=what, reason="the protocol must be http or https")
    if "@" in parts.netloc or not _HOST.fullmatch(parts.hostname or "") or port == 0:
        raise BadAddress(what=what, reason="its host or port cannot be used")
