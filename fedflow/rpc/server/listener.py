"""The gRPC server of a party: a thread with an event loop, and one port for commands and data."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.errors.start import PortInUse, cannot_listen
from fedflow.base.thread_starts import Pool
from fedflow.base.values import dataclass
from fedflow.rpc.callers import CallShares
from fedflow.rpc.pace import Pace
from fedflow.rpc.server.connections import keep_room, keep_silent_ones_out

logger = logging.getLogger(__name__)

_LOOKS: Final = 8  #: questions to the database and the system that the event loop waits for at once
_REFUSED: Final = 4  #: so many times the calls are taken at once, as most of them are being refused
_SENT_BYTES: Final = 64 * 1024 * 1024  #: largest message that is sent

AddService = Callable[[grpc.aio.Server], None]


@dataclass(frozen=True, kw_only=True)
class RpcSettings:
    """The port that other parties call."""

    host: str = "127.0.0.1"  #: address to listen on
    port: int = 9360  #: 0 lets the system choose
    message_bytes: int = 9 * 1024 * 1024  #: largest message that is received
    calls: int = 1024  #: calls and streams that all parties share
    streams: int = 256  #: calls and streams of one connection at once; further ones wait there
    connections: int = 2048  #: of all parties at once; further ones are closed
    handshake_s: float = 5.0  #: a connection that has not begun to speak by then is closed, seconds
    keepalive_s: float = 10.0  #: pause between pings on a silent connection, seconds
    ping_timeout_s: float = 20.0  #: a connection is dead that has not answered one by then, seconds


class RpcServer:
    """Opens an event loop in a thread of its own, then serves on it.

    `open()` starts the loop, so that services can be built for it; `listen()` binds the port.
    """

    def __init__(
        self, settings: RpcSettings, *, credentials: grpc.ServerCredentials | None = None,
        admits: Callable[[str], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        """`admits` tells whether this server answers a party that a certificate names."""
        self._settings = settings
        self._credentials = credentials
        self.pace = Pace()  #: of all services
        self.shares = CallShares(settings.calls, admits=admits, pace=self.pace)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: grpc.aio.Server | None = None
        self._watch: asyncio.Task[None] | None = None
        self._port = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop. Raises: RuntimeError: the server is not open."""
        if self._loop is None:
            raise RuntimeError("the gRPC server is not open")
        return self._loop

    @property
    def message_bytes(self) -> int:
        """Return the size of the largest message that is received."""
        return self._settings.message_bytes

    @property
    def port(self) -> int:
        """Return the port that it listens on, 0 before `listen`."""
        return self._port

    def open(self) -> None:
        """Start the thread and its event loop."""
        ready: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=_run_loop, args=(ready,), name="fedflow-grpc", daemon=True
        )
        self._thread.start()
        self._loop = ready.result(timeout=10)

    def listen(self, services: Sequence[AddService]) -> None:
        """Bind the port and serve. Raises: PortInUse: the address cannot be bound."""
        self._call(self._listen(services), timeout_s=30)
        logger.info(
            "gRPC listens on %s:%d", self._settings.host, self._port,
            extra={"action": "listen", "tls": self._credentials is not None},
        )  # fmt: skip

    def stop(self, grace_s: float = 5.0) -> None:
        """Refuse new calls, let running ones end within `grace_s`, then end the thread."""
        if self._loop is None or self._thread is None:
            return
        if self._server is not None:
            self._call(_stop(self._server, grace_s), timeout_s=grace_s + 10)
            self._server = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop = self._thread = None

    async def _listen(self, services: Sequence[AddService]) -> None:
        server = grpc.aio.server(
            options=_options(self._settings),
            interceptors=[self.shares],
            maximum_concurrent_rpcs=_REFUSED * self._settings.calls,
        )
        for add in services:
            add(server)
        host = self._settings.host
        shown = f"[{host}]" if ":" in host else host
        address = f"{shown}:{self._settings.port}"
        if fault := _fault(host, self._settings.port):  # else gRPC writes a line of its own
            raise cannot_listen(address, fault)
        try:
            if self._credentials is None:
                self._port = server.add_insecure_port(address)
            else:
                self._port = server.add_secure_port(address, self._credentials)
        except RuntimeError as exc:
            raise PortInUse(address=address, reason="gRPC cannot bind it") from exc
        await server.start()
        self._server = server
        keep_silent_ones_out(self._port, self._settings.handshake_s)
        self._watch = asyncio.create_task(keep_room(self._port, self._settings.connections))

    def _call(self, coroutine: Coroutine[Any, Any, None], *, timeout_s: float) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_s)


async def _stop(server: grpc.aio.Server, grace_s: float) -> None:
    await server.stop(grace_s)


def _options(settings: RpcSettings) -> list[tuple[str, int]]:
    keepalive_ms = int(settings.keepalive_s * 1000)
    return [
        ("grpc.so_reuseport", 0),  # two servers on one port are a mistake
        ("grpc.max_receive_message_length", settings.message_bytes),
        ("grpc.max_send_message_length", _SENT_BYTES),
        ("grpc.max_concurrent_streams", settings.streams),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.max_allowed_incoming_connections", settings.connections),
        ("grpc.server_handshake_timeout_ms", int(settings.handshake_s * 1000)),
        ("grpc.http2.bdp_probe", 0),  # else a message that nobody reads yet may take 8 MiB
        ("grpc.http2.max_frame_size", 1024 * 1024),  # a chunk of a value in a frame, not in 64
        ("grpc.per_message_decompression", 0),  # nobody here compresses, and 1 MiB may become 1 GiB
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.ping_timeout_ms", int(settings.ping_timeout_s * 1000)),
        ("grpc.http2.max_pings_without_data", 0),  # any number: who is gone gives its place back
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def _run_loop(ready: Future[asyncio.AbstractEventLoop]) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(Pool(_LOOKS, thread_name_prefix="fedflow-look"))
    loop.call_soon(ready.set_result, loop)
    try:
        loop.run_forever()
    finally:
        _cancel_all(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def _fault(host: str, port: int) -> OSError | None:
    """Return why the address cannot be bound; None: it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
        try:
            probe.bind((host, port))
        except socket.gaierror:  # gRPC reads names in its own way
            return None
        except OSError as exc:
            return exc
    return None
