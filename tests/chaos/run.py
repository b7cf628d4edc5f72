"""A whole run: parties, users, one fault after the other, and the checks at the end."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fedflow.base.clock import SystemClock, pause
from tests.chaos.checks import SETTLE_S, Anomaly, answers, find_anomalies, ran_at_once
from tests.chaos.faults import ALL, Fault, NoVictim, do, plan, possible
from tests.chaos.load import Job, Load
from tests.chaos.parties import World, world
from tests.chaos.watch import Watch

RECOVER_S = 150.0  #: how long after a fault a new job may take to end with success
AGE_S = 420.0  #: no job takes longer, whatever happens meanwhile
CALM_S = 1.0  #: pause between two faults, at the longest
SETTLED_S = 20.0  #: how long the next fault waits for the jobs that were under way

_clock = SystemClock()
_never = threading.Event()


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is made of."""

    seed: int
    parties: int = 2
    mysql: bool = False
    servers: int = 1  #: of the first party
    namespaces: bool = False
    minutes: float = 30.0
    users: int = 4
    kinds: Mapping[str, int] = field(default_factory=lambda: ALL)  #: how often in a round
    offset_s: float = 0.0  #: by how much the second party's clock is off, the whole time
    longest_s: float = float("inf")  #: no fault lasts longer
    faults: int | None = None  #: end after so many faults
    jobs: int | None = None  #: end after so many jobs
    say: Callable[[str], None] = field(default=lambda _: None)


@dataclass
class Done:
    """One fault that was done, in seconds of a clock that never goes back."""

    fault: Fault
    began_s: float
    ended_s: float
    ready_s: float | None = None  #: when all servers answered that they can take jobs
    recovered_s: float | None = None  #: when a job submitted afterwards had succeeded everywhere
    probes: int = 0  #: how many jobs that took
    settled_s: float | None = None  #: when the last job had ended that was under way at the end


@dataclass
class Outcome:
    """All that a run found."""

    options: Options
    faults: list[Done] = field(default_factory=list)
    skipped: int = 0  #: faults without a victim
    database_crashes: int = 0  #: databases that ended by themselves, and were started again
    jobs: list[Job] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    seconds: float = 0.0


def run(options: Options, folder: Path, *, evidence: Path) -> Outcome:
    """Run parties below `folder`, do faults to them and return what came of it.

    What the parties left is kept in `evidence` if there is an anomaly.
    """
    outcome = Outcome(options=options)
    began_s = _clock.monotonic_s()
    rng = Random(f"{options.seed}/network")
    with world(
        folder,
        parties=options.parties,
        mysql=options.mysql,
        namespaces=options.namespaces,
        rng=rng,
        offset_s=options.offset_s,
        servers=options.servers,
    ) as running:
        watch = Watch(running)
        load = Load(running, seed=options.seed, users=options.users, limit=options.jobs)
        watch.start()
        load.start()
        try:
            _do_faults(running, load, outcome)
        finally:
            load.finish(SETTLE_S)
            watch.stop()
        outcome.jobs = load.jobs
        outcome.database_crashes = sum(one.crashes for one in running.databases)
        outcome.anomalies += find_anomalies(running, load.jobs, _kinds_by_party(outcome))
        outcome.anomalies += ran_at_once(watch.pairs)
        if outcome.anomalies:
            _keep(running, evidence)
    outcome.seconds = _clock.monotonic_s() - began_s
    return outcome


