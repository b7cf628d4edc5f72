"""`DataTransferService.unaryCall`: commands of other parties, relayed to this server's handlers.

A call is received once its caller's share has room for the largest one. Then it is checked (size,
path, who sent it), and handed to `dispatch` in a bounded pool of threads, so that the event loop
never waits for a handler. Of calls, bytes and threads each caller has a share. A refusal is
answered as an envelope with a retcode; only a share that is used up is a gRPC error, because the
sender shall try again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import grpc
import grpc.aio

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import BadPacket, ForbiddenRoute, IncompatibleVersions, NotPartner
from fedflow.base.errors.requests import NotAuthenticated
from fedflow.base.ids import PartyId
from fedflow.base.shares import Shares
from fedflow.base.thread_starts import Pool
from fedflow.base.values import dataclass
from fedflow.domain.site import Role
from fedflow.rpc.callers import caller_of
from fedflow.rpc.pace import Pace, price_s
from fedflow.rpc.packets import MORE_BYTES
from fedflow.rpc.turns import Turns
from fedflow.wire import envelope, headers
from fedflow.wire.packet import (
    METHOD,
    Dispatch,
    PacketCodec,
    PacketFields,
    call_metadata,
    reply_packet,
)
from fedflow.wire.paths import BODIES, parse_party_path
from fedflow.wire.versions import OURS, Speaks, common, read_speaks

logger = logging.getLogger(__name__)

Authenticate = Callable[[grpc.aio.ServicerContext], PartyId | None]
"""Return the party that the caller's certificate names, or None where TLS is off."""


@dataclass(frozen=True, kw_only=True)
class UnarySettings:
    """Limits of the command door."""

    threads: int = 16  #: handlers that run at once
    waiting: int = 256  #: calls that may wait for a thread; more are refused with "not now"
    body_bytes: int = 4 * 1024 * 1024  #: largest JSON body of a command
    largest: int = 6  #: of which calls that are received, wait or run have so many bytes in all
    turn_s: float = 3.0  #: how long a call may wait until it is received, seconds
    receive_s: float = 10.0  #: how long receiving it may take, seconds
    speaks: Speaks | None = OURS  #: None: say nothing of it, as releases of protocol 1


