"""The requests of one executor: each is executed once, and its answer kept until it was received.

An executor whose connection broke connects again and repeats what it has no answer to. What still
runs answers on the new connection; what was answered is answered from memory. The answers are kept
until the executor says that it has them, the latest ones within bounds.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from fedflow.base.errors.data_plane import ReplyFreed
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.federation.messages import Accepted, Delivered, Reply, error_to_wire
from fedflow.federation.spool import Blob

MAX_REPLIES: Final = 1024  #: that are kept
MAX_REPLY_BYTES: Final = 4 * 1024 * 1024  #: of values in memory that are kept
MAX_AHEAD: Final = 20_000  #: numbers that may be left out, as several threads send requests


class Outlet(Protocol):
    """The connection to an executor."""

    def answer(self, reply: Reply, blob: Blob | None = None) -> None:
        """Send a reply, with the value that belongs to it; `blob` stays the caller's."""


@dataclass(kw_only=True, slots=True, eq=False)
class _Kept:
    reply: Reply
    blob: Blob | None


class Requests:
    """What an executor has requested in one session. Belongs to one event loop."""

    def __init__(self, *, release: Callable[[Blob], None]) -> None:
        """`release` drops a value that the executor has, or will not get."""
        self.outlet: Outlet | None = None  #: None: the executor is not connected
        self.tasks: set[asyncio.Task[None]] = set()
        self._release = release
        self._running: set[int] = set()
        self._accepted: set[int] = set()  #: sends that are not delivered yet
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._kept_bytes = 0
        self._highest = 0
        self._skipped: set[int] = set()  #: numbers below it that have not come
        self._delivered: list[int] = []  #: to report

    def begin(self, number: int) -> bool:
        """Tell whether a request is new. One that is not is answered again, when it has ended.

        Raises: ReplyFreed: its answer is kept no more. BadRequest: a number out of order.
        """
        if number > self._highest:
            if number - self._highest - 1 + len(self._skipped) > MAX_AHEAD:
                raise BadRequest(reason=f"a request with the number {number}")
            self._skipped.update(range(self._highest + 1, number))
            self._highest = number
        elif number in self._skipped:
            self._skipped.discard(number)
        elif number in self._running:
            return False
        elif number in self._accepted:
            self._answer(Accepted(id=number))
            return False
        elif (kept := self._kept.get(number)) is not None:
            self._answer(kept.reply, kept.blob)
            return False
        else:
            raise ReplyFreed(number=number)
        self._running.add(number)
        return True

    def accepted(self, number: int) -> None:
        """Answer a send whose value was accepted; `delivered` follows."""
        if number in self._running:  # else it was delivered at once
            self._running.discard(number)
            self._accepted.add(number)
        self._answer(Accepted(id=number))

    def delivered(self, number: int, error: FedflowError | None) -> None:
        """Report a delivery; those of one turn of the loop travel in one message."""
        self._running.discard(number)
        self._accepted.discard(number)
        info = None if error is None else error_to_wire(error)
        reply = Delivered(ids=[number], error=info)
        self._keep(number, reply)
        if error is not None:
            self._answer(reply)
            return
        if not self._delivered:
            asyncio.get_running_loop().call_soon(self._report)
        self._delivered.append(number)

    def end(self, number: int, reply: Reply, blob: Blob | None = None) -> None:
        """Answer a request; `blob` is the value of the reply, and is kept with it."""
        self._running.discard(number)
        self._answer(reply, blob)
        self._keep(number, reply, blob)

    def free(self, numbers: list[int]) -> None:
        """Forget answers that the executor has."""
        for number in numbers:
            if number in self._kept:
                self._drop(number)

    async def cancel(self) -> None:
        """End all that runs and forget all answers; what was not answered is undone."""
        tasks = self.close()
        if tasks:
            await asyncio.wait(tasks)

    def close(self) -> set[asyncio.Task[None]]:
        """As `cancel`; return what is still ending."""
        self.outlet = None
        for task in self.tasks:
            task.cancel()
        self.free(list(self._kept))
        return set(self.tasks)

    def _answer(self, reply: Reply, blob: Blob | None = None) -> None:
        if self.outlet is not None:
            self.outlet.answer(reply, blob)

    def _report(self) -> None:
        if self._delivered:
            self._answer(Delivered(ids=self._delivered))
            self._delivered = []

    def _keep(self, number: int, reply: Reply, blob: Blob | None = None) -> None:
        self._kept[number] = _Kept(reply=reply, blob=blob)
        if blob is not None and blob.data is not None:
            self._kept_bytes += blob.size
        while len(self._kept) > MAX_REPLIES or self._kept_bytes > MAX_REPLY_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, number: int) -> None:
        blob = self._kept.pop(number).blob
        if blob is not None:
            if blob.data is not None:
                self._kept_bytes -= blob.size
            self._release(blob)
