"""Values of two parties directly and through a real exchange, sealed: throughput, latency, memory.

    python benchmarks/exchange.py [--mib 1024] [--rounds 3] [--messages 10000] [--json]

Two servers, two executors and `fedflow exchange run` are processes, with mutual TLS; they are
started anew for each way. Printed: big values with digests on both ends (median
and range), memory that each server and the exchange added (anonymous pages), and messages of 1 KiB
one way (half of an echo). Budget: `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import requests
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers of the tests

from benchmarks.data_plane import (
    GUEST,
    HOST,
    SESSION,
    TOKEN,
    Child,
    Memory,
    hear,
    percentile,
    say,
)
from benchmarks.figures import Figure, Machine, arguments, show
from fedflow.base.ids import PartyId
from fedflow.federation.settings import FederationSettings
from fedflow.rpc.credentials import Credentials
from fedflow.rpc.site_keys import RsaSiteKeys
from tests.support.certificates import make_ca
from tests.support.data_plane import DataPlaneServer, Party, credentials_of

PARTIES = ("9999", "10000")
WAYS = ("direct", "exchange")
BIG_BUDGETS = {"direct": 400.0, "exchange": 200.0}  #: MiB/s


class FileSiteKeys:
    """The own pair in a file, and the other's public key in another one."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._own = RsaSiteKeys(home / "site.pem")

    def public_pem(self) -> str:
        return self._own.public_pem()

    def sign_message(self, message: bytes) -> str:
        return self._own.sign(message)

    def check_message(self, party_id: str, message: bytes, signature: str) -> None:
        pem = (self._home / f"{party_id}.pem").read_text()
        assert self._own.verify(pem, message, signature)


def run_server(spec: dict[str, Any]) -> None:
    home = Path(spec["home"])
    credentials = Credentials(
        party_id=PartyId(spec["party"]),
        certificate=(home / "cert.pem").read_bytes(),
        key=(home / "key.pem").read_bytes(),
        authorities=(home / "ca.pem").read_bytes(),
        expires_ms=0,
    )
    server = DataPlaneServer(
        Party(party_id=spec["party"], home=home, credentials=credentials),
        settings=FederationSettings(),
        keys=FileSiteKeys(home),
    )
    with server:
        server.open(SESSION, [GUEST, HOST], token=TOKEN)
        say(server.port)
        while (ways := hear()) != {"do": "end"}:
            if "exchange" in ways:
                server.route_over(ways["exchange"], [p for p in PARTIES if p != spec["party"]])
            else:
                server.route_to(ways)
            say("ready")


@contextmanager
def parties(home: Path) -> Iterator[tuple[dict[str, Child], dict[str, int], Path]]:
    """Start servers and executors; give them by name, the servers' ports, and a certificate."""
    authority = make_ca()
    with ExitStack() as stack:
        for party in (*PARTIES, "exchange"):
            (home / party).mkdir()
            made = credentials_of(party, authority)
            (home / party / "cert.pem").write_bytes(made.certificate)
            (home / party / "key.pem").write_bytes(made.key)
            (home / party / "ca.pem").write_bytes(made.authorities)
        for own, other in (PARTIES, PARTIES[::-1]):
            pem = FileSiteKeys(home / own).public_pem()
            (home / other / f"{own}.pem").write_text(pem)
        found = {}
        for party in PARTIES:
            spec = {"home": str(home / party), "party": party}
            found[party] = Child("server", spec, script=__file__)
            stack.callback(found[party].close)
        ports = {party: found[party].answer() for party in PARTIES}
        for role, party in (("guest", "9999"), ("host", "10000")):
            socket = str(home / party / "data.sock")
            found[role] = Child("executor", {"role": role, "socket": socket})
            stack.callback(found[role].close)
        yield found, ports, home / "exchange"


@contextmanager
def exchange(home: Path, ports: dict[str, int]) -> Iterator[tuple[int, int]]:
    """Run an exchange; give its port and its process id."""
    conf = {
        "port": 0,
        "status": {"port": 0},
        "tls": {
            "ca": str(home / "ca.pem"),
            "certificate": str(home / "cert.pem"),
            "key": str(home / "key.pem"),
        },
        "parties": {party: f"127.0.0.1:{port}" for party, port in ports.items()},
    }
    (home / "conf.yaml").write_text(yaml.safe_dump(conf))
    state = home / "exchange" / "run" / "server.json"
    words = ["exchange", "run", "--home", str(home), "--conf", str(home / "conf.yaml")]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedflow.cli.main", *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stderr=subprocess.DEVNULL,
    )
    try:
        while not state.exists():
            assert process.poll() is None, "the exchange ended"
            time.sleep(0.02)
        found = json.loads(state.read_text())
        assert requests.get(f"http://{found['http']}/readyz", timeout=5).json()["ready"]
        yield int(found["grpc"].rpartition(":")[2]), process.pid
    finally:
        process.terminate()
        process.wait(20)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000)
    args = parser.parse_args()
    machine = Machine()
    figures = []
    for way in WAYS:
        with tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder:
            figures += measure(way, Path(folder), args)
    show("Directly and over an exchange", figures, as_json=args.json, machine=machine)


def measure(way: str, folder: Path, args: argparse.Namespace) -> list[Figure]:
    """Return the figures of one way."""
    with ExitStack() as stack:
        children, ports, home = stack.enter_context(parties(folder))
        port, pid = stack.enter_context(exchange(home, ports))
        guest, host = children["guest"], children["host"]
        for party in PARTIES:
            children[party].ask(ports if way == "direct" else {"exchange": port})
        guest.ask({"do": "prepare", "mib": args.mib})
        tag = 0
        for count in (200, args.messages):
            tags = list(range(tag, tag + count))
            tag += count
            host.tell({"do": "echo", "tags": tags})
            trips = guest.ask({"do": "ping", "tags": tags})
            host.answer()
        memory = Memory([children[party].stats.pid for party in PARTIES] + [pid])
        rates = []
        begun_s = cpu_s(children, pid)
        for _ in range(args.rounds + 1):
            tag += 1
            start = time.perf_counter()
            guest.tell({"do": "send", "tags": [tag]})
            host.ask({"do": "recv", "tags": [tag]})
            rates.append(args.mib / (time.perf_counter() - start))
            guest.answer()
        added = memory.stop()
        per_cpu_s = args.mib * (args.rounds + 1) / (cpu_s(children, pid) - begun_s)
    figures = [
        Figure(
            what=f"{way}: {args.messages:,} messages of 1 KiB, one way, p{share * 100:g}",
            unit="ms",
            values=[percentile(trips, share) / 2],
            budget=budget,
        )
        for share, budget in ((0.5, 0.5), (0.99, 1.0))
    ]
    figures.append(
        Figure(
            what=f"{way}: {args.mib:,} MiB",
            unit="MiB/s",
            values=rates[1:],
            budget=BIG_BUDGETS[way],
            at_least=True,
        )
    )
    figures.append(
        Figure(what=f"{way}: per CPU second, all processes", unit="MiB", values=[per_cpu_s])
    )
    for name, mib in zip(("server A", "server B", "exchange"), added, strict=True):
        figures.append(
            Figure(what=f"{way}: memory added, {name}", unit="MiB", values=[mib], budget=64.0)
        )
    return figures


def cpu_s(children: dict[str, Child], pid: int) -> float:
    """Return the processor time of all processes so far, seconds."""
    times = psutil.Process(pid).cpu_times()
    return sum(child.cpu_s() for child in children.values()) + times.user + times.system


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "server":
        run_server(json.loads(sys.argv[2]))
    else:
        main()
