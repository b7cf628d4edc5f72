"""A loop in a thread of its own: it goes on after whatever happens to a pass, and is started anew
if its thread is gone.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from typing import Final

from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.log import Seldom

logger = logging.getLogger(__name__)

_JOIN_S: Final = 10.0
_seldom = Seldom()


class Loop(ABC):
    """A named thread that runs `_body` until `stop`; an exception is logged and it goes on."""

    def __init__(self, name: str) -> None:
        self.name = name
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
            try:
                thread.start()
            except (RuntimeError, MemoryError) as exc:
                text = f"The thread {self.name} could not be started: {exc or 'no memory'}"
                _seldom.log(logger, logging.ERROR, text, action="no_thread")
                return False
            if self._thread is not None:
                logger.error("The thread %s had died, and was started anew", self.name)
            self._thread = thread
        return True

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stop.set()

    def join(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def fault(self, longest_s: float | None) -> str:
        """Return why it does not work, as the rest of a sentence; empty: it does.

        `longest_s`: a pass may take so long, waits included; None: it may wait for ever.
        """
        if self._stop.is_set():
            return ""
        if self._thread is None or not self._thread.is_alive():
            return "its thread does not run"
        began_s = self._began_s
        took_s = 0.0 if began_s is None else time.monotonic() - began_s
        if longest_s is not None and took_s > longest_s:
            return f"it has done nothing for {took_s:.0f} s"
        return ""

    def _run(self) -> None:
        while not self._stop.is_set():
            self._began_s = time.monotonic()
            try:
                self._body()
                for other in self._beside:
                    other.start()
            except (StoreUnavailable, NotLeading) as exc:
                text = f"{self.name}: {exc.message}"
                _seldom.log(logger, logging.WARNING, text, action=exc.name)
                self._stop.wait(0.5)
            except Exception:  # a thread of the server must go on
                logger.exception("%s: a pass failed", self.name)
                self._stop.wait(0.5)

    @abstractmethod
    def _body(self) -> None:
        """Do one pass."""
