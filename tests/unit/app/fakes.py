"""One server's use cases over the store in memory, with an outside that tests hold in hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fedflow.app.administration.leadership import OnlyServer
from fedflow.app.core import Core, Ports, build_core
from fedflow.app.participant.launcher import TaskLaunch, WorkerSettings
from fedflow.app.participant.processes import Processes
from fedflow.app.ports.parties import PartyServers
from fedflow.app.ports.serving import ServingServers
from fedflow.app.protocol import commands
from fedflow.app.protocol.commands import Incoming
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_limits import JobLimits
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.party_router import PartyRouter
from fedflow.app.protocol.timing import Timing
from fedflow.base.errors.components import BadParameter, UnknownComponent
from fedflow.base.errors.parties import NoRoute
from fedflow.base.ids import PartyId
from fedflow.domain.job.engines import SPARK, OwnEngines
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.spark_options import SparkPlan, SparkSite
from fedflow.domain.job.spec import ModuleInfo
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import (
    Command,
    Handle,
    JobKey,
    JobRecord,
    Reply,
    ScheduledJob,
    TableRecord,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Role, Site
from fedflow.wire import paths
from fedflow.wire.api.traces import JobTrace, SessionTrace
from fedflow.wire.task_report import read_report
from tests.memory_store import MemoryStore
from tests.support.blobs import MemoryBlobs

CORES = 8
NOW_MS = 1_800_000_000_000
GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10000"))


@dataclass
class FakeClock:
    """Time goes on only by `ms += ...`; `looked` is called by who measures how long it waits."""

    ms: int = NOW_MS
    looked: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        self.looked()
        return self.ms / 1000


def _module(name: str, *roles: Role, ports: tuple[str, ...] = ("data",)) -> ModuleInfo:
    return ModuleInfo(
        module=name, roles=roles, data_ports=ports, needs_input=False, outputs=("data", "model")
    )


class FakeCatalog:
    """`Step` and `Reader` run at guest and host, `Keys` at all, `Remote` at hosts; a parameter
    `bad` is wrong.
    """

    def __init__(self) -> None:
        self.checked: list[str] = []
        self.planned: list[PlannedRun] = []
        self.objection = ""  #: to every planned run
        everywhere = (Role.GUEST, Role.HOST, Role.ARBITER)
        self._modules = {
            "step": _module("Step", Role.GUEST, Role.HOST),
            "reader": _module("Reader", Role.GUEST, Role.HOST, ports=()),
            "keys": _module("Keys", *everywhere),
            "remote": _module("Remote", Role.HOST),
            "upload": _module("Upload", Role.LOCAL, ports=()),
            "modelloader": _module("ModelLoader", *everywhere, ports=()),
            "modelstore": _module("ModelStore", Role.LOCAL, ports=()),
            "modelrestore": _module("ModelRestore", Role.LOCAL, ports=()),
            "download": _module("Download", Role.LOCAL, ports=()),
            "writer": _module("Writer", Role.LOCAL, ports=()),
        }

    def modules(self) -> Mapping[str, ModuleInfo]:
        return self._modules

    def check(
        self,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
        provider: str | None = None,
    ) -> list[JobWarning]:
        if module.lower() not in self._modules:
            raise UnknownComponent(module=module)
        self.checked.append(path)
        if run is not None:
            self.planned.append(run)
        if "bad" in parameters:
            raise BadParameter(path=f"{path}.bad", reason="is bad")
        if self.objection:
            raise BadParameter(path=path, reason=self.objection)
        if "doubtful" in parameters:
            return [JobWarning(code="NoEffect", path=f"{path}.doubtful", message="is not used")]
        return []


@dataclass
class FakeParties:
    """The way to other parties: `local` ones are hosted here, `known` ones have a route."""

    local: frozenset[str] | None  #: None: every party
    known: frozenset[str]
    answer: Callable[[str, Any], Reply] = lambda _path, _body: Reply(retcode=0)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)  #: destination, path, body

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        if not self.knows(destination):
            raise NoRoute(party_id=destination)
        self.calls.append((destination, path, body))
        return self.answer(path, body)

    def knows(self, party_id: str) -> bool:
        return self.is_local(party_id) or party_id in self.known

    def is_local(self, party_id: str) -> bool:
        return self.local is None or party_id in self.local


@dataclass
class FakeExecutor:
    """Starts nothing; `alive` are the pids of processes that are there."""

    started: list[TaskLaunch] = field(default_factory=list)
    stopped: list[tuple[int, float]] = field(default_factory=list)  #: pid, grace
    adopted: list[int] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    on_adopt: Callable[[int], None] = lambda _pid: None
    fails: Exception | None = None

    def start(self, launch: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.started.append(launch)

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        self.stopped.append((handle.pid, grace_s))

    def adopt(self, launch_id: str, handle: Handle) -> bool:
        self.adopted.append(handle.pid)
        self.on_adopt(handle.pid)
        return handle.pid in self.alive


@dataclass
class FakeSessions:
    """Remembers what was done to sessions."""

    run: str = "run-1"
    events: list[tuple[str, str, str]] = field(default_factory=list)  #: what, session, site
    reasons: list[str] = field(default_factory=list)  #: of failures, as peers are told
    ledgers: dict[tuple[str, Site, int], tuple[PeerLedger, ...]] = field(default_factory=dict)

    def open_session(
        self, session: str, site: Site, *, token: str, sites: Sequence[Site], incarnation: int
    ) -> None:
        self.events.append(("open", session, site.key))

    def close_session(self, session: str, site: Site, *, incarnation: int) -> None:
        self.events.append(("close", session, site.key))

    def fail_site(self, session: str, site: Site, reason: str, *, incarnation: int) -> None:
        self.events.append(("fail", session, site.key))
        self.reasons.append(reason)

    def ledger_of(
        self, session: str, site: Site, *, incarnation: int = 0
    ) -> tuple[PeerLedger, ...]:
        return self.ledgers.get((session, site, incarnation), ())

    def trace_job(self, job_id: str, *, is_on: bool) -> None:
        self.events.append(("trace" if is_on else "do not trace", job_id, ""))

    def trace_of(self, job_id: str) -> JobTrace:
        return JobTrace(
            sessions=tuple(
                SessionTrace(component=name, version=0, site="guest-9999", is_on=True)
                for name in (f"lr_of_{job_id}", "reader_0")
            )
        )


@dataclass
class FakeWakeup:
    """Remembers who was woken; `then` is called after each."""

    scheduled: list[str] = field(default_factory=list)
    queued: int = 0
    outboxes: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    notify: Callable[[str], None] = lambda _job_id: None
    then: Callable[[], None] = lambda: None

    def schedule(self, job_id: str) -> None:
        self.scheduled.append(job_id)
        self.then()

    def queue(self) -> None:
        self.queued += 1
        self.then()

    def outbox(self, destinations: Sequence[str]) -> None:
        self.outboxes += destinations
        self.then()

    def job_changed(self, job_id: str) -> None:
        self.changed.append(job_id)
        self.notify(job_id)


class FakeApplications:
    """Names of Spark applications that run, but no processes."""

    def __init__(self) -> None:
        self.planned: dict[JobKey, SparkPlan] = {}

    def ensure(self, job: JobKey, plan: SparkPlan) -> Path:
        self.planned[job] = plan
        return Path("/spark") / job.job_id

    def end(self, job: JobKey) -> None:
        self.planned.pop(job, None)

    def running(self) -> list[JobKey]:
        return list(self.planned)


class _Undo(Exception):
    """Undoes a transaction that only looked."""


@dataclass
class OneServer:
    """The core of one server and everything around it."""

    home: Path
    party_id: str | None  #: None: standalone
    parties: FakeParties
    store: MemoryStore = field(default_factory=MemoryStore)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    clock: FakeClock = field(default_factory=FakeClock)
    catalog: FakeCatalog = field(default_factory=FakeCatalog)
    executor: FakeExecutor = field(default_factory=FakeExecutor)
    sessions: FakeSessions = field(default_factory=FakeSessions)
    wakeup: FakeWakeup = field(default_factory=FakeWakeup)
    timing: Timing = field(default_factory=Timing)
    servers: PartyServers = field(default_factory=OnlyServer)
    engines: OwnEngines = field(default_factory=OwnEngines)
    limits: JobLimits = field(default_factory=JobLimits)
    applications: FakeApplications = field(default_factory=FakeApplications)
    servings: ServingServers | None = None
    processes: Processes = field(init=False)
    changes: JobNotifier = field(init=False)
    core: Core = field(init=False)
    _busy: bool = False

    def __post_init__(self) -> None:
        self.boot()
        with self.store.transaction() as tx:
            tx.engines.put(ENGINE, CORES, now_ms=self.clock.ms)

    def boot(self) -> None:
        """Build the use cases anew over the same store, as a restarted server does."""
        self.processes = Processes()
        self.changes = JobNotifier(self.clock)
        self.wakeup.notify = self.changes.notify
        ports = Ports(
            store=self.store,
            blobs=self.blobs,
            catalog=self.catalog,
            parties=self.parties,
            executor=self.executor,
            processes=self.processes,
            sessions=self.sessions,
            wakeup=self.wakeup,
            clock=self.clock,
            rng=Random(1),
            salt=1,
            servers=self.servers,
            applications=self.applications if self.engines.spark else None,
            servings=self.servings,
        )
        spark = SparkSite(master="local", nodes=1, tables_uri="/tables", wait_s=60)
        settings = WorkerSettings(
            server_socket=self.home / "server.sock",
            federation_socket=self.home / "federation.sock",
            tables_root=self.home / "tables",
            memory_bytes=None,
            receive_timeout_s=60,
            log_level="INFO",
            spark=spark if self.engines.spark else None,
        )
        self.core = build_core(
            ports,
            folders=Folders(self.home),
            timing=self.timing,
            worker_settings=settings,
            host="here",
            notifier=self.changes,
            engines=self.engines,
            limits=self.limits,
        )

    def get_a_cluster(self, cores: int = CORES, *, default: str = ENGINE) -> None:
        """Begin anew with a Spark cluster."""
        self.engines = OwnEngines(default=default, spark=True)
        self.boot()
        with self.store.transaction() as tx:
            tx.engines.put(SPARK, cores, now_ms=self.clock.ms)

    def live(self) -> None:
        """From now on let the threads' work be done at once, whenever one is woken."""
        self.wakeup.then = self.work

    def work(self) -> None:
        """Deliver commands and schedule until nothing is left to do now."""
        if self._busy:
            return
        self._busy = True
        try:
            while True:
                self.core.scheduler.tick()
                sent = [self._send(party_id) for party_id in self.waiting()]
                if not any(sent):
                    return
        finally:
            self._busy = False

    def waiting(self) -> list[str]:
        with self.store.read() as tx:
            return tx.outbox.destinations()

    def _send(self, party_id: str) -> int:
        sent = 0
        while (command := self.core.delivery.take(party_id)) is not None:
            sent += 1
            self.core.delivery.settle(command, self.deliver(command))
        return sent

    def deliver(self, command: Command) -> Reply | Exception:
        """Hand a command to this server if it hosts the party, else to the fake of the others."""
        if self.parties.is_local(command.destination.party_id):
            return self.core.commands.answer(incoming_of(command))
        return self.core.delivery.deliver(command)

    # --- what is stored

    def job(self, job_id: str, site: Site = HOST) -> JobRecord:
        with self.store.read() as tx:
            found = tx.jobs.get(JobKey(job_id=job_id, site=site))
        assert found is not None
        return found

    def task(self, key: TaskKey) -> TaskRecord:
        with self.store.read() as tx:
            found = tx.tasks.get(key)
        assert found is not None
        return found

    def scheduled(self, job_id: str) -> ScheduledJob:
        with self.store.read() as tx:
            found = tx.schedules.get(job_id)
        assert found is not None
        return found

    def outbox(self, party_id: str = "9999") -> list[Command]:
        """Return everything that waits for a party, in order."""
        found: list[Command] = []
        with suppress(_Undo), self.store.transaction() as tx:
            while heads := tx.outbox.heads(party_id, now_ms=2**53, skip=frozenset(), limit=100):
                found += heads
                for command in heads:
                    tx.outbox.remove(command.number)
            raise _Undo
        return sorted(found, key=lambda c: c.number)

    def free_cores(self, engine_name: str = ENGINE) -> int:
        with self.store.read() as tx:
            engine = tx.engines.get(engine_name)
        assert engine is not None
        return engine.remaining_cores

    # --- what happens to a participant

    def ask(self, name: str, key: JobKey | TaskKey | None = None, **more: Any) -> Reply:
        """Return the answer to a command of the initiator, or raise what refuses it."""
        return self.core.commands.handle(incoming(name, key, **more))

    def create(self, job_id: str = "1", *, site: Site = HOST, **more: Any) -> JobKey:
        """Let the guest's server create a job here."""
        key = JobKey(job_id=job_id, site=site)
        self.ask("job_create", key, body=create_body(**more), request_id=f"create-{job_id}")
        return key

    def run_task(self, job_id: str = "1", component: str = "a", *, pid: int = 0) -> TaskKey:
        """Let the guest's server start a task here; with `pid` its process is there already."""
        key = TaskKey(job_id=job_id, component=component, version=0, site=HOST)
        self.ask("task_start", key, body={"epoch": 0})
        if pid:
            self.executor.alive.add(pid)
            launch_id = str(self.task(key).launch_id)
            self.processes.started(launch_id, Handle(pid=pid, start_time=pid, host="here"))
        return key

    def report(self, key: TaskKey, status: str, **more: Any) -> None:
        """Let the current process of a task report."""
        task = self.task(key)
        body = {"launch_id": task.launch_id, "party_status": status, **more}
        self.core.workers.report(key, str(task.token), read_report(body))

    def put_table(self, namespace: str, name: str, *, address: str = "t1") -> None:
        with self.store.transaction() as tx:
            tx.tables.put(table(namespace, name, address=address))


