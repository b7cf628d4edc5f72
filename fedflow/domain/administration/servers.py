"""The servers of one party, which share one database, and which of them is alive."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from fedflow.base.values import dataclass

LOST_AFTER_MS: Final = 10_000  #: a server that did not beat for longer is lost
LEASE_MS: Final = 10_000  #: how long a leader may lead without a beat
BEAT_MS: Final = 2_000  #: pause between two beats
FORGET_AFTER_MS: Final = 86_400_000  #: a server that did not beat for longer is not listed


class InstanceState(StrEnum):
    """What a server says of itself."""

    UP = "up"
    DRAINING = "draining"  #: it starts no executors and does not lead
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """One server of this party. Times are the database's, in milliseconds since the epoch."""

    instance_id: str  #: the same whenever a server of this home runs
    host: str  #: the machine, as in `Handle.host`
    http: str  #: host:port of its REST API
    grpc: str  #: host:port for the party's other servers, and for other parties
    version: str
    shared_mark: str  #: what the folder of tables and models says of itself
    secret: str  #: what the party's other servers prove themselves with
    state: InstanceState = InstanceState.UP
    started_ms: int = 0
    beat_ms: int = 0

    def is_alive(self, now_ms: int) -> bool:
        """Tell whether it beat lately and has not stopped."""
        return self.state is not InstanceState.STOPPED and not self.is_lost(now_ms)

    def is_lost(self, now_ms: int) -> bool:
        """Tell whether it has been silent for so long that its executors count as lost."""
        return now_ms - self.beat_ms > LOST_AFTER_MS


def living_others(
    instances: Sequence[Instance], own_id: str, *, now_ms: int
) -> tuple[Instance, ...]:
    """Return the other servers that are alive."""
    return tuple(i for i in instances if i.instance_id != own_id and i.is_alive(now_ms))
