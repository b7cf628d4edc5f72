"""Passes calls on, message by message: each is read, written, and forgotten.

The next message of a direction is read once the last one was written, so gRPC's flow control goes
through: who sends waits for who reads. At most one message per direction and call is here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.errors.parties import SealBroken
from fedflow.exchange.dialled import DialledParties, LineLost
from fedflow.exchange.parties import Parties
from fedflow.exchange.traffic import PairTraffic, RelayTraffic
from fedflow.rpc.client.commands import why
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.data_plane.streams import BROKEN
from fedflow.wire.exchange import DESTINATION, METHOD, SAYS, CallKind, Lane, read_header

logger = logging.getLogger(__name__)

FIRST_S: Final = 20.0  #: how long the first message of a call may take, seconds
_LOST: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})

OpenChannel = Callable[[str], grpc.aio.Channel]
"""Return a new channel to a party."""


class WaysToParties:
    """Channels to parties with an address, by lane, and the lines of those that dial in."""

    def __init__(self, open_channel: OpenChannel, dialled: DialledParties) -> None:
        self._open_channel = open_channel
        self._dialled = dialled
        self._open: dict[tuple[str, Lane], grpc.aio.Channel] = {}

    async def call(self, party_id: str, kind: CallKind, *, source: str) -> Any:
        """Return a new call to a party. Raises: LineLost."""
        if party_id in self._dialled:
            return await self._dialled.call(party_id, kind.lane, source=source)
        key = party_id, kind.lane
        if key not in self._open:
            self._open[key] = self._open_channel(party_id)
        return self._open[key].stream_stream(METHOD)(metadata=())

    async def close(self) -> None:
        """Close all channels."""
        known, self._open = self._open, {}
        for channel in known.values():
            await channel.close(None)


class RelayService:
    """Serves `Call` between parties. Belongs to one event loop."""

    def __init__(
        self,
        parties: Parties,
        ways: WaysToParties,
        traffic: RelayTraffic,
        *,
        bytes_per_s: float | None = None,
    ) -> None:
        """`bytes_per_s`: what one party may send on average, None: any."""
        self._parties = parties
        self._ways = ways
        self._traffic = traffic
        self._rates = {
            party: SendingRate(bytes_per_s) for party in parties.known if bytes_per_s is not None
        }

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service on a server that has not started."""
        _, service, method = METHOD.split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._call)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )

    async def _call(self, _: object, context: Any) -> None:
        source = certificate_party(context) or ""
        destination = dict(context.invocation_metadata() or ()).get(DESTINATION, "")
        refusal = self._parties.refusal(source, str(destination))
        if refusal is not None:
            self._refuse(source, str(destination), refusal)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{SAYS}: {refusal}")
        counts = self._traffic.of(source, destination)
        counts.calls += 1
        counts.open += 1
        try:
            await self._pass_on(context, source, destination, counts)
        finally:
            counts.open -= 1

    def _refuse(self, source: str, destination: str, reason: str) -> None:
        if {source, destination} <= self._parties.known:
            self._traffic.of(source, destination).refused += 1
        logger.warning(
            "refused a call of %s: %s", source[:64], reason, extra={"action": "refuse_call"}
        )

    async def _pass_on(
        self, context: Any, source: str, destination: str, counts: PairTraffic
    ) -> None:
        try:
            async with asyncio.timeout(FIRST_S):
                first = await context.read()
            kind = read_header(first).kind
        except TimeoutError:
            counts.failed += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{SAYS}: no message came")
        except SealBroken:
            counts.failed += 1
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{SAYS}: it is no call")
        rate = self._rates.get(source)
        try:
            call = await self._ways.call(destination, kind, source=source)
        except LineLost as exc:
            counts.failed += 1
            await self._tell(context, destination, exc)
        up = asyncio.create_task(_send(context, call, first, counts, rate))
        del first
        try:
            while isinstance(raw := await call.read(), bytes):
                counts.bytes_down += len(raw)
                await context.write(raw)
        except BROKEN as exc:
            counts.failed += 1
            await self._tell(context, destination, exc)
        except grpc.aio.BaseError:  # who called is gone
            logger.info("a caller of party %s is gone", destination, extra={"action": "call_ended"})
        finally:
            up.cancel()
            call.cancel()

    async def _tell(self, context: Any, destination: str, error: BaseException) -> None:
        """End a call as the called party ended it; that it is away is said to be its fault."""
        code, details = grpc.StatusCode.UNAVAILABLE, str(error)
        if isinstance(error, grpc.aio.AioRpcError):
            code, details = error.code(), error.details() or ""
            if code in _LOST:
                code, details = grpc.StatusCode.UNAVAILABLE, why(error, 0.0, tls=True)
        logger.info(
            "a call to party %s failed: %s", destination, details[:200],
            extra={"action": "call_failed"},
        )  # fmt: skip
        if code is grpc.StatusCode.UNAVAILABLE:
            details = f"{SAYS} cannot reach party {destination}: {details}"
        await context.abort(code, details[:500])


async def _send(
    context: Any, call: Any, first: bytes, counts: PairTraffic, rate: SendingRate | None
) -> None:
    """Pass on what a caller sends, until it ends."""
    raw: Any = first
    del first
    try:
        while isinstance(raw, bytes):
            counts.bytes_up += len(raw)
            if rate is not None:
                await rate.wait(len(raw))
            await call.write(raw)
            del raw
            raw = await context.read()
        await call.done_writing()
    except (*BROKEN, grpc.aio.BaseError):
        call.cancel()


class SendingRate:
    """Lets a party send so many bytes per second, and one second's worth at once.

    Source: ITU-T I.371, "generic cell rate algorithm".
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._full_s = 0.0  #: when what was sent is paid for

    async def wait(self, size: int) -> None:
        """Return once so many bytes may be sent."""
        now_s = asyncio.get_running_loop().time()
        self._full_s = max(self._full_s, now_s) + size / self._bytes_per_s
        pause_s = self._full_s - now_s - 1.0
        if pause_s > 0:
            await asyncio.sleep(pause_s)
