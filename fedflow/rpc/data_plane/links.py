"""The stream of small values and notices to one other party: in order, acknowledged, opened again.

One stream at a time and per party. What waits is drained into few gRPC messages; what is not
acknowledged when a stream breaks is sent again on the next one (the receiver knows repeats).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.federation.messages import Ack, Notice, Put, error_from_wire, pack, split_frames
from fedflow.federation.settings import FederationSettings
from fedflow.rpc.data_plane.streams import (
    BROKEN,
    Metadata,
    OpenChannel,
    Watchdog,
    refusal,
)

logger = logging.getLogger(__name__)

MESSAGES = "/fedflow.v1.DataPlane/Messages"
BATCH_BYTES = 2 * 1024 * 1024  #: most bytes of frames that are put into one gRPC message
EOF_REASON = "it closed the stream"


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
        metadata: Metadata = (),
    ) -> None:  # fmt: skip
        self.party_id = party_id
        self._metadata = metadata
        self._open_channel = open_channel
        self._settings = settings
        self._pending: dict[int, _Pending] = {}
        self._queue: deque[_Pending] = deque()
        self._in_flight = 0  #: bytes
        self._held = 0  #: messages
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
        channel = self._open_channel(self.party_id)
        call = channel.stream_stream(MESSAGES)(metadata=self._metadata)
        watchdog = self._watchdog = Watchdog(timeout_s=self._settings.progress_timeout_s)
        writer = asyncio.create_task(self._write(call, watchdog))
        try:
            async with watchdog:
                while (raw := await call.read()) and isinstance(raw, bytes):
                    self._failures = 0
                    for message, _ in split_frames(raw):
                        if isinstance(message, Ack):
                            self._on_ack(message)
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
        while self._queue and size < BATCH_BYTES:
            pending = self._queue[0]
            if pending.answer.done():
                self._queue.popleft()
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
