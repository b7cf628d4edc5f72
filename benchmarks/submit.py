"""Time from a submit until its first task runs at both sites.

    .venv/bin/python benchmarks/submit.py [--runs 30] [--json]

A job with one task `Empty` at guest and host, one job at a time. The end of the time is the later
of the two moments at which the sites' servers noted that the executor runs.
"""

from __future__ import annotations

import time

from figures import Figure, Machine, arguments, show
from parties import Parties, chain, two_parties


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    machine = Machine()
    answered, running, ended = [], [], []
    with two_parties() as parties:
        parties.run(*chain(1))
        for _ in range(options.runs):
            parties.settle()
            began_s, began_ms = time.perf_counter(), time.time() * 1000
            job_id = parties.guest.client.submit(*chain(1)).job_id
            answered.append(1000 * (time.perf_counter() - began_s))
            view = parties.wait(job_id)
            running.append(started_ms(parties, job_id) - began_ms)
            ended.append((view.ended_ms or 0) - began_ms)
    figures = [
        Figure(what="submit answered", unit="ms", values=answered),
        Figure(what="first task running at both sites", unit="ms", values=running, budget=80.0),
        Figure(what="job ended", unit="ms", values=ended),
    ]
    show("Submit", figures, as_json=options.json, machine=machine)


def started_ms(parties: Parties, job_id: str) -> float:
    """Return when the last site's executor reported that it runs, milliseconds since the epoch."""
    started = []
    for party in parties.all:
        with party.database() as database:
            rows = database.execute("SELECT f_start_time FROM t_task WHERE f_job_id = ?", (job_id,))
            started += [row[0] for row in rows]
    return max(started)


if __name__ == "__main__":
    main()
