"""`bin/chaos --elastic`: faults of each role at each stage of a round of a horizontal training.

Each scenario is one job. An executor is stopped as it comes to a stage of a round; there the faults
are done, it goes on, and the faults are healed before or after the deadline of the round.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import psutil
import requests

from fedflow.base.clock import SystemClock
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from tests.chaos.checks import Anomaly, find_anomalies
from tests.chaos.links import Condition
from tests.chaos.load import FINAL
from tests.chaos.parties import ChaosParty, World, world
from tests.e2e.jobs import Json
from tests.e2e.servers import DATA, pass_time, wait_for

LEASE_S = 8  #: of few parties; of many 2 s each: they share a machine
DEADLINE_S = 5
EARLY_S, LATE_S = 1.0, LEASE_S + 4.0  #: when a fault is healed, from its begin
EARLY_PACE_S, LATE_PACE_S = 0.15, 0.5  #: how long a round lasts at least: who was away comes back
CAUSE_S = 10.0  #: after the lease, within which a job that fails must have failed at all sites
END_S = 50.0  #: for each party, within which a job must have ended after its faults were healed
ROUNDS = 40
AT_ROUND = 3
LR = "homo_lr_0"
LEARNER: Json = {
    "early_stop": "diff",
    "tol": 0.0,
    "learning_rate": 0.15,
    "batch_size": 64,
    "init_param": {"init_method": "zeros"},
}

_clock = SystemClock()


class Stage(StrEnum):
    """Where in a round an executor is stopped: as it sends, or gets, this."""

    START = "start"  #: the state is broadcast; before the keys
    KEYS = "keys"  #: only members send it
    SHARES = "shares"
    INPUTS = "inputs"
    UNMASKING = "unmasking"


class Blow(StrEnum):
    """What is done to whom."""

    HOST_WORKER_KILL = "host-worker-kill"
    HOST_WORKER_FREEZE = "host-worker-freeze"
    HOST_SERVER_KILL = "host-server-kill"
    HOST_SERVER_FREEZE = "host-server-freeze"
    HOST_LINK_CUT = "host-link-cut"
    GUEST_LINK_CUT = "guest-link-cut"
    ARBITER_WORKER_KILL = "arbiter-worker-kill"
    ARBITER_WORKER_FREEZE = "arbiter-worker-freeze"
    ARBITER_SERVER_KILL = "arbiter-server-kill"
    ARBITER_SERVER_FREEZE = "arbiter-server-freeze"
    ALL_HOSTS_KILL = "all-hosts-kill"  #: all but min - 1 members are lost, without rejoin

    @property
    def role(self) -> Role:
        word = self.value.partition("-")[0]
        return Role.HOST if word == "all" else Role(word)


NEEDED = (Blow.GUEST_LINK_CUT,)
"""Away past the lease, they may end the job."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One job, and what is done to it."""

    stage: Stage
    blows: tuple[Blow, ...]
    heals_early: bool

    @property
    def comes_back(self) -> bool:
        """Tell whether all members must take part in the last round."""
        return not any(blow in NEEDED or blow is Blow.ALL_HOSTS_KILL for blow in self.blows)

    @property
    def may_fail(self) -> bool:
        lost = Blow.ALL_HOSTS_KILL in self.blows
        return lost or (not self.heals_early and any(blow in NEEDED for blow in self.blows))

    def __str__(self) -> str:
        when = "before" if self.heals_early else "after"
        return f"{' + '.join(self.blows)} at {self.stage}, healed {when} the deadline"


@dataclass(kw_only=True)
class Result:
    """How a scenario went."""

    scenario: Scenario
    job_id: str = ""
    status: str = ""
    seconds: float = 0.0  #: from the last healing to the end at all sites
    rounds_missed: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)


def scenarios(seed: int) -> Iterator[Scenario]:
    """Yield all of them in an order of `seed`: each blow alone and in pairs."""
    ones = [(blow,) for blow in Blow]
    pairs = [pair for pair in combinations(Blow, 2) if Blow.ALL_HOSTS_KILL not in pair]
    rng = Random(seed)
    first = [_scenario(*one) for one in product(Stage, ones, (True, False))]
    second = [_scenario(*one) for one in product(Stage, pairs, (True, False))]
    rng.shuffle(first)
    rng.shuffle(second)
    yield from (*first, *second)


def _scenario(stage: Stage, blows: tuple[Blow, ...], heals_early: bool) -> Scenario:
    return Scenario(stage=stage, blows=blows, heals_early=heals_early)


