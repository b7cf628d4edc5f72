"""Where parties are: which this server hosts, and the address of each other one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from fedflow.base.errors.start import BadSetting
from fedflow.base.settings import OVER_EXCHANGE
from fedflow.base.values import dataclass
from fedflow.wire.exchange import EXCHANGE

OWN: Final = "0"  #: the party id that always means this server
DEFAULT: Final = "default"  #: the route for parties that have none of their own


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """The gRPC address of a party's server, or of an exchange that passes packets on."""

    host: str
    port: int
    tls: bool = True
    name: str | None = None  #: DNS name in its certificate; None: `party-<party id>`
    exchange: bool = False  #: an exchange is there: what goes to the party is sealed for it
    others: tuple[Route, ...] = ()  #: further servers of the same party, for when this one is away

    @property
    def host_port(self) -> str:
        """Return `host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def address(self) -> str:
        """Return the address as settings have it."""
        return OVER_EXCHANGE + self.host_port if self.exchange else self.host_port

    def turned(self, times: int) -> Route:
        """Return the same servers beginning with another one: each in its turn comes first."""
        servers = (replace(self, others=()), *self.others)
        first = times % len(servers)
        turned = servers[first:] + servers[:first]
        return replace(turned[0], others=turned[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Routes:
    """One version of the table."""

    local: frozenset[str] | None  #: party ids that this server hosts; None = all without a route
    remote: Mapping[str, Route]
    default: Route | None = None
    partners: frozenset[str] | None = None  #: whose calls are answered; None: all with a route


class RouteTable:
    """The routes in force; `replace` puts new ones in their place at once (thread-safe)."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def replace(self, routes: Routes) -> None:
        """Use other routes from now on; calls under way end on the old ones."""
        self._routes = routes

    def is_local(self, party_id: str) -> bool:
        """Tell whether this server hosts the party."""
        routes = self._routes
        if routes.local is None:
            return party_id not in routes.remote
        return party_id == OWN or party_id in routes.local

    def find(self, party_id: str) -> Route | None:
        """Return the route to another party, or None if there is none."""
        routes = self._routes
        return routes.remote.get(party_id, routes.default)

    def knows(self, party_id: str) -> bool:
        """Tell whether the party is here or has a route."""
        return self.is_local(party_id) or self.find(party_id) is not None

    def is_partner(self, party_id: str) -> bool:
        """Tell whether calls of a party are answered."""
        partners = self._routes.partners
        if partners is None or self.is_local(party_id):
            return self.knows(party_id)
        return party_id in partners

    def parties(self) -> tuple[str, ...]:
        """Return the parties with a route of their own, in the order of the settings."""
        return tuple(self._routes.remote)

    def addresses(self) -> dict[str, str]:
        """Return `host:port` by party, with `DEFAULT` for those without a route of their own."""
        routes = self._routes
        found = {party_id: route.address for party_id, route in routes.remote.items()}
        if routes.default is not None:
            found[DEFAULT] = routes.default.address
        return found


def make_routes(
    local: Iterable[str] | None, remote: Mapping[str, str], *, tls: bool,
    partners: Iterable[str] | None = None,
) -> Routes:  # fmt: skip
    """Return routes from settings: party id (or `default`) -> `host:port`; others as in `Routes`.

    A party with several servers has all their addresses, with commas between them. Raises:
    BadSetting: an address is not `host:port`, or a local party has a route too.
    """
    own = None if local is None else frozenset(local)
    found = {
        party: _parse_addresses(text, path=f"routes.{party}", tls=tls)
        for party, text in remote.items()
    }
    for party in found:
        if own is not None and party in own:
            raise BadSetting(path=f"routes.{party}", reason="this server hosts the party itself")
    default = found.pop(DEFAULT, None)
    listed = None if partners is None else frozenset(partners)
    return Routes(local=own, remote=found, default=default, partners=listed)


def _parse_addresses(text: str, *, path: str, tls: bool) -> Route:
    first, *others = (parse_address(one, path=path, tls=tls) for one in text.split(","))
    return replace(first, others=tuple(others))


def parse_address(text: str, *, path: str, tls: bool) -> Route:
    """Return the route to `host:port` or `[ipv6]:port`, over an exchange if `exchange://` is before
    it. Raises: BadSetting: it is neither.
    """
    is_exchange = text.strip().startswith(OVER_EXCHANGE)
    host, colon, port = text.strip().removeprefix(OVER_EXCHANGE).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise BadSetting(path=path, reason=f"{text!r} is not HOST:PORT")
    if not 1 <= int(port) <= 65535:
        raise BadSetting(path=path, reason=f"{port} is not a port (1 to 65535)")
    if is_exchange:
        name = f"party-{EXCHANGE}"
        return Route(host=host, port=int(port), tls=tls, name=name, exchange=True)
    return Route(host=host, port=int(port), tls=tls)
