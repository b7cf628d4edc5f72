"""The HTTP listeners: a TCP port for people and clients, a unix socket for this server's executors.

Both are waitress servers in threads of their own. Requests are buffered before a view runs, so a
slow client holds no thread.
"""

from __future__ import annotations

import copy
import errno
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Final

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import BaseWSGIServer, TcpWSGIServer, UnixWSGIServer
from waitress.task import ThreadedTaskDispatcher
from waitress.wasyncore import close_all, loop

from fedflow.base.clock import SystemClock
from fedflow.base.disk import inode_of
from fedflow.base.errors.start import PortInUse, cannot_listen
from fedflow.base.shares import Shares
from fedflow.base.values import dataclass
from fedflow.wire.headers import UNDERSCORED, plain_name, plain_names
from fedflow.wire.paths import PREFIX

logger = logging.getLogger(__name__)

Wsgi = Callable[..., Any]
MayUpload = Callable[[Mapping[str, str], str], bool]
"""Tells by headers (names in capitals, with hyphens) and target whether a body is an upload."""

_UPLOAD_PATHS: Final = frozenset({PREFIX + "/data/upload", PREFIX + "/model/import"})
_ACCEPT_S: Final = 1.0  #: pause after an error of `accept`
_SEND_S: Final = 0.005  #: how long the loop waits for a thread that sends
_KEPT: Final = re.compile(
    rb"^(" + b"|".join(name.encode() for name in UNDERSCORED) + rb")(?=[ \t]*:)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """Limits of one listener."""

    threads: int = 16  #: views that run at once
    read_only: Container[str] | None = None  #: paths whose views only look; None = no such threads
    pages: str = "/board/"  #: GETs of what is below it only look, too
    look_threads: int = 2  #: such views that run at once, in threads of their own
    connections: int = 1000  #: open connections, of which each address has a share
    idle_s: int = 120  #: a silent connection is closed after this time, seconds
    slow_s: float = 60.0  #: so long a request or an answer may move too slowly, seconds
    least_rate: int = 1024  #: what is slower than that is too slow, bytes per second
    body_bytes: int = 32 * 1024 * 1024  #: largest body of any request but uploads
    upload_bytes: int = 100 * 1024 * 1024 * 1024  #: largest upload


class HttpServer:
    """Serves one WSGI application on one socket."""

    def __init__(
        self, app: Wsgi, settings: HttpSettings, *, name: str, may_upload: MayUpload | None = None
    ) -> None:
        """`may_upload` keeps those who may not from filling the disk with bodies that are received
        before a view looks at them; without it, everybody may.
        """
        self._app = app
        self._may_upload = may_upload
        self._settings = settings
        self._name = name
        self._socket: socket.socket | None = None
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._unix_path: Path | None = None
        self._inode: tuple[int, int] | None = None  #: of the unix socket
        self._next: socket.socket | None = None  #: takes the listening socket's place
        self._clock = SystemClock()
        self._grace_s = 0.0

    @property
    def port(self) -> int:
        """Return the TCP port that it listens on."""
        if self._socket is None:
            raise RuntimeError("the HTTP server does not listen")
        return int(self._socket.getsockname()[1])

    def listen_tcp(self, host: str, port: int) -> None:
        """Bind a TCP port (0 = the system chooses) and serve. Raises: PortInUse."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(1024)
        except OSError as exc:
            bound.close()
            raise cannot_listen(f"{host}:{port}", exc) from exc
        self._serve(bound, _TcpServer)
        logger.info("HTTP listens on %s:%d", host, self.port, extra={"action": "listen"})

    def listen_unix(self, path: Path) -> None:
        """Bind a unix socket that only this user may use, and serve.

        A socket that a dead server left is replaced. Raises: PortInUse: a server answers there, or
            the path cannot be bound.
        """
        bound = self._bind_unix(path)
        self._unix_path = path
        self._serve(bound, _UnixServer)

    def is_lost(self) -> bool:
        """Tell whether the unix socket was removed, or is another one's: nobody new comes here."""
        return self._unix_path is not None and inode_of(self._unix_path) != self._inode

    def listen_again(self) -> None:
        """Bind the unix socket anew; open connections stay. Raises: PortInUse."""
        if self._unix_path is None or self._server is None:
            return
        self._next = self._bind_unix(self._unix_path)
        self._server.pull_trigger()  # the loop's own thread exchanges the sockets

    def _bind_unix(self, path: Path) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_dead(path)
            os.fchmod(
                bound.fileno(), 0o600
            )  # so that nobody else can connect from the first moment
            bound.bind(str(path))
            path.chmod(0o600)
            bound.listen(1024)
        except OSError as exc:
            bound.close()
            raise PortInUse(address=str(path), reason=exc.strerror or str(exc)) from exc
        self._inode = inode_of(path)
        return bound

    def stop(self, grace_s: float = 5.0) -> None:
        """Stop accepting, let running views end within `grace_s`, close all connections."""
        if self._thread is None or self._server is None:
            return
        self._grace_s = grace_s
        self._stopping.set()
        self._server.pull_trigger()
        self._thread.join(timeout=grace_s + 10)
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=1)
        close_all(self._server._map)
        self._thread = self._server = self._socket = None
        if self._unix_path is not None and not self.is_lost():  # else it is another server's
            with suppress(OSError):
                self._unix_path.unlink()

    def _serve(self, bound: socket.socket, kind: type[Any]) -> None:
        bound.setblocking(False)
        adjustments = Adjustments(
            sockets=[bound],
            threads=self._settings.threads,
            ident="fedflow",
            connection_limit=self._settings.connections,
            channel_timeout=self._settings.idle_s,
            max_request_body_size=self._settings.upload_bytes + 1,
            max_request_header_size=64 * 1024,
            clear_untrusted_proxy_headers=True,
            asyncore_use_poll=True,
        )
        adjustments.fedflow_may_upload = self._may_upload
        adjustments.fedflow_small = _limited(adjustments, self._settings.body_bytes + 1)
        dispatcher = _Dispatcher(self._settings, name=self._name)
        self._server = kind(
            self._app,
            map={},
            _sock=bound,
            dispatcher=dispatcher,
            adj=adjustments,
            sockinfo=(bound.family, bound.type, bound.proto, bound.getsockname()),
            bind_socket=False,
        )
        self._server.settings = self._settings
        self._server.shares = Shares(self._settings.connections)
        self._socket = bound
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        server = self._server
        while not self._stopping.is_set():
            loop(timeout=1, use_poll=True, map=server._map, count=1)
            server.close_slow()
            if self._next is not None:
                bound, self._next = self._next, None
                server.del_channel()
                server.socket.close()
                bound.setblocking(False)
                server.set_socket(bound)
                self._socket = bound
        server.del_channel()  # the listening socket; the trigger and the connections stay
        server.socket.close()
        deadline_s = self._clock.monotonic_s() + self._grace_s
        while _is_busy(server) and self._clock.monotonic_s() < deadline_s:
            loop(timeout=0.05, use_poll=True, map=server._map, count=1)


