"""The command `bin/simulate`: many simulated runs, in one process per core."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from random import SystemRandom
from typing import Final

from tests.sim import elastic_rounds, rendezvous
from tests.sim.schedules import Outcome, report, run_seed, shrink

_BATCH = 25  #: seeds that a process is given at once
_PROGRESS_S = 10.0
_SHOWN = 5  #: violations that are shown in full

_RUN: Final[Mapping[str, Callable[..., Outcome]]] = {
    "servers": run_seed,
    "rendezvous": rendezvous.run_seed,
    "rounds": elastic_rounds.run_seed,
}


@dataclass
class Summary:
    """What came of many runs."""

    runs: int = 0
    steps: int = 0
    worst_ms: int = 0
    worst_seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    bad: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one run in."""
        self.runs += 1
        self.steps += outcome.steps
        self.counts += outcome.counts
        if outcome.recovery_ms > self.worst_ms:
            self.worst_ms, self.worst_seed = outcome.recovery_ms, outcome.seed
        if outcome.violation:
            self.bad.append(outcome.seed)

    def lines(self, *, seconds: float) -> Iterator[str]:
        """Yield the summary for people."""
        groups: dict[str, dict[str, int]] = {"fault": {}, "user": {}, "end": {}}
        for kind, count in sorted(self.counts.items()):
            group, colon, name = kind.partition(": ")
            groups[group if colon else "fault"][name or kind] = count
        yield (
            f"{self.runs} schedules in {seconds:.0f} s ({self.runs / max(seconds, 1e-9):.1f}/s),"
            f" {self.steps} events, {sum(groups['fault'].values())} faults,"
            f" {sum(groups['user'].values())} commands of users, {len(self.bad)} violations"
        )
        for group, counts in groups.items():
            if counts:
                yield f"{group}s: " + ", ".join(f"{k} {n}" for k, n in counts.items())
        yield (
            f"longest recovery: {self.worst_ms / 1000:.0f} s of simulated time"
            f" (seed {self.worst_seed})"
        )
        if self.bad:
            yield f"VIOLATIONS, seeds: {' '.join(map(str, self.bad))}"


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; return 1 if anything was violated, else 0."""
    parser = argparse.ArgumentParser(
        prog="bin/simulate",
        description="Runs whole servers, or members of a rendezvous or of rounds of training, in"
        " one process under random faults, and checks that nothing is lost, doubled or frozen.",
    )
    parser.add_argument("what", nargs="?", choices=_RUN, default="servers")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--hours", type=_positive, help="how long to go on with new seeds")
    amount.add_argument("--schedules", type=int, help="how many seeds to run (default 1000)")
    amount.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print all that happens")
    parser.add_argument("--from", type=int, dest="first", help="first seed (default: random)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    if given.trace and given.seed is None:
        parser.error("--trace needs --seed")
    if given.jobs < 1 or (given.schedules is not None and given.schedules < 1):
        parser.error("--jobs and --schedules must be at least 1")
    if given.seed is not None:
        return _one(given.seed, given.what, trace=given.trace)
    first = given.first if given.first is not None else SystemRandom().randrange(10**9)
    count = None if given.hours else given.schedules or 1000
    return _many(first, given.what, count=count, hours=given.hours, jobs=given.jobs)


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return value


def _one(seed: int, what: str, *, trace: bool) -> int:
    outcome = _RUN[what](seed, whole_trace=trace)
    if trace:
        print("\n".join(outcome.trace))
    print(f"seed {seed}: digest {outcome.digest}, {outcome.steps} events")
    if outcome.violation:
        print(report(outcome))
        return 1
    return 0


def _many(first: int, what: str, *, count: int | None, hours: float | None, jobs: int) -> int:
    summary, begun_s = Summary(), time.monotonic()
    end_s = None if hours is None else begun_s + hours * 3600
    told_s = begun_s
    print(f"seeds from {first}, {jobs} processes", flush=True)
    batches = _batches(first, count=count, end_s=end_s)
    batch = partial(_batch, what=what)
    for outcomes in map(batch, batches) if jobs == 1 else _in_processes(batches, batch, jobs):
        for outcome in outcomes:
            summary.add(outcome)
            if outcome.violation and len(summary.bad) <= _SHOWN:
                found = shrink(outcome) if what == "servers" else outcome
                print(report(found), flush=True)
        now_s = time.monotonic()
        if now_s - told_s > _PROGRESS_S:
            told_s = now_s
            print(next(summary.lines(seconds=now_s - begun_s)), flush=True)
    for line in summary.lines(seconds=time.monotonic() - begun_s):
        print(line)
    return 1 if summary.bad else 0


def _in_processes(
    batches: Iterator[range], batch: Callable[[range], list[Outcome]], jobs: int
) -> Iterator[list[Outcome]]:
    """Yield what came of each batch, as soon as it is done."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(batch, seeds) for seeds in islice(batches, 2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(batch, seeds) for seeds in islice(batches, len(done))}
            for future in done:
                yield future.result()


def _batches(first: int, *, count: int | None, end_s: float | None) -> Iterator[range]:
    """Yield ranges of seeds, as many as asked for or until the time is over."""
    seed, last = first, None if count is None else first + count
    while (last is None or seed < last) and (end_s is None or time.monotonic() < end_s):
        stop = seed + _BATCH if last is None else min(seed + _BATCH, last)
        yield range(seed, stop)
        seed = stop


def _batch(seeds: range, *, what: str) -> list[Outcome]:
    return [_RUN[what](seed) for seed in seeds]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
