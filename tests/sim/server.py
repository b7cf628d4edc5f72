"""One party's server in a world: the real use cases over ports that obey the world."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from fedflow.app.core import Core, Ports, build_core
from fedflow.app.participant.launcher import WorkerSettings
from fedflow.app.participant.processes import Processes
from fedflow.app.protocol.commands import incoming_of
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import SteadyClock
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.job.spark_options import SparkPlan, SparkSite
from fedflow.domain.records import Command, JobKey, JobRecord, Reply, TaskKey, TaskRecord
from fedflow.domain.site import Site
from fedflow.store.memory.store import MemoryStore
from fedflow.wire import paths
from tests.sim.clock import FakeClock
from tests.sim.jobs import FakeCatalog
from tests.sim.network import FakeParties
from tests.sim.processes import FakeExecutor
from tests.sim.storage import Crashed, Disk, FaultyStore, Life
from tests.support.blobs import MemoryBlobs

if TYPE_CHECKING:
    from tests.sim.world import World

CORES = 8
MEMORY = 1_000  #: MiB
SPARK_CORES = 8
TIMING = Timing()
_TICK_MS = 2_000
_TICK_MS = 1_000
_AGAIN_MS = 500  #: a thread whose pass failed begins again after this time

T = TypeVar("T")


class NoSessions:
    """No data plane: the fake processes exchange nothing."""

    run = ""

    def open_session(
        self, session: str, site: Site, *, token: str, sites: Sequence[Site], incarnation: int
    ) -> None: ...

    def close_session(self, session: str, site: Site, *, incarnation: int) -> None: ...

    def fail_site(self, session: str, site: Site, reason: str, *, incarnation: int) -> None: ...

    def ledger_of(
        self, session: str, site: Site, *, incarnation: int = 0
    ) -> tuple[PeerLedger, ...]:
        return ()


class FakeApplications:
    """The Spark applications of a server's machine: they outlive it."""

    def __init__(self) -> None:
        self.alive: set[JobKey] = set()

    def ensure(self, job: JobKey, plan: SparkPlan) -> Path:
        self.alive.add(job)
        return Path("/nonexistent")

    def end(self, job: JobKey) -> None:
        self.alive.discard(job)

    def running(self) -> list[JobKey]:
        return sorted(self.alive, key=lambda job: (job.job_id, job.site.key))


