"""What honest jobs cost while hostile parties attack: a chain of ten beside each of `bin/attack`.

    .venv/bin/python benchmarks/attack.py [--runs 3] [--only NAME,NAME] [--jobs 1000] [--at-once 4]
        [--json]

Wall time per task is that of a chain of ten empty tasks at two parties, with a big value beside it;
its ratio is to chains with no attack, which run before. With `--jobs` so many honest jobs run, some
of them at once, beside floods that begin again and again, and all must succeed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

from figures import Figure, Machine, arguments, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedflow.client.client import Client
from tests.attack.attacks import Attack, Attempt
from tests.attack.every import ALL
from tests.attack.floods import FLOODS
from tests.attack.run import RATIO, HonestWork, quiet_per_task, run_attack
from tests.attack.scene import Scene, scene

LOG_MIB = 1.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="names of attacks; all floods if left out")
    parser.add_argument("--jobs", type=int, default=0, help="honest jobs beside floods without end")
    parser.add_argument("--at-once", type=int, default=4, help="of these jobs")
    options = parser.parse_args()
    chosen = [one for one in ALL if one.name in options.only.split(",")] or list(FLOODS)
    machine = Machine()
    with tempfile.TemporaryDirectory(prefix="attack-") as folder, scene(Path(folder)) as stage:
        quiet = quiet_per_task(stage, jobs=5 * options.runs)
        figures = [Figure(what="quiet: per task", unit="ms", values=[1000 * s for s in quiet])]
        if options.jobs:
            figures += beside_floods(stage, chosen, jobs=options.jobs, at_once=options.at_once)
        else:
            for attack in chosen:
                figures += beside(stage, attack, runs=options.runs, quiet=quiet)
    show("Honest work under attack", figures, as_json=options.json, machine=machine)


def beside(stage: Scene, attack: Attack, *, runs: int, quiet: list[float]) -> list[Figure]:
    """Return what honest chains cost beside one attack."""
    base = statistics.median(quiet)
    results = [run_attack(stage, attack, seed=number) for number in range(runs)]
    ratios = [seconds / base for one in results for seconds in one.per_task]
    peaks = [max(0.0, one.peak_mib) for one in results]
    return [
        Figure(what=f"{attack.name}: ratio", unit="", values=ratios or [float("inf")],
               budget=RATIO),
        Figure(what="... memory at most", unit="MiB", values=peaks),
        Figure(what="... log", unit="MiB", values=[r.log_mib for r in results], budget=LOG_MIB),
        Figure(what="... violations", unit="", values=[len(r.violations) for r in results]),
    ]  # fmt: skip


def beside_floods(stage: Scene, floods: list[Attack], *, jobs: int, at_once: int) -> list[Figure]:
    """Return what so many honest jobs took beside floods, one flood after the other.

    Raises: AssertionError: a job does not succeed.
    """
    work = HonestWork(stage)

    def run_some(number: int) -> None:
        with Client(stage.guest.url) as client:
            for _ in range(number, jobs, at_once):
                work.run_job(client)

    with _without_end(stage, floods), ThreadPoolExecutor(at_once) as pool:
        list(pool.map(run_some, range(at_once)))
    what = f"{len(work.job_ids)} jobs beside floods, {at_once} at once, all succeeded: per task"
    return [Figure(what=what, unit="ms", values=[1000 * s for s in work.per_task])]


@contextmanager
def _without_end(stage: Scene, floods: list[Attack]) -> Iterator[None]:
    """Let one flood after the other run until the block ends."""
    stop = threading.Event()

    async def nothing() -> None:
        """Return at once: what a flood opened is closed, and the next one begins."""

    def run() -> None:
        number = 0
        while not stop.is_set():
            attempt = Attempt(scene=stage, rng=Random(number), beside=nothing)
            stage.loop.run(floods[number % len(floods)].play(attempt))
            number += 1

    thread = threading.Thread(target=run, name="floods")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
