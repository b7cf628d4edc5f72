"""What an idle server costs: memory and CPU.

    .venv/bin/python benchmarks/idle.py [--seconds 20] [--json]

Two parties' servers that have run nothing yet; CPU in per cent of one core, per server.
"""

from __future__ import annotations

import time

from figures import Figure, Machine, arguments, show
from parties import Parties, memory_of, two_parties


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    machine = Machine()
    with two_parties() as parties:
        time.sleep(2)
        before, began_s = parties.cpu(), time.perf_counter()
        time.sleep(options.seconds)
        used, took_s = parties.cpu() - before, time.perf_counter() - began_s
        figures = [
            *memory(parties),
            Figure(
                what="CPU of a server", unit="%", values=[50 * used.servers / took_s], budget=1.0
            ),
            Figure(what="CPU of a zygote", unit="%", values=[50 * used.zygotes / took_s]),
        ]
    show("Idle", figures, as_json=options.json, machine=machine)


def memory(parties: Parties) -> list[Figure]:
    """Return the figures of the servers' and the zygotes' memory."""
    servers = [memory_of([p.process.pid]) for p in parties.all]
    zygotes = [memory_of([c.pid for c in p.children()]) for p in parties.all]
    return [
        Figure(what="server, RSS", unit="MiB", values=[m.rss for m in servers], budget=120.0),
        Figure(what="server, PSS", unit="MiB", values=[m.pss for m in servers]),
        Figure(what="zygote, RSS", unit="MiB", values=[m.rss for m in zygotes]),
        Figure(what="zygote, PSS", unit="MiB", values=[m.pss for m in zygotes]),
        Figure(
            what="server and zygote, PSS",
            unit="MiB",
            values=[s.pss + z.pss for s, z in zip(servers, zygotes, strict=True)],
        ),
    ]


if __name__ == "__main__":
    main()
