"""What this server is: versions, readiness, its own place."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from fedflow import __version__
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.wire.api.parties import PartyInfo

FATE_VERSION = "1.11.4"  #: the FATE release whose interface this server speaks
FATE_FLOW_VERSION = "1.11.2"
API_VERSION = "v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerIdentity:
    """Where this server listens and who it is."""

    host: str
    http_port: int
    grpc_host: str
    grpc_port: int
    party_id: str | None
    insecure: bool


class Info:
    """Answers questions about the server itself."""

    def __init__(
        self,
        *,
        store: Store,
        engines: OwnEngines,
        executor_ready: Callable[[], bool],
        place: ServerIdentity,
        clock: Clock,
        unreachable: Callable[[], list[str]] = list,
    ) -> None:
        self._unreachable = unreachable
        self._clock = clock
        self._store = store
        self._engines = engines
        self._executor_ready = executor_ready
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
        executor = self._executor_ready()
        parts = {
            "store": engine is not None,
            "executor": executor,
            "outbox": waiting,
            "cores": {
                "total": engine.cores if engine else 0,
                "free": engine.remaining_cores if engine else 0,
            },
            "memory_mib": {
                "total": engine.memory if engine else 0,
                "free": engine.remaining_memory if engine and engine.memory else 0,
            },
            "unreachable": self._unreachable(),
        }
        if spark is not None:
            parts["spark_cores"] = {"total": spark.cores, "free": spark.remaining_cores}
        return engine is not None and executor, parts
