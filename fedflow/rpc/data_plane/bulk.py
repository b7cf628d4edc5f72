"""One big value to one other party: an own stream, chunks, a window, resumed after a break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fedflow.base.errors.data_plane import SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.federation.keys import ValueKey
from fedflow.federation.mailbox import InThread
from fedflow.federation.messages import (
    Offer,
    Progress,
    error_from_wire,
    pack,
    pack_chunk,
    split_frames,
)
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import Blob, read_at
from fedflow.rpc.data_plane.streams import BROKEN, Watchdog

MAX_ANSWERS = 64  #: in one message; a receiver sends one at a time
BULK = "/fedflow.v1.DataPlane/Bulk"


class Upload:
    """One attempt to bring a value over; the receiver says from which offset on."""

    def __init__(
        self,
        call: Any,
        *,
        key: ValueKey,
        blob: Blob,
        settings: FederationSettings,
        in_thread: InThread,
        has_turned: Callable[[], bool] = lambda: False,
    ) -> None:
        """`has_turned` tells whether another server of the receiver's should be asked."""
        self._call = call
        self._key = key
        self._key_id = key.id
        self._blob = blob
        self._chunk_bytes = settings.chunk_bytes
        self._in_thread = in_thread
        self._has_turned = has_turned
        self._watchdog = Watchdog(timeout_s=settings.progress_timeout_s)
        self._writer: asyncio.Task[None] | None = None
        self._offset = 0  #: sent, or being sent
        self._limit = 0  #: may be sent
        self._granted = asyncio.Event()
        self._error: FedflowError | None = None
        self.acknowledged = 0  #: bytes that the receiver has written

    @property
    def stalled(self) -> bool:
        """Tell whether the peer was silent for too long."""
        return self._watchdog.stalled

    async def run(self) -> None:
        """Return when the receiver has the value.

        Raises: SpoolFull: try again later. ConnectionError or another of `BROKEN`: the stream
        broke. What the receiver refuses the value with. BadRequest: the own file was cut off.
        """
        try:
            async with self._watchdog:
                await self._converse()
        except ConnectionError:
            if self._error is None:
                raise
            raise self._error from None
        finally:
            if self._writer is not None:
                self._writer.cancel()
            self._call.cancel()

    async def _converse(self) -> None:
        self._watchdog.expect()
        key = self._key
        offer = Offer(
            key=key.wire,
            size=self._blob.size,
            digest=self._blob.digest,
            incarnation=key.incarnation,
            destination_incarnation=key.destination_incarnation,
        )
        await self._call.write(pack(offer))
        while isinstance(raw := await self._call.read(), bytes):
            for message, _ in split_frames(raw, most=MAX_ANSWERS):
                if isinstance(message, Progress) and self._on_progress(message):
                    return
        raise ConnectionError("the peer closed the stream")

    def _on_progress(self, progress: Progress) -> bool:
        """Act on an answer; tell whether it was the last."""
        match progress.status:
            case "stored":
                return True
            case "wait":
                self._watchdog.heard(owes=True)
                if self._has_turned():
                    raise SpoolFull(used="all", limit="its")
            case "later":
                raise SpoolFull(used="all", limit="its")
            case "refused":
                raise error_from_wire(progress.error)
            case "go":
                self._go(progress.written, min(progress.limit, self._blob.size))
        return False

    def _go(self, written: int, limit: int) -> None:
        self.acknowledged = written
        self._limit = limit
        if self._writer is None:
            self._offset = written
            self._writer = asyncio.create_task(self._write())
        self._watchdog.heard(owes=self._offset > written or written >= self._blob.size)
        self._granted.set()

    async def _write(self) -> None:
        """Send chunks as far as the window goes, reading one ahead.

        The receiver counts in chunks of its own settings: its window may be less than one of these.
        """
        ahead = self._read(self._offset)
        try:
            while self._offset < self._blob.size:
                chunk = await ahead
                length = self._length(self._offset)
                ahead = self._read(self._offset + length)
                while self._offset + length > self._limit:
                    if self._offset == self.acknowledged < self._limit:  # no more is let go
                        self._chunk_bytes = length = self._limit - self._offset
                        chunk = await self._read(self._offset)
                        ahead.cancel()
                        ahead = self._read(self._offset + length)
                    else:
                        self._granted.clear()
                        await self._granted.wait()
                self._offset += length
                self._watchdog.expect()  # before the write: a peer that reads nothing blocks it
                await self._call.write(chunk)
        except BROKEN:
            self._call.cancel()
        except FedflowError as exc:
            self._error = exc
            self._call.cancel()
        finally:
            ahead.cancel()

    def _length(self, offset: int) -> int:
        return min(self._chunk_bytes, self._blob.size - offset)

    def _read(self, offset: int) -> asyncio.Future[bytes]:
        return self._in_thread(self._read_chunk, offset)

    def _read_chunk(self, offset: int) -> bytes:
        length = self._length(offset)
        if not length:
            return b""
        data = read_at(self._blob.fd, offset=offset, length=length)
        return pack_chunk(self._key_id, data, offset=offset)
