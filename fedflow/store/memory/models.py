"""Versions of models, in memory: simulated processes leave no parts of models, and no caches."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.data.caches import CacheFilter, StoredCache
from fedflow.domain.models.model import Checkpoint, ModelComponent, ModelKey, ModelVersion
from fedflow.store.memory.journal import Journal


class MemoryModels:
    """What simulations use of `app.ports.models.ModelVersionStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._versions: dict[ModelKey, ModelVersion] = {}

    def put_trained(self, version: ModelVersion) -> bool:
        known = self._versions.get(version.key)
        if known is not None:
            if (known.job_id, known.initiator) != (version.job_id, version.initiator):
                return False
            version = replace(version, created_ms=known.created_ms, loaded_times=known.loaded_times)
        self._journal.put(self._versions, version.key, version)
        return True

    def has_version(self, model_version: str) -> bool:
        return any(key.model_version == model_version for key in self._versions)

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
