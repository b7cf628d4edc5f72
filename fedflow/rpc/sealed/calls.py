"""Calls to a party behind an exchange: channels that seal what goes through another channel.

They have of gRPC's channels what commands and the data plane use. Each has a session of its own,
which is agreed on at the first call and replaced when it is old. Whatever is wrong with what comes
back is an `AioRpcError`, as if the line had broken, so who calls tries again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import NotPartner, SealBroken, SealCutOff
from fedflow.base.errors.requests import NotSigned
from fedflow.base.values import dataclass
from fedflow.rpc.refusals import call_error, refused
from fedflow.rpc.sealed import agreement
from fedflow.rpc.sealed.agreement import Proposal, SealedSession, SiteKeys
from fedflow.rpc.sealed.records import DOWN, UP, RecordFlag, RecordOpener, RecordSealer
from fedflow.rpc.sealed.sessions import LIFETIME_S
from fedflow.wire.exchange import DESTINATION, METHOD, UNKNOWN_SESSION, CallHeader, CallKind

logger = logging.getLogger(__name__)

MAX_CALLS: Final = 1_000_000  #: of one session
AGREE_S: Final = 15.0  #: deadline of agreeing on a session, seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """The two ends of sealed calls, and what proves them."""

    source: str
    destination: str
    keys: SiteKeys = field(repr=False)
    clock: Clock = field(repr=False)
    kinds: Any  #: path of a gRPC method -> the kind of call that it is

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what the exchange routes a call by."""
        return ((DESTINATION, self.destination),)

    def propose(self) -> Proposal:
        """Return a proposal of a session; it takes a signature, about a millisecond."""
        return agreement.propose(
            self.source, self.destination, keys=self.keys, now_ms=self.clock.now_ms()
        )

    def conclude(self, proposal: Proposal, answer: object) -> SealedSession:
        """Return the session that was agreed on. Raises: FedflowError."""
        if not isinstance(answer, bytes):
            raise SealBroken(reason="there is no answer")
        return agreement.conclude(proposal, answer, keys=self.keys, now_ms=self.clock.now_ms())


class Numbered:
    """A session and the number of its last call (thread-safe)."""

    def __init__(self, session: SealedSession) -> None:
        self.session = session
        self._calls = 0
        self._since_s = time.monotonic()
        self._lock = threading.Lock()

    @property
    def is_old(self) -> bool:
        """Tell whether new calls need a new session."""
        return self._calls >= MAX_CALLS or time.monotonic() - self._since_s > LIFETIME_S

    def next_header(self, kind: CallKind, *, now_ms: int) -> bytes:
        """Return the header of a new call."""
        with self._lock:
            self._calls += 1
            call = self._calls
        return CallHeader(
            kind=kind, session=self.session.session_id, call=call, time_ms=now_ms
        ).pack()


HELLO: Final = CallHeader(kind=CallKind.HELLO).pack()


# --- commands -------------------------------------------------------------------------------------


class SealedChannel:
    """Carries commands; used by many threads."""

    def __init__(self, outer: grpc.Channel, ends: Ends) -> None:
        self._outer = outer
        self._ends = ends
        self._lock = threading.Lock()
        self._session: Numbered | None = None

    def unary_unary(self, method: str) -> Callable[..., bytes]:
        """Return a function that sends a message and returns the answer. It raises what gRPC's
        raises: `grpc.RpcError`, ValueError.
        """
        kind = self._ends.kinds[method]

        def call(raw: bytes, *, timeout: float, metadata: object = ()) -> bytes:
            deadline_s = time.monotonic() + timeout
            try:
                answer = self._try(kind, raw, deadline_s)
                if answer is None:  # its server was started again, or it is another one
                    self._session = None
                    answer = self._try(kind, raw, deadline_s)
            except FedflowError as exc:
                raise failed(exc) from exc
            if answer is None:
                raise call_error(grpc.StatusCode.UNAVAILABLE, "the party takes no session")
            return answer

        return call

    def close(self) -> None:
        """Close the channel; calls under way fail."""
        self._outer.close()

    def _try(self, kind: CallKind, raw: bytes, deadline_s: float) -> bytes | None:
        """Return the answer; None: the session is not known there. Raises: FedflowError."""
        numbered = self._agreed(deadline_s)
        header = numbered.next_header(kind, now_ms=self._ends.clock.now_ms())
        secret = numbered.session.secret
        record = RecordSealer(secret, header, direction=UP).seal(raw, RecordFlag.LAST)
        found = self._send(header + record, deadline_s)
        if found == UNKNOWN_SESSION:
            return None
        data, flags = RecordOpener(secret, header, direction=DOWN).open(found)
        if flags & RecordFlag.REFUSAL:
            raise refused(data)
        if not flags & RecordFlag.LAST:
            raise SealBroken(reason="an answer is cut off")
        return data

    def _agreed(self, deadline_s: float) -> Numbered:
        with self._lock:
            if self._session is None or self._session.is_old:
                proposal = self._ends.propose()
                answer = self._send(HELLO + proposal.message, deadline_s)
                self._session = Numbered(self._ends.conclude(proposal, answer))
            return self._session

    def _send(self, message: bytes, deadline_s: float) -> bytes:
        left_s = max(deadline_s - time.monotonic(), 0.001)
        answer: bytes = self._outer.unary_unary(METHOD)(
            message, timeout=left_s, metadata=self._ends.metadata
        )
        return answer