def participant(home: Path) -> OneServer:
    """Return the server of party 10000; the initiator, party 9999, is elsewhere."""
    parties = FakeParties(local=frozenset({"10000"}), known=frozenset({"9999"}))
    return OneServer(home=home, party_id="10000", parties=parties)


def initiator(home: Path) -> OneServer:
    """Return the server of party 9999; party 10000 is elsewhere."""
    parties = FakeParties(local=frozenset({"9999"}), known=frozenset({"10000"}))
    return OneServer(home=home, party_id="9999", parties=parties)


def standalone(home: Path) -> OneServer:
    """Return a server that hosts every party."""
    return OneServer(home=home, party_id=None, parties=FakeParties(local=None, known=frozenset()))


def party_router(server: OneServer) -> PartyRouter:
    """Return the way to a server's own parties, as it takes it itself."""
    router = PartyRouter(
        server.parties,
        remote=server.parties,
        servers=server.servers,
        own_party=server.party_id or "0",
    )
    router.connect(server.core.commands, forward=lambda *_: pytest.fail("this server leads"))
    return router


# --- documents and commands -----------------------------------------------------------------------


def dsl(**components: Any) -> dict[str, Any]:
    """Return a DSL; a component is a module, or a whole object. Without any: `a` feeds `b`."""
    if not components:
        step = {"module": "Step", "output": {"data": ["data"]}}
        components = {"a": step, "b": {**step, "input": {"data": {"data": ["a.data"]}}}}
    whole = {n: {"module": c} if isinstance(c, str) else c for n, c in components.items()}
    return {"components": whole}


