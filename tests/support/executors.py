"""The server's side of an executor for tests: recorded events, and the HTTP routes of a worker."""

from __future__ import annotations

import json
import os
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.clock import SystemClock, pause
from fedflow.domain.job.providers import ProviderManifest
from fedflow.domain.records import Handle, TaskKey
from fedflow.domain.site import Site
from fedflow.wire.task_spec import ProviderSpec, TaskInputs, TaskSpec

DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TestLaunch:
    """A launch with its spec file; satisfies `fedflow.app.ports.executors.Launch`."""

    __test__ = False  # for pytest: this is no test

    launch_id: str
    task: TaskKey
    module: str
    spec_path: Path
    log_dir: Path
    work_dir: Path
    provider: ProviderManifest | None = None


class RecordingEvents:
    """Satisfies `fedflow.app.ports.executors.ExecutorEvents` and lets a test wait for what
    happens.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.handles: dict[str, Handle] = {}
        self.failures: dict[str, str] = {}
        self.ends: dict[str, list[tuple[int | None, int | None]]] = {}

    def started(self, launch_id: str, handle: Handle) -> None:
        with self.changed:
            self.handles[launch_id] = handle
            self.changed.notify_all()

    def not_started(self, launch_id: str, reason: str) -> None:
        with self.changed:
            self.failures[launch_id] = reason
            self.changed.notify_all()

    def exited(self, launch_id: str, exit_code: int | None, signal: int | None) -> None:
        with self.changed:
            self.ends.setdefault(launch_id, []).append((exit_code, signal))
            self.changed.notify_all()

    def handle(self, launch_id: str, timeout_s: float = DEADLINE_S) -> Handle:
        """Return the handle of a launch as soon as it has one. Raises: TimeoutError."""
        self._wait(lambda: launch_id in self.handles, f"{launch_id} to start", timeout_s)
        return self.handles[launch_id]

    def end(self, launch_id: str, timeout_s: float = DEADLINE_S) -> tuple[int | None, int | None]:
        """Return (exit code, signal) of a launch as soon as it ended. Raises: TimeoutError."""
        self._wait(lambda: launch_id in self.ends, f"{launch_id} to end", timeout_s)
        return self.ends[launch_id][0]

    def failure(self, launch_id: str, timeout_s: float = DEADLINE_S) -> str:
        """Return why a launch was not started. Raises: TimeoutError."""
        self._wait(lambda: launch_id in self.failures, f"{launch_id} to fail", timeout_s)
        return self.failures[launch_id]

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, timeout_s):
                raise TimeoutError(
                    f"waited {timeout_s} s for {what}; failures {self.failures}, ends {self.ends}"
                )


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a worker."""

    path: str
    token: str | None
    body: dict[str, Any]
    at_s: float  #: when it came, monotonic seconds

    @property
    def command(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(slots=True)
class _Answers:
    """How the server answers; a test changes it while it runs."""

    retcodes: dict[str, int] = field(default_factory=dict)
    broken: int = 0  #: so many requests get HTTP 503
    tables: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


class WorkerServer:
    """Answers workers on a unix socket and keeps what they said; also across `stop` and `start`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers = _Answers()
        self.requests: list[Request] = []
        self._changed = threading.Condition()
        self._server: _UnixServer | None = None
        self._thread: threading.Thread | None = None
        self._clock = SystemClock()

    def start(self) -> WorkerServer:
        """Listen."""
        self.path.unlink(missing_ok=True)
        self._server = _UnixServer(str(self.path), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="worker-server"
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening and break the open connections."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.break_connections()
        self._server.server_close()
        self.path.unlink(missing_ok=True)
        self._server = None

    def __enter__(self) -> WorkerServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, wanted: Callable[[Request], bool], timeout_s: float = DEADLINE_S) -> Request:
        """Return the first request that is `wanted`, as soon as it came. Raises: TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: any(map(wanted, self.requests)), timeout_s):
                raise TimeoutError(f"waited {timeout_s} s; got {self.requests}")
            return next(filter(wanted, self.requests))

    def end_report(self, timeout_s: float = DEADLINE_S) -> dict[str, Any]:
        """Return the body of the report of a run's end."""
        found = self.wait_for(
            lambda r: r.command == "report" and r.body["party_status"] != "running", timeout_s
        )
        return found.body

    def take(self, request: Request) -> tuple[int, dict[str, Any]]:
        """Return (HTTP status, envelope) for a request, and keep it."""
        with self._changed:
            if self.answers.broken:
                self.answers.broken -= 1
                return 503, {}
            self.requests.append(request)
            self._changed.notify_all()
        code = self.answers.retcodes.get(request.command, 0)
        if code:
            return 200, {"retcode": code, "retmsg": "refused by the test"}
        if request.path.endswith("/table_meta/get"):
            key = (request.body["namespace"], request.body["table_name"])
            table = self.answers.tables.get(key)
            if table is None:
                return 200, {"retcode": 101, "retmsg": "no such table"}
            return 200, {"retcode": 0, "data": table}
        return 200, {"retcode": 0, "retmsg": "success"}

    def now_s(self) -> float:
        return self._clock.monotonic_s()


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128
    owner: WorkerServer

    def __init__(self, path: str, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(path, handler)
        self._open: set[Any] = set()

    def get_request(self) -> tuple[Any, Any]:
        connection, _ = super().get_request()
        self._open.add(connection)
        return connection, ("worker", 0)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        """End the connections that are still open; their threads then end too."""
        for connection in list(self._open):
            try:
                connection.shutdown(2)
            except OSError:
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _UnixServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        owner = self.server.owner
        request = Request(
            path=self.path,
            token=self.headers["X-Fedflow-Task-Token"],
            body=json.loads(self.rfile.read(length)),
            at_s=owner.now_s(),
        )
        status, envelope = owner.take(request)
        data = json.dumps(envelope).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def wait_until(condition: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
    """Wait for a condition that nothing tells the change of. Raises: TimeoutError.

    It is checked less often the longer it lasts, as checks may take time of what is waited for.
    """
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    never = threading.Event()
    while not condition():
        waited_s = clock.monotonic_s() - begun_s
        if waited_s > timeout_s:
            raise TimeoutError(f"waited {timeout_s} s")
        pause(min(max(0.05 * waited_s, 0.005), 0.1), never)


def write_launch(
    folder: Path,
    *,
    launch_id: str,
    module: str,
    server_socket: Path,
    parameters: Mapping[str, Any] | None = None,
    provider: ProviderManifest | None = None,
    **changes: Any,
) -> TestLaunch:
    """Return a launch of `module` at guest 9999 with a spec file below `folder`.

    `changes` replace members of the spec.
    """
    site = Site.from_key("guest-9999")
    key = TaskKey(job_id="202611200000000000000", component="step_0", version=0, site=site)
    home = folder / launch_id
    log_dir, work_dir = home / "logs", home / "work"
    home.mkdir(parents=True)
    spec = TaskSpec(
        launch_id=launch_id,
        token=f"secret-of-{launch_id}",
        job_id=key.job_id,
        component=key.component,
        module=module,
        task_version=key.version,
        task_id=key.task_id,
        session=key.session,
        site=site.key,
        sites=[site.key],
        parameters=dict(parameters or {}),
        inputs=TaskInputs(),
        output_data=["data"],
        output_model=["model"],
        server_socket=str(server_socket),
        federation_socket=str(folder / "federation.sock"),
        tables_root=str(folder / "tables"),
        work_dir=str(work_dir),
        log_dir=str(log_dir),
        receive_timeout_s=5.0,
        provider=None if provider is None else ProviderSpec(
            name=provider.name, version=provider.version, components=provider.components
        ),
    )  # fmt: skip
    spec_path = home / "spec.json"
    descriptor = os.open(spec_path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(msgspec.structs.replace(spec, **changes)))
    return TestLaunch(
        launch_id=launch_id,
        task=key,
        module=module,
        spec_path=spec_path,
        log_dir=log_dir,
        work_dir=work_dir,
        provider=provider,
    )
