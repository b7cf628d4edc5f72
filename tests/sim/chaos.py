"""Lets faults happen that are not a message's or a process's own: crashes, stalls, partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.storage import Backup

if TYPE_CHECKING:
    from tests.sim.server import Server
    from tests.sim.world import World

_BEHIND_MS = (100, 5_000, 30_000, 90_000)  #: how long a crashed server stays away


class Chaos:
    """The faults and the users of one run, each at random times."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.chaos_rng
        self._backups: list[tuple[Server, Backup]] = []
        self._spoil()
        users, faults = world.users, world.faults
        self._every(faults.cuts_every_s, self._cut)
        self._every(faults.crashes_every_s, self._crash)
        self._every(faults.stalls_every_s, self._stall)
        self._every(faults.outages_every_s, self._outage)
        self._every(faults.full_disks_every_s, self._fill_disk)
        self._every(faults.clock_steps_every_s, self._step_clock)
        self._every(faults.zygotes_every_s, self._lose_zygote)
        self._every(faults.kills_every_s, self._kill)
        self._every(faults.put_back_every_s / 2, self._back_up)
        self._every(faults.put_back_every_s, self._put_back)
        self._every(faults.stops_every_s, users.stop)
        self._every(faults.reruns_every_s, users.rerun)
        self._every(faults.updates_every_s, users.update)
        self._every(faults.submits_every_s, users.submit)
        self._every(faults.repeats_every_s, users.submit_again)
        self._every(faults.pauses_every_s, users.pause)
        self._every(faults.pauses_every_s, users.proceed)

    def _every(self, mean_s: float, what: Callable[[], None]) -> None:
        """Do something at random times until all faults end."""
        if not mean_s:
            return
        faults = self._world.faults

        def again() -> None:
            if self._world.faults is faults:
                what()
                self._every(mean_s, what)

        self._world.after(1 + int(self._rng.expovariate(1 / mean_s) * 1000), again)

    def _note(self, kind: str, where: str, what: str) -> None:
        self._world.trace.count(kind)
        self._world.note(f"! {what}", where=where)

    def _server(self) -> Server:
        return self._world.servers[self._rng.choice(tuple(self._world.servers))]

    def _spoil(self) -> None:
        loses = self._world.faults.one_way
        if loses:
            parties = tuple(self._world.servers)
            pairs = [(a, b) for a in parties for b in parties if a != b]
            for pair in self._rng.sample(pairs, k=self._rng.randint(1, len(pairs) // 2)):
                self._world.network.spoil(*pair, loses)

    def _cut(self) -> None:
        one, other = self._rng.sample(tuple(self._world.servers), k=2)
        for_ms = self._rng.choice((2_000, 15_000, 70_000, 180_000))
        self._world.network.cut(one, other, for_ms=for_ms)
        both = self._rng.random() < 0.5
        if both:
            self._world.network.cut(other, one, for_ms=for_ms)
        self._note("partitions", one, f"nothing reaches {other} for {for_ms} ms, {both=}")

    def _crash(self) -> None:
        server = self._server()
        if server.core is not None:
            self._world.trace.count("crashes")
            server.crash()
            self._world.after(self._rng.choice(_BEHIND_MS), server.boot)

    def _stall(self) -> None:
        server = self._server()
        for_ms = self._rng.choice((1_000, 7_000, 30_000, 120_000))
        server.stall(for_ms=for_ms)
        self._note("stalls", server.party_id, f"stalled for {for_ms} ms")

    def _outage(self) -> None:
        server, for_ms = self._server(), self._rng.choice((500, 5_000, 60_000))
        server.disk.outage = True

        def end() -> None:
            server.disk.outage = False

        self._world.after(for_ms, end)
        self._note("database outages", server.party_id, f"no database for {for_ms} ms")

    def _fill_disk(self) -> None:
        server, for_ms = self._server(), self._rng.choice((1_000, 10_000, 90_000))
        also_database = self._rng.random() < 0.5  # or it lies on another disk
        server.disk.home_full, server.disk.full = True, also_database

        def end() -> None:
            server.disk.home_full = server.disk.full = False

        self._world.after(for_ms, end)
        what = f"the disk is full for {for_ms} ms, {also_database=}"
        self._note("full disks", server.party_id, what)

    def _step_clock(self) -> None:
        server = self._server()
        step_ms = self._rng.choice((-600_000, -70_000, -3_000, 3_000, 70_000, 600_000))
        server.wall.offset_ms += step_ms
        self._note("clock steps", server.party_id, f"the clock jumps by {step_ms} ms")

    def _lose_zygote(self) -> None:
        server, for_ms = self._server(), self._rng.choice((50, 1_000, 10_000))
        self._world.workers.lose_zygote(server, for_ms=for_ms)
        self._note("zygotes lost", server.party_id, f"no zygote for {for_ms} ms")

    def _back_up(self) -> None:
        server = self._server()
        self._backups.append((server, Backup(server.store)))

    def _put_back(self) -> None:
        """Put a database back to an earlier time, on a machine where nothing runs any more."""
        if not self._backups:
            return
        server, backup = self._rng.choice(self._backups)
        self._backups = [b for b in self._backups if b[0] is not server or b[1] is backup]
        server.crash()
        alive = [pid for pid, p in self._world.workers.alive.items() if p.server is server]
        for pid in alive:
            self._world.workers.kill(pid)
        backup.restore()
        self._world.check.put_back(server.party_id)
        self._note("databases put back", server.party_id, "its database is put back")
        self._world.after(self._rng.choice((100, 5_000, 90_000)), server.boot)

    def _kill(self) -> None:
        alive = list(self._world.workers.alive)
        if alive:
            pid = self._rng.choice(alive)
            self._world.trace.count("processes killed")
            self._world.workers.kill(pid)
