"""Loads, binds, switches and unloads at three parties with two serving processes each.

Messages are lost, repeated and late, processes and servers die. What a guest's process has loaded
all hosts' processes have; a score is that of one version; when all is quiet a load settles it.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.sim.serving_world import SITES, VERSIONS, Luck, ServingWorld

SEEDS = int(os.environ.get("FEDFLOW_SIM_SERVING", "8"))
STEPS = 60
KINDS = ("publish", "crash", "restart", "late", "request")
WEIGHTS = (10, 1, 6, 3, 2)

ACTIONS = (
    "load", "load", "load", "load", "bind", "bind", "bind", "canary",
    "unload", "roll back", "unbind",
)  # fmt: skip


def act(world: ServingWorld) -> None:
    """Do one thing of many."""
    rng = world.luck.rng
    match rng.choices(KINDS, WEIGHTS)[0]:
        case "publish":
            world.publish(rng.choice(ACTIONS), rng.choice(VERSIONS))
        case "crash":
            world.crash(rng.choice(world.every()))
        case "restart":
            for one in world.every():
                world.restart(one)
        case "late":
            world.deliver_late()
        case "request":
            during = partial(meanwhile, world) if rng.random() < 0.5 else None
            world.request(during=during)
    for _ in range(2):
        world.request()


def meanwhile(world: ServingWorld) -> None:
    """Change something while a host is asked."""
    rng = world.luck.rng
    world.publish(rng.choice(ACTIONS), rng.choice(VERSIONS))


def settle(world: ServingWorld) -> None:
    """Let nothing go wrong any more, and load again."""
    while world.late:
        world.deliver_late()
    world.luck = Luck(world.luck.rng, loses=0, repeats=0, late=0, crashes=0)
    for one in world.every():
        world.restart(one)
    version = world.luck.rng.choice(VERSIONS)
    assert world.publish("load", version)
    assert world.publish("bind", version)
    world.check()
    assert all(version in one.loaded() for one in world.every())
    before = world.counts.get("answers 0", 0)
    world.time.ms += 60_000  # circuits close
    for _ in range(8):
        world.request()
    assert world.counts["answers 0"] == before + 8
    for one in VERSIONS:
        if any(one in each.loaded() for each in world.every()):
            assert world.publish("unload", one)
    assert not any(one.loaded() or one.bound() for one in world.every())


def run(folder: Path, seed: int) -> ServingWorld:
    """Run one seed. Raises: AssertionError: with what happened."""
    folder.mkdir()
    luck = Luck(Random(seed))
    world = ServingWorld(folder, Luck(luck.rng, loses=0, repeats=0, late=0, crashes=0))
    try:
        assert all(world.publish("load", version) for version in VERSIONS)
        assert world.publish("bind", VERSIONS[0])
        world.luck = luck
        for _ in range(STEPS):
            act(world)
            world.check()
        settle(world)
    except AssertionError as exc:
        last = "\n".join(world.trace[-40:])
        raise AssertionError(f"seed {seed}: {exc}\n{last}") from exc
    finally:
        world.close()
    return world


def run_seeds(folder: Path, seeds: range) -> dict[str, int]:
    total: dict[str, int] = {}
    for seed in seeds:
        for what, number in run(folder / str(seed), seed).counts.items():
            total[what] = total.get(what, 0) + number
    return total


def test_what_a_guest_has_loaded_all_hosts_have_and_versions_never_mix(tmp_path: Path) -> None:
    counts = run_seeds(tmp_path, range(SEEDS))
    assert len(SITES) == 3
    wanted = ("lost", "late", "repeated", "crashes", "load: done", "answers 0")
    assert all(counts.get(one, 0) > 3 for one in wanted), counts
    assert counts.get("dead servers", 0) > 0, counts
    assert counts.get("answers 110", 0) == 0


@pytest.mark.heavy
@pytest.mark.parametrize("batch", range(8))
def test_the_same_for_many_seeds(tmp_path: Path, batch: int) -> None:
    run_seeds(tmp_path, range(1_000 + batch * 100, 1_100 + batch * 100))
