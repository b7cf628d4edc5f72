"""Two parties for the benchmarks: real servers with SQLite, gRPC and mutual TLS on loopback.

What they use is read from the system: CPU seconds of the servers, of their zygotes, and of their
executors (the zygotes have waited for those, so their whole CPU counts, however short they lived);
memory as the sum over all processes, as RSS (shared pages count in every process) and as PSS (they
count once).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
import requests
from relay import Link, Relay, relays

from fedflow.cli.demo_servers import GUEST, HOST, free_ports
from fedflow.cli.server_process import end, spawn
from fedflow.cli.tls import create_files
from fedflow.client.client import Client
from fedflow.wire.api.jobs import JobStatusView

MIB = 1 << 20
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """CPU seconds, user and system."""

    servers: float
    zygotes: float
    executors: float

    @property
    def total(self) -> float:
        return self.servers + self.zygotes + self.executors

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(
            servers=self.servers - other.servers,
            zygotes=self.zygotes - other.zygotes,
            executors=self.executors - other.executors,
        )


@dataclass(frozen=True, kw_only=True)
class Memory:
    """MiB over all processes; `processes` is their number."""

    rss: float
    pss: float
    processes: int


class Party:
    """One party's server process."""

    def __init__(self, name: str, *, home: Path, port: int, arguments: list[str]) -> None:
        self.name = name
        self.home = home
        self.began_s = time.perf_counter()
        self.process: subprocess.Popen[bytes] = spawn(
            home, ["--home", str(home), "--http", f"127.0.0.1:{port}", *arguments]
        )
        self.client = Client(f"http://127.0.0.1:{port}")
        self.healthy_s = self.ready_s = 0.0

    def wait_ready(self) -> None:
        """Note when `/healthz` and then `/readyz` (the zygote is there) answer; seconds."""
        wait_for(lambda: self._answers(self.client.is_healthy), what=f"{self.name} to be healthy")
        self.healthy_s = time.perf_counter() - self.began_s
        wait_for(lambda: self._answers(self._is_ready), what=f"{self.name} to be ready")
        self.ready_s = time.perf_counter() - self.began_s

    def close(self) -> None:
        """End the server and everything that it started."""
        children = self.children()
        end(self.process)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=5)
        self.client.close()

    def children(self) -> list[psutil.Process]:
        """Return the zygote and the executors that live."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def memory(self) -> Memory:
        """Return the memory of its processes at this moment."""
        return memory_of([self.process.pid, *(child.pid for child in self.children())])

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """Give access to the server's tables."""
        connection = sqlite3.connect(self.home / "fedflow.sqlite", timeout=10)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def _answers(self, question: Callable[[], bool]) -> bool:
        if self.process.poll() is not None:
            log = (self.home / "server-logs" / "server.log").read_text(encoding="utf-8")
            raise RuntimeError(f"{self.name} ended:\n{log[-3000:]}")
        try:
            return question()
        except Exception:  # it does not listen yet
            return False

    def _is_ready(self) -> bool:
        answer = requests.get(f"{self.client.address}/readyz", timeout=5)
        return answer.status_code == 200


class Parties:
    """The guest's and the host's server."""

    def __init__(self, guest: Party, host: Party, relays: Sequence[Relay] = ()) -> None:
        self.guest = guest
        self.host = host
        self._relays = relays

    @property
    def all(self) -> tuple[Party, Party]:
        return self.guest, self.host

    def run(self, dsl: Mapping[str, Any], conf: Mapping[str, Any]) -> JobStatusView:
        """Submit a job and return how it ended. Raises: RuntimeError: not with success."""
        return self.wait(self.guest.client.submit(dsl, conf).job_id)

    def wait(self, job_id: str, *, pause_s: float = 0.05) -> JobStatusView:
        """Ask every 50 ms until the job has ended. Raises: RuntimeError: not with success."""
        while True:
            view = self.guest.client.job(job_id)
            if view.is_final:
                break
            time.sleep(pause_s)
        if not view.succeeded:
            raise RuntimeError(f"job {job_id}: {view.status}, {view.reason}")
        return view

    def settle(self) -> None:
        """Wait until no executor is left and the outboxes are empty."""
        wait_for(lambda: all(self._is_still(p) for p in self.all), what="the parties to be still")

    def cpu(self) -> Cpu:
        """Return what the processes of both parties have used so far; call `settle` before."""
        servers = zygotes = executors = 0.0
        for party in self.all:
            own, waited = cpu_times(party.process.pid)
            servers += own
            executors += waited
            for child in party.children():
                own, waited = cpu_times(child.pid)
                if "fedflow.worker.zygote" in _command(child) and child.ppid() == party.process.pid:
                    zygotes += own
                    executors += waited
                else:
                    executors += own + waited
        return Cpu(servers=servers, zygotes=zygotes, executors=executors)

    @property
    def carried(self) -> int:
        """Return the bytes that went between the parties; 0 without a link."""
        return sum(relay.carried for relay in self._relays)

    def memory(self) -> Memory:
        """Return the memory of all processes at this moment."""
        parts = [party.memory() for party in self.all]
        return Memory(
            rss=sum(part.rss for part in parts),
            pss=sum(part.pss for part in parts),
            processes=sum(part.processes for part in parts),
        )

    def _is_still(self, party: Party) -> bool:
        with party.database() as database:
            waiting = database.execute("SELECT COUNT(*) FROM t_outbox").fetchone()[0]
        return len(party.children()) <= 1 and waiting == 0


