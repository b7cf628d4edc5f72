"""The gRPC service of the data plane: what other parties and other servers of this party send.

Raw bytes handlers under `fedflow.v1.DataPlane`: `Messages` carries small values and notices of a
pair of parties, `Bulk` one big value. Source: docs/reference/numerics.md#data-plane.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from fedflow.base.errors.data_plane import PeerFailed, SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.ids import PartyId
from fedflow.base.shares import Shares, share_of_one
from fedflow.domain.administration.servers import Instance
from fedflow.domain.outside import outside_error
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey, key_from_wire, site_from_wire
from fedflow.federation.mailbox import PartStream
from fedflow.federation.messages import (
    Ack,
    ErrorInfo,
    Notice,
    Offer,
    Progress,
    Put,
    error_to_wire,
    pack,
    parse_chunk,
    split_frames,
)
from fedflow.federation.plane import DataPlane
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import FILE_OVERHEAD
from fedflow.rpc.callers import caller_of
from fedflow.rpc.data_plane.streams import Authenticate, in_turns
from fedflow.rpc.pace import BYTE_S, NOTICE_S, Pace
from fedflow.rpc.turns import Turns

logger = logging.getLogger(__name__)

R = TypeVar("R")

ACK_DELAY_S = 0.003  #: how long an acknowledgement of a small value waits for others
ACK_BATCH = 64
_LAST_WRITE_S = 1.0  #: how long the end of a stream waits for an answer that is being written
ACK_MOST = 1024  #: answers in one message
MAX_ACKS = 4096  #: answers that the sender has not read; beyond them nothing is taken from it
MAX_LINKS = 8  #: streams of messages of one party; its servers have one each, and broken ones
OFFERS = 8  #: first messages of streams for big values that are received at once, of any length
IDLE_S = 60.0  #: after which a stream that is silent and holds nothing is closed
_LATER = (SpoolFull, TimeoutError, StoreUnavailable, NotLeading, PeerFailed)
"""What says nothing of the value: its sender shall try again. PeerFailed: of this party's own."""
WAITING_STREAMS = 2  #: streams for big values, those that wait included, per one that may arrive


class OtherServers(Protocol):
    """The other servers of this party, for what is not meant for this one;
    `rpc/data_plane/relays.py`.
    """

    @property
    def needed(self) -> bool:
        """Tell whether there is another server at the moment."""

    def is_server(self, context: Any) -> bool:
        """Tell whether a stream is from one of them: what it brings goes no further."""

    async def find(self, session: str, site: Site) -> Instance | None:
        """Return the other server where a session is open, None if it is none, or none yet.

        Raises: StoreUnavailable.
        """

    async def locate(self, session: str, site: Site) -> Instance:
        """Return the other server where a session is open, once it is; tries until canceled."""

    async def deliver(self, key: ValueKey, body: bytes, *, digest: str, to: Instance) -> None:
        """Deliver a small value where its session is. Raises: TimeoutError: try again."""

    async def notify(self, notice: Notice, to: Instance, party_id: PartyId) -> None:
        """Pass a notice on; return when it has arrived. Raises: TimeoutError: try again."""

    async def stream(self, context: Any, offer: bytes, to: Instance) -> None:
        """Pass a stream that carries one big value on, both ways, until it ends.

        Raises: PeerFailed: the way to that server broke.
        """


