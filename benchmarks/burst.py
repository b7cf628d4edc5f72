"""Many small jobs at once: 100 jobs of three tasks `Empty` at guest and host.

    .venv/bin/python benchmarks/burst.py [--jobs 100] [--runs 2] [--json]

The time runs from the first submit to the end of the last job; 16 clients submit. The memory is the
servers' after all of it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from figures import Figure, Machine, arguments, show
from idle import memory
from parties import Client, Parties, chain, two_parties

Job = tuple[dict[str, Any], dict[str, Any]]

TASKS = 3
CLIENTS = 16


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    machine = Machine()
    rates, cpu, servers, submits = [], [], [], []
    with two_parties() as parties:
        parties.run(*chain(TASKS))
        for _ in range(options.runs):
            parties.settle()
            before = parties.cpu()
            took_s, submitted_s = burst(parties, options.jobs)
            parties.settle()
            used = parties.cpu() - before
            runs = 2 * TASKS * options.jobs
            rates.append(runs / took_s)
            submits.append(options.jobs / submitted_s)
            cpu.append(1000 * used.total / runs)
            servers.append(1000 * used.servers / runs)
        after = memory(parties)
    figures = [
        Figure(what="task runs", unit="/s", values=rates, budget=80.0, at_least=True),
        Figure(what="submits", unit="/s", values=submits, at_least=True),
        Figure(what="CPU per task run", unit="ms", values=cpu, budget=25.0),
        Figure(what="... of it the servers", unit="ms", values=servers),
        *after,
    ]
    show(f"Burst of {options.jobs} jobs x {TASKS} tasks", figures, as_json=options.json,
         machine=machine)  # fmt: skip


def burst(parties: Parties, jobs: int) -> tuple[float, float]:
    """Return the seconds until all jobs have ended, and until all were submitted.

    Raises: RuntimeError: one did not succeed.
    """
    ids, took_s, submitted_s = run_jobs(parties, jobs, chain(TASKS))
    failed = [v.job_id for v in map(parties.guest.client.job, ids) if not v.succeeded]
    if failed:
        raise RuntimeError(f"{len(failed)} of {jobs} jobs did not succeed, {failed[0]} for one")
    return took_s, submitted_s


def run_jobs(parties: Parties, jobs: int, job: Job) -> tuple[list[str], float, float]:
    """Submit jobs at once and wait for all; return their ids, and both times as `burst`."""
    address = parties.guest.client.address

    def submit_some(count: int) -> list[str]:
        with Client(address) as client:
            return [client.submit(*job).job_id for _ in range(count)]

    counts = [jobs // CLIENTS + (i < jobs % CLIENTS) for i in range(CLIENTS)]
    began_s = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        ids = [job_id for some in pool.map(submit_some, counts) for job_id in some]
    submitted_s = time.perf_counter() - began_s
    while True:
        with parties.guest.database() as database:
            left = database.execute(
                "SELECT COUNT(*) FROM t_schedule_job"
                " WHERE f_status IN ('ready', 'waiting', 'running')"
            ).fetchone()[0]
        if not left:
            break
        time.sleep(0.05)
    return ids, time.perf_counter() - began_s, submitted_s


if __name__ == "__main__":
    main()
