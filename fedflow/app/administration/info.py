"""What this server is: versions, readiness, its own place."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fedflow import __version__
from fedflow.app.administration.bounded import ANSWER_S, Bounded
from fedflow.app.ports.executors import STARTING
from fedflow.app.ports.store import Store
from fedflow.app.protocol.party_leases import prove_store
from fedflow.base.clock import Clock
from fedflow.base.disk import free_bytes
from fedflow.base.errors.store import DatabaseFileLost, StoreUnavailable
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.domain.records import Engine
from fedflow.wire.api.parties import DialInState, PartyInfo

logger = logging.getLogger(__name__)

FATE_VERSION = "1.11.4"  #: the FATE release whose interface this server speaks
FATE_FLOW_VERSION = "1.11.2"
API_VERSION = "v1"
MIB: Final = 1024 * 1024
KEEP_S: Final = 2.0  #: a change that was stored, and a file that was written, count for so long
CLOSED: Final = "the user of this server may not write to this folder"
FILE_LOST: Final = (
    "the database file was removed, or replaced, under the running server; stop it, put the right "
    "file in its place, and start it again"
)
NOT_STORED: Final = (
    "no change can be stored, the server's log says why; see its disk, or its database server"
)
_NONE: Final[Mapping[str, Path]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerIdentity:
    """Where this server listens and who it is."""

    host: str
    http_port: int
    grpc_host: str
    grpc_port: int
    party_id: str | None
    insecure: bool


class Disks:
    """The free space of the folders that a server writes to."""

    def __init__(self, folders: Mapping[str, Path] = _NONE, *, least_bytes: int = 0) -> None:
        """`folders`: what people call them -> where; of those on one file system the first counts.

        With less than `least_bytes` in one of them the server takes no jobs.
        """
        self._folders = folders
        self._least_bytes = least_bytes

    def free(self) -> dict[str, int]:
        """Return the free bytes by folder; 0 also if no further file can be created."""
        free: dict[str, int] = {}
        seen: set[int] = set()
        for name, path in self._folders.items():
            try:
                device = path.stat().st_dev
                if device not in seen:
                    seen.add(device)
                    free[name] = free_bytes(path)
            except FileNotFoundError:
                continue  # it is created when it is needed
            except OSError:
                free[name] = 0
        return free

    def complaints(self, free: Mapping[str, int]) -> list[str]:
        """Return a sentence for each folder with too little space."""
        least_mib = self._least_bytes // MIB
        return [
            f"{name}: {left // MIB} MiB are free, health.min_free_mib asks for {least_mib}"
            for name, left in free.items()
            if left < self._least_bytes
        ]

    def unwritable(self) -> dict[str, str]:
        """Write a small file on each file system, and delete it; return where and why that failed.

        It reaches the disk, which may take its time.
        """
        found: dict[str, str] = {}
        seen: set[int] = set()
        for name, path in self._folders.items():
            try:
                device = path.stat().st_dev
                if device not in seen:
                    seen.add(device)
                    _write_file(path / f".health-{os.getpid()}")
            except FileNotFoundError:
                continue  # it is created when it is needed
            except OSError as exc:
                found[name] = exc.strerror or str(exc)
        return found

    def closed(self) -> list[str]:
        """Return the folders that this process may not write to."""
        seen: dict[Path, str] = {}
        for name, path in self._folders.items():
            if path.exists() and not os.access(path, os.W_OK | os.X_OK):
                seen.setdefault(path, name)
        return list(seen.values())


def _write_file(path: Path) -> None:
    """Write a file through to the disk, and delete it. Raises: OSError."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"x")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        path.unlink()


@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    """How the parts of a server are asked whether they are well."""

    executor_fault: Callable[[], str]  #: why processes cannot be started; empty: they can
    unreachable: Callable[[], list[str]] = list  #: parties that do not answer
    disks: Disks = field(default_factory=Disks)
    is_draining: Callable[[], bool] = bool
    faults: Callable[[], list[str]] = list  #: of what only the process knows: threads, sockets
    warnings: Callable[[], list[str]] = list  #: what people should know of a ready server
    dial_in: Callable[[], list[DialInState]] = list  #: lines to exchanges


