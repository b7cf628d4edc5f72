"""What goes out to other parties: small values and notices over a stream, big values as uploads.

One stream at a time and per party, in order, acknowledged, opened again. What waits is drained into
few gRPC messages; what is not acknowledged when a stream breaks is sent again on the next one (the
receiver knows repeats). Channels are opened by the caller's function, so routes and TLS are not
known here. Big values have a channel of their own.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import grpc
import grpc.aio
import msgspec

from fedflow.base.errors.data_plane import PeerFailed, SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.base.thread_starts import Pool
from fedflow.federation.keys import ValueKey
from fedflow.federation.messages import Ack, Notice, Put, error_from_wire, pack, split_frames
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import Blob
from fedflow.rpc.data_plane.bulk import BULK, Upload
from fedflow.rpc.data_plane.streams import (
    BROKEN,
    Metadata,
    OpenChannel,
    Watchdog,
    in_turns,
    lost_connection,
    refusal,
)

logger = logging.getLogger(__name__)

MESSAGES = "/fedflow.v1.DataPlane/Messages"
BATCH_FRAMES = 256  #: most frames in one gRPC message
BATCH_BYTES = 2 * 1024 * 1024  #: most bytes of frames that are put into one gRPC message
SOUND_S = 0.5  #: a stream that lives so long is opened again at once when it breaks
EOF_REASON = "it closed the stream"
READ_THREADS = 2

Turn = Callable[[PartyId], object]
"""Return what is another thing once calls to a party have turned to another of its servers."""

P = ParamSpec("P")
R = TypeVar("R")


class GrpcSender:
    """The `SenderPort` of a server: links and uploads to other parties."""

    def __init__(
        self,
        *,
        open_channel: OpenChannel,
        is_local: Callable[[PartyId], bool],
        settings: FederationSettings,
        metadata: Metadata = (),
        turn: Turn = lambda _: None,
    ) -> None:
        self._open_channel = open_channel
        self._turn = turn
        self._metadata = metadata
        self._is_local = is_local
        self._settings = settings
        self._links: dict[PartyId, Link] = {}
        self._bulk: dict[PartyId, tuple[object, grpc.aio.Channel]] = {}  #: with the turn then
        self._notices: dict[tuple[PartyId, Notice], asyncio.Task[None]] = {}  #: under way
        self._pool = Pool(READ_THREADS, thread_name_prefix="data-plane-read")
        self._closed = False

    def is_local(self, party_id: PartyId) -> bool:
        """Tell whether this server is the party's."""
        return self._is_local(party_id)

    async def deliver_small(self, key: ValueKey, data: bytes, *, digest: str) -> None:
        """Return when the receiver's server has the value. Raises: see `SenderPort`."""
        crc32 = zlib.crc32(data)
        wire = key.wire
        await self._link(key.destination.party_id).send(
            lambda seq: Put(
                seq=seq,
                key=wire,
                digest=digest,
                crc32=crc32,
                incarnation=key.incarnation,
                destination_incarnation=key.destination_incarnation,
            ),
            data,
        )

    async def deliver_file(self, key: ValueKey, blob: Blob) -> None:
        """Return when the receiver's server has the value. Raises: see `SenderPort`."""
        party = key.destination.party_id
        failures = 0
        while True:
            channel = self._bulk_channel(party)
            upload = Upload(
                channel.stream_stream(BULK)(metadata=self._metadata),
                key=key,
                blob=blob,
                settings=self._settings,
                in_thread=self._in_thread,
                has_turned=lambda: self._has_turned(party),
            )
            try:
                await upload.run()
                return
            except BROKEN as exc:
                if (sentence := refusal(exc)) is not None:
                    raise PeerFailed(site=str(key.destination), reason=sentence) from exc
                logger.info("A value to party %s broke at %d bytes", party, upload.acknowledged)
                if upload.stalled or lost_connection(exc):
                    await self._drop_bulk(party, channel)
            except SpoolFull:
                if self._has_turned(party):
                    await self._drop_bulk(party, channel)
            failures = 0 if upload.acknowledged and not upload.stalled else failures + 1
            await asyncio.sleep(self._pause_s(failures))

    async def deliver_notice(self, party_id: PartyId, notice: Notice) -> None:
        """Return when the receiver's server has a notice; tries until canceled."""
        await self._link(party_id).send(lambda seq: msgspec.structs.replace(notice, seq=seq))

    def notify(self, party_id: PartyId, notice: Notice) -> None:
        """Send a notice, trying for a while; returns at once. One that is under way is enough."""
        what = (party_id, notice)
        if not self._closed and what not in self._notices:
            task = self._notices[what] = asyncio.create_task(self._notify(party_id, notice))
            task.add_done_callback(lambda _: self._notices.pop(what))

    async def close(self) -> None:
        """Close all streams and channels."""
        self._closed = True
        tasks = list(self._notices.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for link in self._links.values():
            await link.close()
        for _, channel in self._bulk.values():
            await channel.close(None)
        self._links.clear()
        self._bulk.clear()
        self._pool.shutdown()

    async def _notify(self, party_id: PartyId, notice: Notice) -> None:
        limit_s = self._settings.notice_timeout_s
        if notice.kind == "watch":
            limit_s = min(limit_s, self._settings.watch_interval_s)
        try:
            async with asyncio.timeout(limit_s):
                await self.deliver_notice(party_id, notice)
        except (FedflowError, TimeoutError) as exc:
            logger.info("Party %s was not told %r: %s", party_id, notice.kind, exc or "no answer")

    def _link(self, party_id: PartyId) -> Link:
        link = self._links.get(party_id)
        if link is None:
            link = self._links[party_id] = Link(
                party_id,
                open_channel=self._open_channel,
                settings=self._settings,
                metadata=self._metadata,
                turn=self._turn,
            )
        return link

    def _bulk_channel(self, party_id: PartyId) -> grpc.aio.Channel:
        if party_id not in self._bulk:
            self._bulk[party_id] = self._turn(party_id), self._open_channel(party_id)
        return self._bulk[party_id][1]

    def _has_turned(self, party_id: PartyId) -> bool:
        """Tell whether calls to a party go to another of its servers than its big values do."""
        known = self._bulk.get(party_id)
        return known is not None and known[0] != self._turn(party_id)

    async def _drop_bulk(self, party_id: PartyId, channel: grpc.aio.Channel) -> None:
        """Close a channel that is stuck or lost; the next one follows the route of that time."""
        if party_id in self._bulk and self._bulk[party_id][1] is channel:
            del self._bulk[party_id]
            await channel.close(None)

    def _in_thread(
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[R]:
        return asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))

    def _pause_s(self, attempt: int) -> float:
        low, high = self._settings.reconnect_min_s, self._settings.reconnect_max_s
        return min(low * 2.0 ** min(attempt, 20), high)


