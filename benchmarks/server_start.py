"""Time from starting a server until it is healthy, and until its zygote is ready.

    .venv/bin/python benchmarks/server_start.py [--runs 5] [--json]

One server at a time, standalone, in an empty home: the schema is made, too. CPU is read at these
two moments: of the server alone, then of the server and its zygote.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil
from figures import Figure, Machine, arguments, show
from parties import Party, free_ports, wait_for


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    machine = Machine()
    healthy_s, ready_s, healthy_cpu_s, ready_cpu_s = [], [], [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder:
            (port,) = free_ports(1)
            options_of_run = ["--grpc", "127.0.0.1:0"]
            party = Party("server", home=Path(folder), port=port, arguments=options_of_run)
            try:
                wait_for(lambda party=party: is_healthy(party), what="the server to be healthy")
                healthy_s.append(time.perf_counter() - party.began_s)
                healthy_cpu_s.append(cpu_s(party.process.pid))
                party.wait_ready()
                ready_s.append(party.ready_s)
                pids = [party.process.pid, *(child.pid for child in party.children())]
                ready_cpu_s.append(sum(map(cpu_s, pids)))
            finally:
                party.close()
    figures = [
        Figure(what="start to healthy", unit="s", values=healthy_s, budget=1.0),
        Figure(what="... CPU of the server", unit="s", values=healthy_cpu_s),
        Figure(what="start to zygote ready", unit="s", values=ready_s),
        Figure(what="... CPU of server and zygote", unit="s", values=ready_cpu_s),
    ]
    show("Server start", figures, as_json=options.json, machine=machine)


def is_healthy(party: Party) -> bool:
    """Tell whether a server answers. Raises: RuntimeError: it has ended."""
    if party.process.poll() is not None:
        raise RuntimeError(f"{party.name} ended with status {party.process.returncode}")
    try:
        return party.client.is_healthy()
    except Exception:  # it does not listen yet
        return False


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, user and system, in steps of 10 ms."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


if __name__ == "__main__":
    main()
