"""What all streams of the data plane share: how they break, and how a silent peer is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Final, TypeVar

import grpc
import grpc.aio

from fedflow.base.ids import PartyId

T = TypeVar("T")

FRAMES_PER_TURN: Final = 8  #: of one message, before the event loop does something else

OpenChannel = Callable[[PartyId], grpc.aio.Channel]  #: may raise a FedflowError such as NoRoute
Authenticate = Callable[[grpc.aio.ServicerContext], PartyId | None]
"""Return the party that the caller's certificate names, or None where TLS is off."""

Metadata = tuple[tuple[str, str], ...]  #: what a stream says of itself before its first message

BROKEN = (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError, OSError)
"""What a stream raises when it breaks; all mean: open it again."""

_FINAL = frozenset(
    {
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INVALID_ARGUMENT,
    }
)


def refusal(error: BaseException) -> str | None:
    """Return the peer's sentence if it never accepts this stream, None if it may be tried again."""
    if isinstance(error, grpc.aio.AioRpcError) and error.code() in _FINAL:
        return f"{error.code().name}: {error.details()}"
    return None


def lost_connection(error: BaseException) -> bool:
    """Tell whether a stream broke because there is no connection to the peer."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE


async def in_turns(frames: Iterable[T]) -> AsyncIterator[T]:
    """Yield what is in a message; the event loop does other things now and then."""
    for number, frame in enumerate(frames, start=1):
        yield frame
        if number % FRAMES_PER_TURN == 0:
            await asyncio.sleep(0)


class Watchdog:
    """Ends the conversation inside it when the peer owes an answer and is silent for too long.

    gRPC's keep-alive does not see a peer that accepts bytes and stops reading; this does. It
    cancels what the conversation waits for, not only its call: a write to a connection that takes
    no bytes goes on waiting after its call was canceled. Raises on exit: ConnectionError, also when
    the call was canceled and not the task. CancelledError: the task was canceled, even if the
    conversation ended otherwise; gRPC drops a cancellation that comes while a call is prepared.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._owed = False
        self._limit = asyncio.timeout(None)
        self.stalled = False

    def heard(self, *, owes: bool) -> None:
        """Note a sign of life; `owes` tells whether more is expected from the peer."""
        self._owed = owes
        if not self._limit.expired():
            now_s = asyncio.get_running_loop().time()
            self._limit.reschedule(now_s + self._timeout_s if owes else None)

    def expect(self) -> None:
        """Note that from now on the peer owes an answer."""
        if not self._owed:
            self.heard(owes=True)

    async def __aenter__(self) -> Watchdog:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, tb)
        except TimeoutError:
            self.stalled = True
            raise ConnectionError("the peer does not answer") from None
        if _is_canceled():
            raise asyncio.CancelledError from None
        if isinstance(error, asyncio.CancelledError):
            raise ConnectionError("the stream broke") from None


def _is_canceled() -> bool:
    """Tell whether the running task is being canceled (else a CancelledError came from a call)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
