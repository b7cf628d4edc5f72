"""Puts an exchange together: the port that parties call, the ways to them, and the status port."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import msgspec

from fedflow.base.clock import SystemClock
from fedflow.exchange.dialled import DialledParties
from fedflow.exchange.parties import DIAL_IN, parties_of
from fedflow.exchange.relay import RelayService, WaysToParties
from fedflow.exchange.settings import ExchangeSettings
from fedflow.exchange.traffic import RelayTraffic
from fedflow.http.server import HttpServer, HttpSettings
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.rpc.credentials import Credentials, credentials_in
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.wire.exchange import EXCHANGE

logger = logging.getLogger(__name__)

_MIB: Final = 1 << 20
_GRACE_S: Final = 0.2  #: streams of values do not end alone


class ExchangeProcess:
    """One exchange, from `open` to `close`."""

    def __init__(self, settings: ExchangeSettings) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self.traffic = RelayTraffic()
        self._dialled = DialledParties(
            party for party, at in settings.parties.items() if at == DIAL_IN
        )
        self.port = self.status_port = 0

    def open(self) -> None:
        """Listen. Raises: BadCertificate, PortInUse; what was opened is closed by `close`."""
        settings = self._settings
        credentials = credentials_in(settings.tls, party_id=EXCHANGE, now_ms=SystemClock().now_ms())
        if credentials is None:
            raise AssertionError("the settings were checked")
        self._listen_to_parties(credentials)
        http = HttpServer(self._status, HttpSettings(threads=2), name="fedflow-status")
        self._stack.callback(http.stop, 2.0)
        http.listen_tcp(settings.status.host, settings.status.port)
        self.status_port = http.port

    def _listen_to_parties(self, credentials: Credentials) -> None:
        settings, limits = self._settings, self._settings.limits
        rpc = RpcServer(
            RpcSettings(
                host=settings.host,
                port=settings.port,
                message_bytes=limits.message_mib * _MIB,
                calls=limits.calls,
            ),
            credentials=credentials.for_server(),
        )
        rpc.open()
        self._stack.callback(rpc.stop, _GRACE_S)
        channels = Channels(
            RouteTable(make_routes((), settings.addresses, tls=True)),
            credentials=credentials.for_client(),
            settings=ChannelSettings(message_bytes=limits.message_mib * _MIB),
        )
        ways = WaysToParties(channels.open_aio_channel, self._dialled)
        self._stack.callback(
            lambda: asyncio.run_coroutine_threadsafe(ways.close(), rpc.loop).result(10)
        )
        service = RelayService(
            parties_of(settings.parties, settings.pairs),
            ways,
            self.traffic,
            bytes_per_s=None if limits.mib_per_s is None else limits.mib_per_s * _MIB,
        )
        rpc.listen([service.add_to, self._dialled.add_to])
        self.port = rpc.port

    def close(self) -> None:
        """End everything; calls under way break, and are made again by who made them."""
        self._stack.close()

    def _status(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request of the status port."""
        path = environ.get("PATH_INFO", "")
        status, kind = "200 OK", "application/json"
        if path == "/metrics":
            kind, body = "text/plain; version=0.0.4", "".join(self._metrics()).encode()
        elif path == "/healthz":
            body = b'{"status":"ok"}'
        elif path == "/readyz":
            body = msgspec.json.encode(
                {"ready": True, "parties": sorted(self._settings.parties), "reasons": []}
            )
        elif path == "/traffic":
            body = msgspec.json.encode(self.traffic.as_json())
        elif path == "/parties":
            body = msgspec.json.encode(self._parties())
        else:
            status, body = "404 Not Found", b'{"error":"no such route"}'
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else body]

    def _parties(self) -> list[dict[str, Any]]:
        """Return where each party is called, and its servers that dialled in."""
        servers = defaultdict(list)
        for party, server in self._dialled.dialled_in():
            servers[party].append(server)
        return [
            {"party_id": party, "address": at, "dialled_in": servers[party]}
            for party, at in sorted(self._settings.parties.items())
        ]

    def _metrics(self) -> Iterator[str]:
        yield from self.traffic.as_metrics()
        yield "# TYPE fedflow_exchange_dialled_in gauge\n"
        for row in self._parties():
            if row["address"] == DIAL_IN:
                party, servers = row["party_id"], len(row["dialled_in"])
                yield f'fedflow_exchange_dialled_in{{party="{party}"}} {servers}\n'
