"""The worker's way to its own server: HTTP/1.1 on one kept connection over a unix socket."""

from __future__ import annotations

import json
import logging
import socket
import threading
from typing import IO, Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.errors.catalog import repeated_error
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import LaunchRefused, ServerRefused
from fedflow.base.errors.jobs import TaskNotFound
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.messages import received
from fedflow.domain.records import TaskKey
from fedflow.wire.paths import PREFIX, WORKER_NAMES, task_path
from fedflow.wire.task_report import EndReport, RunningReport, member_values
from fedflow.wire.worker_commands import WorkerCommand, read_answer

logger = logging.getLogger(__name__)

A = TypeVar("A")

TOKEN_HEADER: Final = "X-Fedflow-Task-Token"  # noqa: S105  a header's name
REPLACED: Final = 10  #: FATE's NOT_EFFECTIVE: another launch runs this attempt, or it has ended
BUSY: Final = (105, 106)  #: FATE's CONNECTION_ERROR and RUNNING: the server says to try again
MAX_REPORT_BYTES: Final = 31 * 2**20  #: the server takes bodies of 32 MiB
PATIENCE_S: Final = 60.0  #: how long a server may take to restart, seconds

_ATTEMPT_TIMEOUT_S = 20.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_LINE_BYTES = 65536


class ServerLink:
    """Calls the server; safe for threads, one call at a time."""

    def __init__(
        self, server_socket: str, *, key: TaskKey, token: str, launch_id: str,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self._address = server_socket
        self._key = key
        self._token = token
        self._launch_id = launch_id
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._never = threading.Event()

    def report(self, report: RunningReport | EndReport, *, patience_s: float = PATIENCE_S) -> None:
        """Report a state of the run. Raises: as `call`."""
        report = replace(report, launch_id=self._launch_id)
        self._send("task_report", report, patience_s=patience_s)

    def call(self, command: WorkerCommand[A], *, patience_s: float = PATIENCE_S) -> A:
        """Send a command and return its answer.

        While the server cannot be reached, for example because it restarts, the call is repeated
        for `patience_s` seconds. So a command may arrive twice.

        Raises: LaunchRefused: this process was replaced, or its server has lost the task, and it
            must exit. ServerNotReachable. ServerRefused: any other return code. TypeError,
            ValueError: the command is not plain JSON. BadData: the answer is none to this command.
        """
        name = WORKER_NAMES[type(command)]
        data = self._send(name, command, patience_s=patience_s)
        return read_answer(data, type(command))

    def _send(self, command: str, body: Struct, *, patience_s: float) -> Any:
        """Send a command of `wire.paths.WORKER_COMMANDS` and return the answer's data."""
        content = json.dumps(body, allow_nan=False, default=member_values).encode()
        path = PREFIX + task_path(command, self._key)
        deadline_s = self._clock.monotonic_s() + patience_s
        delay_s = _FIRST_PAUSE_S
        while True:
            left_s = deadline_s - self._clock.monotonic_s()
            try:
                with self._lock:
                    reply = self._exchange(path, content, timeout_s=max(0.1, left_s))
            except (OSError, ValueError) as exc:
                if left_s <= delay_s:
                    raise ServerNotReachable(
                        address=self._address, reason=f"{type(exc).__name__}: {exc}"
                    ) from exc
                pause(delay_s, self._never)
                delay_s = min(2 * delay_s, _LONGEST_PAUSE_S)
            else:
                return self._data(command, reply)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _exchange(self, path: str, content: bytes, *, timeout_s: float) -> dict[str, Any]:
        """Send once and return the envelope. Raises: OSError, ValueError."""
        timeout_s = min(timeout_s, _ATTEMPT_TIMEOUT_S)
        try:
            if self._connection is None:
                self._connection = _Connection(self._address, timeout_s=timeout_s)
            data = self._connection.post(path, content, token=self._token, timeout_s=timeout_s)
            reply = json.loads(data)
            if not isinstance(reply, dict):
                reply = {}
            code = reply.get("retcode")
            if not isinstance(code, int):
                raise ValueError("the server's answer is no envelope")  # noqa: TRY004  # asked again
            if code in BUSY:
                raise ValueError(f"the server said {reply.get('retmsg')}")
        except BaseException:
            self._drop()  # what is left of an answer must not be taken for the next one
            raise
        if self._connection.ends:
            self._drop()
        return reply

    def _data(self, command: str, reply: dict[str, Any]) -> Any:
        code = reply["retcode"]
        if code == 0:
            return reply.get("data")
        error = reply.get("error")
        is_lost = isinstance(error, dict) and error.get("name") == TaskNotFound.__name__
        if is_lost:
            logger.warning("The server has lost %s: its database was put back", self._key)
        if code == REPLACED or is_lost:
            raise LaunchRefused(launch_id=self._launch_id, task=str(self._key))
        raise ServerRefused(
            command=command,
            retcode=code,
            reason=str(reply.get("retmsg", ""))[:2000],
            error=error if isinstance(error, dict) else {},
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def meant(refusal: ServerRefused) -> FedflowError:
    """Return the server's own error that a refusal tells of, else the refusal itself."""
    error = refusal.fields.get("error", {})
    message = str(refusal.fields["reason"]).removesuffix(str(error.get("hint", ""))).rstrip()
    return repeated_error(str(error.get("name")), received(message, error.get("said"))) or refusal


class _Connection:
    """HTTP/1.1 over a unix socket, as far as this server speaks it: each answer has a length.

    `http.client` would be a third of what a task of little work costs its process: it reads an
    answer's headers as those of an e-mail.
    """

    def __init__(self, address: str, *, timeout_s: float) -> None:
        """Connect. Raises: OSError."""
        self.ends = False  #: the server closes the connection after its last answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise
        self._answers: IO[bytes] = self._socket.makefile("rb")

    def post(self, path: str, content: bytes, *, token: str, timeout_s: float) -> bytes:
        """Send JSON and return the body of the answer; each wait is bounded, seconds.

        Raises: OSError. ValueError: the answer is no HTTP, or its status is 500 or more.
        """
        self._socket.settimeout(timeout_s)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"{TOKEN_HEADER}: {token}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._socket.sendall(head.encode("ascii") + content)
        version, status = self._line().split(maxsplit=2)[:2]
        length: int | None = None
        self.ends = version != b"HTTP/1.1"
        while line := self._line():
            name, _, value = line.partition(b":")
            match name.lower():
                case b"content-length":
                    length = int(value)
                case b"connection":
                    self.ends = value.strip().lower() == b"close"
        if length is None:
            raise ValueError("the server's answer has no length")
        body = self._answers.read(length)
        if len(body) < length:
            raise ConnectionResetError("the server's answer broke off")
        if int(status) >= 500:
            raise ValueError(f"the server answered {int(status)}")
        return body

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()

    def _line(self) -> bytes:
        """Return the next line of an answer's head. Raises: OSError, ValueError."""
        line = self._answers.readline(_LINE_BYTES)
        if len(line) == _LINE_BYTES:
            raise ValueError("a line of the server's answer is too long")
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the server closed the connection")
        return line.rstrip(b"\r\n")
