"""The simulator itself: it finds known bugs, and a seed gives the same run every time."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Role, Site
from fedflow.store.memory.journal import Journal
from fedflow.store.memory.store import MemoryTx
from tests.sim import simulate
from tests.sim.faults import Faults
from tests.sim.mutations import MUTATIONS, Mutation
from tests.sim.schedules import run_seed, shrink
from tests.sim.server import SimFolders
from tests.sim.storage import Disk

ROOT = Path(__file__).resolve().parents[2]
TRIES = 60  #: seeds within which a bug must be found


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_bug_is_found_and_nothing_is_found_without_it(mutation: Mutation) -> None:
    for seed in range(TRIES):
        with mutation.broken():
            found = run_seed(seed, faults=mutation.faults).violation
        assert not run_seed(seed, faults=mutation.faults).violation
        if found:
            return
    pytest.fail(f"not found in {TRIES} runs: {mutation.name}")


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    def again(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.sim.simulate", "--seed", "125", "--trace"]
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            command, cwd=ROOT, env=env, check=True, capture_output=True, text=True, timeout=120
        )
        return done.stdout

    first = again("1")
    assert "digest" in first
    assert first == again("2")


def test_the_digest_tells_runs_apart() -> None:
    digests = {run_seed(seed, faults=Faults()).digest for seed in range(3)}
    assert len(digests) == 3


def test_on_a_full_disk_folders_can_be_named_and_read_but_not_made(tmp_path: Path) -> None:
    key = TaskKey(job_id="1", component="a", version=0, site=Site(Role.HOST, PartyId("10000")))
    disk = Disk()
    folders = SimFolders(tmp_path, disk)
    folders.work(key).mkdir(parents=True)
    (folders.work(key) / "kept").write_bytes(b"x")
    disk.home_full = True
    assert (folders.work(key) / "kept").read_bytes() == b"x"
    for folder in (folders.work(key), folders.job_files("2") / "guest"):
        with pytest.raises(OSError, match="simulated") as refused:
            folder.mkdir(parents=True, exist_ok=True)
        assert refused.value.errno == errno.ENOSPC
    assert not (tmp_path / "jobs" / "2").exists()


def test_processes_die_and_launches_fail_while_the_disk_is_full() -> None:
    faults = Faults(full_disks_every_s=3, kills_every_s=1, submits_every_s=2)
    outcomes = [run_seed(seed, faults=faults, whole_trace=True) for seed in range(6)]
    assert [o.violation for o in outcomes] == [""] * len(outcomes)
    assert any("could not be launched" in line for o in outcomes for line in o.trace)


def test_a_violation_is_shown_with_its_seed_and_the_faults_that_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mutation = next(m for m in MUTATIONS if m.name.startswith("a task starts"))
    with mutation.broken():
        runs = (run_seed(seed) for seed in range(TRIES))
        found = next(o for o in runs if o.violation and len(o.faults.kinds()) > 2)
        assert simulate.main(["--seed", str(found.seed)]) == 1
        shrunk = shrink(found)
    assert f"bin/simulate servers --seed {found.seed} --trace" in capsys.readouterr().out
    assert shrunk.violation
    assert set(shrunk.faults.kinds()) < set(found.faults.kinds())


def test_many_runs_are_counted_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--schedules", "30", "--from", "0", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "30 schedules" in shown
    assert "0 violations" in shown


@pytest.mark.parametrize("what", ["rendezvous", "rounds"])
def test_other_kinds_of_runs_are_counted_and_shown_again(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate.main([what, "--schedules", "5", "--from", "0", "--jobs", "1"]) == 0
    assert "5 schedules" in capsys.readouterr().out
    assert simulate.main([what, "--seed", "3", "--trace"]) == 0
    first = capsys.readouterr().out
    assert simulate.main([what, "--seed", "3", "--trace"]) == 0
    assert first == capsys.readouterr().out
    assert len(first.splitlines()) > 5


@pytest.mark.parametrize(
    "arguments", [["--trace"], ["--hours", "0"], ["--schedules", "0"], ["--jobs", "0"], ["members"]]
)
def test_a_wrong_argument_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        simulate.main(arguments)
    assert refused.value.code == 2


_NEVER = {
    ("caches", "put"), ("models", "put_component"), ("models", "put_checkpoint"),  # there are none
    ("permissions", "parties"),  # `Neighbours` is for people
}  # fmt: skip


def test_the_store_of_simulations_has_what_the_simulated_use_cases_call() -> None:
    """Some calls are so rare that a thousand schedules may not meet them."""
    simulated = [p for room in ("initiator", "participant", "protocol") for p in _sources(room)]
    calls = {
        (found[1], found[2])
        for path in (*simulated, ROOT / "fedflow" / "app" / "inheritance.py")
        for found in re.finditer(r"\btx\.(\w+)\.(\w+)\(", path.read_text(encoding="utf-8"))
    }
    tx = MemoryTx(Journal())
    missing = {(part, call) for part, call in calls if not hasattr(getattr(tx, part, None), call)}
    assert missing == _NEVER


def _sources(room: str) -> list[Path]:
    return list((ROOT / "fedflow" / "app" / room).glob("*.py"))
