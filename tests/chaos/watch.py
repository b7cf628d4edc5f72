"""Sees which processes of executors there are, all the time: no task may ever run in two."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import psutil

from fedflow.base.clock import pause
from tests.chaos.parties import World
from tests.e2e.servers import pids_below

LOOK_S = 0.2


@dataclass(frozen=True, order=True)
class Process:
    """A process in the working folder of one attempt; the folder's name is that of the attempt."""

    folder: Path
    pid: int

    @property
    def task(self) -> str:
        """Return the folder without the number of the attempt."""
        return str(self.folder).rpartition("-")[0]


class Watch:
    """A thread that looks at the working folders of all processes, and revives databases."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self.pairs: set[tuple[Process, Process]] = set()
        """Processes of one task that were there at once. One that waits for the server's word, and
        one that was refused and is about to end, are among them."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not pause(LOOK_S, self._stop):
            for party in self._world.all:
                self._look(party.shared / "jobs")
            for database in self._world.databases:
                database.revive()

    def _look(self, jobs: Path) -> None:
        tasks: dict[str, list[Process]] = defaultdict(list)
        for pid, folder in sorted(pids_below(jobs).items()):
            if folder != jobs and _runs(pid):
                process = Process(folder, pid)
                tasks[process.task].append(process)
        for processes in tasks.values():
            self.pairs |= set(combinations(processes, 2))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False