@dataclass(frozen=True)
class Training:
    """Who takes part in the jobs of a run."""

    world: World

    @property
    def guest(self) -> ChaosParty:
        return self.world.all[0]

    @property
    def hosts(self) -> tuple[ChaosParty, ...]:
        return self.world.all[1:] if len(self.world.all) < 4 else self.world.all[1:-1]

    @property
    def arbiter(self) -> ChaosParty:
        """Return the last of four or more parties; of fewer the first host's."""
        return self.world.all[1] if len(self.world.all) < 4 else self.world.all[-1]

    @property
    def members(self) -> dict[Site, ChaosParty]:
        hosts = {Site(Role.HOST, PartyId(host.id)): host for host in self.hosts}
        return {Site(Role.GUEST, PartyId(self.guest.id)): self.guest, **hosts}

    @property
    def sites(self) -> dict[Site, ChaosParty]:
        return {**self.members, Site(Role.ARBITER, PartyId(self.arbiter.id)): self.arbiter}

    def site_of(self, blow: Blow) -> Site:
        """Return the victim: of hosts the last one."""
        return next(site for site in reversed(self.sites) if site.role is blow.role)

    def upload(self, folder: Path) -> dict[str, int]:
        """Give each member its rows; return how many each has."""
        header, *rows = (DATA / "breast_hetero_guest.csv").read_text().splitlines()
        counts = {}
        for part, (site, party) in enumerate(self.members.items()):
            own = rows[part :: len(self.members)]
            path = folder / f"{party.id}.csv"
            path.write_text("\n".join([header, *own]))
            assert party.upload(path, "rows", drop=True).succeeded
            counts[site.key] = len(own)
        return counts

    def submit(self, *, rounds: int, rejoin: bool) -> str:
        """Start a training. `min_parties` is 2, and 3 if more than three parties train."""
        out = {"data": ["data"]}
        dsl: Json = {
            "components": {
                "reader_0": {"module": "Reader", "output": out},
                "data_transform_0": {
                    "module": "DataTransform",
                    "input": {"data": {"data": ["reader_0.data"]}},
                    "output": {**out, "model": ["model"]},
                },
                LR: {
                    "module": "HomoLR",
                    "input": {"data": {"train_data": ["data_transform_0.data"]}},
                    "output": {**out, "model": ["model"]},
                },
                "evaluation_0": {
                    "module": "Evaluation",
                    "input": {"data": {"data": [f"{LR}.data"]}},
                },
            }
        }
        elastic = {
            "min_parties": self.least,
            "round_deadline_s": DEADLINE_S,
            "last_call_s": 1,
            "rejoin": rejoin,
        }
        table: Json = {"reader_0": {"table": {"namespace": "experiment", "name": "rows"}}}
        conf: Json = {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": self.guest.id},
            "role": {
                "guest": [self.guest.id],
                "host": [host.id for host in self.hosts],
                "arbiter": [self.arbiter.id],
            },
            "job_parameters": {"common": {"task_cores": 1, "elastic": elastic}},
            "component_parameters": {
                "common": {
                    "data_transform_0": {"with_label": True, "label_name": "y"},
                    LR: LEARNER | {"max_iter": rounds},
                    "evaluation_0": {"eval_type": "binary"},
                },
                "role": {
                    "guest": {"0": table},
                    "host": {str(index): table for index in range(len(self.hosts))},
                },
            },
        }
        return self.guest.client.submit(dsl, conf).job_id

    @property
    def least(self) -> int:
        return 2 if len(self.members) <= 3 else 3

    def statuses(self, job_id: str) -> dict[str, dict[str, str]] | None:
        """Return site -> status as each party shows it, once all have ended; else None."""
        found = {}
        for party in self.world.all:
            try:
                found[party.id] = party.ask_shares(job_id)
            except (requests.RequestException, ValueError):
                return None
        own = [status for one in found.values() for status in one.values()]
        return found if own and set(own) <= FINAL else None


def stopped_at(party: ChaosParty, site: Site, stage: Stage, *, round_number: int) -> Path:
    """Let a site's next executor stop at a stage; return the file that is there once it has."""
    stop = party.stops / f"{site.key}.{stage}.{round_number}"
    stop.touch()
    return stop.with_name(f"{stop.name}.reached")


