"""Time from starting a server until it is healthy, and until its zygote is ready.

    .venv/bin/python benchmarks/server_start.py [--runs 5] [--json]

One server at a time, standalone, in an empty home: the schema is made, too.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from figures import Figure, Machine, arguments, show
from parties import Party

from fedflow.cli.demo_servers import free_ports


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    machine = Machine()
    healthy, ready = [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder:
            (port,) = free_ports(1)
            options_of_run = ["--grpc", "127.0.0.1:0"]
            party = Party("server", home=Path(folder), port=port, arguments=options_of_run)
            try:
                party.wait_ready()
            finally:
                party.close()
            healthy.append(party.healthy_s)
            ready.append(party.ready_s)
    figures = [
        Figure(what="start to healthy", unit="s", values=healthy, budget=1.0),
        Figure(what="start to zygote ready", unit="s", values=ready),
    ]
    show("Server start", figures, as_json=options.json, machine=machine)


if __name__ == "__main__":
    main()
