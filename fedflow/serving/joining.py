"""Requests of one model that arrive while another one is under way are answered together.

Whoever comes when nothing runs goes at once, alone. Those that come meanwhile wait. When the work
ends, up to `most` of them, the oldest, are the next group, and the newest of these does the work:
it has most time left. So nobody waits when idle, and no thread but those of the callers is needed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class TooManyWait(Exception):
    """So many requests of one model wait already that this one is refused."""


class WaitedTooLong(Exception):
    """The turn of a request did not come, or its work did not end, in time."""


class _Place(Generic[T, R]):
    """A request in the line."""

    __slots__ = ("error", "group", "item", "result", "wake")

    def __init__(self, item: T) -> None:
        self.item = item
        self.group: list[_Place[T, R]] | None = None  #: whose work this one does
        self.result: R | None = None
        self.error: BaseException | None = None
        self.wake = threading.Lock()
        self.wake.acquire()  # released by who ends the wait


class JoinedRequests(Generic[T, R]):
    """The line of one model."""

    def __init__(self, *, most: int, waiting: int) -> None:
        """`most` requests are answered together, `waiting` are in the line or answered at most."""
        self._most = most
        self._waiting = waiting
        self._lock = threading.Lock()
        self._line: deque[_Place[T, R]] = deque()
        self._count = 0
        self._busy = False

    def run(self, item: T, work: Callable[[Sequence[T]], Sequence[R]], *, wait_s: float) -> R:
        """Return what `work` gives for an item, perhaps together with others.

        Raises: TooManyWait. WaitedTooLong: after `wait_s`. What `work` raises.
        """
        own: _Place[T, R] = _Place(item)
        with self._lock:
            if self._count >= self._waiting:
                raise TooManyWait
            self._count += 1
            if self._busy:
                self._line.append(own)
            else:
                self._busy = True
                own.group = [own]
        try:
            if own.group is None:
                self._wait(own, wait_s)
            if own.group is not None:
                self._work(own.group, work)
        finally:
            with self._lock:
                self._count -= 1
        if own.error is not None:
            raise own.error
        return own.result  # type: ignore[return-value]  # the work is done

    def _wait(self, own: _Place[T, R], wait_s: float) -> None:
        if own.wake.acquire(timeout=max(wait_s, 0.0)):
            return
        with self._lock:
            if own.group is not None:  # the others of the group need it
                return
            if own in self._line:
                self._line.remove(own)
        raise WaitedTooLong

    def _work(self, group: list[_Place[T, R]], work: Callable[[Sequence[T]], Sequence[R]]) -> None:
        try:
            results = work([place.item for place in group])
            for place, result in zip(group, results, strict=True):
                place.result = result
        except BaseException as exc:  # noqa: BLE001  each caller gets it
            for place in group:
                place.error = exc
        self._pass_on()
        for place in group[:-1]:
            place.wake.release()

    def _pass_on(self) -> None:
        with self._lock:
            number = min(len(self._line), self._most)
            if not number:
                self._busy = False
                return
            group = [self._line.popleft() for _ in range(number)]
            group[-1].group = group
        group[-1].wake.release()