def run_scenario(training: Training, scenario: Scenario, rows: dict[str, int]) -> Result:
    """Run one job, hurt it, and check what came of it."""
    result = Result(scenario=scenario)
    victim = training.site_of(scenario.blows[0])
    party = training.sites[victim]
    stage = scenario.stage
    if victim.role is Role.ARBITER and stage is Stage.KEYS:
        stage = Stage.START
    reached = stopped_at(party, victim, stage, round_number=AT_ROUND)
    pace_s = EARLY_PACE_S if scenario.heals_early else LATE_PACE_S
    (training.guest.stops / "pace").write_text(str(pace_s))
    rejoin = Blow.ALL_HOSTS_KILL not in scenario.blows
    result.job_id = training.submit(rounds=ROUNDS, rejoin=rejoin)
    wait_for(reached.exists, f"{reached.name} in {result.job_id}", within_s=90)
    heals = [_strike(training, result.job_id, blow) for blow in scenario.blows]
    reached.unlink()
    pass_time(EARLY_S if scenario.heals_early else LATE_S)
    for heal in heals:
        heal()
    for one in training.world.all:
        one.wait_ready()
    begun_s = _clock.monotonic_s()
    limit_s = END_S * len(training.world.all)
    try:
        shown = wait_for(lambda: training.statuses(result.job_id), "the end", within_s=limit_s)
    except AssertionError:
        _found(result, "hangs", str({p.id: _asked(p, result.job_id) for p in training.world.all}))
        _freed(training, result)
        return result
    result.seconds = _clock.monotonic_s() - begun_s
    _check(training, result, shown, rows)
    _freed(training, result)
    return result


def _asked(party: ChaosParty, job_id: str) -> dict[str, str]:
    try:
        return party.ask_shares(job_id)
    except (requests.RequestException, ValueError) as exc:
        return {party.id: str(exc)}


def _found(result: Result, what: str, detail: str) -> None:
    result.anomalies.append(
        Anomaly(
            what=what,
            where=f"{result.job_id} ({result.scenario})",
            detail=detail,
            job_id=result.job_id,
        )
    )


# --- faults ---------------------------------------------------------------------------------------


def _strike(training: Training, job_id: str, blow: Blow) -> Callable[[], None]:
    """Do a fault; return what heals it."""
    if blow is Blow.ALL_HOSTS_KILL:
        lost = [one for one in training.members if one.role is Role.HOST]
        for site in lost[: len(training.members) - training.least + 1]:
            _kill_executors(training.sites[site], job_id, site)
        return lambda: None
    site = training.site_of(blow)
    party = training.sites[site]
    what = blow.value.partition("-")[2]
    if what == "worker-kill":
        _kill_executors(party, job_id, site)
        return lambda: None
    if what == "worker-freeze":
        return _frozen(party.executors(job_id, site=site))
    if what == "server-kill":
        party.kill()
        return lambda: _start(party)
    if what == "server-freeze":
        return _frozen([party.process.pid] if party.process else [])
    return _cut(training.world, party)


def _start(party: ChaosParty) -> None:
    if party.process is None:
        party.start()


def _kill_executors(party: ChaosParty, job_id: str, site: Site) -> None:
    for pid in party.executors(job_id, component=LR, site=site):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _frozen(pids: Sequence[int]) -> Callable[[], None]:
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).suspend()

    def heal() -> None:
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).resume()

    return heal


def _cut(world: World, party: ChaosParty) -> Callable[[], None]:
    others = [one.name for one in world.all if one is not party]
    for other in others:
        world.network.links.set(party.name, other, Condition(cut=True))
        world.network.links.set(other, party.name, Condition(cut=True))
    return world.network.links.clear


# --- checks ---------------------------------------------------------------------------------------


def _check(
    training: Training, result: Result, shown: dict[str, dict[str, str]], rows: dict[str, int]
) -> None:
    ends = {status for one in shown.values() for status in one.values()}
    if len(ends) > 1:
        _found(result, "different ends", str(shown))
    result.status = "/".join(sorted(ends))
    if ends == {"success"}:
        if Blow.ALL_HOSTS_KILL in result.scenario.blows:
            _found(result, "trained with too few", str(shown))
        _check_tasks(training, result)
        _check_models(training, result, rows)
        return
    job = training.guest.client.job(result.job_id)
    reason = f"{job.reason.code}: {job.reason.message}" if job.reason else "no reason"
    if not result.scenario.may_fail:
        _found(result, "failed", reason)
    if job.reason is None or job.reason.code in {"InternalError", "FedflowError"}:
        _found(result, "no cause", reason)
    is_lost = Blow.ALL_HOSTS_KILL in result.scenario.blows
    if is_lost and job.reason is not None and job.reason.code != "TooFewParties":
        _found(result, "another cause", reason)
    if result.seconds > _lease_s(len(training.world.all)) + CAUSE_S:
        _found(result, "slow failure", f"{result.seconds:.0f} s: {reason}")


def _check_tasks(training: Training, result: Result) -> None:
    """The statuses that guest and own server show must agree."""
    views = {
        party.id: {
            (task.component, task.site): task.status
            for task in party.client.job(result.job_id).tasks
        }
        for party in training.world.all
    }
    for (component, site), status in views[training.guest.id].items():
        own = views[site.partition("-")[2]].get((component, site))
        if status != own or status not in {"success", "pass"}:
            _found(result, "statuses", f"{component} at {site}: {status}, its own: {own}")
        if status == "pass" and not site.startswith("host-"):
            _found(result, "statuses", f"{component} at {site} may not be absent")


