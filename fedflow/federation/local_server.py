"""The door for executors: a unix socket with frames; big values pass as file descriptors.

A non-blocking socket on the event loop, not asyncio streams, because those drop descriptors. One
connection belongs to one session and site, proven by the task's token in its first frame.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import Coroutine
from functools import partial
from pathlib import Path

from fedflow.base.disk import inode_of
from fedflow.base.errors.data_plane import ReplyFreed, SessionUnknown, SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.errors.start import HomeNotUsable
from fedflow.domain.arrivals import Departure
from fedflow.federation.keys import ValueKey, site_from_wire
from fedflow.federation.mailbox import InThread, Mailbox
from fedflow.federation.messages import (
    PREFIX,
    Departed,
    Done,
    Drop,
    Hello,
    Nothing,
    Recv,
    RecvAny,
    Refused,
    Reply,
    Request,
    Send,
    Value,
    Welcome,
    error_to_wire,
    frame_lengths,
    pack,
    pack_header,
    parse_request,
)
from fedflow.federation.requests import Requests
from fedflow.federation.sending import ValueSender
from fedflow.federation.session import AnyOf, Opening, Session, SessionKey, SessionRegistry
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import Blob, Spool, blob_from_descriptor

logger = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
READ_BIG_BYTES = 1024 * 1024
MAX_DESCRIPTORS = 4
HELLO_TIMEOUT_S = 10.0
LAST_ANSWERS_S = 0.05  #: how long the last answers of a session may take to be written
_ACCEPT_S = 0.1  #: pause after an error of `accept`
MAX_REQUESTS = 20_000  #: unanswered requests of one executor


class LocalServer:
    """Listens for executors and answers them from the mailbox."""

    def __init__(
        self,
        path: Path,
        *,
        settings: FederationSettings,
        book: SessionRegistry,
        mailbox: Mailbox,
        sender: ValueSender,
        spool: Spool,
        in_thread: InThread,
    ) -> None:
        self.path = path
        self.settings = settings
        self.book = book
        self.mailbox = mailbox
        self.sender = sender
        self.spool = spool
        self.in_thread = in_thread
        self.connections: set[Connection] = set()
        self.executors: dict[SessionKey, dict[str, Requests]] = {}  #: by their names
        self.run = secrets.token_hex(8)
        self._listener: socket.socket | None = None
        self._inode: tuple[int, int] | None = None
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen.

        Raises: HomeNotUsable: the socket cannot be made (a path has at most 107 bytes).
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.unlink(missing_ok=True)
            listener.bind(str(self.path))
            self.path.chmod(0o600)
            listener.listen(128)
        except OSError as exc:
            listener.close()
            raise HomeNotUsable(path=self.path, reason=str(exc)) from exc
        listener.setblocking(False)
        self._inode = inode_of(self.path)
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept(listener), name="data-plane-accept")

    def is_lost(self) -> bool:
        """Tell whether the socket was removed, or is another one's: no executor finds this one."""
        return inode_of(self.path) != self._inode

    async def listen_again(self) -> None:
        """Listen on a new socket; the executors that are here stay. Raises: HomeNotUsable."""
        await self._stop_listening()
        self.start()

    async def _stop_listening(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait((self._accepting,))
        if self._listener is not None:
            self._listener.close()

    async def stop(self) -> None:
        """Stop listening and drop all executors."""
        await self._stop_listening()
        if self._listener is not None and not self.is_lost():  # else it is another server's
            self.path.unlink(missing_ok=True)
        for connection in tuple(self.connections):
            connection.close()
        known = [requests for found in self.executors.values() for requests in found.values()]
        tasks = {task for requests in known for task in requests.close()}
        if tasks:
            await asyncio.wait(tasks)

    def requests_of(self, session: Session, executor: str) -> Requests:
        """Return the requests of an executor, which may have connected before."""
        found = self.executors.get(session.key)
        if found is None:
            found = self.executors[session.key] = {}
            session.on_end.add(partial(self._end_requests, session.key))
        return found.setdefault(executor, Requests(release=self.mailbox.release))

    def gone(self, session: Session, *, besides: Requests) -> list[Requests]:
        """Forget the other executors of a session that are not connected; return their requests."""
        found = self.executors.get(session.key, {})
        names = [n for n, one in found.items() if one.outlet is None and one is not besides]
        return [found.pop(name) for name in names]

    def _end_requests(self, key: SessionKey) -> None:
        for requests in self.executors.pop(key, {}).values():
            asyncio.get_running_loop().call_later(LAST_ANSWERS_S, requests.close)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listener)
            except OSError as exc:  # no descriptor is left
                logger.warning("Cannot accept an executor's connection: %s", exc)
                await asyncio.sleep(_ACCEPT_S)
                continue
            connected.setblocking(False)
            self.connections.add(Connection(connected, server=self))


