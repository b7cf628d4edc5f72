"""Random jobs under random faults, thousands of times: safety at every step, agreement at the end.

A failure prints the seed; `FEDFLOW_SIM_SEED=<seed>` runs that one alone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from random import Random

import pytest

from fedflow.base.errors import JobNotFound, PartyUnreachable, RerunRefused
from tests.sim.world import Faults, World, random_job

PARTIES = ("9999", "10000", "10001")
SEEDS = int(os.environ.get("FEDFLOW_SIM_SCHEDULES", "2000"))
BATCH = 50


def run_one(seed: int, home: Path) -> World:
    """Run a few jobs under faults, then let the world heal, and check everything."""
    rng = Random(f"faults of {seed}")
    faults = Faults(
        loses=rng.choice((0, 0, 0.1, 0.3)),
        repeats=rng.choice((0, 0.2)),
        slow=rng.choice((0, 0, 0.1)),
        crashes=rng.choice((0, 0.002, 0.01)),
        kills=rng.choice((0, 0, 0.01)),
        fails=rng.choice((0, 0, 0.1)),
        stops=rng.choice((0, 0, 0.005)),
        reruns=rng.choice((0, 0, 0.02, 0.1)),
    )
    world = World(seed, home=home / str(seed), faults=faults, parties=PARTIES)
    job_ids = []
    for _ in range(rng.randint(1, 3)):
        order = rng.sample(PARTIES, k=3)
        dsl, conf = random_job(world.rng, tuple(order))
        core = world.servers[order[0]].core
        assert core is not None
        job_ids.append(core.submissions.begin(dsl, conf)[0])

    def trouble() -> None:
        world.check_always()
        if world.rng.random() < world.faults.crashes:
            crash(world)
        if world.rng.random() < world.faults.kills:
            alive = [pid for pid, p in world.processes.items() if p.alive]
            if alive:
                world.kill(world.rng.choice(alive))
        if world.rng.random() < world.faults.stops:
            stop(world, world.rng.choice(job_ids))
        if world.rng.random() < world.faults.reruns:
            rerun(world, world.rng.choice(job_ids))

    def over() -> bool:
        """Go on for a while after the end: jobs may be run again."""
        return world.all_ended() and world.rng.random() >= world.faults.reruns * 9

    world.run(until=over, limit_ms=rng.choice((2_000, 20_000, 200_000)), step=trouble)
    world.faults = Faults()
    healed = world.run(until=world.all_ended, limit_ms=900_000, step=world.check_always)
    assert healed, "a job did not end"
    world.check_end()
    return world


def crash(world: World) -> None:
    server = world.servers[world.rng.choice(PARTIES)]
    if server.core is not None:
        server.crash()
        world.after(world.rng.choice((100, 5_000, 90_000)), server.boot)


def stop(world: World, job_id: str) -> None:
    server = world.servers[world.rng.choice(PARTIES)]
    if server.core is not None:
        with contextlib.suppress(JobNotFound):
            server.core.jobs.ask_stop(job_id)


def rerun(world: World, job_id: str) -> None:
    """Let a user at any party ask for a rerun of anything; most of the time it is refused."""
    server = world.servers[world.rng.choice(PARTIES)]
    if server.core is None:
        return
    names = world.rng.choice((None, ["c0"], ["c0", "c1"], ["c2"]))
    with contextlib.suppress(JobNotFound, RerunRefused, PartyUnreachable):
        server.core.reruns.begin(job_id, components=names, force=world.rng.random() < 0.3)


@pytest.mark.parametrize("batch", range(SEEDS // BATCH))
def test_every_schedule_is_safe_and_ends_in_agreement(batch: int, tmp_path: Path) -> None:
    only = os.environ.get("FEDFLOW_SIM_SEED")
    seeds = [int(only)] if only else range(batch * BATCH, (batch + 1) * BATCH)
    for seed in seeds:
        try:
            run_one(seed, tmp_path)
        except Exception as exc:
            raise AssertionError(f"seed {seed}: {exc}") from exc
