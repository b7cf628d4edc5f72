"""Caches of components, in memory."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.caches import CacheFilter, StoredCache
from fedflow.domain.records import TaskKey
from fedflow.store.codec import plain
from fedflow.store.journal import Journal


class MemoryCaches:
    """See `app.ports.Caches`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._caches: dict[tuple[TaskKey, str], StoredCache] = {}

    def put(self, cache: StoredCache) -> None:
        stored = replace(cache, meta=plain(cache.meta), private=plain(cache.private))
        self._journal.put(self._caches, (cache.key, cache.name), stored)

    def find(self, which: CacheFilter) -> list[StoredCache]:
        latest: dict[tuple[str, str], int] = {}
        own = [c for c in self._caches.values() if c.key.site == which.site]
        for cache in own:
            of = (cache.key.job_id, cache.key.component)
            latest[of] = max(cache.key.version, latest.get(of, 0))
        found = [
            c
            for c in own
            if c.key.version == latest[c.key.job_id, c.key.component] and _fits(c, which)
        ]
        return sorted(found, key=lambda c: (c.created_ms, c.key.job_id, c.key.component, c.name))

    def drop(self, which: CacheFilter) -> list[StoredCache]:
        found = [c for c in self._caches.values() if _fits(c, which)]
        for cache in found:
            self._journal.drop(self._caches, (cache.key, cache.name))
        return found


def _fits(cache: StoredCache, which: CacheFilter) -> bool:
    return (
        cache.key.site == which.site
        and which.cache_key in (None, cache.cache_key)
        and which.job_id in (None, cache.key.job_id)
        and which.component in (None, cache.key.component)
        and which.name in (None, cache.name)
    )
