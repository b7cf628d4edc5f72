"""What this server is: versions, readiness, its own place."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fedflow import __version__
from fedflow.app.ports.executors import STARTING
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.wire.api.parties import PartyInfo

FATE_VERSION = "1.11.4"  #: the FATE release whose interface this server speaks
FATE_FLOW_VERSION = "1.11.2"
API_VERSION = "v1"
MIB: Final = 1024 * 1024
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
                    free[name] = _free_bytes(path)
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

    def closed(self) -> list[str]:
        """Return the folders that this process may not write to."""
        seen: dict[Path, str] = {}
        for name, path in self._folders.items():
            if path.exists() and not os.access(path, os.W_OK | os.X_OK):
                seen.setdefault(path, name)
        return list(seen.values())


def _free_bytes(path: Path) -> int:
    """Return the free bytes of a file system. Raises: OSError."""
    found = os.statvfs(path)
    has_files = found.f_files == 0 or found.f_favail > 0
    return found.f_bavail * found.f_frsize if has_files else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    """How the parts of a server are asked whether they are well."""

    executor_fault: Callable[[], str]  #: why processes cannot be started; empty: they can
    unreachable: Callable[[], list[str]] = list  #: parties that do not answer
    disks: Disks = field(default_factory=Disks)
    is_draining: Callable[[], bool] = bool


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
        """Tell whether the server can run jobs, and how each part stands."""
        with self._store.read() as tx:
            engine = tx.engines.get(STANDALONE)
            spark = tx.engines.get(SPARK) if self._engines.spark else None
            waiting = tx.outbox.size()
        fault = self._probes.executor_fault()
        free = self._probes.disks.free()
        low = self._probes.disks.complaints(free)
        closed = self._probes.disks.closed()
        reasons = [
            *([] if engine is not None else ["store: it has no engine"]),
            *([f"executor: {fault}"] if fault else []),
            *low,
            *(f"{name}: the user of this server may not write to this folder" for name in closed),
        ]
        parts: dict[str, Any] = {
            "store": engine is not None,
            "executor": not fault,
            "disk": not low,
            "free_bytes": free,
            "closed": closed,
            "reasons": reasons,
            "starting": fault == STARTING,
            "draining": self._probes.is_draining(),
            "outbox": waiting,
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
        if spark is not None:
            parts["spark_cores"] = {"total": spark.cores, "free": spark.remaining_cores}
        return not reasons, parts
