"""One zygote process as its server holds it: the process, and the socket to it."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import subprocess
import threading
from collections.abc import Mapping

from fedflow.executor.limits import ExecutorLimits
from fedflow.executor.messages import LineReader, Message

_MODULE = "fedflow.worker.zygote"
_SEND_TIMEOUT_S = 5  #: a zygote that reads nothing for so long hangs
_EXIT_TIMEOUT_S = 3.0  #: what a zygote gets to end by itself, seconds
_CHUNK = 256 * 1024


class ZygoteLost(Exception):
    """The zygote has ended, closed its socket, or talks nonsense."""


class ZygoteProcess:
    """A started `python -m fedflow.worker.zygote`. It ends when its socket is closed."""

    def __init__(
        self, *, python: str, preload: tuple[str, ...], env: Mapping[str, str],
        limits: ExecutorLimits, fork: bool = True,
    ) -> None:  # fmt: skip
        """Start the process; with `fork` false it starts its children as new interpreters.

        Raises: OSError: it cannot be started.
        """
        self._socket, theirs = socket.socketpair()
        self._reader = LineReader(limits.line_bytes)
        self._send_lock = threading.Lock()
        mode = "fork" if fork else "spawn"
        timeout = struct.pack("ll", _SEND_TIMEOUT_S, 0)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
            self._process = subprocess.Popen(
                [python, "-m", _MODULE, str(theirs.fileno()), mode, json.dumps(preload)],
                env=dict(env),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Send one line. A zygote that does not read it in time is killed. Raises: ZygoteLost."""
        with self._send_lock:
            try:
                self._socket.sendall(line)
            except BlockingIOError as exc:  # a part of the line may be out: nothing can follow it
                self._process.kill()
                raise ZygoteLost("it does not read its requests") from exc
            except OSError as exc:
                raise ZygoteLost(str(exc)) from exc

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that arrive within `timeout_s`, perhaps none. Raises: ZygoteLost."""
        try:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(timeout_s * 1000):
                return []
            data = self._socket.recv(_CHUNK)
            if not data:
                raise ZygoteLost("it closed its socket")
            return list(self._reader.feed(data))
        except (OSError, ValueError, RecursionError) as exc:
            raise ZygoteLost(str(exc)) from exc

    def hang_up(self) -> None:
        """Ask the zygote to end; its children live on. The next `receive` raises ZygoteLost."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End the zygote at once; its children live on."""
        self._process.kill()

    def close(self) -> int:
        """Wait for the end of the zygote, force it if need be, and return its exit status."""
        self.hang_up()
        try:
            status = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._socket.close()
        return status