def conf(
    *, cores: int = 2, parameters: Mapping[str, Any] | None = None, **roles: list[int]
) -> dict[str, Any]:
    """Return a conf of guest 9999 and host 10000, or of other roles."""
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": roles or {"guest": [9999], "host": [10000]},
        "job_parameters": {"common": {"task_cores": cores}},
        "component_parameters": parameters or {},
    }


def create_body(
    *, dsl_: Any = None, conf_: Any = None, initiator_party_id: str = "9999", **conf_more: Any
) -> dict[str, Any]:
    return {
        "epoch": 0,
        "dsl": dsl_ or dsl(),
        "runtime_conf": conf_ or conf(**conf_more),
        "initiator_role": "guest",
        "initiator_party_id": initiator_party_id,
    }


def incoming(
    name: str,
    key: JobKey | TaskKey | None = None,
    *,
    body: Any = None,
    source: str | None = "9999",
    request_id: str | None = None,
    status: str | None = None,
) -> Incoming:
    """Return a command as it arrives from a party, by default from the initiator."""
    task = key if isinstance(key, TaskKey) else None
    return Incoming(
        name=name,
        job_id=key.job_id if key else "",
        site=key.site if key else None,
        body={"epoch": 0} if body is None else body,
        component=task.component if task else None,
        version=task.version if task else None,
        status=status,
        source_party=source,
        request_id=request_id,
    )


def incoming_of(command: Command) -> Incoming:
    """Return a command of an outbox as it arrives."""
    match = paths.parse_party_path(paths.PREFIX + command.path)
    assert match is not None
    return commands.incoming_of(
        match,
        command.body,
        source_party=command.source.party_id,
        request_id=command.request_id,
    )


def table(namespace: str, name: str, *, address: str = "t1") -> TableRecord:
    return TableRecord(
        namespace=namespace,
        name=name,
        address=address,
        schema={},
        count=2,
        partitions=1,
        origin="upload",
        created_ms=NOW_MS,
    )
