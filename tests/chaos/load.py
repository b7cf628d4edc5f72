"""Users: they submit jobs at all parties all the time, look at them, stop some, run some again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import requests

from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.error import FedflowError
from tests.chaos.parties import World

FINAL = frozenset({"success", "failed", "canceled", "timeout"})
LOOK_S = 0.3
FORGOTTEN_S = 30.0  #: how long users look at a job of which a party has lost its database
REFUSED_PAUSE_S = 0.5
KINDS = ("chain", "chain", "wide", "toy", "toy", "flaky", "long")
STOPPED, RERUN = 0.12, 0.5  #: how likely a user stops a job, or runs a failed one again

_clock = SystemClock()

Json = dict[str, Any]


@dataclass
class Job:
    """What is known of one job from outside."""

    kind: str
    initiator: str
    sites: tuple[str, ...]
    submitted_s: float
    job_id: str = ""
    refused: str = ""  #: why the submit was not answered with success: the error's name
    shares: dict[str, str] = field(default_factory=dict)
    settled_s: float | None = None  #: when all sites showed the same end
    deeds: list[str] = field(default_factory=list)  #: what users did to it meanwhile
    is_late: bool = False  #: it was reported as one that does not end

    @property
    def status(self) -> str:
        """Return the status that all sites agree on."""
        found = set(self.shares.values())
        return found.pop() if len(found) == 1 else "differs"


def is_settled(shares: dict[str, str], sites: Sequence[str]) -> bool:
    """Tell whether every site of a job shows the same end."""
    found = set(shares.values())
    return set(sites) <= shares.keys() and len(found) == 1 and found <= FINAL


def make(kind: str, *, initiator: str, others: Sequence[str], rng: Random) -> tuple[Json, Json]:
    """Return DSL and conf of a job of guest `initiator` with hosts among `others`."""
    hosts = list(others) if kind != "toy" else [rng.choice(list(others))]
    components: Json = {}
    parameters: Json = {}

    def add(name: str, module: str, after: str | None, **given: Any) -> None:
        ports = {} if module != "Empty" else {"output": {"data": ["data"]}}
        components[name] = {"module": module, **ports}
        if after is not None:
            components[name]["input"] = {"data": {"data": [f"{after}.data"]}}
        parameters[name] = given

    def nap_s(longest_s: float) -> float:
        return round(rng.uniform(0.0, longest_s), 2)

    common: Json = {"job_type": "train", "task_cores": 1, "auto_retries": rng.choice((0, 0, 1, 2))}
    match kind:
        case "chain":
            for i in range(rng.randint(2, 4)):
                before = f"empty_{i - 1}" if i else None
                add(f"empty_{i}", "Empty", before, sleep_s=nap_s(0.8))
        case "wide":
            common["task_parallelism"] = 2
            add("first_0", "Empty", None, rows=10)
            for i in range(3):
                add(f"empty_{i}", "Empty", "first_0", sleep_s=nap_s(1.0))
        case "toy":
            add("toy_0", "SecureAddExample", None, data_num=rng.choice((10, 1_000, 200_000)))
            add("toy_1", "SecureAddExample", None, data_num=100)
        case "flaky":
            common["auto_retries"] = 1
            add("empty_0", "Empty", None, sleep_s=nap_s(0.5), fail="host")
        case "long":
            add("empty_0", "Empty", None, sleep_s=2 + nap_s(4.0))
            add("empty_1", "Empty", "empty_0")
        case "probe":
            common["auto_retries"] = 0
            add("empty_0", "Empty", None)
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(initiator)},
        "role": {"guest": [int(initiator)], "host": [int(host) for host in hosts]},
        "job_parameters": {"common": common},
        "component_parameters": {"common": parameters},
    }
    return {"components": components}, conf


def sites_of(conf: Json) -> tuple[str, ...]:
    """Return the sites of a job, as `role-party_id`."""
    return tuple(f"{role}-{party}" for role, ids in conf["role"].items() for party in ids)


def shares_of(world: World, job: Job) -> dict[str, str]:
    """Return site -> status as all servers of a job show it; a silent one's sites are absent."""
    found: dict[str, str] = {}
    for party_id in {site.partition("-")[2] for site in job.sites}:
        for server in world.servers_of(party_id):
            try:
                found |= server.ask_shares(job.job_id)
                break
            except (requests.RequestException, ValueError):
                continue
    return found


