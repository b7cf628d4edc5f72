"""The data plane between four real processes with mutual TLS: throughput, latency, memory.

    python benchmarks/data_plane.py [--mib 1024] [--rounds 4] [--messages 2000]

Two servers and two executors are started as processes. Printed: big values with digests on both
ends (median of the rounds after the first), memory that each server added, control calls (1 KiB,
every 5 ms, from a fifth process to server B) idle and beside the big values, and small messages one
way (half of an echo). Budget: `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import psutil

from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.handle import FederationHandle
from fedflow.federation.settings import FederationSettings
from fedflow.rpc.credentials import Credentials

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers of the tests

from tests.support.certificates import make_ca
from tests.support.data_plane import DataPlaneServer, Party, credentials_of

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
SESSION = "bench_0"
TOKEN = "bench"
MIB = 1024 * 1024
ECHO = "/fedflow.bench/Echo"


# --- the processes -------------------------------------------------------------------------------


def run_server(spec: dict[str, Any]) -> None:
    home = Path(spec["home"])
    credentials = Credentials(
        party_id=PartyId(spec["party"]),
        certificate=(home / "cert.pem").read_bytes(),
        key=(home / "key.pem").read_bytes(),
        authorities=(home / "ca.pem").read_bytes(),
        expires_ms=0,
    )
    party = Party(party_id=spec["party"], home=home, credentials=credentials)
    server = DataPlaneServer(party, settings=FederationSettings(), services=[add_echo])
    with server:
        say(server.port)
        server.route_to(hear())
        sites = [Site.from_key(key) for key in spec.get("sites", (GUEST.key, HOST.key))]
        server.open(SESSION, sites, token=TOKEN)
        say("ready")
        hear()


def add_echo(server: grpc.aio.Server) -> None:
    async def echo(_: Any, context: Any) -> bytes:
        request: bytes = await context.read()
        return request

    handler = grpc.stream_unary_rpc_method_handler(echo)  # as all services
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("fedflow.bench", {"Echo": handler}),)
    )


def run_executor(spec: dict[str, Any]) -> None:
    site, peer = (GUEST, HOST) if spec["role"] == "guest" else (HOST, GUEST)
    handle = FederationHandle(Path(spec["socket"]), session=SESSION, site=site, token=TOKEN)
    value = None
    while (command := hear())["do"] != "end":
        tags = [str(i) for i in command.get("tags", [])]
        if command["do"] == "prepare":
            value = np.random.default_rng(1).standard_normal(command["mib"] * MIB // 8)
        elif command["do"] == "send":
            handle.send("big", value, to=peer, tag=tags[0])
        elif command["do"] == "recv":
            handle.recv("big", from_=peer, tag=tags[0])
        elif command["do"] == "echo":
            for tag in tags:
                handle.send("pong", handle.recv("ping", from_=peer, tag=tag), to=peer, tag=tag)
        elif command["do"] == "ping":
            say(ping(handle, peer, tags))
            continue
        say("done")
    handle.flush()
    handle.close()


def ping(handle: FederationHandle, peer: Site, tags: list[str]) -> list[float]:
    body, trips = b"x" * 1024, []
    for tag in tags:
        start = time.perf_counter()
        handle.send("ping", body, to=peer, tag=tag)
        handle.recv("pong", from_=peer, tag=tag)
        trips.append((time.perf_counter() - start) * 1000)
    return trips


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def hear() -> Any:
    line = sys.stdin.readline()
    return json.loads(line) if line else {"do": "end"}


# --- the parent ----------------------------------------------------------------------------------


class Child:
    """A process that answers JSON lines."""

    def __init__(self, kind: str, spec: dict[str, Any], *, script: str = __file__) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script, kind, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stats = psutil.Process(self._process.pid)

    def tell(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, what: Any) -> Any:
        self.tell(what)
        return self.answer()

    def cpu_s(self) -> float:
        times = self.stats.cpu_times()
        return times.user + times.system

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


class Calls(threading.Thread):
    """Control calls to server B every 5 ms, until stopped."""

    def __init__(self, port: int, home: Path) -> None:
        super().__init__(name="control-calls")
        self._port, self._home = port, home
        self._stop_event = threading.Event()
        self.times_ms: list[float] = []
        self.start()

    def run(self) -> None:
        asyncio.run(self._call_all())

    async def _call_all(self) -> None:
        credentials = grpc.ssl_channel_credentials(
            (self._home / "ca.pem").read_bytes(),
            (self._home / "key.pem").read_bytes(),
            (self._home / "cert.pem").read_bytes(),
        )
        async with grpc.aio.secure_channel(f"localhost:{self._port}", credentials) as channel:
            echo = channel.unary_unary(ECHO)
            await echo(b"warm")
            while not self._stop_event.is_set():
                start = time.perf_counter()
                await echo(b"x" * 1024)
                self.times_ms.append((time.perf_counter() - start) * 1000)
                await asyncio.sleep(0.005)

    def stop(self) -> list[float]:
        self._stop_event.set()
        self.join()
        return self.times_ms


class Memory(threading.Thread):
    """The most memory that each process added, sampled every 10 ms (anonymous pages)."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__(name="memory")
        self._pids = pids
        self._start = [anonymous_mib(p) for p in self._pids]
        self.added_mib = [0.0] * len(pids)
        self._stop_event = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stop_event.wait(0.01):
            for i, pid in enumerate(self._pids):
                added = anonymous_mib(pid) - self._start[i]
                self.added_mib[i] = max(self.added_mib[i], added)

    def stop(self) -> list[float]:
        self._stop_event.set()
        self.join()
        return self.added_mib


