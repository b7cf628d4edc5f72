"""Threads of a server when the system has none: their starts end, and pools do with fewer.

CPython's `Thread.start` waits until the new thread has begun. One that meets a MemoryError before
that never says so, and whoever starts it, an event loop perhaps, waits for ever with all its locks.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

BEGIN_S: Final = 5.0  #: a thread that has not begun by then does not come
_AGAIN_S: Final = 1.0  #: waited once more: the whole process may have stood still meanwhile


class Pool(ThreadPoolExecutor):
    """A pool in which work waits for the threads that are there if no further one can be started.

    `submit` raises RuntimeError only if there is none at all, or the pool is shut down.
    """

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except (RuntimeError, MemoryError):
            if not self._threads:
                raise


class _Begun(threading.Event):
    """Is waited for a short time by who would wait for ever."""

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return super().wait(timeout)
        return super().wait(BEGIN_S) or super().wait(_AGAIN_S)


_start: Final = threading.Thread.start


def bound_starts() -> None:
    """Let every start of a thread of this process end; RuntimeError: the thread did not begin."""
    threading.Thread.start = _bounded_start  # type: ignore[method-assign,assignment]


def _bounded_start(thread: threading.Thread) -> None:
    if not thread._started.is_set():  # type: ignore[attr-defined]  # else it is an error
        thread._started = _Begun()  # type: ignore[attr-defined]
    _start(thread)
    if not thread._started.is_set():  # type: ignore[attr-defined]
        raise RuntimeError("can't start new thread: it did not begin")