@dataclass(kw_only=True, slots=True, eq=False)
class _Pending:
    """One message that is not acknowledged."""

    seq: int
    frame: bytes
    answer: asyncio.Future[None]
    in_flight: bool = False  #: sent, and no answer yet
    held: bool = False  #: the receiver keeps it until its session opens
    retries: int = 0


class Link:
    """Carries messages to one party. Belongs to one event loop."""

    def __init__(
        self, party_id: PartyId, *, open_channel: OpenChannel, settings: FederationSettings,
        metadata: Metadata = (), turn: Turn = lambda _: None,
    ) -> None:  # fmt: skip
        self.party_id = party_id
        self._turn = turn
        self._metadata = metadata
        self._open_channel = open_channel
        self._settings = settings
        self._pending: dict[int, _Pending] = {}
        self._queue: deque[_Pending] = deque()
        self._in_flight = 0  #: bytes
        self._held = 0  #: messages
        self._later = False  #: the receiver put one off since the stream was opened
        self._next_seq = 1
        self._changed = asyncio.Event()  #: something to send, or room to send it
        self._watchdog: Watchdog | None = None
        self._failures = 0
        self._task = asyncio.create_task(self._run(), name=f"data-plane-link-{party_id}")

    async def send(self, make: Callable[[int], Put | Notice], body: bytes = b"") -> None:
        """Send the message that `make` builds from its sequence number; return when it is stored.

        Tries until canceled. Raises: what the receiver refuses it with, or the route's error.
        """
        seq = self._next_seq
        self._next_seq += 1
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pending = _Pending(seq=seq, frame=pack(make(seq), body), answer=answer)
        self._pending[seq] = pending
        self._enqueue(pending)
        try:
            await answer
        finally:
            self._forget(pending)

    async def close(self) -> None:
        """Close the stream; messages under way fail."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        self._fail_all(PeerFailed(site=f"party {self.party_id}", reason="the own server stops"))

    # --- the stream

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            try:
                await self._converse()
                if not self._pending:  # it was silent for long; the next message opens it again
                    self._changed.clear()
                    continue
                reason = EOF_REASON
            except BROKEN as exc:
                reason = str(exc)
                if (sentence := refusal(exc)) is not None:
                    self._fail_all(PeerFailed(site=f"party {self.party_id}", reason=sentence))
            except FedflowError as exc:
                self._fail_all(exc)
                reason = exc.message
            self._requeue_all()
            pause = self._pause_s(self._failures)
            self._failures += 1
            logger.info("The stream to party %s broke: %s", self.party_id, reason[:200])
            await asyncio.sleep(pause)

    async def _converse(self) -> None:
        """Run one stream until it ends."""
        turn, self._later = self._turn(self.party_id), False
        channel = self._open_channel(self.party_id)
        call = channel.stream_stream(MESSAGES)(metadata=self._metadata)
        watchdog = self._watchdog = Watchdog(timeout_s=self._settings.progress_timeout_s)
        writer = asyncio.create_task(self._write(call, watchdog))
        try:
            async with watchdog:
                loop = asyncio.get_running_loop()
                begun_s = loop.time()
                while (raw := await call.read()) and isinstance(raw, bytes):
                    if loop.time() - begun_s > SOUND_S:
                        self._failures = 0
                    async for message, _ in in_turns(split_frames(raw)):
                        if isinstance(message, Ack):
                            self._on_ack(message)
                    if self._waits() and self._turn(self.party_id) != turn:
                        raise ConnectionError("another of its servers is called now")
                    watchdog.heard(owes=self._owed())
                code = await call.code()
                if code.value[0]:
                    raise ConnectionError(f"{code.name}: {await call.details()}")
        finally:
            self._watchdog = None
            writer.cancel()
            call.cancel()
            await channel.close(None)

    async def _write(self, call: Any, watchdog: Watchdog) -> None:
        try:
            while True:
                await self._changed.wait()
                batch = self._take_batch()
                if batch:
                    watchdog.expect()
                    await call.write(batch)
                else:
                    self._changed.clear()
        except BROKEN:
            call.cancel()

    def _take_batch(self) -> bytes:
        """Return the frames that may be sent now, joined; empty: none or no room."""
        frames: list[bytes] = []
        size = 0
        while self._queue and size < BATCH_BYTES and len(frames) < BATCH_FRAMES:
            pending = self._queue[0]
            if pending.answer.done() or pending.in_flight or pending.held:
                self._queue.popleft()  # it was put off, and queued when the stream broke as well
                continue
            if self._in_flight and self._in_flight + len(pending.frame) > (
                self._settings.window_bytes
            ):
                break
            self._queue.popleft()
            pending.in_flight = True
            self._in_flight += len(pending.frame)
            size += len(pending.frame)
            frames.append(pending.frame)
        return frames[0] if len(frames) == 1 else b"".join(frames)

    # --- answers

    def _on_ack(self, ack: Ack) -> None:
        pending = self._pending.get(ack.seq)
        if pending is None or pending.answer.done():
            return
        if ack.status == "stored":
            pending.answer.set_result(None)
        elif ack.status == "refused":
            pending.answer.set_exception(error_from_wire(ack.error))
        elif ack.status == "held":
            self._landed(pending)
            pending.held = True
            self._held += 1
        elif ack.status == "later":
            self._landed(pending)
            self._later = True
            loop = asyncio.get_running_loop()
            loop.call_later(self._pause_s(pending.retries), self._enqueue, pending)
            pending.retries += 1

    def _enqueue(self, pending: _Pending) -> None:
        if not pending.answer.done():
            self._queue.append(pending)
            self._changed.set()

    def _landed(self, pending: _Pending) -> None:
        """Take a message out of the window."""
        if pending.held:
            pending.held = False
            self._held -= 1
        if pending.in_flight:
            pending.in_flight = False
            self._in_flight -= len(pending.frame)
            self._changed.set()

    def _forget(self, pending: _Pending) -> None:
        self._pending.pop(pending.seq, None)
        self._landed(pending)
        if self._watchdog is not None and not self._owed():
            self._watchdog.heard(owes=False)

    def _waits(self) -> bool:
        """Tell whether the receiver could not take all in at once."""
        return self._held > 0 or self._later

    def _owed(self) -> bool:
        """Tell whether the receiver owes an answer, or a sign of life for what it holds."""
        return self._in_flight > 0 or self._held > 0

    def _requeue_all(self) -> None:
        """Queue everything that is not acknowledged, oldest first."""
        self._in_flight = self._held = 0
        self._queue = deque(self._pending.values())
        for pending in self._queue:
            pending.in_flight = pending.held = False
        self._changed.clear()
        if self._queue:
            self._changed.set()

    def _fail_all(self, error: FedflowError) -> None:
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(type(error)(**error.fields))

    def _pause_s(self, attempt: int) -> float:
        low, high = self._settings.reconnect_min_s, self._settings.reconnect_max_s
        return min(low * 2.0 ** min(attempt, 20), high)
