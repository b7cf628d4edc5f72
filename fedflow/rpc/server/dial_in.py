"""Connections that a server which cannot be called keeps open to an exchange, for calls to it.

A few lines wait for calls in each lane; when one is taken another is opened. A line that breaks is
opened again after a pause. See `fedflow/exchange/dialled.py` for the other end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

import grpc
import grpc.aio
from msgspec.structs import replace

from fedflow.base.clock import SystemClock
from fedflow.rpc.client.commands import why
from fedflow.rpc.data_plane.streams import BROKEN
from fedflow.rpc.refusals import CallRefused, refusal_bytes
from fedflow.wire.api.parties import DialInState
from fedflow.wire.exchange import END, EXCHANGE, LANE, SERVE, SERVER, Lane

logger = logging.getLogger(__name__)

AHEAD: Final = 4  #: lines of a lane that wait for calls
CALLS: Final = 192  #: of a lane at once; the connection's own limit at the exchange is 256
PAUSE_S: Final = 0.1  #: before a line is opened again, at first; it doubles
PAUSE_CAP_S: Final = 5.0
LAST_S: Final = 20.0  #: how long the exchange may take to end a line whose call is over, seconds

_GONE: Final = "who called is gone"

Answer = Callable[[Any], Awaitable[object]]
"""Answer the call of a gRPC context."""


class DialIn:
    """Lines to one exchange. Belongs to one event loop."""

    def __init__(
        self, address: str, *, open_channel: Callable[[], grpc.aio.Channel], answer: Answer,
        server_id: str, rng: Random,
    ) -> None:  # fmt: skip
        """`server_id` tells the servers of a party apart, and stays when one is started again."""
        self._address = address
        self._open_channel = open_channel
        self._answer = answer
        self._server_id = server_id
        self._rng = rng
        self._clock = SystemClock()
        self.state = DialInState(exchange=address)  #: other threads may read it
        self._is_stopped = False
        self._keepers: list[asyncio.Task[None]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._channels: list[grpc.aio.Channel] = []

    def start(self) -> None:
        """Open lines, and keep them open."""
        for lane in Lane:
            channel, room = self._open_channel(), asyncio.Semaphore(CALLS)
            self._channels.append(channel)
            self._keepers += [
                asyncio.create_task(self._keep(channel, lane, room)) for _ in range(AHEAD)
            ]

    async def stop(self) -> None:
        """Close all; calls under way break."""
        self._is_stopped = True
        for channel in self._channels:  # gRPC drops a cancellation that comes as a call begins
            await channel.close(None)
        tasks = [*self._keepers, *self._calls]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep(self, channel: grpc.aio.Channel, lane: Lane, room: asyncio.Semaphore) -> None:
        """Keep one line waiting: open it, hand over the call that comes, open the next."""
        failures = 0
        while not self._is_stopped:
            await room.acquire()
            try:
                call, first = await self._next_call(channel, lane)
            except (*BROKEN, grpc.aio.BaseError) as exc:
                room.release()
                self._note(why(exc, 0.0, tls=True) if isinstance(exc, grpc.RpcError) else str(exc))
                cap_s = min(PAUSE_S * 2.0 ** min(failures, 10), PAUSE_CAP_S)
                failures += 1
                await asyncio.sleep(self._rng.uniform(cap_s / 2, cap_s))
                continue
            failures = 0
            task = asyncio.create_task(self._serve(call, first))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            task.add_done_callback(lambda _: room.release())

    async def _next_call(self, channel: grpc.aio.Channel, lane: Lane) -> tuple[Any, bytes]:
        """Return a line that was taken, and the first message of its call."""
        self.state = replace(self.state, last_try=self._clock.now_ms())
        line = channel.stream_stream(SERVE)(
            metadata=((SERVER, self._server_id), (LANE, lane.value))
        )
        try:
            if await line.read() != END:
                raise ConnectionError("the exchange closed the line")
            self._note(None)
            first = await line.read()
            if not isinstance(first, bytes):
                raise ConnectionError("the exchange closed the line")
        except BaseException:
            line.cancel()
            raise
        return line, first

    async def _serve(self, line: Any, first: bytes) -> None:
        """Answer one call, and end its line."""
        context = LineContext(line, first, peer=self._address)
        del first
        work = asyncio.ensure_future(self._answer(context))
        line.add_done_callback(lambda _: work.cancel())  # who called is gone
        try:
            refusal = await _refusal_of(work)
            await line.write(END)
            if refusal is not None:
                await line.write(refusal)
            await line.done_writing()
            async with asyncio.timeout(LAST_S):
                await line.read()
        except (*BROKEN, grpc.aio.BaseError) as exc:
            logger.info("A line to the exchange %s broke: %s", self._address, str(exc)[:200])
        finally:
            work.cancel()
            line.cancel()

    def _note(self, fault: str | None) -> None:
        """Keep how the lines stand; say it when the exchange is reached, and when no longer."""
        if self._is_stopped:
            return
        before, is_up = self.state, fault is None
        is_new = before.since is None or before.connected is not is_up
        since = self._clock.now_ms() if is_new else before.since
        self.state = replace(before, connected=is_up, since=since, last_error=fault or "")
        if not is_new:
            return
        action = {"action": "dial_in"}
        if fault is None:
            logger.info("Calls can come over the exchange %s", self._address, extra=action)
        else:
            logger.warning(
                "No calls come over the exchange %s: %s", self._address, fault, extra=action
            )


async def _refusal_of(work: asyncio.Future[object]) -> bytes | None:
    """Return how a call was refused, None: it was answered. Raises: ConnectionError."""
    try:
        await work
    except CallRefused as exc:
        return refusal_bytes(exc.code, exc.details)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ConnectionError("its call was canceled") from None
    return None


class LineContext:
    """A call over a line as its handler sees it: a gRPC context whose caller is the exchange."""

    def __init__(self, line: Any, first: bytes, *, peer: str) -> None:
        self._line = line
        self._first: bytes | None = first
        self._peer = peer

    async def read(self) -> Any:
        """Return the next message, `grpc.aio.EOF` after the last."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            raw = await self._line.read()
        except BROKEN as exc:
            raise CallRefused(grpc.StatusCode.CANCELLED, _GONE) from exc
        if not isinstance(raw, bytes):
            raise CallRefused(grpc.StatusCode.CANCELLED, _GONE)
        return grpc.aio.EOF if raw == END else raw

    async def write(self, data: bytes) -> None:
        """Send a message."""
        try:
            await self._line.write(data)
        except BROKEN as exc:
            raise CallRefused(grpc.StatusCode.CANCELLED, _GONE) from exc

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        """End the call. Raises: CallRefused, always."""
        raise CallRefused(code, details)

    def auth_context(self) -> dict[str, list[bytes]]:
        """Return who calls: the channel's certificate is the exchange's."""
        return {
            "transport_security_type": [b"ssl"],
            "x509_common_name": [EXCHANGE.encode()],
        }

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return nothing: an exchange passes none on."""
        return ()

    def set_trailing_metadata(self, metadata: object) -> None:
        """Do nothing: an exchange passes none on."""

    def peer(self) -> str:
        """Return where the exchange is."""
        return self._peer