class Server:
    """One party's server: its store, disk, clock and Spark applications survive crashes,
    everything else does not. Every other party computes on Spark by default.
    """

    def __init__(self, world: World, party_id: str) -> None:
        self.world = world
        self.party_id = party_id
        self.timing = TIMING
        self.disk = Disk()
        self.blobs = MemoryBlobs()
        self.applications = FakeApplications()
        self.engines = OwnEngines(default=SPARK if int(party_id) % 2 else STANDALONE, spark=True)
        self.wall = FakeClock(world.time)
        self.store = MemoryStore()
        self.clock = SteadyClock(self.wall)
        self.core: Core | None = None
        self.life = Life(alive=False)
        self.faulty: FaultyStore | None = None
        self._awake_ms = 0
        self._beating: set[str] = set()
        self._queue_ms: int | None = None
        self._pump_ms: dict[str, int] = {}

    # --- life -----------------------------------------------------------------------------------

    def boot(self) -> None:
        """Begin a new run, over what an earlier one stored; try again later if that fails."""
        if self.core is not None:
            return
        self.life = life = Life()
        self.clock = SteadyClock(self.wall)
        world, processes = self.world, Processes()
        self.faulty = store = FaultyStore(self.store, self.disk, life, world.disk_rng, world.trace)
        ports = Ports(
            store=store,
            blobs=self.blobs,
            catalog=FakeCatalog(),
            parties=FakeParties(world, self),
            executor=FakeExecutor(world, self, processes),
            processes=processes,
            sessions=world.make_sessions(),
            wakeup=FakeWakeup(self),
            clock=self.clock,
            rng=world.server_rng,
            salt=int(self.party_id),
            applications=self.applications,
        )
        self._beating = set()
        self._queue_ms = None
        self._pump_ms = {}
        self.core = build_core(
            ports,
            folders=SimFolders(world.home / self.party_id, self.disk),
            timing=self.timing,
            worker_settings=_worker_settings(),
            host="here",
            notifier=SimChanges(self),
            engines=self.engines,
        )
        self.world.note("! boot", where=self.party_id)
        try:
            self.enter(lambda core: self._recover(core, store))
        except StoreUnavailable:
            self.crash()
        if self.core is None:
            self.world.after(2 * _AGAIN_MS, self.boot)
            return
        self.later(0, self._tick_clock)
        self.later(self.timing.heartbeat_ms, self._beat)
        self.later(1, self._tick)

    def _recover(self, core: Core, store: FaultyStore) -> None:
        with store.transaction() as tx:
            tx.engines.put(STANDALONE, CORES, memory=MEMORY, now_ms=self.clock.now_ms())
            tx.engines.put(SPARK, SPARK_CORES, now_ms=self.clock.now_ms())
        core.detector.recover()
        core.delivery.recover()

    def crash(self) -> None:
        """End this run at once."""
        if self.core is not None:
            self.world.note("! crash", where=self.party_id)
        self.life.alive = False
        self.core = None

    def enter(self, what: Callable[[Core], T]) -> T | None:
        """Run something in this server; None if it is down, or goes down over it.

        Raises: what it raises, but for `Crashed`.
        """
        core, life, world = self.core, self.life, self.world
        if core is None:
            return None
        before, world.here = world.here, self.party_id
        try:
            return what(core)
        except Crashed:
            if self.life is life and self.core is not None:
                self.crash()
                world.after(world.chaos_rng.choice((100, 5_000, 30_000)), self.boot)
            return None
        finally:
            world.here = before

    # --- stalls ---------------------------------------------------------------------------------

    def stall(self, *, for_ms: int) -> None:
        """Do nothing for a while, and then all that was due."""
        self._awake_ms = max(self._awake_ms, self.world.time.ms + for_ms)

    def is_stalled(self) -> bool:
        return self._awake_ms > self.world.time.ms

    def when_awake(self, life: Life, what: Callable[[], None]) -> None:
        """Do something at once, or after the stall, unless this run of the server ends before."""
        if not life.alive:
            return
        if self.is_stalled():
            left_ms = self._awake_ms - self.world.time.ms
            self.world.after(left_ms, lambda: self.when_awake(life, what))
        else:
            what()

    def later(self, delay_ms: int, what: Callable[[Core], None]) -> None:
        """Do something unless the server has crashed meanwhile; a failed store ends it quietly."""
        life = self.life
        self.world.after(delay_ms, lambda: self.when_awake(life, lambda: self.guard(what)))

    def soon(self, what: Callable[[Core], Any], *, life: Life | None = None) -> None:
        """Tell the server something now, if it can listen."""
        self.when_awake(life or self.life, lambda: self.guard(what))

    def guard(self, what: Callable[[Core], Any]) -> bool:
        """Run something as a thread of the server does; False if its store failed."""
        try:
            self.enter(what)
        except StoreUnavailable:
            return False
        return True

    # --- threads --------------------------------------------------------------------------------

    def _tick(self, core: Core) -> None:
        self.later(_TICK_MS, self._tick)
        self.guard(lambda core: core.scheduler.tick())
        self.look_at_due_retries()
        self.guard(lambda core: core.detector.tick())
        self.guard(lambda _: self._pump_all())

    def _pump_all(self) -> None:
        for party_id in self.stored_destinations():
            self.pump(party_id)

    def stored_destinations(self) -> list[str]:
        """Return the parties that commands wait for."""
        with self.store.read() as tx:
            return list(tx.outbox.destinations())

    def look_at_due_retries(self) -> None:
        """Have the queue looked at when the scheduler wants to."""
        if self.core is None:
            return
        due_ms = self.core.scheduler.next_retry_ms()
        if due_ms is None or (self._queue_ms is not None and self._queue_ms <= due_ms):
            return
        self._queue_ms = due_ms
        self.later(max(1, due_ms - self.clock.now_ms()), self._look_at_queue)

    def _look_at_queue(self, core: Core) -> None:
        self._queue_ms = None
        core.scheduler.look_at_queue()
        self.look_at_due_retries()

    def _tick_clock(self, core: Core) -> None:
        self.later(_TICK_MS, self._tick_clock)
        self.enter(lambda _: self._look_at_store())
        self.clock.tick()

    def _look_at_store(self) -> None:
        assert self.faulty is not None
        with self.faulty.read():
            pass

    def _beat(self, core: Core) -> None:
        """Begin a heartbeat to each party, unless one is under way."""
        if not self.guard(self._begin_beats):
            self.later(_AGAIN_MS, self._beat)

    def _begin_beats(self, core: Core) -> None:
        parties = core.heartbeats.remote_parties()
        collects = any(core.heartbeats.collects(party_id) for party_id in parties)
        pause_ms = self.timing.collect_ms if collects else self.timing.heartbeat_ms
        self.later(pause_ms, self._beat)
        for party_id in parties:
            if party_id not in self._beating:
                self.world.in_fiber(lambda party_id=party_id: self._beat_to(party_id))

    def _beat_to(self, party_id: str) -> None:
        beating = self._beating
        beating.add(party_id)
        try:
            self.guard(lambda core: core.heartbeats.send(party_id))
        finally:
            beating.discard(party_id)

    def pump(self, party_id: str) -> None:
        """Send what is due to a party; the answers come back as events."""
        if not self.guard(lambda core: self._pump(core, party_id)):
            self._pump_later(party_id, _AGAIN_MS)

    def _pump(self, core: Core, party_id: str) -> None:
        delivery = core.delivery
        while (command := delivery.take(party_id)) is not None:
            self.world.network.send(self, command)
        due_ms = delivery.next_due_ms(party_id)
        if due_ms is not None:
            self._pump_later(party_id, max(10, due_ms - self.clock.now_ms()))

    def _pump_later(self, party_id: str, delay_ms: int) -> None:
        """Look once more at what is due to a party, unless it will be looked at before."""
        due_ms, known_ms = self.world.time.ms + delay_ms, self._pump_ms.get(party_id)
        if known_ms is not None and known_ms <= due_ms:
            return
        self._pump_ms[party_id] = due_ms

        def again(_: Core) -> None:
            if self._pump_ms.get(party_id) == due_ms:
                del self._pump_ms[party_id]
            self.pump(party_id)

        self.later(delay_ms, again)

    def settle(self, command: Command, result: Reply | Exception) -> None:
        """Take the end of a delivery."""
        self.world.check.before_reply(self, command)
        done = self.guard(lambda core: core.delivery.settle(command, result))
        self.world.check.after_reply(self, command)
        party_id = command.destination.party_id
        if done:
            self.pump(party_id)
        else:
            self._pump_later(party_id, _AGAIN_MS)

    def answer(self, path: str, body: Any, source_party: str, request_id: str) -> Reply | None:
        """Serve a party command; None if the server went down over it."""
        match = paths.parse_party_path(paths.PREFIX + path)
        assert match is not None
        incoming = incoming_of(match, body, source_party=source_party, request_id=request_id)
        reply = self.enter(lambda core: core.commands.answer(incoming))
        self.world.check.crossed(source_party, self.party_id, body, reply)
        return reply

    # --- what is stored, for the world ----------------------------------------------------------

    def stored_task(self, key: TaskKey) -> TaskRecord | None:
        """Return an attempt as it is stored."""
        with self.store.read() as tx:
            return tx.tasks.get(key)

    def stored_job(self, key: JobKey) -> JobRecord | None:
        """Return a site's share of a job as it is stored."""
        with self.store.read() as tx:
            return tx.jobs.get(key)