class DataPlaneService:
    """The gRPC service `fedflow.v1.DataPlane`: what other parties send."""

    def __init__(
        self, plane: DataPlane, *, authenticate: Authenticate, settings: FederationSettings,
        pace: Pace, servers: OtherServers | None = None,
    ) -> None:  # fmt: skip
        self._plane = plane
        self._pace = pace
        self._servers = servers
        self._authenticate = authenticate
        self._settings = settings
        self._links: Counter[PartyId] = Counter()  #: streams of messages
        self._offers = Turns(OFFERS)
        self._slots = Shares(settings.max_inbound)  #: big values that are arriving
        self._freed = asyncio.Event()
        self._streams = Shares(WAITING_STREAMS * settings.max_inbound)  #: those that wait included

    @property
    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return what answers each method of the service."""
        return {
            "Messages": grpc.stream_stream_rpc_method_handler(self._messages),
            "Bulk": grpc.stream_stream_rpc_method_handler(self._bulk),
        }

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service on a server that has not started."""
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("fedflow.v1.DataPlane", self.handlers),)
        )

    async def _messages(self, _: Any, context: Any) -> None:
        from_server = self._servers is not None and self._servers.is_server(context)
        party = None if from_server else self._authenticate(context)
        stream = _Inbound(
            context,
            plane=self._plane,
            servers=None if from_server else self._servers,
            is_trusted=from_server,
            party=party,
            pace=self._pace,
            ping_s=self._settings.progress_timeout_s / 3,
        )
        if party is None:  # without TLS nobody is sure who it is
            await stream.run()
        elif self._links[party] >= MAX_LINKS:
            reason = f"party {party} has {MAX_LINKS} streams of messages open"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        else:
            self._links[party] += 1
            try:
                await stream.run()
            finally:
                self._links[party] -= 1
                self._links += Counter()  # forgets who has none

    # --- big values

    async def _bulk(self, _: Any, context: Any) -> None:
        try:
            key, offer, raw = await self._read_offer(context)
            with _taken(self._streams, key.source.party_id):
                await self._take_in(context, key, offer=offer, raw=raw)
        except _LATER:
            await context.write(pack(Progress(status="later")))
        except FedflowError as exc:
            await context.write(pack(Progress(status="refused", error=_refusal(exc))))

    async def _take_in(self, context: Any, key: ValueKey, *, offer: Offer, raw: bytes) -> None:
        """Receive a value, or pass its stream on, once it is known where its session is."""
        servers = self._servers
        if servers is not None and servers.is_server(context):
            servers = None
        place = _place_of(key, plane=self._plane, servers=servers)
        to = await self._saying_wait(context, place)
        if servers is not None and to is not None:
            await servers.stream(context, raw, to)
        else:
            await self._receive(context, key, offer)

    async def _read_offer(self, context: Any) -> tuple[ValueKey, Offer, bytes]:
        """Return what a stream is about, and its first message."""
        party = self._authenticate(context)
        caller = caller_of(context)
        await self._offers.take(caller)
        try:
            raw = await asyncio.wait_for(context.read(), self._settings.progress_timeout_s)
        finally:
            self._offers.give_back(caller)
        frames = list(split_frames(raw, most=1)) if isinstance(raw, bytes) else []
        offer = frames[0][0] if len(frames) == 1 else None
        if not isinstance(offer, Offer):
            raise BadRequest(reason="a stream for a big value begins with an offer")
        most = share_of_one(self._settings.spool_bytes) - FILE_OVERHEAD
        if not 0 < offer.size <= most:
            reason = f"a value of {offer.size} bytes; federation.spool_mib here allows {most}"
            raise BadRequest(reason=reason)
        key = _key_of(offer)
        if self._servers is None or not self._servers.is_server(context):
            _check_party(party, key.source.party_id)
        return key, offer, raw

    async def _receive(self, context: Any, key: ValueKey, offer: Offer) -> None:
        mailbox, party = self._plane.mailbox, key.source.party_id
        while not self._slots.take(party):
            self._freed.clear()
            await self._saying_wait(context, self._freed.wait())
        try:
            arrival = await mailbox.begin(key, size=offer.size, digest=offer.digest)
            if arrival is not None:
                await self._receive_chunks(context, arrival)
            await context.write(pack(Progress(status="stored")))
        finally:
            self._slots.give_back(party)
            self._freed.set()

    async def _receive_chunks(self, context: Any, arrival: PartStream) -> None:
        """Write chunks to the part; the next one is read while the last one is written."""
        mailbox, part, key_id = self._plane.mailbox, arrival.part, arrival.key.id
        received, piece = part.written, 0  #: the bytes of the last chunk; the next has no more
        writing = asyncio.create_task(asyncio.sleep(0))
        try:
            told, limit = await self._go(context, arrival)
            while received < part.size:
                if part.written - told >= self._share() // 4:
                    told, limit = await self._go(context, arrival)
                if limit < min(received + piece, part.size):  # no chunk comes before that
                    await writing
                    told, limit = await self._go(context, arrival)
                async with asyncio.timeout(self._settings.progress_timeout_s):
                    raw = await context.read()
                if not isinstance(raw, bytes):
                    raise BadRequest(reason="the stream of a value ended early")
                data, crc32 = parse_chunk(raw, key_id, offset=received, size=part.size)
                await writing
                piece = len(data)
                received += piece
                writing = asyncio.create_task(mailbox.write(arrival, data, crc32))
            await writing
            await mailbox.finish(arrival)
        except BadRequest as exc:  # the sender opens a new stream and goes on where this one broke
            await context.abort(grpc.StatusCode.ABORTED, str(exc.message))
        finally:
            writing.add_done_callback(_look_at)
            self._plane.in_thread(part.close)

    def _share(self) -> int:
        """Return the window of each value that arrives, in bytes; one chunk or more."""
        share = self._settings.inbound_bytes // max(self._slots.total, 1)
        return min(max(self._settings.chunk_bytes, share), self._settings.window_bytes)

    async def _go(self, context: Any, arrival: PartStream) -> tuple[int, int]:
        """Let the sender go on for a window; return what is written, and how far it may go.

        Raises: SpoolFull.
        """
        written = arrival.part.written
        limit = written + self._share()
        await self._plane.mailbox.grow(arrival, limit)
        await context.write(pack(Progress(status="go", written=written, limit=limit)))
        return written, limit

    async def _saying_wait(self, context: Any, work: Coroutine[Any, Any, R]) -> R:
        """Return the result of `work`; meanwhile tell the sender now and then that it may hope."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=self._settings.progress_timeout_s / 3)
                if not task.done():
                    await context.write(pack(Progress(status="wait")))
            return task.result()
        finally:
            task.cancel()


def _look_at(done: asyncio.Task[None]) -> None:
    """Look at how a write ended for which nobody waits, as its stream broke first."""
    if not done.cancelled():
        done.exception()


class _Inbound:
    """One stream of small values and notices of another party."""

    def __init__(
        self, context: Any, *, plane: DataPlane, party: PartyId | None, ping_s: float,
        servers: OtherServers | None, is_trusted: bool, pace: Pace,
    ) -> None:  # fmt: skip
        self._context = context
        self._pace = pace
        self._servers = servers
        self._is_trusted = is_trusted
        self._plane = plane
        self._party = party
        self._ping_s = ping_s
        self._acks: deque[Ack] = deque()
        self._changed = asyncio.Event()
        self._written = asyncio.Event()  #: after each message of answers
        self._idle = asyncio.timeout(None)
        self._closed = False
        self._held: dict[asyncio.Task[None], int] = {}  #: what waits, with its `seq`

    async def run(self) -> None:
        """Serve the stream until the sender closes it, or is silent for long and waits for nothing.

        The sender opens it again when it has something to send.
        """
        writer = asyncio.create_task(self._write())
        writer.add_done_callback(_look_at)
        refused: BadRequest | None = None
        try:
            async with self._idle:
                try:
                    await self._serve()
                finally:
                    self._closed = True
        except TimeoutError:
            pass
        except BadRequest as exc:
            refused = exc
        finally:
            for task in self._held:
                task.cancel()
            self._changed.set()
            # gRPC cannot end a call while one of its writes is under way
            await asyncio.wait([writer], timeout=_LAST_WRITE_S)
            writer.cancel()
        if refused is not None:
            await self._context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused.message))

    async def _serve(self) -> None:
        self._rest()
        while isinstance(raw := await self._context.read(), bytes):
            frames = idle = 0
            async for message, body in in_turns(split_frames(raw)):
                frames += 1
                idle += not self._on_message(message, body)
            self._rest()
            if idle and not self._is_trusted:
                caller = caller_of(self._context)
                self._pace.charge(caller, idle * (NOTICE_S + BYTE_S * len(raw) / frames))
                await self._pace.turn(caller)
            while len(self._acks) > MAX_ACKS:
                self._written.clear()
                await self._written.wait()

    def _rest(self) -> None:
        """Count the time of silence from now on, unless something is held."""
        if not self._idle.expired():
            now_s = asyncio.get_running_loop().time()
            self._idle.reschedule(None if self._held else now_s + IDLE_S)

    def _on_message(self, message: object, body: bytes) -> bool:
        """Take a message in; tell whether it is a value for a task that runs here."""
        if not isinstance(message, (Put, Notice)):
            raise BadRequest(reason="only values and notices travel on this stream")
        try:
            if isinstance(message, Notice):
                self._check_party(site_from_wire(message.source).party_id)
                self._on_notice(message)
            else:
                return self._on_put(message, body)
        except FedflowError as exc:
            self._ack(Ack(seq=message.seq, status="refused", error=_refusal(exc)))
        return False

    def _check_party(self, named: PartyId) -> None:
        if not self._is_trusted:  # another server of this party has checked it
            _check_party(self._party, named)

    def _on_notice(self, notice: Notice) -> None:
        destination = site_from_wire(notice.destination)
        servers = self._servers
        if servers is None or not servers.needed or self._plane.knows(notice.session, destination):
            self._plane.on_notice(notice)
            self._ack(Ack(seq=notice.seq, status="stored"))
        else:
            self._hold(notice.seq, partial(self._pass_on, notice, destination, servers))

    async def _pass_on(self, notice: Notice, destination: Site, servers: OtherServers) -> None:
        to = await servers.find(notice.session, destination)
        if to is None:
            self._plane.on_notice(notice)
        else:
            await servers.notify(notice, to, destination.party_id)

    def _on_put(self, put: Put, body: bytes) -> bool:
        key = _key_of(put)
        self._check_party(key.source.party_id)
        if zlib.crc32(body) != put.crc32:
            raise BadRequest(reason="a value with a wrong checksum")
        if self._plane.mailbox.put_now(key, body, digest=put.digest):
            self._ack(Ack(seq=put.seq, status="stored"))
            return True
        self._hold(put.seq, partial(self._put, put, key, body))
        return self._plane.mailbox.session((key.session, key.destination)) is not None

    async def _put(self, put: Put, key: ValueKey, body: bytes) -> None:
        """Take in a value that must wait, or pass it on. Its bytes are counted meanwhile."""
        mailbox, servers = self._plane.mailbox, self._servers
        with mailbox.holding(key.source.party_id, len(body)):
            to = await _place_of(key, plane=self._plane, servers=servers)
            if servers is not None and to is not None:
                await servers.deliver(key, body, digest=put.digest, to=to)
            else:
                await mailbox.put_open(key, body, digest=put.digest)

    def _hold(self, seq: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what takes longer in a task, which ends with this stream; then answer."""
        self._ack(Ack(seq=seq, status="held"))
        task = asyncio.create_task(self._finish(seq, work))
        self._held[task] = seq
        task.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        del self._held[task]
        if not self._closed:
            self._rest()

    async def _finish(self, seq: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except _LATER:
            self._ack(Ack(seq=seq, status="later"))
        except FedflowError as exc:
            self._ack(Ack(seq=seq, status="refused", error=_refusal(exc)))
        except Exception:
            logger.exception("What another party sent was not taken in")
            self._ack(Ack(seq=seq, status="later"))
        else:
            self._ack(Ack(seq=seq, status="stored"))

    def _ack(self, ack: Ack) -> None:
        """Queue an answer; the first one waits a little for others, to travel in one message."""
        self._acks.append(ack)
        if len(self._acks) == 1:
            asyncio.get_running_loop().call_later(ACK_DELAY_S, self._changed.set)
        elif len(self._acks) == ACK_BATCH:
            self._changed.set()

    async def _write(self) -> None:
        """Send what is acknowledged, and a sign of life for what is held."""
        while not self._closed:
            try:
                async with asyncio.timeout(self._ping_s):
                    await self._changed.wait()
            except TimeoutError:
                if not self._held:
                    continue
                self._acks.append(Ack(seq=next(iter(self._held.values())), status="held"))
            acks = [self._acks.popleft() for _ in range(min(len(self._acks), ACK_MOST))]
            if not self._acks:
                self._changed.clear()
            if acks:
                await self._context.write(b"".join(pack(ack) for ack in acks))
                self._written.set()


@contextmanager
def _taken(shares: Shares, party: PartyId) -> Iterator[None]:
    """Count one as used by a party for a while. Raises: SpoolFull."""
    if not shares.take(party):
        raise SpoolFull(used=shares.total, limit=shares.limit)
    try:
        yield
    finally:
        shares.give_back(party)


async def _place_of(
    key: ValueKey, *, plane: DataPlane, servers: OtherServers | None
) -> Instance | None:
    """Wait until a value's session is open; return the other server where it is, None: it is here.

    Raises: SessionUnknown: it has ended. TimeoutError: it was not opened for `hold_timeout_s`.
    """
    place = (key.session, key.destination)
    wanted = key.destination_incarnation
    if servers is None or plane.mailbox.session(place, wanted) is not None:
        await plane.mailbox.opened(place, wanted)
        return None
    opened = asyncio.ensure_future(plane.mailbox.opened(place, wanted))
    located = asyncio.ensure_future(servers.locate(*place))
    try:
        await asyncio.wait((opened, located), return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            opened.result()
            return None
        return located.result()
    finally:
        opened.cancel()
        located.cancel()


def _key_of(message: Put | Offer) -> ValueKey:
    """Return the checked key of a value. Raises: BadRequest."""
    return key_from_wire(
        message.key,
        incarnation=message.incarnation,
        destination_incarnation=message.destination_incarnation,
    )


def _refusal(error: FedflowError) -> ErrorInfo:
    """Return why something was refused, as the party that sent it may know it."""
    return error_to_wire(outside_error(error, "the receiving party"))


def _check_party(found: PartyId | None, named: PartyId) -> None:
    """Refuse a value or notice in another party's name; without TLS (`found` None) anybody may."""
    if found is not None and found != named:
        raise NotAuthenticated(reason=f"party {found} speaks for party {named}")
