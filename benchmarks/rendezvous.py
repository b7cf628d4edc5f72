"""Rendezvous of 100 members over gRPC at a server with SQLite: wall, calls, agreed ranks.

    .venv/bin/python benchmarks/rendezvous.py [--members 100] [--processes 4] [--runs 3] [--json]

Each member has a thread and a connection of its own, in processes that are there already; all begin
at once, and the round is complete with the last. Beside it: bytes of the state of 100 and of 1,000
members.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from random import SystemRandom

from figures import Figure, Machine, arguments, show

from fedflow.base.clock import SystemClock
from fedflow.cli.demo_servers import free_ports
from fedflow.client import Client
from fedflow.elastic.executor import run, steps
from fedflow.elastic.member import MemberIdentity, member_name
from fedflow.elastic.operators import join
from fedflow.elastic.run_backend import RunBackend
from fedflow.elastic.state import (
    Membership,
    Presence,
    RendezvousSettings,
    State,
    state_to_bytes,
)
from fedflow.rpc.client.rendezvous import GrpcRun
from fedflow.rpc.client.routes import Route


class Timer:
    """Time for one member."""

    def __init__(self) -> None:
        self._never = threading.Event()

    def monotonic_s(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        self._never.wait(seconds)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    machine = Machine()
    walls: list[float] = []
    calls: list[float] = []
    agreed: list[float] = []
    with server() as port, get_context("spawn").Pool(options.processes) as pool:
        pool.map(abs, range(64))  # they have imported all they need
        for number in range(options.runs):
            wall_s, called, good = meet(pool, f"run{number}", port, options)
            walls.append(wall_s)
            calls.append(called / options.members)
            agreed.append(100.0 * good / options.members)
    figures = [
        Figure(what=f"rendezvous of {options.members} members", unit="s", values=walls, budget=5.0),
        Figure(what="calls per member", unit="", values=calls),
        Figure(what="agreed ranks", unit="%", values=agreed, budget=100.0, at_least=True),
        Figure(what="state of 100 members", unit="bytes", values=[state_bytes(100)]),
        Figure(what="state of 1,000 members", unit="bytes", values=[state_bytes(1_000)],
               budget=160_000.0),
    ]  # fmt: skip
    show("Rendezvous over gRPC, SQLite", figures, as_json=options.json, machine=machine)


@contextmanager
def server() -> Iterator[int]:
    """Run a server of one party; yield the port of its gRPC."""
    http, port = free_ports(2)
    with tempfile.TemporaryDirectory() as home:
        words = ["server", "run", "--home", str(Path(home) / "home"), "--http",
                 f"127.0.0.1:{http}", "--grpc", f"127.0.0.1:{port}"]  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "fedflow.cli.main", *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with Client(f"127.0.0.1:{http}") as client:
                end_s = time.monotonic() + 60
                while not client.is_healthy():
                    if time.monotonic() > end_s:
                        raise RuntimeError("the server does not answer")
                    time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def meet(pool: Pool, run_id: str, port: int, options: Namespace) -> tuple[float, int, int]:
    """Return the seconds until all members are in, their calls, and how many agree."""
    members, processes = options.members, options.processes
    shares = [range(first, members, processes) for first in range(processes)]
    begun_s = time.monotonic()
    found = pool.starmap(take_part, [(run_id, port, share, members) for share in shares])
    wall_s = time.monotonic() - begun_s
    seen = [one for part in found for one in part]
    wanted = {name: rank for rank, name in enumerate(sorted(name for name, _, _ in seen))}
    good = sum(ranks == wanted for _, ranks, _ in seen)
    return wall_s, sum(called for _, _, called in seen), good


def take_part(
    run_id: str, port: int, numbers: range, members: int
) -> list[tuple[str, dict[str, int], int]]:
    """Join as several members, one thread each; return name, ranks and calls of each."""
    found: list[tuple[str, dict[str, int], int]] = []
    threads = [
        threading.Thread(target=lambda n=number: found.append(join_as(run_id, port, n, members)))
        for number in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def join_as(run_id: str, port: int, number: int, members: int) -> tuple[str, dict[str, int], int]:
    """Join as one member."""
    clock, timer = SystemClock(), Timer()
    settings = RendezvousSettings(
        run_id=run_id, min_members=members, max_members=members, join_timeout_s=60.0
    )
    route = Route(host="127.0.0.1", port=port, tls=False)
    with GrpcRun(route, party_id="0", run_id=run_id, server_party="0") as link:
        called = 0

        class Counted:
            def read(self, known: str | None) -> object:
                nonlocal called
                called += 1
                return link.read(known)

            def write(self, text: str, token: str | None) -> object:
                nonlocal called
                called += 1
                return link.write(text, token)

        backend = RunBackend("grpc", Counted(), monotonic_s=clock.monotonic_s)  # type: ignore[arg-type]
        name = member_name("machine-17.example.org", process=4_000_000, number=number)
        state = run(
            steps(
                join, member=MemberIdentity(name=name, address=f"machine-17:{20_000 + number}"),
                settings=settings, timeout_s=60.0, monotonic_s=timer.monotonic_s,
                now_ms=backend.now_ms, rng=SystemRandom(),
            ),
            backend,
            timer,
        )  # fmt: skip
        return name, state.ranks, called


def state_bytes(members: int) -> float:
    """Return the bytes of the state of a complete round."""
    present = {
        member_name("machine-17.example.org", process=4_000_000, number=number): Presence(
            membership=Membership.PARTICIPANT, heartbeat_ms=1_800_000_000_000 + 37 * number,
            address=f"machine-17.example.org:{20_000 + number}", rank=number,
        )
        for number in range(members)
    }  # fmt: skip
    ranked = {
        name: Presence(membership=one.membership, heartbeat_ms=one.heartbeat_ms,
                       address=one.address, rank=rank)
        for rank, (name, one) in enumerate(sorted(present.items()))
    }  # fmt: skip
    return float(len(state_to_bytes(State(round=3, size=members, members=ranked))))


if __name__ == "__main__":
    main()
