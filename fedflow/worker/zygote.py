"""The zygote: imports the libraries once, then forks a process per party task on request.

Run as `python -m fedflow.worker.zygote FD MODE PRELOAD`: FD is an inherited socket to the server,
MODE is `fork` or `spawn`, PRELOAD a JSON list of modules. It has one thread and opens nothing
besides: no channel, no connection, no thread before a fork. (`import pyarrow` leaves a thread of
its memory allocator; no fork was seen to suffer.) It ends when the server closes the socket. Its
children live on.

With MODE `spawn` it starts `python -m fedflow.worker.run` instead of forking, for systems where a
process that forks without exec is not safe.

The messages are described in `fedflow/executor/messages.py`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.error import FedflowError
from fedflow.base.values import compile_all
from fedflow.components.registry import ComponentRegistry, load_registry
from fedflow.domain.job.planned_run import planned_run_from_json
from fedflow.executor.descendants import adopt_orphans, end_strangers
from fedflow.executor.messages import LineReader, Message, encode
from fedflow.executor.processes import start_time_of
from fedflow.sdk.component import ComponentSpec
from fedflow.sdk.params import check_params, warnings_of
from fedflow.worker.exit_codes import ExitCode
from fedflow.worker.lazy_pandas import without_pandas
from fedflow.worker.process import limit_descriptors, open_output, prefer_for_oom_kill
from fedflow.worker.run import run_worker

logger = logging.getLogger("fedflow.worker.zygote")

_LINE_BYTES = 64 * 1024 * 1024
_CHUNK = 256 * 1024


class _ServerGone(Exception):
    """The server closed the socket."""


class Zygote:
    """Serves the requests of one server."""

    def __init__(self, server: socket.socket, *, fork: bool) -> None:
        self._server = server
        self._fork = fork
        self._lines = LineReader(_LINE_BYTES)
        self._children: dict[int, str] = {}  # pid -> launch id, until it is waited for
        self._signal_read, self._signal_write = os.pipe()
        os.set_blocking(self._signal_read, False)
        os.set_blocking(self._signal_write, False)
        self._registry = ComponentRegistry(offers={}, problems=())

    def run(self, preload: list[str]) -> None:
        """Import, then serve until the server closes the socket."""
        signal.signal(signal.SIGCHLD, _note)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._signal_write, warn_on_full_buffer=False)
        without_pandas()
        problems = _preload(preload)
        self._registry = load_registry()
        _settle()
        ready = {
            "op": "ready",
            "pid": os.getpid(),
            "problems": [*problems, *self._registry.problems],
        }
        with contextlib.suppress(_ServerGone):
            self._say(ready)
            while True:
                self._turn()

    def _turn(self) -> None:
        """Wait for a request or the end of a child, and serve it. Raises: _ServerGone."""
        ready, _, _ = select.select([self._server.fileno(), self._signal_read], [], [])
        if self._signal_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._signal_read, 4096)
            self._reap()
        if self._server.fileno() in ready:
            try:
                data = self._server.recv(_CHUNK)
            except OSError as exc:
                raise _ServerGone from exc
            if not data:
                raise _ServerGone
            for message in self._lines.feed(data):
                self._serve(message)

    def _serve(self, message: Message) -> None:
        try:
            match message["op"]:
                case "start":
                    self._start(message)
                case "describe":
                    self._reply(message, data=self._described())
                case "ping":
                    self._reply(message, data=None)
                case "check":
                    self._check(message)
                case other:
                    logger.error("The server asked for %r.", other)
        except _ServerGone:
            raise
        except Exception:
            logger.exception("A request could not be served.")

    # --- processes --------------------------------------------------------------------------------

    def _start(self, message: Message) -> None:
        """Start a process that runs only after the server was told of it."""
        launch_id = str(message["launch_id"])
        gate_read, gate_write = os.pipe()
        try:
            pid = self._new_process(message, gate_read)
        except OSError as exc:
            os.close(gate_write)
            reason = f"{type(exc).__name__}: {exc.strerror}"
            if exc.filename:  # other parties read it: no folders
                reason += f" ({Path(os.fsdecode(exc.filename)).name})"
            self._say({"op": "not_started", "launch_id": launch_id, "reason": reason})
            return
        finally:
            os.close(gate_read)
        try:
            with contextlib.suppress(OSError):  # it may have done so itself, or be gone
                os.setpgid(pid, pid)
            started = start_time_of(pid)  # it cannot vanish before it is waited for
            self._children[pid] = launch_id
            self._say({"op": "started", "launch_id": launch_id, "pid": pid, "start_time": started})
            with contextlib.suppress(BrokenPipeError):  # it was killed meanwhile
                os.write(gate_write, b"g")
        finally:
            os.close(gate_write)

    def _new_process(self, message: Message, gate: int) -> int:
        """Return the pid of a process that waits at the gate. Raises: OSError."""
        command = message.get("command")
        if command is None and self._fork:
            return self._forked(message, gate)
        own = {"arguments": [sys.executable, "-m", "fedflow.worker.run"], "env": None}
        return _spawned(message, gate, command or own)

    def _forked(self, message: Message, gate: int) -> int:
        """Return the pid of a fork that waits at the gate. Raises: OSError."""
        with contextlib.suppress(Exception):  # the child meets it again, and reports it
            self._component(message["module"])
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._be_child(message, gate)
        return pid

    def _be_child(self, message: Message, gate: int) -> None:
        """Become the worker; does not return."""
        code: int = ExitCode.DEFECT
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            self._server.detach()
            _close_all_but(gate)
            code = run_worker(
                Path(message["spec_path"]),
                log_dir=Path(message["log_dir"]),
                work_dir=Path(message["work_dir"]),
                gate=gate,
                registry=self._registry,
            )
        finally:
            _leave(code)

    def _reap(self) -> None:
        """Tell the ends of children, and end what they left in their groups."""
        while True:
            pid, status = _wait_for_child()
            if pid == 0:
                return
            end_strangers(self._children)
            code = os.waitstatus_to_exitcode(status)
            launch_id = self._children.pop(pid, None)
            if launch_id is not None:
                end = (
                    {"code": code, "signal": None} if code >= 0 else {"code": None, "signal": -code}
                )
                self._say({"op": "exited", "launch_id": launch_id, **end})

    # --- questions --------------------------------------------------------------------------------

    def _component(self, module: str) -> ComponentSpec:
        """Return a component, imported here so that later forks have it. Raises: as importing."""
        known = len(sys.modules)
        spec = self._registry.find(module)
        if len(sys.modules) > known:
            _settle()
        return spec

    def _described(self) -> list[dict[str, Any]]:
        """Return what is known of each component.

        A fork imports them all, so that those that no job uses take no memory here.
        """
        if not self._fork:
            return self._registry.described()
        sys.stderr.flush()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            code: int = ExitCode.DEFECT
            try:
                signal.set_wakeup_fd(-1)
                with os.fdopen(write, "wb") as answer:
                    answer.write(json.dumps(self._registry.described()).encode())
                code = ExitCode.SUCCESS
            finally:
                _leave(code)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            described: list[dict[str, Any]] = json.loads(answer.read())
        os.waitpid(pid, 0)
        return described

    def _check(self, message: Message) -> None:
        path = str(message["path"])
        try:
            spec = self._component(str(message["module"]))
            planned = message.get("run")
            run = planned_run_from_json(planned) if planned is not None else None
            params = check_params(
                spec.params, json.loads(message["parameters"]), path=path, run=run
            )
            warnings = [msgspec.to_builtins(one) for one in warnings_of(params, path=path)]
        except BadParameter as exc:
            error = {"name": exc.name, "fields": _plain(exc.fields), "mistakes": exc.mistakes}
            self._reply(message, error=error)
        except FedflowError as exc:
            self._reply(message, error={"name": exc.name, "fields": _plain(exc.fields)})
        except (Exception, SystemExit) as exc:  # noqa: BLE001  the component's own check; told to the one who asked
            fields = {"path": path, "reason": f"{type(exc).__name__}: {exc}"}
            self._reply(message, error={"name": "BadParameter", "fields": fields})
        else:
            self._reply(message, data=warnings)

    def _reply(self, question: Message, **members: Any) -> None:
        self._say({"op": "reply", "id": question["id"], **members})

    def _say(self, message: Message) -> None:
        try:
            self._server.sendall(encode(message))
        except OSError as exc:
            raise _ServerGone from exc


def _spawned(message: Message, gate: int, command: dict[str, Any]) -> int:
    """Return the pid of a new interpreter that waits at the gate. Raises: OSError.

    What it prints before it is a worker, such as that it has no fedflow, goes to its log.
    """
    paths = [message["spec_path"], message["log_dir"], message["work_dir"]]
    with open_output(Path(message["log_dir"])) as output:
        process = subprocess.Popen(
            [*command["arguments"], *paths, str(gate)],
            env=command["env"],
            pass_fds=(gate,),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    process.returncode = 0  # it is waited for in `_reap`
    return process.pid


def _wait_for_child() -> tuple[int, int]:
    """Return (pid, status) of a child that has ended, with its group ended too; pid 0: none has."""
    try:
        if not hasattr(os, "waitid"):  # macOS
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                _kill_group(pid)
            return pid, status
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return 0, 0
        _kill_group(found.si_pid)  # not waited for, so nobody else can have got the number
        return os.waitpid(found.si_pid, 0)
    except ChildProcessError:  # there are none
        return 0, 0


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _close_all_but(gate: int) -> None:
    """Close what was inherited: sockets, pipes, files; standard streams and the gate stay."""
    last = max(int(name) for name in os.listdir("/dev/fd"))
    os.closerange(3, gate)
    os.closerange(gate + 1, last + 1)


def _leave(code: int) -> None:
    """End this forked process without the zygote's exit handlers; what was printed is kept."""
    error = sys.exc_info()[1]
    with contextlib.suppress(Exception):
        if error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _settle() -> None:
    """Prepare what was imported for forks, which would do it again and copy pages over it."""
    compile_all()
    gc.collect()
    gc.freeze()  # a collection in a child shall not copy the pages of what was imported


def _preload(modules: list[str]) -> list[str]:
    """Import modules; return a sentence for each that could not be."""
    problems: list[str] = []
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as exc:
            logger.exception("Cannot import %s.", name)
            problems.append(f"cannot import {name}: {exc}")
    return problems


def _plain(fields: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in fields.items()}


def _note(number: int, frame: object) -> None:
    """Let the signal wake the loop, which reads it from the pipe."""


def main(arguments: list[str]) -> None:
    """Serve on the socket with the given number."""
    logging.basicConfig(level=logging.INFO, format="zygote: %(levelname)s %(message)s")
    logging.getLogger("fedflow").setLevel(logging.INFO)  # as most workers want it
    fd = int(arguments[0])
    os.set_inheritable(fd, False)
    adopt_orphans()
    limit_descriptors()
    prefer_for_oom_kill()  # the children inherit it: it would cost each of them a millisecond
    with socket.socket(fileno=fd) as server:
        Zygote(server, fork=arguments[1] == "fork").run(json.loads(arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