class Load:
    """So many users, each with at most one job at a time."""

    def __init__(self, world: World, *, seed: int, users: int, limit: int | None = None) -> None:
        self._world = world
        self._stop = threading.Event()  # no new jobs
        self._give_up = threading.Event()  # nobody looks any more
        self._lock = threading.Lock()
        self._limit = limit
        self.jobs: list[Job] = []
        self._threads = [
            threading.Thread(target=self._use, args=(Random(f"{seed}/{i}"),), name=f"user-{i}")
            for i in range(users)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self, within_s: float) -> None:
        """Let all users end their jobs, for at most so long."""
        self._stop.set()
        deadline_s = _clock.monotonic_s() + within_s
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - _clock.monotonic_s()))
        self._give_up.set()
        for thread in self._threads:
            thread.join()

    @property
    def done(self) -> bool:
        """Tell whether as many jobs were submitted as were asked for."""
        with self._lock:
            return self._limit is not None and len(self.accepted) >= self._limit

    @property
    def accepted(self) -> list[Job]:
        return [job for job in self.jobs if job.job_id]

    def submit(self, kind: str, server: str, rng: Random) -> Job:
        """Submit one job at a server and note it; `refused` says why if it was not accepted."""
        initiator = self._world.parties[server].id
        others = [party for party in self._world.ids if party != initiator]
        dsl, conf = make(kind, initiator=initiator, others=others, rng=rng)
        job = Job(
            kind=kind, initiator=initiator, sites=sites_of(conf), submitted_s=_clock.monotonic_s()
        )
        try:
            job.job_id = self._world.parties[server].client.submit(dsl, conf).job_id
        except FedflowError as exc:
            job.refused = type(exc).__name__
        with self._lock:
            self.jobs.append(job)
        return job

    def follow(self, job: Job, *, until_s: float = float("inf"), pause_s: float = LOOK_S) -> None:
        """Look at a job until all its sites show the same end, or nobody wants to know."""
        while not self._give_up.is_set() and _clock.monotonic_s() < until_s:
            job.shares = shares_of(self._world, job)
            if is_settled(job.shares, job.sites):
                job.settled_s = _clock.monotonic_s()
                return
            now_s = _clock.monotonic_s()
            if self._world.forgot(job.sites, since_s=job.submitted_s, until_s=now_s - FORGOTTEN_S):
                return
            pause(pause_s, self._give_up)

    # --- one user

    def _use(self, rng: Random) -> None:
        while not self._stop.is_set() and not self.done:
            job = self.submit(rng.choice(KINDS), rng.choice(list(self._world.parties)), rng)
            if job.refused:
                pause(REFUSED_PAUSE_S, self._stop)
                continue
            if rng.random() < STOPPED:
                pause(rng.uniform(0.0, 2.0), self._give_up)
                self._do(job, "stop", rng)
            self.follow(job)
            again = job.status in ("failed", "canceled") and rng.random() < RERUN
            if again and not self._stop.is_set() and self._do(job, "rerun", rng):
                job.settled_s = None
                self.follow(job)

    def _do(self, job: Job, deed: str, rng: Random) -> bool:
        """Stop or rerun a job at one of its parties; tell whether that was accepted."""
        party_id = rng.choice(job.sites).partition("-")[2]
        client = self._world.parties[party_id].client
        try:
            client.stop(job.job_id) if deed == "stop" else client.rerun(job.job_id)
        except FedflowError as exc:
            job.deeds.append(f"{deed} at {party_id}: {type(exc).__name__}")
            return False
        job.deeds.append(f"{deed} at {party_id}")
        return True