class _Dispatcher:
    """Hands each request to the threads for its kind.

    Python runs one thread at a time. If many clients do nothing but look, answering more of them at
    once ends none of them earlier, but all other threads wait longer for each of their turns.
    """

    def __init__(self, settings: HttpSettings, *, name: str) -> None:
        self._paths = settings.read_only
        self._pages = settings.pages
        self._views = _Threads(name)
        self._views.set_thread_count(settings.threads)
        self._read_only = _Threads(f"{name}-look")
        if self._paths is not None:
            self._read_only.set_thread_count(settings.look_threads)

    def add_task(self, channel: Any) -> None:
        """Queue the first request of a connection."""
        request = channel.requests[0]
        is_read_only = self._is_read_only(request)
        threads = self._read_only if is_read_only else self._views
        threads.add_task(channel)

    def _is_read_only(self, request: Any) -> bool:
        if self._paths is None:
            return False
        path = getattr(request, "path", "")
        if path.startswith(self._pages):
            return getattr(request, "command", "") in ("GET", "HEAD")
        return path.rstrip("/") in self._paths

    def shutdown(self, *, cancel_pending: bool, timeout: float) -> None:
        """End the threads; at most `timeout` seconds are waited for each kind."""
        for threads in (self._views, self._read_only):
            threads.shutdown(cancel_pending=cancel_pending, timeout=timeout)


class _Threads(ThreadedTaskDispatcher):  # type: ignore[misc]
    """Worker threads with a name that says whose they are."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def start_new_thread(self, target: Callable[[int], None], thread_no: int) -> None:
        threading.Thread(
            target=target, name=f"{self._name}-{thread_no}", args=(thread_no,), daemon=True
        ).start()


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """Keeps the headers with underscores that FATE's clients send, and limits bodies by path."""

    adj: Any

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(_KEPT.sub(_hyphenated, header_plus))
        if not self._is_upload():
            self.adj = self.adj.fedflow_small

    def _is_upload(self) -> bool:
        if getattr(self, "path", "").rstrip("/") not in _UPLOAD_PATHS:
            return False
        may_upload = self.adj.fedflow_may_upload
        return may_upload is None or may_upload(plain_names(self.headers), self.request_uri)


