"""The demo's servers: started with certificates on free ports, ended on every way out."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from fedflow.base.values import dataclass
from fedflow.cli.server_process import STOP_GRACE_S, spawn, wait_for, wait_until_up
from fedflow.cli.tls import create_files
from fedflow.client.client import Client

GUEST, HOST = "9999", "10000"
_KILL_WAIT_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoServer:
    """A running server of the demo."""

    name: str
    home: Path
    client: Client


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoServers:
    """Who asks which server; standalone, all are the same one."""

    guest: DemoServer
    host: DemoServer

    @property
    def all(self) -> tuple[DemoServer, ...]:
        return (self.guest,) if self.guest is self.host else (self.guest, self.host)

    def of(self, party_id: str) -> DemoServer:
        """Return the server of a party."""
        return self.guest if party_id == GUEST else self.host


@contextmanager
def demo_servers(home: Path, *, standalone: bool) -> Iterator[DemoServers]:
    """Start the servers below `home`, and end them and all that they started at the end.

    Raises: ServerNotStarted.
    """
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_end_all, processes)

        def start(name: str, *more: str) -> tuple[str, Path, subprocess.Popen[bytes]]:
            folder = home / name
            arguments = ["--home", str(folder), "--http", "127.0.0.1:0", *more]
            process = spawn(folder, arguments)
            processes.append(process)
            return name, folder, process

        def up(name: str, folder: Path, process: subprocess.Popen[bytes]) -> DemoServer:
            state = wait_until_up(process, folder)
            client = stack.enter_context(Client(state.url))
            return DemoServer(name=name, home=folder, client=client)

        if standalone:
            server = up(*start("standalone", "--grpc", "127.0.0.1:0"))
            yield DemoServers(guest=server, host=server)
            return
        started = [start(name, *more) for name, more in _two_parties(home).items()]
        guest, host = (up(*one) for one in started)
        yield DemoServers(guest=guest, host=host)


def _two_parties(home: Path) -> dict[str, list[str]]:
    """Return the options of both parties' servers: a route to each other, mutual TLS."""
    ports = free_ports(2)
    certificates = create_files(home / "tls", (GUEST, HOST))
    options: dict[str, list[str]] = {}
    for index, files in enumerate(certificates):
        other = 1 - index
        route = f"{certificates[other].party_id}=127.0.0.1:{ports[other]}"
        options[f"party-{files.party_id}"] = [
            "--party", files.party_id,
            "--grpc", f"127.0.0.1:{ports[index]}",
            "--route", route,
            "--tls-ca", str(files.ca),
            "--tls-cert", str(files.certificate),
            "--tls-key", str(files.key),
        ]  # fmt: skip
    return options


def free_ports(count: int) -> list[int]:
    """Return different ports of the loopback address that nobody uses at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


# --- the end ----------------------------------------------------------------------------------


def _end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    """End the servers, their zygotes and executors; a second Ctrl-C does not get in between."""
    with _undisturbed():
        seen: dict[int, psutil.Process] = {}
        _note_children(processes, seen)
        for process in processes:
            process.terminate()

        def gone() -> bool:
            _note_children(processes, seen)
            return all(process.poll() is not None for process in processes)

        if not wait_for(gone, timeout_s=STOP_GRACE_S):
            for process in processes:
                process.kill()
                process.wait()
        _end_children(list(seen.values()))


def _note_children(
    processes: list[subprocess.Popen[bytes]], seen: dict[int, psutil.Process]
) -> None:
    """Remember all that the servers started: an executor lives on without its server."""
    for process in processes:
        if process.poll() is None:
            with suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    seen.setdefault(child.pid, child)


def _end_children(children: list[psutil.Process]) -> None:
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for child in children:
            with suppress(psutil.Error):
                end(child)
        _, children = psutil.wait_procs(children, timeout=_KILL_WAIT_S)


@contextmanager
def _undisturbed() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
