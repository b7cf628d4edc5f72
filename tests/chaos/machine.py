"""Faults of a party's machine: its disk, its clock, its database, and what the system grants it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from fedflow.app.protocol.folders import Folders
from fedflow.base.clock import SystemClock
from fedflow.server.sockets import socket_folder
from tests.chaos.fault import Fault, paused
from tests.chaos.parties import ChaosParty, PutBack, World

SPARE_BYTES = 4 << 20  #: of address space, less than the stack of one thread
SPARE_FILES = 3
_AWAY = ".away"
_clock = SystemClock()


# --- disk -----------------------------------------------------------------------------------------


@contextmanager
def disk_full(world: World, fault: Fault) -> Iterator[None]:
    """Fill the disk, and whatever is freed on it meanwhile is filled again at the end only."""
    filler = world.parties[fault.party].home / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield
    filler.unlink()


@contextmanager
def sockets_lost(world: World, fault: Fault) -> Iterator[None]:
    """Remove the unix sockets of a server, as a cleaner of temporary files does."""
    folder = socket_folder(Folders(world.parties[fault.party].home))
    for file in folder.iterdir():
        if file.is_socket():
            file.unlink()
    yield


# --- clock ----------------------------------------------------------------------------------------


@contextmanager
def clock_step(world: World, fault: Fault) -> Iterator[None]:
    """Put the clock of one party up to five minutes forward or back, and right again."""
    world.parties[fault.party].step_clock(600 * fault.amount - 300)
    yield
    world.parties[fault.party].step_clock(0.0)


# --- database -------------------------------------------------------------------------------------


@contextmanager
def database_kill(world: World, fault: Fault) -> Iterator[None]:
    database = world.parties[fault.party].database
    assert database is not None
    database.kill()
    yield
    database.start()


@contextmanager
def database_pause(world: World, fault: Fault) -> Iterator[None]:
    database = world.parties[fault.party].database
    assert database is not None
    assert database.process is not None
    with paused(database.process.pid):
        yield


@contextmanager
def store_read_only(world: World, fault: Fault) -> Iterator[None]:
    """Let the store answer questions and refuse writes: by the database's own word, or as the
    server may write no file.
    """
    party = world.parties[fault.party]
    if party.database is None:
        with _limited(party, psutil.RLIMIT_FSIZE, 0):
            yield
        return
    party.database.set_read_only(True)
    yield
    party.database.set_read_only(False)


@contextmanager
def database_away(world: World, fault: Fault) -> Iterator[None]:
    """Move the files of an SQLite database aside while the server has them open, and back."""
    home = world.parties[fault.party].home
    files = [file for file in home.glob("fedflow.sqlite*") if file.suffix != _AWAY]
    for file in files:
        file.rename(_aside(file))
    yield
    for file in files:
        _aside(file).rename(file)


@contextmanager
def database_put_back(world: World, fault: Fault) -> Iterator[None]:
    """Put an SQLite database back as it was when the fault began, under a server that was killed:
    what happened meanwhile is lost at that party.
    """
    party = world.parties[fault.party]
    file, copy = party.home / "fedflow.sqlite", party.home.parent / "backup.sqlite"
    copied_s = _clock.monotonic_s()
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    yield
    party.kill()
    for one in party.home.glob("fedflow.sqlite*"):
        one.unlink()
    shutil.move(copy, file)
    ended_s = _clock.monotonic_s()
    world.put_back.append(PutBack(party_id=party.id, copied_s=copied_s, ended_s=ended_s))
    party.start()


def _aside(file: Path) -> Path:
    return file.with_name(file.name + _AWAY)


# --- what the system grants -----------------------------------------------------------------------


@contextmanager
def address_space(world: World, fault: Fault) -> Iterator[None]:
    """Let a server have hardly more memory than it has: no thread can be started."""
    party = world.parties[fault.party]
    with _limited(party, psutil.RLIMIT_AS, _process(party).memory_info().vms + SPARE_BYTES):
        yield
    if party.process is not None and party.process.poll() is not None:
        party.start()  # a library may end the process; then it is started as after a kill


@contextmanager
def descriptors(world: World, fault: Fault) -> Iterator[None]:
    """Let a server open hardly more files and connections than it has open."""
    party = world.parties[fault.party]
    highest = max(int(entry.name) for entry in Path(f"/proc/{_process(party).pid}/fd").iterdir())
    with _limited(party, psutil.RLIMIT_NOFILE, highest + 1 + SPARE_FILES):
        yield


@contextmanager
def _limited(party: ChaosParty, resource: int, limit: int) -> Iterator[None]:
    """Bound a resource of a server's process alone; its children keep what they have."""
    process = _process(party)
    soft, hard = process.rlimit(resource)
    process.rlimit(resource, (limit, hard))
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.rlimit(resource, (soft, hard))


def _process(party: ChaosParty) -> psutil.Process:
    assert party.process is not None
    return psutil.Process(party.process.pid)
