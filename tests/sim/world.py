"""Several whole servers in one process: a fake clock, a network with faults, processes that die.

Everything that happens is an event at a time on one heap, and every choice comes from one seeded
generator, so a seed reproduces a run exactly. The servers' use cases are the real ones
(`app/core.py`) over the in-memory store; the network, the processes and the threads are replaced by
events.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from fedflow.app.commands import Incoming
from fedflow.app.core import ENGINE, Core, Ports, build_core
from fedflow.app.folders import Folders
from fedflow.app.launcher import TaskLaunch, WorkerSettings
from fedflow.app.processes import Processes
from fedflow.app.timing import Timing
from fedflow.app.waiting import Changes
from fedflow.base.errors import FedflowError, PartyUnreachable
from fedflow.domain.job_spec import ModuleInfo
from fedflow.domain.records import Command, Handle, JobFilter, Reply, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, TASK_SUCCEEDED, JobStatus, TaskStatus
from fedflow.store.memory import MemoryStore
from fedflow.testing.blobs import MemoryBlobs
from fedflow.wire import paths

CORES = 8
TIMING = Timing()


@dataclass
class FakeClock:
    """A clock that the world moves. Milliseconds since the epoch."""

    ms: int = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How badly things go; probabilities per message or per step."""

    loses: float = 0.0
    repeats: float = 0.0
    slow: float = 0.0  #: a message takes seconds instead of milliseconds
    crashes: float = 0.0
    kills: float = 0.0
    fails: float = 0.0  #: a component fails by itself
    stops: float = 0.0  #: a user stops the job
    reruns: float = 0.0  #: a user runs a job again


class FakeCatalog:
    """Modules that do nothing: `Step` runs everywhere, `Remote` at hosts only."""

    _modules: ClassVar = {
        "step": ModuleInfo(
            module="Step",
            roles=(Role.GUEST, Role.HOST, Role.ARBITER),
            data_ports=("data",),
            needs_input=False,
            outputs=("data",),
        ),
        "remote": ModuleInfo(
            module="Remote",
            roles=(Role.HOST,),
            data_ports=("data",),
            needs_input=False,
            outputs=("data",),
        ),
    }

    def modules(self) -> dict[str, ModuleInfo]:
        return self._modules

    def check(self, module: str, parameters: Any, *, path: str) -> None:
        return


class NoSessions:
    """No data plane: the fake processes exchange nothing."""

    run = ""

    def open_session(self, session: str, site: Site, *, token: str, sites: Any) -> None: ...

    def close_session(self, session: str, site: Site) -> None: ...

    def fail_site(self, session: str, site: Site, reason: str) -> None: ...


@dataclass
class Process:
    """A worker process; it outlives the server that started it."""

    launch: TaskLaunch
    token: str
    handle: Handle
    alive: bool = True
    accepted: bool = False  #: its server let it run


class FakeExecutor:
    """The executor port of one server run."""

    def __init__(self, world: World, server: Server, processes: Processes) -> None:
        self._world = world
        self._server = server
        self._events = processes

    def start(self, launch: Any) -> None:
        self._world.start_process(self._server, launch, self._events)

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        self._world.after(self._world.rng.randint(1, 50), lambda: self._world.kill(handle.pid))

    def adopt(self, launch_id: str, handle: Handle) -> bool:
        process = self._world.processes.get(handle.pid)
        return process is not None and process.alive