def _do_faults(running: World, load: Load, outcome: Outcome) -> None:
    options = outcome.options
    rng = Random(f"{options.seed}/probes")
    kinds = possible(
        options.kinds, mysql=options.mysql, small_disks=running.has_small_disks,
        second_server=running.has_second_server,
    )  # fmt: skip
    faults = plan(
        options.seed, kinds=kinds, parties=list(running.parties), longest_s=options.longest_s
    )
    deadline_s = _clock.monotonic_s() + options.minutes * 60

    def is_over() -> bool:
        enough = options.faults is not None and len(outcome.faults) >= options.faults
        return enough or load.done or _clock.monotonic_s() > deadline_s

    while not is_over():
        fault = next(faults)
        began_s = _clock.monotonic_s()
        try:
            do(running, fault)
        except NoVictim:
            outcome.skipped += 1
            continue
        done = Done(fault=fault, began_s=began_s, ended_s=_clock.monotonic_s())
        outcome.faults.append(done)
        _recover(running, load, done, rng)
        if done.recovered_s is None:
            outcome.anomalies.append(
                Anomaly(
                    what="no recovery", where=str(fault),
                    detail=f"no job succeeded within {RECOVER_S:g} s",
                )
            )  # fmt: skip
            return
        options.say(
            f"{fault}: ready after {(done.ready_s or 0.0) - done.ended_s:.1f} s, recovered after"
            f" {done.recovered_s - done.ended_s:.1f} s, {len(load.accepted)} jobs"
        )
        _settle(load, done)
        outcome.anomalies += _too_old(running, load)
        pause(rng.uniform(0.0, CALM_S), _never)


def _recover(running: World, load: Load, done: Done, rng: Random) -> None:
    """Submit small jobs, each at another party, until one has succeeded everywhere."""
    until_s = done.ended_s + RECOVER_S
    parties = list(running.parties)
    while _clock.monotonic_s() < until_s:
        if not all(answers(party) for party in running.all):
            pause(0.05, _never)
            continue
        done.ready_s = done.ready_s or _clock.monotonic_s()
        done.probes += 1
        job = load.submit("probe", parties[done.probes % len(parties)], rng)
        if job.refused:
            pause(0.2, _never)
            continue
        load.follow(job, until_s=until_s, pause_s=0.05)
        if job.status == "success":
            done.recovered_s = job.settled_s
            return


def _settle(load: Load, done: Done) -> None:
    """Wait for the jobs that were under way when a fault ended, and note when the last one ended.

    Not for ever: it is for the next fault to find out that one of them froze.
    """
    under_way = [
        job
        for job in load.accepted
        if job.submitted_s < done.ended_s
        and (job.settled_s is None or job.settled_s > done.ended_s)
    ]
    until_s = _clock.monotonic_s() + SETTLED_S
    while any(job.settled_s is None for job in under_way):
        if _clock.monotonic_s() > until_s:
            return
        pause(0.1, _never)
    done.settled_s = max((job.settled_s or 0.0 for job in under_way), default=done.ended_s)


def _kinds_by_party(outcome: Outcome) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = {}
    for done in outcome.faults:
        kinds.setdefault(done.fault.party, set()).add(done.fault.kind)
    return kinds


def _too_old(running: World, load: Load) -> list[Anomaly]:
    now_s = _clock.monotonic_s()
    found = []
    for job in load.accepted:
        if running.forgot(job.sites, since_s=job.submitted_s, until_s=now_s):
            continue  # what is left of it is looked at in the end
        if job.settled_s is None and not job.is_late and now_s - job.submitted_s > AGE_S:
            job.is_late = True
            found.append(
                Anomaly(
                    what="frozen job", where=f"{job.job_id} ({job.kind})",
                    detail=f"not ended after {AGE_S:g} s: {job.shares}",
                )
            )  # fmt: skip
    return found


def _keep(running: World, evidence: Path) -> None:
    """Copy logs and databases to where they outlive the run."""
    for party in running.all:
        target = evidence / party.name
        target.mkdir(parents=True)
        shutil.copy(party.log, target)
        shutil.copytree(party.shared / "logs", target / "logs", dirs_exist_ok=True)
        for file in party.home.glob("fedflow.sqlite*"):
            shutil.copy(file, target)
        if party.database is not None:
            for (table,) in party.rows("SHOW TABLES"):
                rows = party.rows(f"SELECT * FROM {table}")
                (target / f"{table}.txt").write_text("\n".join(map(str, rows)))
