"""A server as a process of this machine: start it detached, find it, tell how it is, stop it.

A running server keeps `run/server.json` in its home. A pid in it is trusted only together with
its start time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.clock import SystemClock, pause
from fedflow.base.decoding import decode_as
from fedflow.base.errors.start import HomeNotUsable, ServerNotReachable, ServerNotStarted
from fedflow.base.values import dataclass
from fedflow.client.client import Client
from fedflow.domain.records import Handle
from fedflow.executor.processes import is_running, this_host

START_TIMEOUT_S = 30.0
STOP_GRACE_S = 20.0
_POLL_S = 0.03
_TAIL_BYTES = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerState:
    """A server that runs, as it wrote about itself."""

    pid: int
    start_time: int
    http: str  #: host:port of the REST API
    grpc: str  #: host:port for other parties
    party_id: str | None = None  #: None: standalone
    admin: str | None = None  #: host:port of the admin port, of a serving process
    callers_grpc: str | None = None  #: host:port of its gRPC port for callers

    @property
    def url(self) -> str:
        return f"http://{self.http}"

    @property
    def is_alive(self) -> bool:
        """Tell whether this very process still runs."""
        return is_running(Handle(pid=self.pid, start_time=self.start_time, host=this_host()))


def find_server(home: Path) -> ServerState | None:
    """Return the server that runs in a home folder, None if there is none.

    Raises: HomeNotUsable: this user may not look.
    """
    try:
        text = (home / "run" / "server.json").read_bytes()
        state = decode_as(text, ServerState)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None
    except OSError as exc:
        raise _not_usable(home, exc) from exc
    return state if state.is_alive else None


def log_file(home: Path) -> Path:
    """Return the file that a detached server writes what it logs to."""
    return home / "server-logs" / "server.log"


def log_end(home: Path) -> int:
    """Return how long that log is, in bytes. Raises: HomeNotUsable: it cannot be reached."""
    try:
        return log_file(home).stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as exc:
        raise _not_usable(home, exc) from exc


def spawn(
    home: Path, arguments: Sequence[str], *, group: str = "server"
) -> subprocess.Popen[bytes]:
    """Start `fedflow GROUP run` as a process of its own session, its output in the home's log.

    Raises: HomeNotUsable: the log cannot be written.
    """
    log = log_file(home)
    try:
        for folder in (home, log.parent.parent, log.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log.touch(mode=0o600)
        output = log.open("ab")
    except OSError as exc:
        raise _not_usable(home, exc) from exc
    with output:
        return subprocess.Popen(
            [sys.executable, "-m", "fedflow.cli.main", group, "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def wait_until_up(
    process: subprocess.Popen[bytes],
    home: Path,
    *,
    log_offset: int = 0,
    timeout_s: float = START_TIMEOUT_S,
) -> ServerState:
    """Return the state of a server that was started, once it answers.

    `log_offset` is where its part of the log begins. Raises: ServerNotStarted: it ended with the
    reason that it logged, or it does not answer in time and was ended.
    """

    def looked() -> ServerState | None:
        if process.poll() is not None:
            reason, hint = _last_words(home, log_offset)
            raise ServerNotStarted(reason=reason, hint=hint)
        state = find_server(home)
        if state is None or state.pid != process.pid:
            return None
        with Client(state.url, timeout_s=5.0) as client:
            return state if client.is_healthy() else None

    found: list[ServerState] = []

    def is_up() -> bool:
        state = looked()
        if state is not None:
            found.append(state)
        return bool(found)

    if not wait_for(is_up, timeout_s=timeout_s):
        end(process)
        raise ServerNotStarted(reason=f"it did not answer within {timeout_s:g} seconds.")
    return found[0]


def wait_until_started(state: ServerState, *, timeout_s: float = 10.0) -> list[str]:
    """Wait until a server that answers has started all its parts; return why it is not ready."""
    ready: dict[str, Any] = {}

    def is_started() -> bool:
        with suppress(ServerNotReachable), Client(state.url, timeout_s=5.0) as client:
            ready.update(client.readiness())
        return not ready.get("starting", True)

    wait_for(is_started, timeout_s=timeout_s)
    return [str(reason) for reason in ready.get("reasons", ())]


def stop_server(state: ServerState, *, grace_s: float = STOP_GRACE_S) -> bool:
    """End a server; tell whether it went by itself, not by force, after `grace_s` seconds."""
    _signal(state, signal.SIGTERM)
    if wait_for(lambda: not state.is_alive, timeout_s=grace_s):
        return True
    _signal(state, signal.SIGKILL)
    wait_for(lambda: not state.is_alive, timeout_s=5.0)
    return False


def end(process: subprocess.Popen[bytes], *, grace_s: float = STOP_GRACE_S) -> None:
    """End a process that this one started: SIGTERM, then SIGKILL."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Return once `condition` holds, or False after `timeout_s` seconds."""
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + timeout_s
    while not condition():
        if clock.monotonic_s() >= deadline_s:
            return False
        pause(_POLL_S, never)
    return True


def _signal(state: ServerState, number: signal.Signals) -> None:
    if state.is_alive:
        with suppress(ProcessLookupError):
            os.kill(state.pid, number)


def _not_usable(home: Path, error: OSError) -> HomeNotUsable:
    where = f"{error.filename}: " if error.filename else ""
    return HomeNotUsable(path=home, reason=f"{where}{error.strerror or error}")


def _last_words(home: Path, offset: int) -> tuple[str, str]:
    """Return the error that a server logged before it ended, and its hint."""
    log = log_file(home)
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            offset = offset if offset <= size else 0  # a new file was begun meanwhile
            file.seek(max(offset, size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    begins = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    if not begins:
        return ([line for line in lines if line.strip()] or ["it logged nothing."])[-1], ""
    said = lines[begins[-1] :]
    hints = [number for number, line in enumerate(said) if line.startswith("Hint: ")]
    end = hints[0] if hints else 1
    hint = said[end].removeprefix("Hint: ") if hints else ""
    return "\n".join(said[:end]).removeprefix("Error: "), hint
