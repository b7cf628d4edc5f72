"""What one task costs: a chain of ten tasks `Empty` at guest and host.

    .venv/bin/python benchmarks/chain.py [--runs 20] [--json]

Wall time per task is that of the whole job, from the submit on, divided by ten. CPU is that of all
processes, per task run (one task at one site). Calls are commands that were stored for the other
party; a trigger in the parties' databases counts them in jobs of their own.
"""

from __future__ import annotations

import time

from figures import Figure, Machine, arguments, show
from parties import Parties, chain, two_parties

LENGTH = 10
_COUNTER = """
CREATE TABLE bench_calls (n INTEGER);
CREATE TRIGGER bench_count AFTER INSERT ON t_outbox
WHEN NEW.f_source_party_id <> NEW.f_destination_party_id
BEGIN INSERT INTO bench_calls VALUES (1); END;
"""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    machine = Machine()
    wall, cpu, servers, zygotes, executors = [], [], [], [], []
    with two_parties() as parties:
        parties.run(*chain(LENGTH))
        for _ in range(options.runs):
            parties.settle()
            before, began_ms = parties.cpu(), time.time() * 1000
            view = parties.run(*chain(LENGTH))
            parties.settle()
            used = parties.cpu() - before
            wall.append(((view.ended_ms or 0) - began_ms) / LENGTH)
            for values, seconds in (
                (cpu, used.total),
                (servers, used.servers),
                (zygotes, used.zygotes),
                (executors, used.executors),
            ):
                values.append(1000 * seconds / (2 * LENGTH))
        calls = [calls_per_run(parties) for _ in range(3)]
    figures = [
        Figure(what="wall per task", unit="ms", values=wall, budget=30.0),
        Figure(what="CPU per task run", unit="ms", values=cpu, budget=25.0),
        Figure(what="... of it the servers", unit="ms", values=servers),
        Figure(what="... of it the zygotes", unit="ms", values=zygotes),
        Figure(what="... of it the executors", unit="ms", values=executors),
        Figure(what="calls to the other party per task run", unit="", values=calls, budget=6.0),
    ]
    show(f"Chain of {LENGTH}", figures, as_json=options.json, machine=machine)


def calls_per_run(parties: Parties) -> float:
    """Run one more chain and return how many commands went to the other party per task run."""
    for party in parties.all:
        with party.database() as database:
            database.executescript(_COUNTER)
    parties.run(*chain(LENGTH))
    parties.settle()
    count = 0
    for party in parties.all:
        with party.database() as database:
            count += database.execute("SELECT COUNT(*) FROM bench_calls").fetchone()[0]
            database.executescript("DROP TRIGGER bench_count; DROP TABLE bench_calls;")
    return count / (2 * LENGTH)


if __name__ == "__main__":
    main()
