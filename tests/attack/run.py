"""One attack on a scene, with honest work beside it, and what was found afterwards."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Self

from fedflow.base.clock import SystemClock
from fedflow.base.errors.error import FedflowError
from fedflow.client.client import Client
from tests.attack.attacks import Attack, Attempt
from tests.attack.checks import Peaks, look, settle, violations
from tests.attack.scene import CHAIN, Scene, honest_job, name_of, wait_end

HONEST_S: Final = 45.0  #: how long an honest job may take, whatever happens beside it
RATIO: Final = 1.5  #: how much slower a task of it may be; a report says so, no test does

_clock = SystemClock()


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one attack. Times in seconds, memory in MiB."""

    attack: str
    who: str
    answers: Counter[str]
    violations: list[str]
    seconds: float
    per_task: list[float]  #: wall time of each honest chain beside it, by its tasks
    peak_mib: float  #: the most that a server had beyond what it had before
    log_mib: float

    @property
    def tries(self) -> int:
        return self.answers.total()


def run_attack(scene: Scene, attack: Attack, *, seed: int, scale: float = 1.0) -> Result:
    """Run an attack while the honest parties work, and compare what is there with before."""
    rng = Random(f"{seed}/{attack.name}")
    for party in scene.honest:
        settle(party)
    before = {party: look(party) for party in scene.honest}
    began_s = _clock.monotonic_s()
    with Peaks(scene.honest) as peaks, HonestWork(scene) as honest:
        attempt = Attempt(scene=scene, rng=rng, scale=scale, beside=honest.next_job)
        found = _played(scene, attack, attempt)
    seconds = _clock.monotonic_s() - began_s
    found += honest.failures + attempt.answers.leaks
    grown, logs = [], []
    for party, was in before.items():
        name = name_of(party)
        peak = peaks.mib[name]
        found += violations(
            party,
            was,
            own=attempt.own_jobs,
            honest=honest.job_ids,
            peak_mib=peak,
            start_mib=scene.start_mib[name],
        )
        grown.append(peak - was.memory)
        logs.append(party.log.stat().st_size / (1 << 20) - was.log)
    return Result(
        attack=attack.name, who=attack.who.value, answers=attempt.answers.counts, violations=found,
        seconds=seconds, per_task=honest.per_task, peak_mib=max(grown), log_mib=max(logs),
    )  # fmt: skip


def _played(scene: Scene, attack: Attack, attempt: Attempt) -> list[str]:
    """Return what an attack achieved. One that fails itself has shown nothing, and says where."""
    try:
        return list(scene.loop.run(attack.play(attempt)))
    except Exception:  # the other attacks go on
        return [f"the attack itself failed:\n{traceback.format_exc()}"]


def run_all(
    scene: Scene, attacks: Sequence[Attack], *, seed: int, scale: float, until_s: float,
    say: Callable[[str], None],
) -> Iterator[Result]:  # fmt: skip
    """Run attacks in rounds, each round in another order, until the monotonic time `until_s`."""
    number = 0
    while True:
        order = list(attacks)
        Random(f"{seed}/{number}").shuffle(order)
        for attack in order:
            result = run_attack(scene, attack, seed=seed + number, scale=scale)
            found = f", {len(result.violations)} VIOLATIONS" if result.violations else ""
            say(f"{attack.name}: {result.tries} tries in {result.seconds:.1f} s{found}")
            yield result
            if _clock.monotonic_s() > until_s:
                return
        number += 1


def quiet_per_task(scene: Scene, *, jobs: int = 3) -> list[float]:
    """Return the time per task of honest jobs to which nothing is done, in seconds."""
    work = HonestWork(scene)
    with Client(scene.desk.url) as client:
        for _ in range(jobs):
            work.run_job(client)
    return work.per_task


class HonestWork:
    """Runs jobs of the honest parties, one after the other, while the block runs."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="honest-work")
        self.job_ids: list[str] = []
        self.per_task: list[float] = []  #: seconds
        self.failures: list[str] = []

    async def next_job(self) -> None:
        """Return when a job has ended that began after this call, or none will."""
        wanted = len(self.per_task) + 2  # the one that runs now began before
        while len(self.per_task) < wanted and not self.failures:
            await asyncio.sleep(0.1)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def run_job(self, client: Client) -> None:
        """Run one job and keep its time per task by the server's clock: this process attacks, too.

        Raises: AssertionError: it fails.
        """
        job_id = client.submit(*honest_job()).job_id
        self.job_ids.append(job_id)
        view = wait_end(client, job_id, within_s=HONEST_S)
        assert view.succeeded, f"job {job_id} ended with {view.status}: {view.reason}"
        assert view.ended_ms is not None
        self.per_task.append((view.ended_ms - view.created_ms) / 1000 / CHAIN)

    def _run(self) -> None:
        with Client(self._scene.desk.url) as client:
            while not self._stop.is_set() or not self.per_task:
                try:
                    self.run_job(client)
                except (AssertionError, FedflowError) as exc:
                    self.failures.append(f"honest work: {exc}"[:300])
                    return