class Info:
    """Answers questions about the server itself."""

    def __init__(
        self,
        *,
        store: Store,
        engines: OwnEngines,
        probes: Probes,
        place: ServerIdentity,
        clock: Clock,
    ) -> None:
        self._probes = probes
        self._clock = clock
        self._store = store
        self._engines = engines
        self._stored = _StoreState()  #: the last look
        self._stored_s = self._written_s = -KEEP_S  #: the last change, the last file
        self._unwritable: Mapping[str, str] = {}
        self._store_look = Bounded("store", self._look_at_store)
        self._disk_look = Bounded("folders", self._look_at_disks)
        self.place = place

    def versions(self) -> dict[str, str]:
        """Return version by module name, as FATE's clients ask for them."""
        return {
            "FATE": FATE_VERSION,
            "FATEFlow": FATE_FLOW_VERSION,
            "fedflow": __version__,
            "PYTHON": platform.python_version(),
            "API": API_VERSION,
        }

    def common(self) -> PartyInfo:
        """Return where this server listens and who it is, as FATE's `info/common` tells it."""
        place = self.place
        return PartyInfo(
            version=FATE_FLOW_VERSION,
            host=place.host,
            http_port=place.http_port,
            grpc_port=place.grpc_port,
            party_id=place.party_id or "",
        )

    def instance_id(self) -> str:
        """Return the name of this server among those of its party."""
        return f"flow-{self.place.host}-{self.place.http_port}"

    def now_ms(self) -> int:
        """Return the server's time."""
        return self._clock.now_ms()

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Tell whether the server can run jobs, and how each part stands.

        It is ready only if each part was seen to work in the last seconds: a change was stored, a
        file was written. What hangs is a fault; the answer does not wait for it.
        """
        self._store_look.begin()
        self._disk_look.begin()
        until_s = time.monotonic() + ANSWER_S
        store = self._store_look.wait(until_s) or replace(
            self._stored, fault=_silent(self._store_look, "see its disk, or its database server")
        )
        disk = self._disk_look.wait(until_s) or _DiskState(
            fault=_silent(self._disk_look, "see its disk or mount")
        )
        engine, spark, fault = store.engine, store.spark, self._probes.executor_fault()
        reasons = [
            *([f"store: {store.fault}"] if store.fault else []),
            *(["store: it has no engine"] if engine is None and not store.fault else []),
            *([f"executor: {fault}"] if fault else []),
            *([f"home: {disk.fault}"] if disk.fault else []),
            *disk.low,
            *(f"{name}: {CLOSED}" for name in disk.closed),
            *(f"{name}: no file can be written: {why}" for name, why in disk.unwritable.items()),
            *self._probes.faults(),
        ]
        parts: dict[str, Any] = {
            "store": engine is not None and not store.fault,
            "executor": not fault,
            "disk": not (disk.low or disk.fault or disk.unwritable),
            "free_bytes": disk.free,
            "closed": disk.closed,
            "reasons": reasons,
            "warnings": self._probes.warnings(),
            "starting": fault == STARTING,
            "draining": self._probes.is_draining(),
            "outbox": store.waiting,
            "cores": {
                "total": engine.cores if engine else 0,
                "free": engine.remaining_cores if engine else 0,
            },
            "memory_mib": {
                "total": engine.memory if engine else 0,
                "free": engine.remaining_memory if engine and engine.memory else 0,
            },
            "unreachable": self._probes.unreachable(),
        }
        if dial_in := self.dial_in():
            parts["dial_in"] = msgspec.to_builtins(dial_in)
        if spark is not None:
            parts["spark_cores"] = {"total": spark.cores, "free": spark.remaining_cores}
        return not reasons, parts

    def dial_in(self) -> list[DialInState]:
        """Return how the lines to each exchange stand, over which calls for this server come."""
        return self._probes.dial_in()

    def require_store(self) -> None:
        """See that changes can be stored, for calls of other parties that store nothing.

        Raises: StoreUnavailable: they cannot.
        """
        if time.monotonic() - self._stored_s < KEEP_S:
            return
        with self._store.transaction() as tx:
            prove_store(tx, self._clock.now_ms())
        self._stored_s = time.monotonic()

    def _look_at_store(self) -> _StoreState:
        """Read what `ready` tells; store a change too if the last one is seconds ago."""
        writes = time.monotonic() - self._stored_s >= KEEP_S
        try:
            with self._store.transaction() if writes else self._store.read() as tx:
                if writes:
                    prove_store(tx, self._clock.now_ms())
                self._stored = _StoreState(
                    engine=tx.engines.get(STANDALONE),
                    spark=tx.engines.get(SPARK) if self._engines.spark else None,
                    waiting=tx.outbox.size(),
                )
        except StoreUnavailable as exc:
            logger.error("%s", exc.message, extra={"action": "store_unavailable"})
            self._stored_s = -KEEP_S
            lost = isinstance(exc, DatabaseFileLost)
            return replace(self._stored, fault=FILE_LOST if lost else NOT_STORED)
        if writes:
            self._stored_s = time.monotonic()
        return self._stored

    def _look_at_disks(self) -> _DiskState:
        disks = self._probes.disks
        if time.monotonic() - self._written_s >= KEEP_S:
            self._unwritable = disks.unwritable()
            self._written_s = time.monotonic()
        free = disks.free()
        closed = disks.closed()
        return _DiskState(
            free=free,
            low=disks.complaints(free),
            closed=closed,
            unwritable={n: why for n, why in self._unwritable.items() if n not in closed},
        )


def _silent(look: Bounded[Any], hint: str) -> str:
    return f"it has not answered for {look.silent_s():.0f} s; {hint}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoreState:
    """What a look at the store saw; with a fault the rest is from before."""

    engine: Engine | None = None
    spark: Engine | None = None
    waiting: int = 0  #: commands in the outbox
    fault: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _DiskState:
    """What a look at the folders saw."""

    free: Mapping[str, int] = field(default_factory=dict)
    low: Sequence[str] = ()
    closed: Sequence[str] = ()
    unwritable: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