# --- streams --------------------------------------------------------------------------------------


class SealedAioChannel:
    """Carries streams of the data plane. Belongs to one event loop."""

    def __init__(self, outer: grpc.aio.Channel, ends: Ends) -> None:
        self.outer = outer
        self.ends = ends
        self._lock = asyncio.Lock()
        self._session: Numbered | None = None

    def stream_stream(self, method: str) -> Callable[..., SealedStream]:
        """Return a function that opens a stream; it begins with its first message."""
        kind = self.ends.kinds[method]
        return lambda metadata=(): SealedStream(self, kind)

    async def close(self, grace_s: float | None = None) -> None:
        """Close the channel; streams break."""
        await self.outer.close(grace_s)

    async def agreed(self) -> Numbered:
        """Return the session of new calls. Raises: FedflowError, what gRPC raises."""
        async with self._lock:
            if self._session is None or self._session.is_old:
                proposal = await asyncio.to_thread(self.ends.propose)
                call = self.outer.stream_stream(METHOD)(metadata=self.ends.metadata)
                try:
                    async with asyncio.timeout(AGREE_S):
                        await call.write(HELLO + proposal.message)
                        answer = await call.read()
                except TimeoutError:
                    raise call_error(
                        grpc.StatusCode.UNAVAILABLE, "the party does not answer"
                    ) from None
                finally:
                    call.cancel()
                self._session = Numbered(
                    await asyncio.to_thread(self.ends.conclude, proposal, answer)
                )
            return self._session

    def forget(self, numbered: Numbered) -> None:
        """Use another session for new calls."""
        if self._session is numbered:
            self._session = None


class SealedStream:
    """One call with messages both ways. Raises what gRPC's streams raise."""

    def __init__(self, channel: SealedAioChannel, kind: CallKind) -> None:
        self._channel = channel
        self._kind = kind
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._call: Any = None
        self._numbered: Numbered | None = None
        self._up: RecordSealer
        self._down: RecordOpener
        self._is_over = False

    async def write(self, data: bytes) -> None:
        """Send a message; the first one begins the call."""
        if self._numbered is None:
            try:
                await self._begin(data)
            except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, OSError) as exc:
                self._fail(exc)
                raise
            except FedflowError as exc:
                error = failed(exc)
                self._fail(error)
                raise error from exc
        else:
            await self._call.write(self._up.seal(data))

    async def read(self) -> Any:
        """Return the next message, `grpc.aio.EOF` after the last."""
        await asyncio.shield(self._begun)
        if self._is_over:
            return grpc.aio.EOF
        raw = await self._call.read()
        if not isinstance(raw, bytes):
            raise call_error(grpc.StatusCode.UNAVAILABLE, "the stream was cut off")
        if raw == UNKNOWN_SESSION:
            if self._numbered is not None:
                self._channel.forget(self._numbered)
            raise call_error(grpc.StatusCode.UNAVAILABLE, "the party takes no session")
        try:
            data, flags = self._down.open(raw)
        except FedflowError as exc:
            raise failed(exc) from exc
        self._is_over = bool(flags & RecordFlag.LAST)
        if flags & RecordFlag.REFUSAL:
            raise refused(data)
        return grpc.aio.EOF if self._is_over else data

    async def done_writing(self) -> None:
        """End the own direction."""
        await self._call.write(self._up.seal(b"", RecordFlag.LAST))
        await self._call.done_writing()

    def cancel(self) -> None:
        """End the call at once."""
        if not self._begun.done():
            self._fail(call_error(grpc.StatusCode.CANCELLED, "the call was cancelled"))
        if self._call is not None:
            self._call.cancel()

    async def code(self) -> grpc.StatusCode:
        """Return how the call ended, once it has."""
        return grpc.StatusCode.OK if self._is_over else await self._call.code()

    async def details(self) -> str:
        """Return why it ended so."""
        return "" if self._is_over else str(await self._call.details() or "")

    async def _begin(self, data: bytes) -> None:
        ends = self._channel.ends
        numbered = await self._channel.agreed()
        if self._begun.done():  # it was canceled meanwhile
            self._begun.result()
        header = numbered.next_header(self._kind, now_ms=ends.clock.now_ms())
        secret = numbered.session.secret
        self._up = RecordSealer(secret, header, direction=UP)
        self._down = RecordOpener(secret, header, direction=DOWN)
        self._call = self._channel.outer.stream_stream(METHOD)(metadata=ends.metadata)
        self._numbered = numbered
        await self._call.write(header + self._up.seal(data))
        if not self._begun.done():
            self._begun.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if not self._begun.done():
            self._begun.set_exception(error)
            self._begun.exception()  # it is raised to whoever reads, if somebody does


def failed(error: FedflowError) -> grpc.aio.AioRpcError:
    """Return what is wrong with a session or record as gRPC says it."""
    logger.warning(
        "a call over an exchange: %s", error.message, extra={"action": "seal", "error": error.name}
    )
    return call_error(status_of(error), f"{error.name}: {error.message}")


def status_of(error: FedflowError) -> grpc.StatusCode:
    """Return the status of a call that fails so; who has no key here need not try again."""
    if isinstance(error, SealBroken | SealCutOff):
        return grpc.StatusCode.DATA_LOSS
    if isinstance(error, NotSigned | NotPartner):
        return grpc.StatusCode.UNAUTHENTICATED
    return grpc.StatusCode.UNAVAILABLE