class FakeWakeup:
    """Turns wake-ups into events of the world."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server

    def schedule(self, job_id: str) -> None:
        self._server.later(1, lambda core: core.scheduler.look_at([job_id]))

    def queue(self) -> None:
        self._server.later(1, lambda core: core.scheduler.look_at_queue())

    def outbox(self, destinations: Any) -> None:
        for party_id in destinations:
            self._server.later(1, lambda _, party_id=party_id: self._server.pump(party_id))

    def job_changed(self, job_id: str) -> None: ...


@dataclass
class Server:
    """One party's server: its store survives crashes, everything else does not."""

    world: World
    party_id: str
    store: MemoryStore = field(default_factory=MemoryStore)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    core: Core | None = None
    run: int = 0

    def boot(self) -> None:
        self.run += 1
        processes = Processes()
        ports = Ports(
            store=self.store,
            blobs=self.blobs,
            catalog=FakeCatalog(),
            parties=FakeNetwork(self.world, self),
            executor=FakeExecutor(self.world, self, processes),
            processes=processes,
            sessions=NoSessions(),
            wakeup=FakeWakeup(self.world, self),
            clock=self.world.clock,
            rng=self.world.rng,
            salt=int(self.party_id),
        )
        nowhere = Path("/nonexistent")
        settings = WorkerSettings(
            server_socket=nowhere,
            federation_socket=nowhere,
            tables_root=nowhere,
            memory_bytes=None,
            receive_timeout_s=60,
            log_level="INFO",
        )
        self.core = build_core(
            ports,
            folders=Folders(self.world.home / self.party_id),
            timing=TIMING,
            worker_settings=settings,
            host="here",
            changes=Changes(self.world.clock),
        )
        with self.store.transaction() as tx:
            tx.engines.put(ENGINE, CORES, now_ms=self.world.clock.ms)
        self.core.detector.recover()
        self.later(TIMING.heartbeat_ms, self._beat)
        self.later(1, self._tick)

    def crash(self) -> None:
        self.core = None

    def later(self, delay_ms: int, what: Callable[[Core], None]) -> None:
        """Do something unless the server has crashed meanwhile."""
        run = self.run

        def do() -> None:
            if self.core is not None and self.run == run:
                what(self.core)

        self.world.after(delay_ms, do)

    def _tick(self, core: Core) -> None:
        core.scheduler.tick()
        core.detector.tick()
        with self.store.read() as tx:
            waiting = tx.outbox.destinations()
        for party_id in waiting:
            self.pump(party_id)
        self.later(2_000, self._tick)

    def _beat(self, core: Core) -> None:
        for party_id in core.detector.remote_parties():
            core.detector.beat(party_id)
        self.later(TIMING.heartbeat_ms, self._beat)

    def pump(self, party_id: str) -> None:
        """Send what is due to a party; the answers come back as events."""
        assert self.core is not None
        delivery = self.core.delivery
        while (command := delivery.take(party_id)) is not None:
            self.world.send(self, command)
        due_ms = delivery.next_due_ms(party_id)
        if due_ms is not None and due_ms > self.world.clock.ms:
            self.later(due_ms - self.world.clock.ms, lambda _: self.pump(party_id))

    def answer(self, command_path: str, body: Any, source_party: str, request_id: str) -> Reply:
        assert self.core is not None
        match = paths.parse_party_path(paths.PREFIX + command_path)
        assert match is not None
        incoming = Incoming(
            name=match.name,
            job_id=match.params.get("job_id", ""),
            site=paths.site_of(match.params),
            body=body,
            component=match.params.get("component"),
            version=int(match.params["version"]) if "version" in match.params else None,
            status=match.params.get("status"),
            source_party=source_party,
            request_id=request_id,
        )
        return self.core.commands.answer(incoming)