def anonymous_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def federation(home: Path) -> Iterator[tuple[list[Child], dict[str, int], Path]]:
    authority = make_ca()
    children: list[Child] = []
    try:
        for party in ("9999", "10000"):
            folder = home / party
            folder.mkdir()
            made = credentials_of(party, authority)
            (folder / "cert.pem").write_bytes(made.certificate)
            (folder / "key.pem").write_bytes(made.key)
            (folder / "ca.pem").write_bytes(made.authorities)
            children.append(Child("server", {"home": str(folder), "party": party}))
        ports = {"9999": children[0].answer(), "10000": children[1].answer()}
        for child in children:
            child.tell(ports)
        assert [c.answer() for c in children] == ["ready", "ready"]
        for role, party in (("guest", "9999"), ("host", "10000")):
            socket = str(home / party / "data.sock")
            children.append(Child("executor", {"role": role, "socket": socket}))
        yield children, ports, home / "9999"
    finally:
        for child in reversed(children):
            child.close()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--messages", type=int, default=2000)
    args = parser.parse_args()
    rows: list[tuple[str, str, str]] = []
    with (
        tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder,
        federation(Path(folder)) as (children, ports, home),
    ):
        server_a, server_b, guest, host = children
        warm = list(range(200))
        tags = list(range(1000, 1000 + args.messages))
        for batch in (warm, tags):
            host.tell({"do": "echo", "tags": batch})
            trips = guest.ask({"do": "ping", "tags": batch})
            host.answer()
        for share in (0.5, 0.99):
            half = percentile(trips, share) / 2
            rows.append((f"small message, one way, p{share * 100:g}", f"{half:.2f} ms", "0.5 ms"))

        calls = Calls(ports["10000"], home)
        time.sleep(2)
        idle = calls.stop()
        guest.ask({"do": "prepare", "mib": args.mib})
        calls = Calls(ports["10000"], home)
        memory = Memory([server_a.stats.pid, server_b.stats.pid])
        rates, cpu_rates = [], []
        for i in range(args.rounds):
            cpu_s = sum(c.cpu_s() for c in children)
            start = time.perf_counter()
            guest.tell({"do": "send", "tags": [i]})
            host.ask({"do": "recv", "tags": [i]})
            rates.append(args.mib / (time.perf_counter() - start))
            cpu_rates.append(args.mib / (sum(c.cpu_s() for c in children) - cpu_s))
            guest.answer()
        added = memory.stop()
        loaded = calls.stop()
        kept = rates[1:] or rates
        rows.append(
            (
                f"{args.mib} MiB, digests, send to recv",
                f"{statistics.median(kept):.0f} MiB/s ({min(kept):.0f}-{max(kept):.0f})",
                "400 MiB/s",
            )
        )
        rows.append(
            ("  per CPU second, all processes", f"{statistics.median(cpu_rates):.0f} MiB", "")
        )
        rows.append(("  memory added, server A", f"{added[0]:.0f} MiB", "48 MiB"))
        rows.append(("  memory added, server B", f"{added[1]:.0f} MiB", "48 MiB"))
        for name, times in (("idle", idle), ("beside", loaded)):
            rows.append(
                (
                    f"control call {name}, p50 / p99 / max",
                    f"{percentile(times, 0.5):.2f} / {percentile(times, 0.99):.1f} / "
                    f"{max(times):.1f} ms (n={len(times)})",
                    "p99 20 ms" if name == "beside" else "",
                )
            )
    for what, found, budget in rows:
        print(f"{what:42} {found:38} {budget}")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] in {"server", "executor"}:
        run = run_server if sys.argv[1] == "server" else run_executor
        run(json.loads(sys.argv[2]))
    else:
        main()
