"""Worker processes and the zygotes that make them: they outlive the servers that asked for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflow.app.participant.launcher import TaskLaunch
from fedflow.app.participant.processes import Processes
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import Handle
from fedflow.wire.task_report import read_report

if TYPE_CHECKING:
    from tests.sim.server import Server
    from tests.sim.world import World

PRIVATE = "column 'dice', row 6"  #: what a failing component says, for its own party only
_PATIENCE_MS = 60_000  #: how long a worker waits for its server to come back
_AGAIN_MS = 2_000


@dataclass
class Process:
    """A worker process."""

    server: Server
    launch: TaskLaunch
    token: str
    handle: Handle
    alive: bool = True
    accepted: bool = False  #: its server let it run
    hangs: bool = False


class FakeExecutor:
    """The executor port of one run of a server."""

    def __init__(self, world: World, server: Server, processes: Processes) -> None:
        self._world = world
        self._server = server
        self._life = server.life
        self._events = processes

    def start(self, launch: Any) -> None:
        if self._life.alive:
            self._world.workers.start(self._server, launch, self._events)

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        if self._life.alive:
            workers = self._world.workers
            self._world.after(
                self._world.worker_rng.randint(1, 50), lambda: workers.kill(handle.pid)
            )

    def adopt(self, launch_id: str, handle: Handle) -> bool:
        process = self._world.workers.alive.get(handle.pid)
        return process is not None


class Workers:
    """All worker processes of the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.alive: dict[int, Process] = {}
        self._pids = itertools.count(100)
        self._no_zygote_ms: dict[str, int] = {}  #: party -> until when it has none

    def lose_zygote(self, server: Server, *, for_ms: int) -> None:
        """Let launches of a server wait for a new zygote; ends of its children go unnoticed."""
        self._no_zygote_ms[server.party_id] = self._world.time.ms + for_ms

    def kill(self, pid: int, *, code: int | None = None) -> None:
        """End a process and tell the server that watches it, if it is up."""
        process = self.alive.pop(pid, None)
        if process is None:
            return
        process.alive = False
        server = process.server
        self._world.note(f"! process {pid} ends, {code=}", where=server.party_id)
        if self._without_zygote_ms(server) > 0:
            return  # nobody sees it but the detector
        launch, signal = process.launch, None if code is not None else 9
        server.soon(lambda core: core.workers.exited(launch.task, launch.launch_id, code, signal))

    def start(self, server: Server, launch: Any, events: Processes) -> None:
        """Make a process of a launch, sooner or later or never."""
        world, rng, faults = self._world, self._world.worker_rng, self._world.faults
        if faults.lost_launches and rng.random() < faults.lost_launches:
            world.trace.count("launches lost")
            return
        delay_ms = rng.randint(1, 4) + self._without_zygote_ms(server)
        if faults.slow_births and rng.random() < faults.slow_births:
            world.trace.count("births delayed")
            delay_ms += rng.randint(500, 30_000)
        task = server.stored_task(launch.task)
        if task is None or task.token is None:
            return
        life, token = server.life, task.token

        def born() -> None:
            if not life.alive and rng.random() < 0.5:
                return  # its zygote went with the server
            handle = Handle(pid=next(self._pids), start_time=world.time.ms, host="here")
            process = Process(server=server, launch=launch, token=token, handle=handle)
            self.alive[handle.pid] = process
            if life.alive:
                server.soon(lambda _: events.started(launch.launch_id, handle), life=life)
            if faults.dies_early and rng.random() < faults.dies_early:
                world.trace.count("processes died early")
                self.kill(handle.pid)
                return
            self._until_answered(process, self._running_body(process), self._accepted)

        world.after(delay_ms, born)

    def _without_zygote_ms(self, server: Server) -> int:
        return max(0, self._no_zygote_ms.get(server.party_id, 0) - self._world.time.ms)

    def _until_answered(
        self, process: Process, body: dict[str, Any], then: Callable[[Process], None]
    ) -> None:
        """Report until the server answers, as a worker does; end the process if it is refused."""
        deadline_ms = self._world.time.ms + _PATIENCE_MS

        def once() -> None:
            if not process.alive:
                return
            if process.server.is_stalled():
                self._world.after(_AGAIN_MS, once)
                return
            taken = self._report(process, body)
            if taken:
                then(process)
            elif taken is not None or self._world.time.ms > deadline_ms:
                self.kill(process.handle.pid, code=3)
            else:
                self._world.after(_AGAIN_MS, once)

        once()

    def _report(self, process: Process, body: dict[str, Any]) -> bool | None:
        """Return whether the server took the report; None if it cannot answer now."""
        launch = process.launch
        try:
            return process.server.enter(
                lambda core: (
                    core.workers.report(launch.task, process.token, read_report(body)) or True
                )
            )
        except StoreUnavailable:
            return None
        except FedflowError as exc:
            self._world.note(f"report of {launch.task} refused: {exc.name}")
            return False

    def _running_body(self, process: Process) -> dict[str, Any]:
        return {
            "launch_id": process.launch.launch_id,
            "party_status": "running",
            "pid": process.handle.pid,
            "start_time": process.handle.start_time,
        }

    def _accepted(self, process: Process) -> None:
        """Compute for a while."""
        world, rng, faults = self._world, self._world.worker_rng, self._world.faults
        process.accepted = True
        world.check.start(process)
        if faults.hangs and rng.random() < faults.hangs:
            world.trace.count("components hung")
            process.hangs = True
            return
        most_ms = 30_000 if process.launch.module == "Rounds" else 3_000
        world.after(rng.randint(1, most_ms), lambda: self.finish(process))

    def finish(self, process: Process) -> None:
        """Let the component end, well or not."""
        rng, faults = self._world.worker_rng, self._world.faults
        process.hangs = False
        if not process.alive:
            return
        if faults.dies_unreported and rng.random() < faults.dies_unreported:
            self._world.trace.count("processes died unreported")
            self.kill(process.handle.pid)
            return
        failed = bool(faults.fails) and rng.random() < faults.fails
        if failed:
            self._world.trace.count("components failed")
        body = {
            "launch_id": process.launch.launch_id,
            "party_status": "failed" if failed else "success",
            "error": {"code": "ComponentFailed", "message": PRIVATE} if failed else None,
        }
        self._until_answered(process, body, lambda p: self._reported(p, body))

    def _reported(self, process: Process, body: dict[str, Any]) -> None:
        rng, faults = self._world.worker_rng, self._world.faults
        if faults.says_twice and rng.random() < faults.says_twice:
            self._world.trace.count("reports repeated")
            self._report(process, body)
        pid = process.handle.pid
        self._world.after(rng.randint(1, 3), lambda: self.kill(pid, code=0))
