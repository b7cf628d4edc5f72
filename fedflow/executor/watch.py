"""Notices the end of processes that are not children of anyone here: adopted ones and orphans.

On Linux a pidfd tells the end at once; where there is none (macOS, an old kernel), the processes
are looked at every 0.3 s. Nobody can learn the exit status of a process that is not its child.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from fedflow.domain.records import Handle
from fedflow.executor.processes import is_running

logger = logging.getLogger(__name__)

_POLL_S = 0.3


class ProcessWatch:
    """Watches processes from one thread and calls `on_exit(launch_id, handle)` once for each."""

    def __init__(
        self, on_exit: Callable[[str, Handle], None], *, use_pidfd: bool | None = None
    ) -> None:
        self._on_exit = on_exit
        self._use_pidfd = hasattr(os, "pidfd_open") if use_pidfd is None else use_pidfd
        self._lock = threading.Lock()
        self._watched: dict[str, Handle] = {}
        self._new: deque[tuple[str, Handle, int | None]] = deque()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="executor-watch", daemon=True)
        self._thread.start()

    def add(self, launch_id: str, handle: Handle) -> bool:
        """Watch a process; False if it has ended or is another one. May be called twice."""
        with self._lock:
            if self._stop.is_set():
                return False
            if launch_id in self._watched:
                return True
            fd = self._pidfd(handle)
            if not is_running(
                handle
            ):  # asked after the pidfd was opened, so it is the same process
                if fd is not None:
                    os.close(fd)
                return False
            self._watched[launch_id] = handle
            self._new.append((launch_id, handle, fd))
            self._wake()
        return True

    def handles(self) -> dict[str, Handle]:
        """Return the watched processes by launch id."""
        with self._lock:
            return dict(self._watched)

    def close(self) -> None:
        """End the thread; the processes live on. Safe to do twice."""
        with self._lock:
            if self._stop.is_set():
                return
            self._stop.set()
        self._wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for _, _, fd in self._new:
            if fd is not None:
                os.close(fd)
        self._new.clear()
        self._wake_read.close()
        self._wake_write.close()

    def _pidfd(self, handle: Handle) -> int | None:
        if not self._use_pidfd:
            return None
        try:
            return os.pidfd_open(handle.pid)
        except OSError as exc:
            if exc.errno not in {errno.ESRCH, errno.EINVAL}:  # those two: there is no such process
                logger.warning("No pidfd for %s (%s); it is polled.", handle.pid, exc.strerror)
            return None

    def _wake(self) -> None:
        try:
            self._wake_write.send(b"w")
        except BlockingIOError:
            return  # a byte is waiting already

    def _run(self) -> None:
        by_fd: dict[int, tuple[str, Handle]] = {}
        polled: dict[str, Handle] = {}
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        try:
            while not self._stop.is_set():
                try:
                    self._look(poll, by_fd, polled)
                except Exception:  # without this thread no end of a process is told any more
                    with suppress(Exception):
                        logger.exception("A look at the processes failed.")
                    self._stop.wait(_POLL_S)
        finally:
            for fd in by_fd:
                os.close(fd)

    def _look(
        self, poll: select.poll, by_fd: dict[int, tuple[str, Handle]], polled: dict[str, Handle]
    ) -> None:
        """Wait for the end of a process, or for a further one to watch."""
        ready = [fd for fd, _ in poll.poll(_POLL_S * 1000 if polled else None)]
        for fd in ready:
            if fd == self._wake_read.fileno():
                self._drain()
                continue
            poll.unregister(fd)
            os.close(fd)
            self._ended(*by_fd.pop(fd))
        for launch_id, handle in list(polled.items()):
            if not is_running(handle):
                del polled[launch_id]
                self._ended(launch_id, handle)
        while self._new:
            launch_id, handle, fd_or_none = self._new[0]
            if fd_or_none is None:
                polled[launch_id] = handle
            else:
                by_fd[fd_or_none] = (launch_id, handle)
                poll.register(fd_or_none, select.POLLIN)
            self._new.popleft()

    def _drain(self) -> None:
        try:
            while self._wake_read.recv(4096):
                pass
        except BlockingIOError:
            return

    def _ended(self, launch_id: str, handle: Handle) -> None:
        with self._lock:
            self._watched.pop(launch_id, None)
        try:
            self._on_exit(launch_id, handle)
        except Exception:
            logger.exception(
                "The end of launch %s could not be told.",
                launch_id,
                extra={"action": "exited", "launch_id": launch_id},
            )
