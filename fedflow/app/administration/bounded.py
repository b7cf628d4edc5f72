"""Looks at what may hang, a disk or a database: each in a thread of its own, waited for shortly."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

logger = logging.getLogger(__name__)

ANSWER_S: Final = 1.5  #: whoever asks waits for so long at most
SEEN_S: Final = 5.0  #: what was seen so long ago still counts while the next look is under way

T = TypeVar("T")


class Bounded(Generic[T]):
    """One look at a time; who asks while one is under way gets its result."""

    def __init__(self, name: str, look: Callable[[], T]) -> None:
        """`look` returns what it sees, trouble included; an exception counts as no answer."""
        self._name = name
        self._look = look
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._done.set()
        self._began_s = 0.0
        self._seen: tuple[float, T] | None = None

    def begin(self) -> None:
        """Start a look, unless one is under way; the system may have no thread for it."""
        with self._lock:
            if not self._done.is_set():
                return
            self._done.clear()
            self._began_s = time.monotonic()
            thread = threading.Thread(target=self._run, name=f"look-{self._name}", daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError) as exc:
                self._done.set()
                why, said = str(exc) or "no memory", {"action": "no_thread"}
                logger.error("Nobody can look at %s: %s", self._name, why, extra=said)

    def wait(self, until_s: float) -> T | None:
        """Return what was seen within the last seconds, as it is known at `until_s` (monotonic).

        None: nothing answered for as long.
        """
        self._done.wait(max(0.0, until_s - time.monotonic()))
        seen = self._seen
        if seen is None or time.monotonic() - seen[0] > SEEN_S:
            return None
        return seen[1]

    def silent_s(self) -> float:
        """Return for how long the present look has not ended."""
        return time.monotonic() - self._began_s

    def _run(self) -> None:
        try:
            found = self._look()
            self._seen = (time.monotonic(), found)
        except Exception:
            logger.exception("The look at %s failed", self._name)
        finally:
            self._done.set()
