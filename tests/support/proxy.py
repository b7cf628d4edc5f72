"""A TCP proxy with faults: it can stop passing bytes on, or reset every connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec

P = ParamSpec("P")

READ_BYTES = 64 * 1024


class FaultyProxy:
    """Listens on a port of this machine and passes bytes to `target`. A context manager.

    `stall_after` bytes from the callers it stops reading, without closing anything (a black hole),
    on the connections of that time; connections opened after `heal` pass everything.
    """

    def __init__(self, target: int, *, stall_after: int | None = None) -> None:
        self.target = target
        self.passed = 0  #: bytes from callers to the target
        self.stalled = threading.Event()  #: the limit was reached
        self._left = stall_after
        self._hanging = threading.Event()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def heal(self) -> None:
        """Let new connections pass without a limit; stalled ones stay stalled."""
        self._hanging.clear()
        with self._lock:
            self._left = None

    def stall(self) -> None:
        """Stop passing on what callers send, on all connections, until `heal`."""
        self._hanging.set()

    def reset(self) -> None:
        """Break all connections."""
        with self._lock:
            broken, self._sockets = self._sockets, set()
        for one in broken:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop and wait for all threads."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> FaultyProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, function: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        thread = threading.Thread(target=function, args=args, kwargs=kwargs, name="proxy")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            try:
                target = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                caller.close()
                continue
            with self._lock:
                self._sockets |= {caller, target}
                limited = self._left is not None
            ends = _Ends(caller, target)
            self._start(self._pass_on, ends, True, limited)
            self._start(self._pass_on, ends, False, limited)

    def _pass_on(self, ends: _Ends, forward: bool, limited: bool) -> None:
        source, sink = (ends.caller, ends.target) if forward else (ends.target, ends.caller)
        try:
            while data := source.recv(READ_BYTES):
                if forward and (
                    self._hanging.is_set() or (limited and self._limit_reached(len(data)))
                ):
                    self.stalled.set()
                    ends.broken.wait()
                    return
                sink.sendall(data)
                if forward:
                    self.passed += len(data)
        except OSError:
            pass
        finally:
            ends.close()

    def _limit_reached(self, size: int) -> bool:
        with self._lock:
            if self._left is None:
                return True  # healed: but this connection is of the time before
            self._left -= size
            return self._left < 0


class _Ends:
    """The two sockets of one connection, closed when both directions have ended."""

    def __init__(self, caller: socket.socket, target: socket.socket) -> None:
        self.caller, self.target = caller, target
        self.broken = threading.Event()
        self._lock = threading.Lock()
        self._ended = 0

    def close(self) -> None:
        self.broken.set()
        for one in (self.caller, self.target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._ended += 1
            if self._ended == 2:
                self.caller.close()
                self.target.close()