class _Listener(BaseWSGIServer):  # type: ignore[misc]
    """Keeps those who connect from being in each other's way.

    Of the connections each address has a share. It waits a second after an error of `accept`:
    without a descriptor each further one fails.
    """

    settings: HttpSettings
    shares: Shares  #: connections by address
    clock = SystemClock()
    wait_until_s = 0.0
    next_look_s = 0.0

    def readable(self) -> bool:
        return bool(super().readable()) and self.clock.monotonic_s() >= self.wait_until_s

    def handle_accept(self) -> None:
        """Accept one connection."""
        try:
            accepted = self.accept()
            if accepted is None:  # it is closed already
                return
            connection, address = accepted
            self.set_socket_options(connection)
        except OSError as exc:
            self.wait_until_s = self.clock.monotonic_s() + _ACCEPT_S
            logger.warning("cannot accept a connection: %s", exc, extra={"action": "accept"})
        else:
            address = self.fix_addr(address)
            if self.shares.take(address[0]):
                _Channel(self, connection, address, self.adj, map=self._map)
            else:
                connection.close()
                logger.warning(
                    "address %s has too many connections", address[0], extra={"action": "accept"}
                )

    def close_slow(self) -> None:
        """Close connections that move too slowly; call it between two turns of the loop."""
        now_s = self.clock.monotonic_s()
        if now_s < self.next_look_s:
            return
        self.next_look_s = now_s + self.settings.slow_s / 4
        for channel in list(self.active_channels.values()):
            if channel.is_too_slow(now_s):
                channel.handle_close()  # one that takes nothing never gets writable


class _TcpServer(_Listener, TcpWSGIServer):  # type: ignore[misc]
    """Listens on a TCP port."""


class _UnixServer(_Listener, UnixWSGIServer):  # type: ignore[misc]
    """Listens on a unix socket."""


class _Channel(HTTPChannel):  # type: ignore[misc]
    """Does not turn the loop idly while a view's thread sends its answer.

    A channel with an unsent answer is writable. The loop's thread would try to get the lock of the
    one that is sending again and again, and take the time that this one needs to let it go.
    """

    parser_class = _Parser
    moved = 0  #: bytes received and sent
    since_s = inf  #: when its pace was last looked at
    moved_then = 0
    outbuf_lock: threading.Condition  #: may be acquired again by the thread that has it

    def recv(self, buffer_size: int) -> bytes:
        data: bytes = super().recv(buffer_size)
        self.moved += len(data)
        return data

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close)
        self.moved += sent
        return sent

    def is_too_slow(self, now_s: float) -> bool:
        """Tell whether a request or an answer has moved too slowly for too long."""
        settings = self.server.settings
        is_received = self.request is not None and not self.requests
        if not is_received and not self.total_outbufs_len:
            self.since_s = inf
        passed_s = now_s - self.since_s
        if 0 <= passed_s < settings.slow_s:
            return False
        moved, self.since_s, self.moved_then = self.moved - self.moved_then, now_s, self.moved
        return bool(moved < settings.least_rate * passed_s)

    def del_channel(self, map: object = None) -> None:
        if self._fileno in self.server.active_channels:
            self.server.shares.give_back(self.addr[0])
        super().del_channel(map)

    def _flush_some_if_lockable(self, do_close: bool = True) -> None:
        if self.outbuf_lock.acquire(timeout=_SEND_S):
            try:
                super()._flush_some_if_lockable(do_close=do_close)
            finally:
                self.outbuf_lock.release()


def _is_busy(server: Any) -> bool:
    """Tell whether a view runs or an answer has not been sent."""
    channels = list(server.active_channels.values())
    return any(channel.requests or channel.total_outbufs_len for channel in channels)


def _hyphenated(match: re.Match[bytes]) -> bytes:
    return plain_name(match[1].decode("ascii")).encode("ascii")


def _limited(adjustments: Any, body_bytes: int) -> Any:
    small = copy.copy(adjustments)
    small.max_request_body_size = body_bytes
    small.fedflow_small = small
    return small


def _remove_dead(path: Path) -> None:
    """Remove a socket on which nobody answers. Raises: OSError: somebody does."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
