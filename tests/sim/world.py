"""Several whole servers in one process: a fake clock, a network with faults, processes that die.

Everything that happens is an event at a time on one heap, and every choice comes from generators
that one seed begins, so a seed reproduces a run exactly. The servers' use cases are the real ones
(`app/core.py`) over the in-memory store; the network, the processes and the threads are replaced by
events.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.sim.clock import Time
from tests.sim.faults import Faults
from tests.sim.fibers import Fibers
from tests.sim.invariants import Check
from tests.sim.network import Network
from tests.sim.processes import Workers
from tests.sim.server import NoSessions, Server
from tests.sim.storage import Crashed, Life
from tests.sim.trace import Trace
from tests.sim.users import Users


class World:
    """The parties, the network between them, and the time.

    Each kind of choice has its own generator, so that runs stay alike if one kind of fault is
    taken away.
    """

    def __init__(self, seed: int, *, home: Path, faults: Faults, parties: tuple[str, ...]) -> None:
        self.network_rng = Random(f"network {seed}")
        self.worker_rng = Random(f"workers {seed}")
        self.server_rng = Random(f"servers {seed}")
        self.disk_rng = Random(f"disks {seed}")
        self.chaos_rng = Random(f"chaos {seed}")
        self.user_rng = Random(f"users {seed}")
        self.time = Time()
        self.home = home
        self.faults = faults
        self.trace = Trace()
        self.here = ""  #: the party whose code runs
        self.steps = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.fibers = Fibers()
        self.network = Network(self)
        self.workers = Workers(self)
        self.check = Check(self)
        self.servers = {party_id: Server(self, party_id) for party_id in parties}
        self.users = Users(self)
        self._set_clocks()
        self._set_disks()
        for server in self.servers.values():
            server.boot()

    def make_sessions(self) -> NoSessions:
        """Return the data plane of one run of a server."""
        return NoSessions()

    # --- time -----------------------------------------------------------------------------------

    def after(self, delay_ms: int, what: Callable[[], None]) -> None:
        """Let something happen later; what is due at the same time happens in this order."""
        heapq.heappush(self._events, (self.time.ms + delay_ms, next(self._numbers), what))

    def run(self, *, until: Callable[[], bool], limit_ms: int, step: Callable[[], None]) -> bool:
        """Let events happen until a condition holds; False if the time limit passed first."""
        end_ms = self.time.ms + limit_ms
        events = self._events
        while events and events[0][0] <= end_ms:
            at_ms, _, what = heapq.heappop(events)
            self.time.ms = max(self.time.ms, at_ms)
            self.here = ""
            self.steps += 1
            what()
            step()
            if until():
                return True
        return until()

    def in_fiber(self, what: Callable[[], None]) -> None:
        """Let something happen now that may have to wait for answers."""
        self.after(0, lambda: self.fibers.run(what))

    def wait(self, life: Life) -> None:
        """Let a fiber wait until it is resumed. Raises: Crashed: its server died meanwhile."""
        here = self.here
        self.fibers.wait()
        self.here = here
        if not life.alive:
            raise Crashed

    def sleep(self, delay_ms: int, life: Life) -> None:
        """Let a fiber wait for a while. Raises: Crashed: its server died meanwhile."""
        fiber = self.fibers.current
        assert fiber is not None
        self.after(delay_ms, lambda: self.fibers.resume(fiber))
        self.wait(life)

    def note(self, what: str, *, where: str | None = None) -> None:
        """Add a line to the trace."""
        self.trace.note(self.time.ms, self.here if where is None else where, what)

    def close(self) -> None:
        """End what waits."""
        for server in self.servers.values():
            server.life.alive = False
        self.fibers.close()

    # --- faults ---------------------------------------------------------------------------------

    def _set_clocks(self) -> None:
        limit_ms = int(self.faults.offsets_s * 1000)
        for server in self.servers.values():
            server.wall.offset_ms = self.chaos_rng.randint(-limit_ms, limit_ms)

    def _set_disks(self) -> None:
        for server in self.servers.values():
            server.disk.crashes = self.faults.commit_crashes
            server.disk.errors = self.faults.commit_errors

    def heal(self) -> None:
        """End all faults; what is broken already comes back by itself."""
        self.note("! all faults end", where="")
        self.faults = Faults()
        self.network.mend()
        self._set_disks()
        for server in self.servers.values():
            server.disk.outage = server.disk.full = server.disk.home_full = False
        for process in list(self.workers.alive.values()):
            if process.hangs:
                self.after(1, lambda process=process: self.workers.finish(process))
        self.users.let_all_go_on()
