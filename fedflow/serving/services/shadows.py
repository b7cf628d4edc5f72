"""Shadows score, in the background, what another version answered; nobody waits for them.

When more wait than `MOST` the newest are left out, and counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from fedflow.base.thread_starts import Pool

logger = logging.getLogger(__name__)

MOST: Final = 64
_THREADS: Final = 2


class Shadows:
    """Runs the work of shadows. Thread-safe; its threads begin with the first work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._waiting = 0
        self._closed = False
        self.left_out = 0

    def run(self, work: Callable[[], None]) -> None:
        """Do it soon, or not at all."""
        with self._lock:
            if self._closed or self._waiting >= MOST:
                self.left_out += 1
                return
            self._waiting += 1
            if self._pool is None:
                self._pool = Pool(_THREADS, thread_name_prefix="fedflow-shadow")
            self._pool.submit(self._done, work)

    def close(self) -> None:
        """Wait for what runs."""
        with self._lock:
            self._closed = True
            pool = self._pool
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _done(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            logger.exception("A shadow could not score", extra={"action": "shadow"})
        finally:
            with self._lock:
                self._waiting -= 1
