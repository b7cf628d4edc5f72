"""What many jobs leave in the two servers: descriptors, threads and memory after each step.

    .venv/bin/python benchmarks/hygiene.py [--looks 0 100 300 1000 3000] [--json]

Each job is one Empty at guest and host. Jobs that ended are kept, as they are by default. The
figures are taken 5 s after the last end, when nothing runs.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from burst import run_jobs
from figures import Figure, Machine, arguments, show
from parties import MIB, Parties, Party, chain, memory_of, two_parties

AT_ONCE = 50  #: jobs
REST_S = 5.0


@dataclass(frozen=True, kw_only=True)
class State:
    """What one server process has; memory in MiB."""

    descriptors: int
    threads: int
    rss: float
    pss: float
    heap: float  #: anonymous memory that is resident
    kinds: Counter[str]  #: descriptors by what they are


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--looks", type=int, nargs="+", default=[0, 100, 300, 1000, 3000])
    options = parser.parse_args()
    machine = Machine()
    looks: list[tuple[int, dict[str, State]]] = []
    with two_parties() as parties:
        done = 0
        for jobs in options.looks:
            run(parties, jobs - done)
            done = jobs
            time.sleep(REST_S)
            looks.append((jobs, {p.name: look(p) for p in parties.all}))
            if not options.json:
                told(*looks[-1])
    figures = [
        Figure(what=f"{name} after {jobs} jobs: {what}", unit=unit, values=[getattr(state, field)])
        for jobs, states in looks
        for name, state in states.items()
        for field, what, unit in (
            ("descriptors", "descriptors", ""),
            ("threads", "threads", ""),
            ("rss", "server, RSS", "MiB"),
            ("pss", "server, PSS", "MiB"),
        )
    ]
    show(f"Hygiene, {options.looks[-1]} jobs", figures, as_json=options.json, machine=machine)


def run(parties: Parties, jobs: int) -> None:
    """Run jobs, so many at once as a busy server has."""
    while jobs > 0:
        run_jobs(parties, min(AT_ONCE, jobs), chain(1))
        jobs -= AT_ONCE
    parties.settle()


def look(party: Party) -> State:
    """Return what a server has now."""
    process = Path("/proc") / str(party.process.pid)
    memory = memory_of([party.process.pid])
    kinds: Counter[str] = Counter()
    for link in (process / "fd").iterdir():
        kinds[kind_of(link)] += 1
    rollup = (process / "smaps_rollup").read_text(encoding="ascii")
    heap = next(int(line.split()[1]) for line in rollup.splitlines() if "Anonymous" in line)
    return State(
        descriptors=kinds.total(),
        threads=sum(1 for _ in (process / "task").iterdir()),
        rss=memory.rss,
        pss=memory.pss,
        heap=heap * 1024 / MIB,
        kinds=kinds,
    )


def kind_of(link: Path) -> str:
    """Return what a descriptor is: the name of a file without its number, or its type."""
    try:
        target = str(link.readlink())
    except OSError:
        return "gone"
    return target.rpartition("/")[2] if target.startswith("/") else target.split(":", 1)[0]


def told(jobs: int, states: dict[str, State]) -> None:
    """Print one look as it is taken."""
    for name, state in states.items():
        kinds = ", ".join(f"{kind} {count}" for kind, count in state.kinds.most_common(8))
        print(
            f"{jobs} jobs, {name}: {state.descriptors} descriptors ({kinds}),"
            f" {state.threads} threads, RSS {state.rss:.1f}, PSS {state.pss:.1f},"
            f" anonymous {state.heap:.1f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
