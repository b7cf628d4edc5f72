"""The executor's end of the data plane: blocking calls over the unix socket of the own server.

It needs neither gRPC nor asyncio, opens nothing before the first call, and starts no thread: of the
threads that wait for an answer, one reads the socket for all. Implements `fedflow.sdk.Federation`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.data_plane import (
    CodecError,
    DuplicateValue,
    NothingSent,
    PeerFailed,
    ServerRestarted,
    SessionUnknown,
    SpoolFull,
    UndeclaredMessage,
    ValueTooLate,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.arrivals import Arrival, Departure
from fedflow.domain.site import Site
from fedflow.federation import codec
from fedflow.federation.digest import digest_of
from fedflow.federation.executor_socket import map_file, read_frame, readable
from fedflow.federation.keys import ValueKey
from fedflow.federation.messages import (
    Accepted,
    Delivered,
    Departed,
    Done,
    Drop,
    ErrorInfo,
    Hello,
    Nothing,
    Recv,
    RecvAny,
    Refused,
    Reply,
    Send,
    Value,
    Welcome,
    error_from_wire,
    pack,
)
from fedflow.federation.spool import write_out_file

GRACE_S = 5.0  #: how much longer than the server the executor waits, seconds
FRAME_TIMEOUT_S = 30.0  #: how long the rest of a begun frame may take, seconds
OPTIONAL_S = 10.0
"""How long values whose receivers may be gone are waited for at the end, seconds."""
RECONNECT_S = 30.0  #: how long a server that went away is waited for, seconds
RETRY_S = 0.05  #: pause between two attempts to reach a server that restarts, seconds
_SILENT = "its own server does not answer"


@dataclass(kw_only=True, slots=True, eq=False)
class _Ticket:
    """One request: what to send (again, if the server restarts), and its answer."""

    request: Send | Recv | RecvAny
    deadline_s: float = 0.0  #: of a receive, monotonic: it waits no longer for a value
    body: bytes = b""
    fd: int = -1
    via: socket.socket | None = None  #: the connection it was written to
    accepted: bool = False  #: the server has it
    done: bool = False
    error: FedflowError | None = None
    reply: Value | Departed | None = None
    data: memoryview | None = None


class FederationHandle:
    """Values to and from the other sites of one task attempt."""

    def __init__(
        self,
        socket_path: Path,
        *,
        session: str,
        site: Site,
        token: str,
        timeout_s: float = 1800.0,
        run: str = "",
        incarnation: int = 0,
    ) -> None:
        """Make a handle that connects on first use.

        `timeout_s` is how long a receive waits that names no time-out, in seconds. `run` is the run
        of the server for which the session was opened: another one has lost what had arrived:
        ServerRestarted.
        `incarnation` counts the launches of this executor within the attempt, from 0.
        """
        self._path = socket_path
        self._session = session
        self._site = site
        self._incarnation = incarnation
        self._name = secrets.token_hex(8)
        self._token = token
        self._timeout_s = timeout_s
        self._clock = SystemClock()
        self._state = threading.Condition()  #: guards all below
        self._writing = threading.Lock()  #: one frame at a time; never taken inside `_state`
        self._connecting = threading.Lock()  #: one connects for all; taken before the other two
        self._stop = threading.Event()
        self._sock: socket.socket | None = None
        self._welcome = Welcome(spool="", inline_bytes=0, run=run)
        self._reading = False
        self._closed = False
        self._next_id = 1
        self._tickets: dict[int, _Ticket] = {}
        self._done: list[int] = []  #: requests whose answers the server need not keep
        self._declared: Collection[str] | None = None  #: names of messages
        self._sent: set[ValueKey] = set()
        self._incarnations: dict[str, int] = {}  #: of sites that were launched again
        self._failed: FedflowError | None = None  #: the first delivery that failed for good

    def declare(self, names: Collection[str] | None) -> None:
        """Send only messages of these names from now on; None: all."""
        self._declared = names

    # --- the port of the sdk

    def send(
        self,
        name: str,
        value: Any,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        """Send `value` to every site in `to`; returns when the own server has it.

        If it is not `required`, sites that fail, or have failed, need not get it.
        Raises: DuplicateValue: sent before. PeerFailed: a receiver has failed. SpoolFull.
        CodecError. What kept an earlier value from being delivered.
        """
        self._send_encoded(codec.encode(value), name, to, tag, required=required)

    def send_nothing(
        self,
        name: str,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        """Tell every site in `to` that there is no such value. Raises: as `send`."""
        nothing = codec.Encoded(parts=[codec.NOTHING], size=len(codec.NOTHING))
        self._send_encoded(nothing, name, to, tag, required=required)

    def _send_encoded(
        self,
        encoded: codec.Encoded,
        name: str,
        to: Site | Sequence[Site],
        tag: str,
        *,
        required: bool,
    ) -> None:
        if self._declared is not None and name not in self._declared:
            raise UndeclaredMessage(name=name)
        sites = (to,) if isinstance(to, Site) else tuple(to)
        if not sites:
            return
        keys = [self._key(name, tag, source=self._site, destination=s) for s in sites]
        self._connect()
        with self._state:
            for key in keys:
                if key in self._sent or keys.count(key) > 1:
                    raise DuplicateValue(name=name, tag=tag, site=str(key.destination))
            self._sent.update(keys)
        try:
            self._send(name, tag, sites, encoded, required=required)
        except FedflowError:
            with self._state:
                self._sent.difference_update(keys)
            raise

    def recv(self, name: str, *, from_: Site, tag: str = "", timeout_s: float | None = None) -> Any:
        """Wait for a value of `from_` and return it; arrays and tables are read-only views.

        Raises: PeerFailed: the other task ended without sending it. ValueTooLate. CodecError.
        DuplicateValue: it was read before. NothingSent. What kept a value of this handle from being
        delivered: the others wait for that one.
        """
        return self.recv_all(name, from_=(from_,), tag=tag, timeout_s=timeout_s)[0]

    def recv_all(
        self, name: str, *, from_: Sequence[Site], tag: str = "", timeout_s: float | None = None
    ) -> list[Any]:
        """Return one value per site, in the order of `from_`. Raises: as `recv`."""
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        tickets = []
        for site in from_:
            self._key(name, tag, source=site, destination=self._site)
            tickets.append(self._ask(name, tag, site, limit_s))
        deadline = self._clock.monotonic_s() + limit_s + GRACE_S
        values = []
        for site, ticket in zip(from_, tickets, strict=True):
            self._wait(ticket, deadline - self._clock.monotonic_s())
            if not ticket.done:
                raise ValueTooLate(seconds=limit_s, name=name, tag=tag, site=str(site))
            data = _data_of(ticket)
            if codec.is_nothing(data):
                raise NothingSent(site=str(site), name=name, tag=tag)
            values.append(codec.decode(data))
        self._let_go(tickets)
        return values

    def recv_any(
        self, name: str, *, from_: Sequence[Site], timeout_s: float, tags: str = ""
    ) -> Arrival | Departure | None:
        """Return the next unread value `name` of any of the sites, whose tag begins with `tags`.

        Or that one of them has ended; None: nothing came in time.
        Raises: CodecError. PeerFailed: the own server is gone. As `recv` for values not delivered.
        """
        for site in from_:
            self._key(name, tags, source=site, destination=self._site)
        ticket = self._open(
            lambda number: RecvAny(
                id=number,
                name=name,
                tags=tags,
                sources=[site.key for site in from_],
                timeout_s=timeout_s,
            ),
            timeout_s=timeout_s,
        )
        self._wait(ticket, timeout_s + GRACE_S)
        if not ticket.done:
            raise PeerFailed(site=str(self._site), reason=_SILENT)
        if ticket.error is not None:
            raise ticket.error
        reply = ticket.reply
        if reply is None:
            return None
        site = Site.from_key(reply.source)
        if isinstance(reply, Departed):
            return Departure(site=site, reason=reply.reason)
        self._let_go([ticket])
        data = _data_of(ticket)
        if codec.is_nothing(data):
            return Arrival(site=site, tag=reply.tag, value=None, is_nothing=True)
        return Arrival(site=site, tag=reply.tag, value=codec.decode(data))

    def drop(self, tags: str) -> None:
        """Drop the unread values whose tags begin with `tags`, and those that arrive later."""
        self._connect()
        with self._writing:
            with self._state:
                sock = self._sock
            if sock is not None:
                with contextlib.suppress(OSError):  # who requests next connects again
                    sock.sendall(pack(Drop(tags=tags)))

    remote = send
    get = recv

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every value that was sent has arrived at its receiver's server.

        Values for a site that has ended in order do not count. Those that are not required are
        waited for `OPTIONAL_S` at most. Raises: PeerFailed, ValueTooLate, or what else kept a value
        from being delivered.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        begun = self._clock.monotonic_s()
        with self._state:
            sends = [
                (ticket, ticket.request)
                for ticket in self._tickets.values()
                if isinstance(ticket.request, Send)
            ]
        for ticket, request in sends:
            deadline = begun + (limit_s if request.required else min(limit_s, OPTIONAL_S))
            self._wait(ticket, deadline - self._clock.monotonic_s())
            if not ticket.done and request.required:
                raise ValueTooLate(
                    seconds=limit_s, name=request.name, tag=request.tag, site="delivery"
                )
        with self._state:
            self._check_delivered()

    def close(self) -> None:
        """Close the connection; what is not flushed may be lost. Safe to do twice."""
        self._stop.set()
        with self._state:
            self._closed = True
            if self._sock is not None:
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
                self._sock.close()
                self._sock = None
            for ticket in self._tickets.values():
                _drop_file(ticket)
            self._tickets.clear()
            self._state.notify_all()

    def __enter__(self) -> FederationHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- requests

    def _key(self, name: str, tag: str, *, source: Site, destination: Site) -> ValueKey:
        return ValueKey(
            session=self._session, name=name, tag=tag, source=source, destination=destination
        )

    def _ask(self, name: str, tag: str, source: Site, limit_s: float) -> _Ticket:
        return self._open(
            lambda number: Recv(
                id=number, name=name, tag=tag, source=source.key, timeout_s=limit_s
            ),
            timeout_s=limit_s,
        )

    def _send(
        self,
        name: str,
        tag: str,
        sites: Sequence[Site],
        encoded: codec.Encoded,
        *,
        required: bool,
    ) -> None:
        big = encoded.size >= self._welcome.inline_bytes
        if big:  # writing and hashing a GiB takes 0.4 s each
            with ThreadPoolExecutor(1, thread_name_prefix="spool") as pool:
                writing = pool.submit(self._write_file, encoded)
                digest = digest_of(encoded.parts)
            body, fd = b"", writing.result()
        else:
            digest = digest_of(encoded.parts)
            body, fd = b"".join(encoded.parts), -1
        ticket = self._open(
            lambda number: Send(
                id=number,
                name=name,
                tag=tag,
                to=[s.key for s in sites],
                size=encoded.size,
                digest=digest,
                file=big,
                required=required,
            ),
            body=body,
            fd=fd,
        )
        self._wait(ticket, self._timeout_s, accepted=True)
        if ticket.accepted:
            return
        if ticket.error is None:
            raise PeerFailed(site=str(self._site), reason=_SILENT)
        raise ticket.error

    def _write_file(self, encoded: codec.Encoded) -> int:
        """Return the descriptor of a spool file. Raises: SpoolFull: the disk is full."""
        folder = Path(self._welcome.spool)
        try:
            return write_out_file(folder, encoded.parts)
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
            disk = os.statvfs(folder)
            size = disk.f_blocks * disk.f_frsize
            raise SpoolFull(used=size - disk.f_bavail * disk.f_frsize, limit=size) from exc

    def _open(
        self,
        make: Callable[[int], Send | Recv | RecvAny],
        *,
        body: bytes = b"",
        fd: int = -1,
        timeout_s: float = 0.0,
    ) -> _Ticket:
        """Return the ticket of a new request, which is on its way."""
        self._connect()
        with self._state:
            self._check_open()
            self._check_delivered()
            number = self._next_id
            self._next_id += 1
            ticket = self._tickets[number] = _Ticket(
                request=msgspec.structs.replace(make(number), done=self._done),
                deadline_s=self._clock.monotonic_s() + timeout_s,
                body=body,
                fd=fd,
            )
            self._done = []
        while True:
            with self._state:
                self._check_open()
                sock = self._sock
                if sock is None or ticket.via is sock or ticket.done:
                    return ticket
                ticket.via = sock
            try:
                with self._writing:
                    _write(sock, ticket)
            except OSError:
                self._reconnect(sock)

    def _check_open(self) -> None:
        if self._closed:
            raise SessionUnknown(session=self._session)

    def _check_delivered(self) -> None:
        if self._failed is not None:
            raise self._failed

    # --- answers

    def _wait(self, ticket: _Ticket, timeout_s: float, *, accepted: bool = False) -> None:
        """Wait until `ticket` is done (or `accepted`), reading for all if nobody else does."""
        deadline = self._clock.monotonic_s() + timeout_s
        while True:
            with self._state:
                self._check_open()
                left_s = deadline - self._clock.monotonic_s()
                if ticket.done or (accepted and ticket.accepted) or left_s <= 0:
                    return
                if self._reading:
                    self._state.wait(left_s)
                    continue
                sock = self._sock
                self._reading = True
            try:
                self._read_one(sock, left_s)
            finally:
                with self._state:
                    self._reading = False
                    self._state.notify_all()

    def _read_one(self, sock: socket.socket | None, timeout_s: float) -> None:
        """Wait for one answer and note it; connect again if the server has gone."""
        try:
            if sock is None:
                raise ConnectionError("not connected")
            if not readable(sock, timeout_s):
                return
            reply, body, fd = read_frame(sock)
        except (OSError, ValueError, BadRequest):  # ValueError: it was closed meanwhile
            with self._state:
                self._check_open()
            self._reconnect(sock)
            return
        with self._state:
            self._note(reply, body, fd)

    def _note(self, reply: Reply, body: memoryview, fd: int) -> None:
        """Write an answer onto its ticket."""
        if isinstance(reply, Refused) and reply.id == 0:
            self._fail_all(error_from_wire(reply.error))
            return
        if isinstance(reply, Delivered):
            for number in reply.ids:
                self._note_delivered(number, reply.error)
            return
        ticket = None if isinstance(reply, Welcome) else self._tickets.get(reply.id)
        if ticket is None:
            if fd >= 0:
                os.close(fd)
        elif isinstance(reply, Accepted):
            ticket.accepted = True
        elif isinstance(reply, Refused):
            self._finish(ticket, error_from_wire(reply.error))
        elif isinstance(reply, Nothing):
            self._finish(ticket)
        elif isinstance(reply, Departed):
            ticket.reply = reply
            self._forget_sent(reply.source)
            self._finish(ticket)
        elif isinstance(reply, Value):
            ticket.reply = reply
            self._note_incarnation(ticket.request, reply)
            try:
                ticket.data = map_file(fd, reply.size) if reply.file else body
            except CodecError as exc:
                self._finish(ticket, exc)
            else:
                self._finish(ticket)

    def _note_incarnation(self, request: Send | Recv | RecvAny, reply: Value) -> None:
        source = request.source if isinstance(request, Recv) else reply.source
        if reply.incarnation > self._incarnations.get(source, 0):
            self._incarnations[source] = reply.incarnation
            self._forget_sent(source)

    def _forget_sent(self, site: str) -> None:
        """Let values be sent again to a site that has gone: if it returns, it has none of them."""
        self._sent = {key for key in self._sent if key.destination.key != site}

    def _note_delivered(self, number: int, error: ErrorInfo | None) -> None:
        ticket = self._tickets.get(number)
        if ticket is not None:
            ticket.accepted = True
            self._finish(ticket)
            if error is not None:
                self._fail_receives(error_from_wire(error))

    def _fail_receives(self, error: FedflowError) -> None:
        """Let all that waits fail: a value is lost, so what the others would answer never comes."""
        self._failed = self._failed or error
        for ticket in tuple(self._tickets.values()):
            if not isinstance(ticket.request, Send):
                self._finish(ticket, self._failed)

    def _finish(self, ticket: _Ticket, error: FedflowError | None = None) -> None:
        del self._tickets[ticket.request.id]
        self._done.append(ticket.request.id)
        ticket.error, ticket.done = error, True
        _drop_file(ticket)

    def _fail_all(self, error: FedflowError) -> None:
        for ticket in self._tickets.values():
            ticket.error, ticket.done = error, True
            _drop_file(ticket)
        self._tickets.clear()
        self._state.notify_all()

    # --- connection

    def _connect(self) -> None:
        """Connect if this was not done yet.

        Raises: NotAuthenticated. SessionUnknown. PeerFailed.
        """
        if self._sock is None:
            self._reconnect(None)

    def _reconnect(self, broken: socket.socket | None) -> None:
        """Replace the connection `broken` and ask again for everything that has no answer yet."""
        with self._connecting:
            with self._state:
                self._check_open()
                if self._sock is not broken:
                    return
            try:
                sock, welcome = self._dial(again=broken is not None)
                if self._welcome.run not in ("", welcome.run):
                    sock.close()
                    raise ServerRestarted(site=str(self._site))
            except FedflowError as exc:
                with self._state:
                    self._fail_all(exc)
                raise
            with self._writing:
                with self._state:
                    if self._closed:
                        sock.close()
                        return
                    self._sock, self._welcome = sock, welcome
                    tickets = list(self._tickets.values())
                    for ticket in tickets:
                        ticket.via = sock
                        self._shorten(ticket)
                if broken is not None:
                    broken.close()
                try:
                    for ticket in tickets:
                        _write(sock, ticket)
                except OSError:
                    sock.close()  # whoever reads or writes next finds out and connects again

    def _let_go(self, tickets: Sequence[_Ticket]) -> None:
        """Tell the server that it need not keep files; smaller answers wait for a next request."""
        if not any(isinstance(ticket.reply, Value) and ticket.reply.file for ticket in tickets):
            return
        with self._writing:
            with self._state:
                sock, done, self._done = self._sock, self._done, []
            if sock is not None:
                with contextlib.suppress(OSError):  # who requests next connects again
                    sock.sendall(pack(Done(ids=done)))

    def _shorten(self, ticket: _Ticket) -> None:
        """Let a receive that is repeated wait for the rest of its time only."""
        if not isinstance(ticket.request, Send):
            left_s = max(0.0, ticket.deadline_s - self._clock.monotonic_s())
            ticket.request = msgspec.structs.replace(ticket.request, timeout_s=left_s)

    def _dial(self, *, again: bool) -> tuple[socket.socket, Welcome]:
        deadline = self._clock.monotonic_s() + RECONNECT_S
        while True:
            try:
                return self._greet()
            except (OSError, SessionUnknown) as exc:
                if isinstance(exc, SessionUnknown) and not again:
                    raise
                if self._clock.monotonic_s() > deadline or pause(RETRY_S, self._stop):
                    raise PeerFailed(
                        site=str(self._site), reason=f"its own server is gone: {exc}"
                    ) from exc

    def _greet(self) -> tuple[socket.socket, Welcome]:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(FRAME_TIMEOUT_S)
            sock.connect(str(self._path))
            hello = Hello(
                session=self._session,
                site=self._site.key,
                token=self._token,
                incarnation=self._incarnation,
                executor=self._name,
            )
            sock.sendall(pack(hello))
            reply, _, _ = read_frame(sock)
            if isinstance(reply, Refused):
                raise error_from_wire(reply.error)
            if not isinstance(reply, Welcome):
                raise BadRequest(reason="the server's first message is not a welcome")
        except BaseException:
            sock.close()
            raise
        return sock, reply


def _write(sock: socket.socket, ticket: _Ticket) -> None:
    frame = pack(ticket.request, ticket.body)
    if ticket.fd < 0:
        sock.sendall(frame)
        return
    sent = socket.send_fds(sock, [frame], [ticket.fd])
    sock.sendall(frame[sent:])


def _drop_file(ticket: _Ticket) -> None:
    fd, ticket.fd = ticket.fd, -1
    ticket.body = b""
    if fd >= 0:
        os.close(fd)


def _data_of(ticket: _Ticket) -> memoryview:
    """Return the bytes of a value. Raises: CodecError. What its receive failed with."""
    if ticket.error is not None:
        raise ticket.error
    data, reply = ticket.data, ticket.reply
    if data is None or not isinstance(reply, Value) or digest_of([data]) != reply.digest:
        raise CodecError(reason="its digest is wrong")
    return data
