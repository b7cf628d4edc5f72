"""gRPC channels to other parties: kept open, replaced when the route changes.

Commands and bulk data take channels of their own, so that a big value does not delay a command.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import grpc
import grpc.aio

from fedflow.base.errors import NoRoute
from fedflow.transport.routes import Route, RouteTable


@dataclass(frozen=True, kw_only=True)
class ChannelSettings:
    """Connections to other parties."""

    message_bytes: int = 64 * 1024 * 1024  #: largest message in or out
    keepalive_s: float = 10.0  #: pause between pings on a silent connection, seconds


class Channels:
    """Opens channels by party id. The synchronous ones are shared by all threads."""

    def __init__(
        self, routes: RouteTable, *, credentials: grpc.ChannelCredentials | None,
        settings: ChannelSettings,
    ) -> None:  # fmt: skip
        self._routes = routes
        self._credentials = credentials
        self._settings = settings
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Route, grpc.Channel]] = {}

    def route(self, party_id: str) -> Route:
        """Return the route to a party. Raises: NoRoute."""
        route = self._routes.find(party_id)
        if route is None:
            raise NoRoute(party_id=party_id)
        return route

    def channel(self, party_id: str) -> grpc.Channel:
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

    def open_aio_channel(self, party_id: str) -> grpc.aio.Channel:
        """Return a new channel for bulk data, which the caller closes; call it on the event loop.

        Raises: NoRoute.
        """
        route = self.route(party_id)
        options = _options(self._settings, party_id, route)
        if self._credentials is None or not route.tls:
            return grpc.aio.insecure_channel(route.address, options=options)
        return grpc.aio.secure_channel(route.address, self._credentials, options=options)

    def close(self) -> None:
        """Close all channels; calls under way fail."""
        with self._lock:
            known, self._open = self._open, {}
        for _, channel in known.values():
            channel.close()

    def _new(self, party_id: str, route: Route) -> grpc.Channel:
        options = _options(self._settings, party_id, route)
        if self._credentials is None or not route.tls:
            return grpc.insecure_channel(route.address, options=options)
        return grpc.secure_channel(route.address, self._credentials, options=options)


def _options(settings: ChannelSettings, party_id: str, route: Route) -> list[tuple[str, int | str]]:
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", settings.message_bytes),
        ("grpc.max_send_message_length", settings.message_bytes),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.keepalive_time_ms", int(settings.keepalive_s * 1000)),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.enable_http_proxy", 0),  # a proxy of the environment is not meant for parties
    ]
    if route.tls:
        name = route.name or f"party-{party_id}"
        options.append(("grpc.ssl_target_name_override", name))
        options.append(("grpc.default_authority", name))
    return options
