"""Calls of other parties that came over an exchange: opened, then handed to the usual handlers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import NotPartner, SealCutOff, SealMisdirected
from fedflow.rpc.callers import caller_of
from fedflow.rpc.pace import Pace
from fedflow.rpc.refusals import CallRefused, refusal_bytes
from fedflow.rpc.sealed.agreement import SiteKeys, accept, check_time, read_hello
from fedflow.rpc.sealed.calls import status_of
from fedflow.rpc.sealed.records import DOWN, UP, RecordFlag, RecordOpener, RecordSealer
from fedflow.rpc.sealed.sessions import OpenSession, PartySessions
from fedflow.wire.exchange import HEADER_BYTES, UNKNOWN_SESSION, CallHeader, CallKind, read_header

logger = logging.getLogger(__name__)

AGREE_S: Final = 0.004  #: charged to the exchange for a proposal, seconds of processor time
FIRST_S: Final = 20.0  #: how long the first message of a call may take, seconds


class IncomingCalls:
    """Answers calls of other parties that an exchange brings. Belongs to one event loop."""

    def __init__(
        self, handlers: Mapping[CallKind, grpc.RpcMethodHandler], *, keys: SiteKeys, clock: Clock,
        hosts: Callable[[str], bool], admits: Callable[[str], bool], pace: Pace,
    ) -> None:  # fmt: skip
        """`hosts` tells whether a party is here, `admits` whether another one's calls are
        answered.
        """
        self._handlers = handlers
        self._keys = keys
        self._clock = clock
        self._hosts = hosts
        self._admits = admits
        self._pace = pace
        self._sessions = PartySessions()

    async def answer(self, context: Any) -> None:
        """Answer one call; what is wrong with it ends it with a gRPC status."""
        try:
            async with asyncio.timeout(FIRST_S):
                raw = await context.read()
            header = read_header(raw)
            if header.kind is CallKind.HELLO:
                await self._pace.turn(caller_of(context), AGREE_S)
                message = raw[HEADER_BYTES:]
                await context.write(await asyncio.to_thread(self._agree, message))
            elif (found := self._sessions.find(header.session)) is None:
                await context.write(UNKNOWN_SESSION)
            else:
                await self._hand_over(context, header, raw, found)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no message came")
        except FedflowError as exc:
            logger.warning(
                "refused a call over an exchange: %s", exc.message,
                extra={"action": "refuse_sealed_call", "error": exc.name},
            )  # fmt: skip
            await context.abort(status_of(exc), f"{exc.name}: {exc.message}")

    def _agree(self, message: bytes) -> bytes:
        """Return the answer to a proposal.

        Raises: SealBroken, SealExpired, SealReplayed, SealMisdirected, NotPartner, NotSigned.
        """
        now_ms = self._clock.now_ms()
        hello = read_hello(message, now_ms=now_ms)
        if not self._hosts(hello.destination) or self._hosts(hello.source):
            raise SealMisdirected(source=hello.source[:64], destination=hello.destination[:64])
        if not self._admits(hello.source):
            raise NotPartner
        session, answer = accept(message, keys=self._keys, now_ms=now_ms)
        self._sessions.see(hello)
        self._sessions.add(session)
        return answer

    async def _hand_over(
        self, context: Any, header: CallHeader, raw: bytes, found: OpenSession
    ) -> None:
        """Open a call's first record, and let its handler answer.

        Raises: SealBroken, SealExpired, SealReplayed, SealCutOff.
        """
        check_time(header.time_ms, now_ms=self._clock.now_ms())
        found.calls.check(header.call)
        session, bound = found.session, raw[:HEADER_BYTES]
        opener = RecordOpener(session.secret, bound, direction=UP)
        first, _ = opener.open(memoryview(raw)[HEADER_BYTES:])
        found.calls.add(header.call)
        del raw
        sealer = RecordSealer(session.secret, bound, direction=DOWN)
        inner = OpenedCall(context, session.source, first, opener=opener, sealer=sealer)
        handler = self._handlers[header.kind]
        try:
            if handler.response_streaming:
                await handler.stream_stream(None, inner)
                await context.write(sealer.seal(b"", RecordFlag.LAST))
            else:
                answer = await handler.stream_unary(None, inner)
                await context.write(sealer.seal(answer, RecordFlag.LAST))
        except CallRefused as exc:
            refusal = refusal_bytes(exc.code, exc.details)
            await context.write(sealer.seal(refusal, RecordFlag.LAST | RecordFlag.REFUSAL))
        except NotOpened as exc:
            raise exc.error from None


class OpenedCall:
    """A call as its handler sees it: a gRPC context whose caller is the party that sealed it."""

    def __init__(
        self, outer: Any, party: str, first: bytes, *, opener: RecordOpener, sealer: RecordSealer
    ) -> None:
        self._outer = outer
        self._party = party
        self._first: bytes | None = first
        self._opener = opener
        self._sealer = sealer

    async def read(self) -> Any:
        """Return the next message, `grpc.aio.EOF` after the last. Raises: NotOpened."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self._opener.has_ended:
            return grpc.aio.EOF
        raw = await self._outer.read()
        try:
            if not isinstance(raw, bytes):
                raise SealCutOff
            data, flags = self._opener.open(raw)
        except FedflowError as exc:
            raise NotOpened(exc) from exc
        return grpc.aio.EOF if flags & RecordFlag.LAST and not data else data

    async def write(self, data: bytes) -> None:
        """Send a message."""
        await self._outer.write(self._sealer.seal(data))

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        """End the call. Raises: CallRefused, always."""
        raise CallRefused(code, details)

    def auth_context(self) -> dict[str, list[bytes]]:
        """Return who calls, as gRPC says it of a certificate."""
        return {
            "transport_security_type": [b"sealed"],
            "x509_common_name": [self._party.encode()],
        }

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return nothing: metadata is not sealed."""
        return ()

    def set_trailing_metadata(self, metadata: object) -> None:
        """Do nothing: metadata is not sealed."""

    def peer(self) -> str:
        """Return where the exchange is."""
        return str(self._outer.peer())


class NotOpened(grpc.aio.BaseError):  # type: ignore[misc]
    """A message of a call is not what its party sealed."""

    def __init__(self, error: FedflowError) -> None:
        super().__init__(error.message)
        self.error = error
