"""What must be as it was after an attack: stores, files, memory, descriptors, disk, logs."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from fedflow.base.clock import pause
from tests.attack.database import Rows, all_rows, count_rows
from tests.attack.scene import HOSTILE, MIB, memory_mib, name_of, shared_home
from tests.chaos.checks import open_files, tracebacks
from tests.e2e.servers import Party, wait_for

MEMORY_MIB: Final = 64  #: how much more memory a server may have afterwards than before
POOLS_MIB: Final = 96  #: or than at its start: what allocators keep of their first large use
PEAK_MIB: Final = 256  #: and meanwhile
DESCRIPTORS: Final = 16  #: how many more descriptors
DISK_MIB: Final = 48  #: how much more disk, honest jobs and SQLite's journal included
LOG_MIB: Final = 1.0  #: how much more of a server's log
SETTLE_S: Final = 20.0  #: how long all of it may take to be given back


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A party at one moment. Memory is MiB resident of the server alone."""

    rows: Rows
    files: dict[str, str]
    memory: float
    descriptors: int
    disk: float  #: MiB
    log: float  #: MiB
    tracebacks: Counter[tuple[str, str]]


def look(party: Party) -> Snapshot:
    """Look at a party's store, files and server."""
    assert party.process is not None
    return Snapshot(
        rows=all_rows(party),
        files=_files(party.home) | _files(shared_home(party)),
        memory=memory_mib(party),
        descriptors=len(open_files(party.process.pid)),
        disk=_disk_mib(party.home),
        log=_log_mib(party),
        tracebacks=Counter(tracebacks(party.log)),
    )


def settle(party: Party) -> None:
    """Wait until a party has nothing to do any more. Raises: AssertionError."""

    def is_idle() -> bool:
        return not count_rows(party, "t_outbox")

    party.wait_idle(within_s=SETTLE_S)
    wait_for(is_idle, f"{name_of(party)} to have sent everything", within_s=SETTLE_S)


def violations(
    party: Party, before: Snapshot, *, own: Collection[str], honest: Collection[str],
    peak_mib: float, start_mib: float,
) -> Iterator[str]:  # fmt: skip
    """Yield what an attack did to a party that it may not.

    `own` are ids of jobs of which the attacker is a party, `honest` those that ran meanwhile.
    Of memory: `peak_mib` is the most that there was meanwhile, `start_mib` what there was at first.
    """
    name = name_of(party)
    if party.process is None or party.process.poll() is not None:
        yield f"{name}: the server ended"
        return
    yield from (f"{name}: {text}" for text in _unsettled(party, before, start_mib))
    after = look(party)
    known = _own_jobs(after.rows) | set(own)
    yield from (f"{name}: {text}" for text in _changed(before, after, known, set(honest)))
    if peak_mib - before.memory > PEAK_MIB:
        yield f"{name}: memory had a peak of {peak_mib:.0f} MiB, {before.memory:.0f} before"
    if after.disk - before.disk > DISK_MIB:
        yield f"{name}: disk grew by {after.disk - before.disk:.0f} MiB"
    if after.log - before.log > LOG_MIB:
        yield f"{name}: the log grew by {after.log - before.log:.1f} MiB"
    for (place, error), times in (after.tracebacks - before.tracebacks).items():
        yield f"{name}: traceback {times} x {error} ({place})"


def _unsettled(party: Party, before: Snapshot, start_mib: float) -> Iterator[str]:
    """Wait until what an attack used is given back, and yield what is not."""
    assert party.process is not None
    pid = party.process.pid
    most_mib = max(before.memory + MEMORY_MIB, start_mib + POOLS_MIB)
    wanted: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("not ready", lambda: bool(party.readiness().get("ready"))),
        ("processes are left", lambda: len(party.processes()) == 2),
        ("descriptors", lambda: len(open_files(pid)) <= before.descriptors + DESCRIPTORS),
        ("memory", lambda: memory_mib(party) <= most_mib),
    )
    for what, holds in wanted:
        with suppress(AssertionError):
            wait_for(holds, what, within_s=SETTLE_S)
            continue
        now = f"{len(open_files(pid))} descriptors, {memory_mib(party):.0f} MiB"
        yield f"{what}: {now}; before {before.descriptors}, {before.memory:.0f} MiB"


# --- stores ---------------------------------------------------------------------------------------


def _own_jobs(rows: Rows) -> set[str]:
    """Return the ids of jobs that a hostile party has initiated."""
    return {
        key[1]
        for key, (_, text) in rows.items()
        if key[0] == "t_job" and any(f"'{party}'" in text.split(", ")[4] for party in HOSTILE)
    }


def _changed(before: Snapshot, after: Snapshot, own: set[str], honest: set[str]) -> Iterator[str]:
    for key, (digest, text) in before.rows.items():
        now = after.rows.get(key)
        if (now is None or now[0] != digest) and not _names(text, own):
            yield f"{'lost' if now is None else 'changed'} row {' '.join(key)[:120]}"
    for key, (_, text) in after.rows.items():
        if key not in before.rows and not _names(text, own | honest):
            yield f"new row {' '.join(key)[:120]}: {text[:200]}"
    for path, digest in before.files.items():
        if after.files.get(path) != digest and not _names(path, own):
            yield f"{'lost' if path not in after.files else 'changed'} file {path}"


def _names(text: str, ids: set[str]) -> bool:
    return any(one in text for one in ids)


def _files(home: Path) -> dict[str, str]:
    """Return the files that stay as they are -> when each was written, and its size. Who stores
    what a model's file already holds makes that look new, so of these the contents count.
    """
    found, blobs = {}, home / "models" / "blobs"
    for folder in ("tables", "models", "keys", "jobs", "logs", "downloads", "providers"):
        for path in (home / folder).rglob("*"):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_relative_to(home / "logs" / "server"):
                    status = path.stat()
                    found[str(path.relative_to(home))] = (
                        hashlib.sha256(path.read_bytes()).hexdigest()
                        if path.is_relative_to(blobs)
                        else f"{status.st_mtime_ns} {status.st_size}"
                    )
    return found


# --- amounts --------------------------------------------------------------------------------------


def _disk_mib(home: Path) -> float:
    total = 0
    for path in home.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total / MIB


def _log_mib(party: Party) -> float:
    return party.log.stat().st_size / MIB


@dataclass
class Peaks:
    """A thread that keeps the most memory that each of some servers had."""

    parties: tuple[Party, ...]
    mib: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peaks")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            for party in self.parties:
                name = name_of(party)
                self.mib[name] = max(self.mib.get(name, 0.0), memory_mib(party))
            if pause(0.1, self._stop):
                return