class SimChanges(JobNotifier):
    """Lets requests wait in the time of the world."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.wall)
        self._server = server
        self._life = server.life

    def wait_until(self, reached: Callable[[], bool], *, job_id: str, timeout_s: float) -> bool:
        world = self._server.world
        end_ms = world.time.ms + int(timeout_s * 1000)
        while world.fibers.current is not None and world.time.ms < end_ms:
            try:
                if reached():
                    return True
            except StoreUnavailable:
                pass
            world.sleep(_AGAIN_MS, self._life)
        return reached()


class FakeWakeup:
    """Turns wake-ups into events of the world."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._life = server.life

    def schedule(self, job_id: str) -> None:
        if self._life.alive:
            self._server.later(1, lambda core: self._look(core, job_id))

    def _look(self, core: Core, job_id: str) -> None:
        core.scheduler.look_at([job_id])
        self._server.look_at_due_retries()

    def queue(self) -> None:
        if self._life.alive:
            self._server.later(1, self._look_at_queue)

    def _look_at_queue(self, core: Core) -> None:
        core.scheduler.look_at_queue()
        self._server.look_at_due_retries()

    def outbox(self, destinations: Sequence[str]) -> None:
        if self._life.alive:
            for party_id in destinations:
                self._server.later(1, lambda _, party_id=party_id: self._server.pump(party_id))

    def job_changed(self, job_id: str) -> None: ...


class SimFolders(Folders):
    """The folders of a server whose disk may be full: they can be named and read, but not made."""

    def __init__(self, home: Path, disk: Disk) -> None:
        super().__init__(home)
        object.__setattr__(self, "disk", disk)

    def work(self, key: TaskKey) -> Path:
        return self._as_it_is(super().work(key))

    def job_files(self, job_id: str) -> Path:
        return self._as_it_is(super().job_files(job_id))

    def _as_it_is(self, path: Path) -> Path:
        return _OnFullDisk(path) if self.disk.home_full else path  # type: ignore[attr-defined]


class _OnFullDisk(PosixPath):
    """A folder where nothing can be made; neither can what is named from it."""

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        raise OSError(errno.ENOSPC, "No space left on device (simulated)")


def _worker_settings() -> WorkerSettings:
    nowhere = Path("/nonexistent")
    return WorkerSettings(
        server_socket=nowhere,
        federation_socket=nowhere,
        tables_root=nowhere,
        memory_bytes=None,
        receive_timeout_s=60,
        log_level="INFO",
        spark=SparkSite(master="spark://nowhere", nodes=1, tables_uri="/nonexistent", wait_s=60),
    )
