"""What one task costs beside others: a job of 20 independent tasks `Empty` at guest and host.

    .venv/bin/python benchmarks/fan.py [--runs 10] [--json]

As `chain.py`, but all tasks may run at once, as many as the parties have cores for.
"""

from __future__ import annotations

import time
from typing import Any

from figures import Figure, Machine, arguments, show
from parties import chain, two_parties

WIDTH = 20


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    machine = Machine()
    wall, cpu = [], []
    with two_parties() as parties:
        parties.run(*fan(WIDTH))
        for _ in range(options.runs):
            parties.settle()
            before, began_ms = parties.cpu(), time.time() * 1000
            view = parties.run(*fan(WIDTH))
            parties.settle()
            wall.append(((view.ended_ms or 0) - began_ms) / WIDTH)
            cpu.append(1000 * (parties.cpu() - before).total / (2 * WIDTH))
    figures = [
        Figure(what="wall per task", unit="ms", values=wall),
        Figure(what="CPU per task run", unit="ms", values=cpu),
    ]
    show(f"Fan of {WIDTH}", figures, as_json=options.json, machine=machine)


def fan(width: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of `width` tasks that wait for nothing."""
    dsl, conf = chain(width)
    for component in dsl["components"].values():
        component.pop("input", None)
    return dsl, conf


if __name__ == "__main__":
    main()