class UnaryService:
    """Serves `unaryCall`. `hosts` tells whether a party is one of this server's, `admits` whether
    another one's calls are answered.
    """

    def __init__(
        self, dispatch: Dispatch, *, authenticate: Authenticate, packets: PacketCodec,
        hosts: Callable[[str], bool], admits: Callable[[str], bool], pace: Pace,
        settings: UnarySettings,
    ) -> None:  # fmt: skip
        self._dispatch = dispatch
        self._authenticate = authenticate
        self._packets = packets
        self._hosts = hosts
        self._admits = admits
        self._pace = pace
        self._settings = settings
        self._pool = Pool(settings.threads, thread_name_prefix="fedflow-relay")
        self._calls = Shares(settings.threads + settings.waiting)
        self._largest = settings.body_bytes + MORE_BYTES
        self._bytes = Turns(settings.largest * self._largest)
        self._threads = Turns(settings.threads)
        self._large = Turns(_LARGE_CALLS)
        self._closed = False

    @property
    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return what answers each method of the service."""
        _, _, method = METHOD.split("/")
        return {method: grpc.stream_unary_rpc_method_handler(self._serve)}  # not received yet

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service; call it on the server's event loop."""
        _, service, _ = METHOD.split("/")
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, self.handlers),)
        )

    def close(self) -> None:
        """Refuse new calls, wait for the handlers that run and end the threads."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _serve(self, _: object, context: grpc.aio.ServicerContext) -> bytes:
        if self._closed:
            await context.abort(grpc.StatusCode.UNAVAILABLE, CLOSED)
        caller = caller_of(context)
        with ExitStack() as held:
            if not self._calls.take(caller):
                await _refuse(context, caller)
            held.callback(self._calls.give_back, caller)
            raw = await self._receive(context, caller)
            held.callback(self._bytes.give_back, caller, len(raw))
            if len(raw) > _LARGE_BYTES:
                await self._large.take(caller)
                held.callback(self._large.give_back, caller)
            await self._threads.take(caller)
            held.callback(self._threads.give_back, caller)
            # a thread goes on when the caller does not wait any more, so it keeps what it holds
            answering = self._in_thread(raw, self._authenticate(context), caller, held.pop_all())
            try:
                packet, answer = await asyncio.shield(answering)
            except RuntimeError:  # the pool takes nothing in
                await context.abort(grpc.StatusCode.UNAVAILABLE, CLOSED)
                raise
        if packet.source or packet.destination:
            context.set_trailing_metadata(_safe_metadata(packet))
        return answer

    async def _receive(self, context: grpc.aio.ServicerContext, caller: str) -> bytes:
        """Return a message, whose bytes are counted as the caller's.

        Until its size is known, it counts as the largest that there may be.
        """
        if not self._bytes.take_at_once(caller, self._largest):
            try:
                async with asyncio.timeout(self._settings.turn_s):
                    await self._bytes.take(caller, self._largest)
            except TimeoutError:
                await _refuse(context, caller)
        free = self._largest
        try:
            async with asyncio.timeout(self._settings.receive_s):
                raw: bytes = await context.read()
            if not isinstance(raw, bytes) or len(raw) > self._largest:
                raw = b""  # else the error, which is part of a cycle, would hold it
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "it is no message")
            free -= len(raw)
            return raw
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the message comes too slowly")
            raise
        finally:
            self._bytes.give_back(caller, free)

    async def _in_thread(
        self, raw: bytes, party: PartyId | None, caller: str, held: ExitStack
    ) -> tuple[PacketFields, bytes]:
        with held:
            loop = asyncio.get_running_loop()
            packet, answer, price = await loop.run_in_executor(self._pool, self._priced, raw, party)
            self._pace.charge(caller, price)
            return packet, answer

    def _priced(self, raw: bytes, party: PartyId | None) -> tuple[PacketFields, bytes, float]:
        """Return a packet, the answer to it, and what is charged for it, seconds."""
        begun_s = time.thread_time()
        packet, body = self._answer(raw, party)
        own = self._settings.speaks
        answer = reply_packet(packet, body, protocol=own.header if own is not None else None)
        sent = self._packets.encode(answer)
        return packet, sent, price_s(packet.path, body, time.thread_time() - begun_s)

    def _answer(self, raw: bytes, party: PartyId | None) -> tuple[PacketFields, bytes]:
        """Return a packet and the body of the answer to it."""
        packet = NO_PACKET
        try:
            packet = self._packets.decode(raw)
            source = self._check(packet, party)
            _, body = self._dispatch(packet.path, {**packet.headers, headers.SOURCE_PARTY: source},
                                     packet.body)  # fmt: skip
        except NotPartner as exc:
            who = (party or packet.source)[:64]
            said = {"action": "refuse_packet"}
            logger.warning("refused a call of party %s: %s", who, exc.message, extra=said)
            body = envelope.encode(envelope.failure(exc))
        except FedflowError as exc:
            logger.warning(
                "refused a packet of party %s: %s", party or packet.source[:32], exc.message[:500],
                extra={"action": "refuse_packet", "path": packet.path[:200]},
            )  # fmt: skip
            body = envelope.encode(envelope.failure(exc))
        except Exception:
            logger.exception("a packet failed", extra={"action": "packet_failed"})
            body = envelope.encode(envelope.internal_error())
        return packet, body

    def _check(self, packet: PacketFields, party: PartyId | None) -> str:
        """Return the party that sent the packet.

        Raises: BadPacket, ForbiddenRoute, NotAuthenticated, IncompatibleVersions, NotPartner:
        whatever the packet holds.
        """
        if not self._admits(party or packet.source):
            raise NotPartner
        match = parse_party_path(packet.path)
        if packet.operator.upper() != "POST" or match is None:
            raise ForbiddenRoute(path=packet.path[:200])
        size, limit = len(packet.body), BODIES[match.name].MAX_BYTES
        if size > (limit := min(limit, self._settings.body_bytes)):
            raise BadPacket(reason=f"its body has {size} bytes, {limit} are allowed")
        if match.params.get("role") == Role.LOCAL.value:  # tools on a party's own files
            raise ForbiddenRoute(path=packet.path[:200])
        source = packet.headers.get(headers.SOURCE_PARTY, packet.source)
        if source != packet.source:
            raise BadPacket(reason="its header and its source name different parties")
        if party is not None and party != source:
            raise NotAuthenticated(
                reason=f"the certificate is of party {party}, the packet from party {source}"
            )
        if self._hosts(source):  # commands of own parties do not come over the network
            raise BadPacket(reason=f"it claims to be from party {source}, which is here")
        if not self._hosts(packet.destination):
            raise BadPacket(reason=f"it is for party {packet.destination}, which is not here")
        self._check_version(packet, source)
        return source

    def _check_version(self, packet: PacketFields, source: str) -> None:
        """Raises: IncompatibleVersions: the sender speaks no protocol that this server does."""
        ours, told = self._settings.speaks, packet.headers.get(headers.PROTOCOL)
        if ours is None or told == ours.header:
            return
        theirs = read_speaks(told)
        if common(ours, theirs) is None:
            raise IncompatibleVersions(party_id=source, theirs=theirs, ours=ours)


BUSY: Final = "too many calls at once"
CLOSED: Final = "the server stops, or has no thread"
_LARGE_BYTES: Final = 128 * 1024  #: of a call that takes much time, of which Python has one thread
_LARGE_CALLS: Final = 2  #: such calls at once, of different parties
NO_PACKET: Final = PacketFields(job_id="", source="", destination="", path="", body=b"")


async def _refuse(context: grpc.aio.ServicerContext, caller: str) -> None:
    """End a call: its caller's share is used up."""
    logger.warning("refused a call of %s: %s", caller, BUSY, extra={"action": "refuse_call"})
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, BUSY)


def _safe_metadata(packet: PacketFields) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata; ids that gRPC cannot carry in metadata become empty."""
    return call_metadata(_printable(packet.source), _printable(packet.destination))


def _printable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else ""