class Connection:
    """One executor: bytes and descriptors in and out, and its requests."""

    def __init__(self, sock: socket.socket, *, server: LocalServer) -> None:
        self._sock = sock
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._want = READ_BYTES
        self._descriptors: deque[int] = deque()
        self._out: deque[tuple[memoryview, int]] = deque()  #: bytes and a descriptor (-1 = none)
        self._writing = False  #: the loop tells when there is room to write
        self._session: Session | None = None
        self._requests = Requests(release=server.mailbox.release)
        self._closed = False
        self._has_name = False
        self._deadline = self._loop.call_later(HELLO_TIMEOUT_S, self.close)
        self._loop.add_reader(sock, self._readable)

    def close(self) -> None:
        """Drop the connection. An executor without a name loses what it waits for."""
        if self._closed:
            return
        self._closed = True
        self._deadline.cancel()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        for fd in (*self._descriptors, *(fd for _, fd in self._out if fd >= 0)):
            self._server.in_thread(os.close, fd)
        self._descriptors.clear()
        self._out.clear()
        if not self._has_name:
            self._requests.close()
        elif self._requests.outlet is self:
            self._requests.outlet = None
        if self._session is not None:
            self._session.on_end.discard(self._end_soon)
        self._server.connections.discard(self)

    # --- in

    def _readable(self) -> None:
        try:
            data, descriptors, flags, _ = socket.recv_fds(self._sock, self._want, MAX_DESCRIPTORS)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        self._descriptors.extend(descriptors)
        if not data or flags & socket.MSG_CTRUNC:
            self.close()
            return
        self._buffer += data
        try:
            self._parse()
        except FedflowError as exc:
            logger.warning("An executor's connection is closed: %s", exc.message)
            self._send(pack(Refused(id=0, error=error_to_wire(exc))))
            self.close()

    def _parse(self) -> None:
        offset = 0
        view = bytes(self._buffer) if len(self._buffer) < READ_BYTES else self._buffer
        self._want = READ_BYTES
        while not self._closed and len(view) - offset >= PREFIX.size:
            header, body = frame_lengths(view, offset)
            start = offset + PREFIX.size
            end = start + header + body
            if end > len(view):
                self._want = max(READ_BYTES, min(READ_BIG_BYTES, end - len(view)))
                break
            message = parse_request(bytes(view[start : start + header]))
            self._handle(message, bytes(view[start + header : end]))
            offset = end
        if offset:
            del self._buffer[:offset]

    def _handle(self, message: Request, body: bytes) -> None:
        if isinstance(message, Hello):
            self._on_hello(message)
        elif self._session is None:
            raise NotAuthenticated(reason="the first message is not a hello")
        elif isinstance(message, Done):
            self._requests.free(message.ids)
        elif isinstance(message, Drop):
            self._session.drop(message.tags)
        elif len(self._requests.tasks) >= MAX_REQUESTS:
            raise BadRequest(reason=f"more than {MAX_REQUESTS} unanswered requests")
        else:
            self._requests.free(message.done)
            self._on_request(self._session, message, body)

    def _on_request(self, session: Session, message: Send | Recv | RecvAny, body: bytes) -> None:
        blob = self._blob(message, body) if isinstance(message, Send) else None
        try:
            is_new = self._requests.begin(message.id)
        except ReplyFreed as exc:
            self._send(pack(Refused(id=message.id, error=error_to_wire(exc))))
            is_new = False
        if not is_new:
            if blob is not None:
                self._server.in_thread(blob.discard)
        elif isinstance(message, Recv):
            self._spawn(self._on_recv(session, message), message.id)
        elif isinstance(message, RecvAny):
            self._spawn(self._on_recv_any(session, message), message.id)
        elif blob is not None:
            self._on_send(session, message, blob)

    def _on_hello(self, message: Hello) -> None:
        site = site_from_wire(message.site)
        known = self._server.book.find((message.session, site))
        if not isinstance(known, Opening) or known.incarnation != message.incarnation:
            raise SessionUnknown(session=message.session)
        if self._session is not None or not known.admits(message.token):
            raise NotAuthenticated(reason="the task's token is wrong")
        session = self._server.mailbox.session((message.session, site), message.incarnation)
        if session is None:
            raise SessionUnknown(session=message.session)
        self._deadline.cancel()
        self._session = session
        session.on_end.add(self._end_soon)
        server = self._server
        if message.executor:
            self._has_name = True
            self._requests = server.requests_of(session, message.executor)
            if isinstance(self._requests.outlet, Connection):
                self._requests.outlet.close()
        gone = server.gone(session, besides=self._requests)
        if gone:  # what they waited for must be free again first
            self._welcoming = self._loop.create_task(self._welcome_after(gone))
        else:
            self._welcome()

    async def _welcome_after(self, gone: list[Requests]) -> None:
        for requests in gone:
            await requests.cancel()
        self._welcome()

    def _welcome(self) -> None:
        """Let the executor go on; no answer may come before this."""
        server = self._server
        welcome = Welcome(
            spool=str(server.spool.folder),
            inline_bytes=server.settings.inline_bytes,
            run=server.run,
        )
        self._send(pack(welcome))
        if not self._closed:
            self._requests.outlet = self

    def _end_soon(self) -> None:
        """Close when the answers to what was waiting have been written."""
        self._loop.call_later(LAST_ANSWERS_S, self.close)

    # --- requests

    def _blob(self, message: Send, body: bytes) -> Blob:
        if not message.file:
            if message.size != len(body):
                raise BadRequest(reason="a value's size is not its length")
            return Blob(size=len(body), digest=message.digest, data=body)
        if not self._descriptors:
            raise BadRequest(reason="a value without its descriptor")
        fd = self._descriptors.popleft()
        return blob_from_descriptor(fd, size=message.size, digest=message.digest)

    def _on_send(self, session: Session, message: Send, blob: Blob) -> None:
        try:
            keys = [
                ValueKey(
                    session=session.name,
                    name=message.name,
                    tag=message.tag,
                    source=session.site,
                    destination=(destination := site_from_wire(to)),
                    incarnation=session.incarnation,
                    destination_incarnation=session.incarnation_of(destination),
                )
                for to in message.to
            ]
        except FedflowError as exc:
            self._server.in_thread(blob.discard)
            self._refuse(message.id, exc)
            return
        parties = [key.destination.party_id for key in keys]
        if blob.data is None or self._server.sender.has_room(blob.size, parties):
            self._accept(session, message, keys=keys, blob=blob)
        else:
            self._spawn(self._accept_later(session, message, keys=keys, blob=blob), message.id)

    def _accept(self, session: Session, message: Send, *, keys: list[ValueKey], blob: Blob) -> None:
        requests = self._requests

        def on_done(error: FedflowError | None) -> None:
            requests.delivered(message.id, error)

        try:
            self._server.sender.accept(
                session, keys, blob=blob, on_done=on_done, required=message.required
            )
        except FedflowError as exc:
            self._refuse(message.id, exc)
        else:
            requests.accepted(message.id)

    async def _accept_later(
        self, session: Session, message: Send, *, keys: list[ValueKey], blob: Blob
    ) -> None:
        sender = self._server.sender
        parties = [key.destination.party_id for key in keys]
        begun_s = self._loop.time()
        try:
            await sender.wait_for_room(blob.size, parties, required=message.required)
        except SpoolFull:
            if message.required:
                raise
            keys = [key for key in keys if sender.fits(blob.size, [key.destination.party_id])]
        finally:
            for key in keys:
                session.trace.of(key.destination).send_s += self._loop.time() - begun_s
        self._accept(session, message, keys=keys, blob=blob)

    async def _on_recv(self, session: Session, message: Recv) -> None:
        key = ValueKey(
            session=session.name,
            name=message.name,
            tag=message.tag,
            source=site_from_wire(message.source),
            destination=session.site,
        )
        if key.source not in session.sites:
            raise BadRequest(reason=f"{key.source} is not a site of this task")
        blob = await session.take(key, message.timeout_s)
        answer = Value(
            id=message.id,
            size=blob.size,
            digest=blob.digest,
            file=blob.data is None,
            incarnation=session.incarnation_of(key.source),
        )
        self._requests.end(message.id, answer, blob)

    async def _on_recv_any(self, session: Session, message: RecvAny) -> None:
        sources = tuple(site_from_wire(source) for source in message.sources)
        for source in sources:
            if source not in session.sites:
                raise BadRequest(reason=f"{source} is not a site of this task")
        which = AnyOf(name=message.name, tags=message.tags, sources=sources)
        found = await session.take_any(which, message.timeout_s)
        if found is None:
            self._requests.end(message.id, Nothing(id=message.id))
        elif isinstance(found, Departure):
            departed = Departed(id=message.id, source=found.site.key, reason=found.reason)
            self._requests.end(message.id, departed)
        else:
            blob = found.blob
            answer = Value(
                id=message.id,
                size=blob.size,
                digest=blob.digest,
                file=blob.data is None,
                source=found.source.key,
                tag=found.tag,
                incarnation=found.incarnation,
            )
            self._requests.end(message.id, answer, blob)

    def _spawn(self, work: Coroutine[None, None, None], request: int) -> None:
        tasks = self._requests.tasks
        task = self._loop.create_task(self._guard(work, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _guard(self, work: Coroutine[None, None, None], request: int) -> None:
        try:
            await work
        except FedflowError as exc:
            self._refuse(request, exc)
        except Exception:
            logger.exception("A request of an executor failed")
            self._refuse(request, BadRequest(reason="internal error of the own server"))

    def _refuse(self, request: int, error: FedflowError) -> None:
        self._requests.end(request, Refused(id=request, error=error_to_wire(error)))

    # --- out

    def answer(self, reply: Reply, blob: Blob | None = None) -> None:
        """Send a reply, with the value that belongs to it; `blob` stays the caller's."""
        if blob is None:
            self._send(pack(reply))
        elif blob.data is None:
            opening = self._server.in_thread(blob.open_file)
            opening.add_done_callback(partial(self._send_file, reply))
        elif len(blob.data) < READ_BYTES:
            self._send(pack(reply, blob.data))
        else:
            data = blob.data
            self._send(pack_header(reply, body_length=len(data)))
            self._send(data)

    def _send_file(self, reply: Reply, opening: asyncio.Future[int]) -> None:
        try:
            fd = opening.result()
        except (OSError, asyncio.CancelledError):  # its session has ended
            return
        self._send(pack(reply), fd)

    def _send(self, data: bytes, fd: int = -1) -> None:
        """Write, or queue for writing; `fd` is passed with the first byte and then closed."""
        if self._closed:
            if fd >= 0:
                self._server.in_thread(os.close, fd)
            return
        if not data:
            return
        self._out.append((memoryview(data), fd))
        if not self._writing:
            self._writable()

    def _writable(self) -> None:
        while self._out:
            data, fd = self._out[0]
            try:
                if fd >= 0:
                    sent = socket.send_fds(self._sock, [data], [fd])
                    self._server.in_thread(os.close, fd)
                else:
                    sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._sock, self._writable)
                self._writing = True
                return
            except OSError:
                self.close()
                return
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], -1)
        if self._writing:
            self._loop.remove_writer(self._sock)
            self._writing = False
