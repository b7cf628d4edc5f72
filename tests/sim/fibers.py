"""Lets code that blocks run in a world of events: one thing at a time, in an order that the seed
decides.

A fiber is a thread that runs only while the main thread waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Closed(BaseException):
    """The world has ended while a fiber waited."""


class Fiber:
    """A thread that takes turns with the main thread."""

    def __init__(self, number: int) -> None:
        self.what: Callable[[], None] | None = None
        self.finished = True
        self.closing = False
        self.error: BaseException | None = None
        self._go = threading.Lock()  # held while there is nothing to do
        self._back = threading.Lock()  # held while the main thread has its turn
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._run, name=f"fiber-{number}", daemon=True)
        self._thread.start()

    def turn(self) -> None:
        """Run until the fiber waits or ends. Raises: what it raised."""
        self._go.release()
        self._back.acquire()
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def wait(self) -> None:
        """Give the turn back, in the fiber. Raises: Closed."""
        self._back.release()
        self._go.acquire()
        if self.closing:
            raise Closed

    def close(self) -> None:
        self.closing = True
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self.closing:
                return
            assert self.what is not None
            self.finished = False
            try:
                self.what()
            except Closed:
                return
            except BaseException as exc:
                self.error = exc
            self.finished = True
            self._back.release()


class Fibers:
    """All fibers of one world."""

    def __init__(self) -> None:
        self._all: list[Fiber] = []
        self._idle: list[Fiber] = []
        self.current: Fiber | None = None

    def run(self, what: Callable[[], None]) -> None:
        """Run something until it ends or waits; call it from the main thread."""
        if not self._idle:
            fiber = Fiber(len(self._all))
            self._all.append(fiber)
            self._idle.append(fiber)
        fiber = self._idle.pop()
        fiber.what = what
        self.resume(fiber)

    def resume(self, fiber: Fiber) -> None:
        """Let a fiber that waits go on; call it from the main thread."""
        assert self.current is None
        self.current = fiber
        try:
            fiber.turn()
        finally:
            self.current = None
            if fiber.finished:
                self._idle.append(fiber)

    def wait(self) -> None:
        """Wait in a fiber until somebody resumes it."""
        fiber = self.current
        assert fiber is not None
        fiber.wait()

    def close(self) -> None:
        """End all threads."""
        for fiber in self._all:
            fiber.close()
        self._all.clear()
        self._idle.clear()