@contextmanager
def two_parties(
    link: Link | None = None, *, confs: Mapping[str, Path] | None = None
) -> Iterator[Parties]:
    """Start both servers in a temporary folder and wait until they are ready; end them after.

    With `link` all that goes between them takes this way. `confs` are files by party id.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedflow-bench-")))
        ports = free_ports(6)
        targets = {0: ports[0], 1: ports[1]}
        between: list[Relay] = []
        if link is not None:
            ways = {ports[4 + index]: port for index, port in targets.items()}
            between = stack.enter_context(relays(ways, link))
            targets = {0: ports[4], 1: ports[5]}
        files = create_files(folder / "tls", (GUEST, HOST))
        started: list[Party] = []
        for index, own in enumerate(files):
            other = 1 - index
            party = Party(
                f"party {own.party_id}",
                home=folder / f"party-{own.party_id}",
                port=ports[2 + index],
                arguments=[
                    "--party", own.party_id,
                    "--grpc", f"127.0.0.1:{ports[index]}",
                    "--route", f"{files[other].party_id}=127.0.0.1:{targets[other]}",
                    "--tls-ca", str(own.ca),
                    "--tls-cert", str(own.certificate),
                    "--tls-key", str(own.key),
                    *(["--conf", str(confs[own.party_id])] if confs else []),
                ],
            )  # fmt: skip
            stack.callback(party.close)
            started.append(party)
        for party in started:
            party.wait_ready()
        yield Parties(*started, relays=between)


class PeakMemory:
    """Samples the parties' memory while it is entered; the peaks of RSS and PSS, each by itself."""

    def __init__(self, parties: Parties | Party, *, pause_s: float = 0.1) -> None:
        self._parties = parties
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = Memory(rss=0, pss=0, processes=0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            now, peak = self._parties.memory(), self.peak
            self.peak = Memory(
                rss=max(now.rss, peak.rss),
                pss=max(now.pss, peak.pss),
                processes=max(now.processes, peak.processes),
            )


# --- jobs -----------------------------------------------------------------------------------------


def chain(length: int, **parameters: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of `length` tasks `Empty` at guest and host, one after the other."""
    components: dict[str, Any] = {}
    for i in range(length):
        components[f"empty_{i}"] = {"module": "Empty", "output": {"data": ["data"]}}
        if i:
            components[f"empty_{i}"]["input"] = {"data": {"data": [f"empty_{i - 1}.data"]}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST)},
        "role": {"guest": [int(GUEST)], "host": [int(HOST)]},
        "job_parameters": {"common": {"job_type": "train", "task_cores": 1}},
        "component_parameters": {"common": {name: dict(parameters) for name in components}},
    }
    return {"components": components}, conf


# --- measuring ------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], bool], *, what: str, pause_s: float = 0.005) -> None:
    """Return as soon as `condition` holds. Raises: TimeoutError: not within a minute."""
    deadline_s = time.perf_counter() + _START_TIMEOUT_S
    while not condition():
        if time.perf_counter() > deadline_s:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(pause_s)


def memory_of(pids: list[int]) -> Memory:
    """Return the memory of some processes; those that are gone count nothing."""
    rss = pss = 0
    alive = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                fields = dict(line.split(b":", 1) for line in file.read().splitlines()[1:])
        except OSError:
            continue
        rss += int(fields[b"Rss"].split()[0])
        pss += int(fields[b"Pss"].split()[0])
        alive += 1
    return Memory(rss=rss / 1024, pss=pss / 1024, processes=alive)


def cpu_times(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process, and those of the children that it has waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, child_user, child_system = (int(f) * _TICK_S for f in fields[11:15])
    return user + system, child_user + child_system


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