def _check_models(training: Training, result: Result, rows: dict[str, int]) -> None:
    """All members that trained have one model, of whole rounds that counted each once."""
    models: dict[str, Any] = {}
    for site, party in training.members.items():
        tasks = party.client.job(result.job_id).tasks
        status = {t.status for t in tasks if t.component == LR and t.site == site.key}
        if status == {"success"}:
            model = party.client.model(result.job_id, LR, site=site)
            if model is None:
                _found(result, "no model", site.key)
            else:
                param = model.param
                models[site.key] = {
                    "weight": param.get("weight"), "intercept": param.get("intercept"),
                    "rounds": model.meta.get("rounds"),
                }  # fmt: skip
    first = next(iter(models.values()), None)
    if first is None or not first["weight"] or not first["rounds"]:
        _found(result, "no model", str(models))
        return
    for site_key, model in models.items():
        if model != first:
            _found(result, "different models", f"{site_key}: {model}\nfirst: {first}")
    result.rounds_missed = _check_rounds(result, first["rounds"], rows, least=training.least)
    with suppress(FedflowError):
        site = next(iter(training.members))
        metrics = training.guest.client.summary(result.job_id, "evaluation_0", site=site)
        auc = _auc(metrics)
        if auc is not None and auc < 0.97:
            _found(result, "a bad model", f"AUC {auc}")


def _auc(value: Any) -> float | None:
    """Return the first `auc` somewhere in a summary."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("auc"), float):
        return float(value["auc"])
    found = (_auc(one) for one in value.values())
    return next((one for one in found if one is not None), None)


def _check_rounds(
    result: Result, rounds: Sequence[Json], rows: dict[str, int], *, least: int
) -> int:
    """Return in how many rounds a member was missing."""
    expected = missed = 0
    for entry in rounds:
        if entry["first"] != expected:
            _found(result, "rounds mixed", str(rounds))
            return missed
        expected = entry["last"] + 1
        counted = entry["counted"]
        if entry["leftOut"].keys() & counted.keys():  # models are shown with names in camelCase
            _found(result, "counted and left out", str(entry))
        if len(counted) < least or any(rows.get(site) != n for site, n in counted.items()):
            _found(result, "counted wrongly", str(entry))
        if expected == ROUNDS and result.scenario.comes_back and len(counted) < len(rows):
            _found(result, "did not come back", str(rounds))
        if len(counted) < len(rows):
            missed += entry["last"] - entry["first"] + 1
    if expected != ROUNDS:
        _found(result, "rounds lost", str(rounds))
    return missed


def _freed(training: Training, result: Result) -> None:
    for party in training.world.all:
        try:
            party.wait_idle(within_s=_lease_s(len(training.world.all)) + 30)
        except AssertionError as exc:
            _found(result, "left over", f"{party.id}: {exc}")
        for stop in party.stops.iterdir():
            stop.unlink()


# --- a run ----------------------------------------------------------------------------------------


def run_elastic(
    chosen: Sequence[Scenario] | Iterator[Scenario], folder: Path, *, parties: int,
    minutes: float, say: Callable[[str], None],
) -> list[Result]:  # fmt: skip
    """Run scenarios until all are done or the time is over; return how each went."""
    results: list[Result] = []
    until_s = _clock.monotonic_s() + minutes * 60
    settings = {"FEDFLOW__SCHEDULING__LEASE_S": str(_lease_s(parties))}
    with world(
        folder, parties=parties, mysql=False, namespaces=False, rng=Random(0), settings=settings,
        stops=True,
    ) as running:  # fmt: skip
        training = Training(running)
        rows = training.upload(folder)
        for number, scenario in enumerate(chosen):
            if _clock.monotonic_s() > until_s:
                break
            _connected(training)
            result = run_scenario(training, scenario, rows)
            results.append(result)
            say(
                f"#{number} {scenario}: {result.status} {result.seconds:.1f} s after,"
                f" {result.rounds_missed} rounds missed"
            )
            for one in result.anomalies:
                say(f"   ANOMALY {one}")
        last = [
            one for one in find_anomalies(running, [], {}) if one.what not in {"ran twice"}
        ]  # an elastic job may launch an executor again in one attempt
        if last and results:
            results[-1].anomalies += last
            for one in last:
                say(f"   ANOMALY {one}")
    return results


def _lease_s(parties: int) -> int:
    return max(LEASE_S, 2 * parties)


def _connected(training: Training) -> None:
    """Wait until the guest reaches all parties, so that its submit finds them."""
    for party in training.world.all:
        for other in training.world.all:
            if other is not party:
                wait_for(
                    lambda party=party, other=other: party.client.parties.ping(other.id).ok,
                    f"{party.id} to reach {other.id}",
                )