class FakeNetwork:
    """The `PartyClient` for heartbeats; commands of the outbox go through `World.send`."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        peer = self._world.servers[destination]
        if peer.core is None or self._world.rng.random() < self._world.faults.loses:
            raise PartyUnreachable(party_id=destination, address="sim", reason="lost")
        return peer.answer(path, body, self._server.party_id, request_id)

    def knows(self, party_id: str) -> bool:
        return party_id in self._world.servers

    def is_local(self, party_id: str) -> bool:
        return party_id == self._server.party_id


class World:
    """The parties, the network between them, and the time."""

    def __init__(self, seed: int, *, home: Path, faults: Faults, parties: tuple[str, ...]) -> None:
        self.rng = Random(seed)
        self.clock = FakeClock()
        self.home = home
        self.faults = faults
        self.processes: dict[int, Process] = {}
        self.finals: dict[tuple[str, Site, int], JobStatus] = {}
        self._checked: dict[str, int] = {}  #: party -> writes of its store when it was checked
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._pids = itertools.count(100)
        self.servers = {party_id: Server(self, party_id) for party_id in parties}
        for server in self.servers.values():
            server.boot()

    # --- time

    def after(self, delay_ms: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.ms + delay_ms, next(self._numbers), what))

    def run(self, *, until: Callable[[], bool], limit_ms: int, step: Callable[[], None]) -> bool:
        """Let events happen until a condition holds; False if the time limit passed first."""
        end_ms = self.clock.ms + limit_ms
        while self._events and self._events[0][0] <= end_ms:
            at_ms, _, what = heapq.heappop(self._events)
            self.clock.ms = max(self.clock.ms, at_ms)
            what()
            step()
            if until():
                return True
        return until()

    # --- network

    def _delay_ms(self) -> int:
        if self.rng.random() < self.faults.slow:
            return self.rng.randint(1_000, 20_000)
        return self.rng.randint(1, 5)

    def send(self, source: Server, command: Command) -> None:
        """Carry a command and its reply, or lose either, or repeat the command."""
        run = source.run
        copies = 2 if self.rng.random() < self.faults.repeats else 1
        done = {"settled": False}

        def settle(result: Reply | Exception) -> None:
            if done["settled"] or source.core is None or source.run != run:
                return
            done["settled"] = True
            source.core.delivery.settle(command, result)
            source.pump(command.destination.party_id)

        def arrive() -> None:
            peer = self.servers[command.destination.party_id]
            if peer.core is None:
                return
            reply = peer.answer(command.path, command.body, source.party_id, command.request_id)
            if self.rng.random() >= self.faults.loses:
                self.after(self._delay_ms(), lambda: settle(reply))

        for _ in range(copies):
            if self.rng.random() >= self.faults.loses:
                self.after(self._delay_ms(), arrive)
        lost = PartyUnreachable(
            party_id=command.destination.party_id, address="sim", reason="no answer"
        )
        self.after(int(TIMING.call_timeout_s * 1000), lambda: settle(lost))

    # --- processes

    def start_process(self, server: Server, launch: Any, events: Processes) -> None:
        task = self._task(server, launch.task)
        handle = Handle(pid=next(self._pids), start_time=self.clock.ms, host="here")
        process = Process(launch=launch, token=task.token or "", handle=handle)
        self.processes[handle.pid] = process
        run = server.run

        def born() -> None:
            if server.core is not None and server.run == run:
                events.started(launch.launch_id, handle)
            self._report_running(server, process, tries=0)

        self.after(self.rng.randint(1, 4), born)

    def _report_running(self, server: Server, process: Process, *, tries: int) -> None:
        if not process.alive:
            return
        body = {
            "launch_id": process.launch.launch_id,
            "party_status": "running",
            "pid": process.handle.pid,
            "start_time": process.handle.start_time,
        }
        outcome = self._report(server, process, body)
        if outcome is None:
            if tries > 30:
                self.kill(process.handle.pid)
            else:
                self.after(2_000, lambda: self._report_running(server, process, tries=tries + 1))
        elif not outcome:
            self.kill(process.handle.pid)
        else:
            process.accepted = True
            self.check_start(server, process.launch.task)
            self.after(
                self.rng.randint(1, 3_000), lambda: self._report_end(server, process, tries=0)
            )

    def _report_end(self, server: Server, process: Process, *, tries: int) -> None:
        if not process.alive:
            return
        failed = self.rng.random() < self.faults.fails
        body = {
            "launch_id": process.launch.launch_id,
            "party_status": "failed" if failed else "success",
            "error": {"code": "ComponentFailed", "message": "by the dice"} if failed else None,
        }
        if self._report(server, process, body) is None and tries < 30:
            self.after(2_000, lambda: self._report_end(server, process, tries=tries + 1))
            return
        self.after(self.rng.randint(1, 3), lambda: self.kill(process.handle.pid, code=0))

    def _report(self, server: Server, process: Process, body: dict[str, Any]) -> bool | None:
        """Return whether the server took the report; None if it is down."""
        if server.core is None:
            return None
        try:
            server.core.workers.report(process.launch.task, process.token, body)
        except FedflowError:
            return False
        return True

    def kill(self, pid: int, *, code: int | None = None) -> None:
        """End a process and tell the server that watches it, if it is up."""
        process = self.processes.get(pid)
        if process is None or not process.alive:
            return
        process.alive = False
        server = self.servers[process.launch.task.site.party_id]
        if server.core is not None:
            signal = None if code is not None else 9
            server.core.workers.exited(process.launch.task, process.launch.launch_id, code, signal)

    def _task(self, server: Server, key: TaskKey) -> Any:
        with server.store.read() as tx:
            task = tx.tasks.get(key)
        assert task is not None
        return task

    # --- invariants

    def check_start(self, server: Server, key: TaskKey) -> None:
        """A task that begins has its inputs, and no other process runs the same attempt."""
        twins = [
            p for p in self.processes.values() if p.alive and p.accepted and p.launch.task == key
        ]
        assert len(twins) == 1, f"{key} runs {len(twins)} times at once"
        older = [
            p.launch.task
            for p in self.processes.values()
            if p.alive and p.accepted and _same_task(p.launch.task, key)
        ]
        assert older == [key], f"attempts {older} run at once"
        initiator = self._task(server, key).initiator
        with self.servers[initiator.party_id].store.read() as tx:
            job = tx.schedules.get(key.job_id)
        assert job is not None
        if all((t.component, t.version) != (key.component, key.version) for t in job.tasks):
            return  # a rerun has replaced this attempt, its stop is on the way
        statuses = {t.component: t.status for t in job.tasks}
        for up in _upstream(job.dsl, key.component):
            assert statuses[up] in TASK_SUCCEEDED, f"{key} began before {up} ended"

    def check_always(self) -> None:
        """Grants never exceed totals, and a final status stays."""
        for party_id, server in self.servers.items():
            if self._checked.get(party_id) == server.store.writes:
                continue  # nothing was written here since it was looked at
            self._checked[party_id] = server.store.writes
            with server.store.read() as tx:
                engine = tx.engines.get(ENGINE)
                jobs = tx.jobs.find(JobFilter())
            assert engine is not None
            assert 0 <= engine.remaining_cores <= engine.cores, f"grants exceed totals: {engine}"
            held = sum(j.cores for j in jobs if j.in_use)
            assert engine.cores - engine.remaining_cores == held
            for job in jobs:
                if job.status in JOB_FINAL:
                    key = (job.key.job_id, job.key.site, job.epoch)
                    known = self.finals.setdefault(key, job.status)
                    if known is not job.status:
                        assert known is JobStatus.FAILED, (
                            f"{job.key} moved from {known} to {job.status}"
                        )
                        self.finals[key] = job.status

    def check_end(self) -> None:
        """All parties agree, nothing is held, nothing runs, nothing waits to be sent."""
        for server in self.servers.values():
            with server.store.read() as tx:
                engine = tx.engines.get(ENGINE)
                left = tx.outbox.size()
                jobs = tx.jobs.find(JobFilter())
            assert engine is not None
            assert engine.remaining_cores == engine.cores, "cores were not returned"
            assert left == 0, f"{left} commands were never settled"
            for job in jobs:
                with self.servers[job.initiator.party_id].store.read() as tx:
                    scheduled = tx.schedules.get(job.key.job_id)
                assert scheduled is not None
                assert job.epoch == scheduled.epoch
                assert job.status is scheduled.status, (
                    f"{job.key.site} says {job.status}, {job.initiator} says {scheduled.status}"
                )
        assert not [p for p in self.processes.values() if p.alive], "a process was left"

    def all_ended(self) -> bool:
        """Tell whether every job has ended everywhere and nothing is left to send."""
        for server in self.servers.values():
            with server.store.read() as tx:
                if tx.schedules.active() or tx.outbox.size() or tx.jobs.unfinished():
                    return False
        return not any(p.alive for p in self.processes.values())


def _same_task(one: TaskKey, other: TaskKey) -> bool:
    """Tell whether two keys are attempts of one task at one site."""
    return (one.job_id, one.component, one.site) == (other.job_id, other.component, other.site)


def _upstream(dsl: Any, component: str) -> set[str]:
    data = dsl["components"][component].get("input", {}).get("data", {})
    return {ref.split(".")[0] for refs in data.values() for ref in refs}


def random_job(rng: Random, parties: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a random DAG of one to five components over all parties, and its conf."""
    count = rng.randint(1, 5)
    components: dict[str, Any] = {}
    for n in range(count):
        upstream = [f"c{i}" for i in range(n) if rng.random() < 0.5]
        component: dict[str, Any] = {
            "module": "Remote" if rng.random() < 0.2 else "Step",
            "output": {"data": ["data"]},
        }
        if upstream:
            component["input"] = {"data": {"data": [f"{u}.data" for u in upstream]}}
        components[f"c{n}"] = component
    guest, *hosts = parties
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(guest)},
        "role": {
            "guest": [int(guest)],
            "host": [int(h) for h in hosts],
            "arbiter": [int(hosts[0])],
        },
        "job_parameters": {
            "common": {
                "task_cores": rng.choice((1, 2, 4)),
                "task_parallelism": rng.choice((1, 2)),
                "auto_retries": rng.choice((0, 0, 1, 3)),
                "auto_retry_delay": rng.choice((0, 1, 7)),
            }
        },
    }
    return {"components": components}, conf


__all__ = ["Faults", "TaskStatus", "World", "random_job"]
