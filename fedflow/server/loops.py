"""A loop in a thread of its own: it goes on after whatever happens to a pass, and is started anew
if its thread is gone.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable

logger = logging.getLogger(__name__)

_JOIN_S: Final = 10.0

BUSY_S: Final = 15.0  #: a pass over a busy store may take so long, besides its waits


class Loop(ABC):
    """A named thread that runs `_body` until `stop`; an exception is logged and it goes on."""

    def __init__(self, name: str, *, longest_s: float | None = None) -> None:
        """`longest_s`: a pass ends in this time if all is well; None: it may wait for ever."""
        self.name = name
        self._longest_s = longest_s
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._began_s: float | None = None  #: the pass that is under way, monotonic
        self._beside: tuple[Loop, ...] = ()

    def look_after(self, *others: Loop) -> None:
        """Start these anew if their threads are gone, after each pass of this one."""
        self._beside = others

    def start(self) -> bool:
        """Start the thread, or another one if it is gone; tell whether it runs now.

        The system may have no thread or no memory for it: whoever starts it tries again later.
        """
        with self._starting:
            if self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
                return True
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            before, self._thread = self._thread, thread
            try:
                thread.start()
            except (RuntimeError, MemoryError) as exc:
                self._thread = before
                why, said = str(exc) or "no memory", {"action": "no_thread"}
                logger.error("The thread %s could not be started: %s", self.name, why, extra=said)
                return False
            if before is not None:
                logger.error("The thread %s had died, and was started anew", self.name)
        return True

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stop.set()

    def join(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def fault(self) -> str:
        """Return why it does not work, as the rest of a sentence; empty: it does."""
        if self._stop.is_set():
            return ""
        if self._thread is None or not self._thread.is_alive():
            return "its thread does not run"
        began_s = self._began_s
        took_s = 0.0 if began_s is None else time.monotonic() - began_s
        if self._longest_s is not None and took_s > self._longest_s:
            return f"it has done nothing for {took_s:.0f} s"
        return ""

    def _run(self) -> None:
        own = threading.current_thread()
        while not self._stop.is_set() and self._thread is own:  # else it began too late
            self._began_s = time.monotonic()
            try:
                self._body()
                for other in self._beside:
                    other.start()
            except (StoreUnavailable, NotLeading) as exc:
                logger.warning("%s: %s", self.name, exc.message, extra={"action": exc.name})
                self._stop.wait(0.5)
            except Exception:  # a thread of the server must go on
                logger.exception("%s: a pass failed", self.name)
                self._stop.wait(0.5)

    @abstractmethod
    def _body(self) -> None:
        """Do one pass."""


def faults_of(loops: Iterable[Loop]) -> list[str]:
    """Return which threads do not do their work, and why."""
    found = ((loop.name, loop.fault()) for loop in loops)
    return [f"{name}: {fault}" for name, fault in found if fault]
