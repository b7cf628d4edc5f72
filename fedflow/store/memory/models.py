"""Versions of models, in memory: simulated processes leave no parts of models, and no caches."""

from __future__ import annotations

from fedflow.domain.data.caches import CacheFilter, StoredCache
from fedflow.domain.models.model import Checkpoint, ModelComponent, ModelKey, ModelVersion
from fedflow.store.memory.journal import Journal


class MemoryModels:
    """What simulations use of `app.ports.models.ModelVersionStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._versions: dict[ModelKey, ModelVersion] = {}

    def put(self, version: ModelVersion) -> None:
        self._journal.put(self._versions, version.key, version)

    def get(self, key: ModelKey) -> ModelVersion | None:
        return self._versions.get(key)

    def components(self, key: ModelKey) -> list[ModelComponent]:
        return []

    def checkpoints(self, key: ModelKey, component: str | None = None) -> list[Checkpoint]:
        return []


class MemoryCaches:
    """What simulations use of `app.ports.data.CacheStore`."""

    def find(self, which: CacheFilter) -> list[StoredCache]:
        return []
