"""One simulated run from its seed: jobs under faults, then the world heals, and all is checked."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch

from fedflow.app.initiator import preflight
from tests.sim.chaos import Chaos
from tests.sim.faults import Faults, random_faults
from tests.sim.invariants import Violation, require
from tests.sim.trace import logs_of
from tests.sim.world import World

PARTIES = ("9999", "10000", "10001")
HEAL_MS = 600_000  #: within this time after the last fault every job must have ended
COMPARE_MS = 60_000  #: within this time all parties have compared what ended
_SHOWN = 60  #: lines of the trace that a failure shows


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one run. `violation` is empty if all went as it must."""

    seed: int
    what: str = "servers"  #: the word of `bin/simulate`
    faults: Faults = field(default_factory=Faults)
    digest: str
    steps: int
    recovery_ms: int = 0  #: from the last fault to the end of all jobs
    counts: Counter[str] = field(default_factory=Counter)
    violation: str = ""
    trace: tuple[str, ...] = ()  #: the last lines that concern the violation


def run_seed(
    seed: int,
    *,
    faults: Faults | None = None,
    home: Path | None = None,
    whole_trace: bool = False,
    parties: tuple[str, ...] = PARTIES,
) -> Outcome:
    """Run one schedule; `faults` replaces those that the seed names."""
    folder = Path(tempfile.mkdtemp(prefix="sim-", dir=home or _fast_folder()))
    try:
        chosen = faults if faults is not None else random_faults(Random(f"faults of {seed}"))
        world = World(seed, home=folder, faults=chosen, parties=parties)
        try:
            with (
                logs_of(world),
                patch.object(preflight, "side_by_side", _in_turn),
                patch.object(preflight, "_PAUSES_S", ()),
            ):
                return _run(world, seed, whole_trace=whole_trace)
        finally:
            world.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(world: World, seed: int, *, whole_trace: bool) -> Outcome:
    faults = world.faults
    violation, shown, healed_ms = "", (), 0
    try:
        healed_ms = _live(world)
    except Violation as exc:
        violation = str(exc)
        shown = tuple(world.trace.last(_SHOWN, job_id=exc.job_id))
    except Exception as exc:
        violation = f"{type(exc).__name__}: {exc}"
        shown = tuple(world.trace.last(_SHOWN))
        if whole_trace:
            raise
    return Outcome(
        seed=seed,
        faults=faults,
        digest=world.trace.digest(),
        steps=world.steps,
        recovery_ms=healed_ms,
        counts=world.trace.counts,
        violation=violation,
        trace=tuple(world.trace.lines) if whole_trace else shown,
    )


def _live(world: World) -> int:
    """Let jobs run under faults, then without; return how long they took to end then."""
    rng = world.user_rng
    for _ in range(rng.randint(1, 3)):
        world.users.submit()
    Chaos(world)
    faults, check = world.faults, world.check
    goes_on = bool(faults.reruns_every_s or faults.submits_every_s or faults.updates_every_s)
    goes_on = goes_on or bool(faults.repeats_every_s)

    def over() -> bool:
        """Go on for a while after the end: jobs may be run again."""
        return not goes_on and check.all_ended()

    limit_ms = rng.choice((2_000, 10_000, 30_000, 100_000))
    world.run(until=over, limit_ms=limit_ms, step=check.always)
    world.heal()
    since_ms = world.time.ms
    healed = world.run(until=check.all_ended, limit_ms=HEAL_MS, step=check.always)
    require(healed, f"not all jobs ended within {HEAL_MS} ms: {_left(world)}")
    if check.were_put_back:
        _compare_all(world)
    check.end()
    return world.time.ms - since_ms


def _compare_all(world: World) -> None:
    """Let every party compare its ended jobs with the others once more: each is started anew."""
    for server in world.servers.values():
        server.crash()
        server.boot()
    world.run(until=lambda: False, limit_ms=COMPARE_MS, step=world.check.always)


def _left(world: World) -> str:
    """Return what has not ended, for people."""
    left = []
    for party_id, server in world.servers.items():
        with server.store.read() as tx:
            jobs = [tx.schedules.get(job_id) for job_id in tx.schedules.active()]
            left += [f"{party_id} schedules {j.job_id} ({j.status})" for j in jobs if j]
            left += [f"{j.key} is {j.status}, {j.in_use=}" for j in tx.jobs.open_jobs()]
            if tx.outbox.size():
                left.append(f"{party_id} has {tx.outbox.size()} commands to send")
    left += [f"process {p.handle.pid} of {p.launch.task}" for p in world.workers.alive.values()]
    return "; ".join(left)


def shrink(outcome: Outcome, *, tries: int = 40) -> Outcome:
    """Return a run of the same seed with fewer kinds of faults that fails too."""
    best = outcome
    for name in outcome.faults.kinds():
        if tries <= 0:
            break
        tries -= 1
        tried = run_seed(outcome.seed, faults=best.faults.without(name))
        if tried.violation:
            best = tried
    return best


def report(outcome: Outcome) -> str:
    """Return a violation for people: what, how to see it again, and what happened before."""
    kinds = ", ".join(f"{k}={v}" for k, v in outcome.faults.items() if v)
    return "\n".join(
        (
            f"seed {outcome.seed}: {outcome.violation}",
            f"  again: bin/simulate {outcome.what} --seed {outcome.seed} --trace",
            f"  faults: {kinds or 'none'}",
            *outcome.trace,
        )
    )


def _in_turn(work: Callable[[str], None], names: list[str]) -> None:
    """Ask one party after the other: threads would not end as the seed says."""
    for name in names:
        work(name)


def _fast_folder() -> str | None:
    """Return a folder in memory if this machine has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
