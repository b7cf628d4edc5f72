"""What all streams of the data plane share: how they break, and how a silent peer is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from fedflow.base.ids import PartyId

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


class Watchdog:
    """Cancels a call whose peer owes an answer and has been silent for too long.

    gRPC's keep-alive does not see a peer that accepts bytes and stops reading; this does.
    """

    def __init__(self, call: Any, *, timeout_s: float) -> None:
        self._call = call
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._owed = False
        self._heard_s = self._loop.time()
        self.stalled = False
        self._timer = self._loop.call_later(timeout_s / 4, self._look)

    def heard(self, *, owes: bool) -> None:
        """Note a sign of life; `owes` tells whether more is expected from the peer."""
        self._owed = owes
        self._heard_s = self._loop.time()

    def expect(self) -> None:
        """Note that from now on the peer owes an answer."""
        if not self._owed:
            self.heard(owes=True)

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _look(self) -> None:
        if self._owed and self._loop.time() - self._heard_s > self._timeout_s:
            self.stalled = True
            self._call.cancel()
            return
        self._timer = self._loop.call_later(self._timeout_s / 4, self._look)


def was_canceled() -> bool:
    """Tell whether the running task is being canceled (else a CancelledError came from a call)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
