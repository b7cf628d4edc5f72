"""The servers of one party, and the time, in memory."""

from __future__ import annotations

from dataclasses import replace

from fedflow.base.clock import Clock
from fedflow.domain.servers import Instance
from fedflow.store.journal import Journal


class MemoryInstances:
    """See `app.ports.Instances`; the time is the given clock's."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._instances: dict[str, Instance] = {}

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def beat(self, instance: Instance) -> int:
        now_ms = self.now_ms()
        stored = replace(instance, started_ms=instance.started_ms or now_ms, beat_ms=now_ms)
        self._journal.put(self._instances, instance.instance_id, stored)
        return now_ms

    def all(self) -> list[Instance]:
        return sorted(self._instances.values(), key=lambda i: (i.started_ms, i.instance_id))

    def prune(self, older_than_ms: int) -> int:
        old = [i for i, one in self._instances.items() if one.beat_ms < older_than_ms]
        for instance_id in old:
            self._journal.drop(self._instances, instance_id)
        return len(old)
