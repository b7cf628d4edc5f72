"""The worker's way to its own server: HTTP/1.1 on one kept connection over a unix socket."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from typing import Any, Final

from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.errors import (
    FedflowError,
    LaunchRefused,
    ServerNotReachable,
    ServerRefused,
    repeated_error,
)
from fedflow.domain.records import TaskKey
from fedflow.wire.paths import PREFIX, task_path

logger = logging.getLogger(__name__)

TOKEN_HEADER: Final = "X-Fedflow-Task-Token"  # noqa: S105  a header's name
REPLACED: Final = 10  #: FATE's NOT_EFFECTIVE: another launch runs this attempt, or it has ended
BUSY: Final = (105, 106)  #: FATE's CONNECTION_ERROR and RUNNING: the server says to try again
MAX_REPORT_BYTES: Final = 31 * 2**20  #: the server takes bodies of 32 MiB
PATIENCE_S: Final = 60.0  #: how long a server may take to restart, seconds

_ATTEMPT_TIMEOUT_S = 20.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


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
        self._connection: _UnixConnection | None = None
        self._never = threading.Event()

    def report(self, body: dict[str, Any], *, patience_s: float = PATIENCE_S) -> None:
        """Report a state of the run. Raises: as `call`."""
        self.call("task_report", {"launch_id": self._launch_id, **body}, patience_s=patience_s)

    def call(self, command: str, body: dict[str, Any], *, patience_s: float = PATIENCE_S) -> Any:
        """Send a command of `wire.paths.WORKER_COMMANDS` and return the answer's data.

        While the server cannot be reached, for example because it restarts, the call is repeated
        for `patience_s` seconds. So a command may arrive twice.

        Raises: LaunchRefused: this process was replaced and must exit. ServerNotReachable.
            ServerRefused: any other return code. TypeError, ValueError: `body` is not plain JSON.
        """
        content = json.dumps(body, allow_nan=False).encode()
        path = PREFIX + task_path(command, self._key)
        deadline_s = self._clock.monotonic_s() + patience_s
        delay_s = _FIRST_PAUSE_S
        while True:
            left_s = deadline_s - self._clock.monotonic_s()
            try:
                with self._lock:
                    reply = self._exchange(path, content, timeout_s=max(0.1, left_s))
            except (OSError, http.client.HTTPException, ValueError) as exc:
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
        """Send once and return the envelope. Raises: OSError, HTTPException, ValueError."""
        headers = {"Content-Type": "application/json", TOKEN_HEADER: self._token}
        if self._connection is None:
            self._connection = _UnixConnection(self._address)
        try:
            self._connection.set_timeout(min(timeout_s, _ATTEMPT_TIMEOUT_S))
            self._connection.request("POST", path, body=content, headers=headers)
            response = self._connection.getresponse()
            data = response.read()
            if response.status >= 500:
                raise http.client.HTTPException(f"the server answered {response.status}")
            reply = json.loads(data)
            if not isinstance(reply, dict) or not isinstance(reply.get("retcode"), int):
                raise http.client.HTTPException("the server's answer is no envelope")
            if response.will_close:
                self._drop()
            if reply["retcode"] in BUSY:
                raise http.client.HTTPException(f"the server said {reply.get('retmsg')}")
        except BaseException:
            self._drop()  # what is left of an answer must not be taken for the next one
            raise
        return reply

    def _data(self, command: str, reply: dict[str, Any]) -> Any:
        code = reply["retcode"]
        if code == 0:
            return reply.get("data")
        if code == REPLACED:
            raise LaunchRefused(launch_id=self._launch_id, task=str(self._key))
        error = reply.get("error")
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
    return repeated_error(str(error.get("name")), message) or refusal


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def set_timeout(self, timeout_s: float) -> None:
        """Bound every following wait, seconds."""
        self.timeout = timeout_s
        if self.sock is not None:
            self.sock.settimeout(timeout_s)
