"""gRPC channels to other parties: kept open, replaced when the route changes.

Commands and bulk data take channels of their own, so that a big value does not delay a command.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from fedflow.base.clock import SystemClock
from fedflow.base.errors.parties import NoRoute
from fedflow.base.settings import OVER_EXCHANGE
from fedflow.base.values import dataclass
from fedflow.rpc.client.routes import Route, RouteTable, parse_address
from fedflow.wire.exchange import EXCHANGE, CallKind

if TYPE_CHECKING:
    from fedflow.rpc.sealed.agreement import SiteKeys
    from fedflow.rpc.sealed.calls import Ends, SealedAioChannel, SealedChannel


@dataclass(frozen=True, kw_only=True)
class ChannelSettings:
    """Connections to other parties."""

    message_bytes: int = 64 * 1024 * 1024  #: largest message in or out
    connect_s: float = 5.0  #: what one attempt to connect may take, seconds: far parties need some
    keepalive_s: float = 10.0  #: pause between pings on a silent connection, seconds
    ping_timeout_s: float = 20.0  #: a connection is dead that has not answered one by then, seconds


@dataclass(frozen=True, kw_only=True)
class CallSealing:
    """What calls over an exchange are sealed with."""

    party_id: str  #: whose calls they are
    keys: Callable[[], SiteKeys]
    kinds: Mapping[str, CallKind]  #: path of a gRPC method -> the kind of call that it is


class Channels:
    """Opens channels by party id. The synchronous ones are shared by all threads."""

    def __init__(
        self, routes: RouteTable, *, credentials: grpc.ChannelCredentials | None,
        settings: ChannelSettings, sealing: CallSealing | None = None,
    ) -> None:  # fmt: skip
        """`sealing` None: there are no routes over an exchange."""
        self._sealing = sealing
        self._routes = routes
        self._credentials = credentials
        self._settings = settings
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Route, grpc.Channel | SealedChannel]] = {}
        self._turns: dict[str, int] = {}  #: how often a party's first server was of no use

    def route(self, party_id: str) -> Route:
        """Return the route to a party, its server that answered last first. Raises: NoRoute."""
        route = self._routes.find(party_id)
        if route is None:
            raise NoRoute(party_id=party_id)
        return route.turned(self._turns.get(party_id, 0)) if route.others else route

    def gave_no_answer(self, party_id: str, route: Route) -> None:
        """Let calls begin with the next server of a party, if there are several."""
        if route.others:
            with self._lock:
                if self.route(party_id) == route:  # nobody else did it meanwhile
                    self._turns[party_id] = self._turns.get(party_id, 0) + 1

    def channel(self, party_id: str) -> grpc.Channel | SealedChannel:
        """Return the channel for commands to a party, opened at the first call. Raises: NoRoute."""
        route = self.route(party_id)
        with self._lock:
            known = self._open.get(party_id)
            if known is not None and known[0] == route:
                return known[1]
            opened = self._new(party_id, route)
            self._open[party_id] = (route, opened)
        if known is not None:
            known[1].close()
        return opened

    def forget(self, party_id: str) -> None:
        """Close the channel to a party; the next call opens a new one."""
        with self._lock:
            known = self._open.pop(party_id, None)
        if known is not None:
            known[1].close()

    def open_aio_channel(self, party_id: str) -> grpc.aio.Channel | SealedAioChannel:
        """Return a new channel for bulk data, which the caller closes; call it on the event loop.

        Raises: NoRoute.
        """
        route = self.route(party_id)
        options = channel_options(self._settings, party_id, route)
        if self._credentials is None or not route.tls:
            return grpc.aio.insecure_channel(_target(route), options=options)
        opened = grpc.aio.secure_channel(_target(route), self._credentials, options=options)
        if not route.exchange:
            return opened
        from fedflow.rpc.sealed.calls import SealedAioChannel  # with `cryptography`

        return SealedAioChannel(opened, self._ends(party_id))

    def close(self) -> None:
        """Close all channels; calls under way fail."""
        with self._lock:
            known, self._open = self._open, {}
        for _, channel in known.values():
            channel.close()

    def _new(self, party_id: str, route: Route) -> grpc.Channel | SealedChannel:
        options = channel_options(self._settings, party_id, route)
        if self._credentials is None or not route.tls:
            return grpc.insecure_channel(_target(route), options=options)
        opened = grpc.secure_channel(_target(route), self._credentials, options=options)
        if not route.exchange:
            return opened
        from fedflow.rpc.sealed.calls import SealedChannel  # with `cryptography`

        return SealedChannel(opened, self._ends(party_id))

    def _ends(self, party_id: str) -> Ends:
        """Return what calls to a party are sealed with. Raises: NoRoute: nothing is given."""
        from fedflow.rpc.sealed.calls import Ends

        sealing = self._sealing
        if sealing is None:
            raise NoRoute(party_id=party_id)
        return Ends(
            source=sealing.party_id,
            destination=party_id,
            keys=sealing.keys(),
            clock=SystemClock(),
            kinds=sealing.kinds,
        )


def open_to_exchange(
    address: str, *, credentials: grpc.ChannelCredentials, settings: ChannelSettings
) -> grpc.aio.Channel:
    """Return a channel over which calls come back; call it on the event loop.

    That the exchange is gone is noticed though nothing is sent, and windows are those of a port
    that parties call.
    """
    at = OVER_EXCHANGE + address.removeprefix(OVER_EXCHANGE)
    route = parse_address(at, path="dial_in", tls=True)
    options = [
        *channel_options(settings, EXCHANGE, route),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.max_frame_size", 1024 * 1024),
    ]
    return grpc.aio.secure_channel(route.host_port, credentials, options=options)


def _target(route: Route) -> str:
    """Return what gRPC shall connect to: with several servers the first of them that accepts.

    gRPC takes a list of numeric addresses only, so names are looked up here.
    """
    if not route.others:
        return route.host_port
    numeric = [_numeric(one) for one in (route, *route.others)]
    if all(host.version == 4 for host, _ in numeric):
        return "ipv4:" + ",".join(f"{host}:{port}" for host, port in numeric)
    sixes = (f"::ffff:{host}" if host.version == 4 else str(host) for host, _ in numeric)
    return "ipv6:" + ",".join(
        f"[{host}]:{port}" for host, (_, port) in zip(sixes, numeric, strict=True)
    )


def _numeric(route: Route) -> tuple[IPv4Address | IPv6Address, int]:
    """Return a server's IP address and port; a name that is unknown becomes one nobody has."""
    try:
        found = socket.getaddrinfo(route.host, route.port, type=socket.SOCK_STREAM)
    except OSError:
        return IPv4Address("0.0.0.0"), 1  # noqa: S104  # connecting there is refused
    hosts = [ip_address(str(address[4][0]).partition("%")[0]) for address in found]
    return min(hosts, key=lambda host: host.version), route.port


def channel_options(
    settings: ChannelSettings, party_id: str, route: Route
) -> list[tuple[str, int | str]]:
    """Return the options of a channel to a party's server."""
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", settings.message_bytes),
        ("grpc.max_send_message_length", settings.message_bytes),
        ("grpc.per_message_decompression", 0),  # nobody here compresses, and 1 MiB may become 1 GiB
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        # the longest attempt to connect, whatever its name says
        ("grpc.min_reconnect_backoff_ms", int(settings.connect_s * 1000)),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.keepalive_time_ms", int(settings.keepalive_s * 1000)),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.ping_timeout_ms", int(settings.ping_timeout_s * 1000)),
        ("grpc.enable_http_proxy", 0),  # a proxy of the environment is not meant for parties
    ]
    if route.tls:
        name = route.name or f"party-{party_id}"
        options.append(("grpc.ssl_target_name_override", name))
        options.append(("grpc.default_authority", name))
    return options
