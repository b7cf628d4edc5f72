"""Results of requests by the ids that callers gave them: a repeated request is answered again.

The key is over all that the request has, so another one under the same id gets its own score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.base.clock import Clock
from fedflow.serving.caches.entries import NewEntry
from fedflow.serving.caches.keys import CacheKey, CacheKeys, CacheScope, CacheSelection
from fedflow.serving.caches.memory import MemoryCache
from fedflow.serving.caches.settings import ResultCacheSettings
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.metrics import ServingMetrics

_ANSWER_BYTES: Final = 200
_SCORE_BYTES: Final = 32

RequestRow = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""Request id, features and ids of a row."""


class CachedResults:
    """Answers to rows. Thread-safe."""

    def __init__(
        self,
        keys: CacheKeys,
        settings: ResultCacheSettings,
        *,
        metrics: ServingMetrics,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._seconds = settings.seconds
        self._metrics = metrics
        self._purges = 0
        self._memory: MemoryCache[ItemAnswer] = MemoryCache(
            entries=settings.entries,
            size_bytes=settings.mib << 20,
            size_of=_size,
            clock=clock,
            evicted=lambda number: metrics.cache_evictions.add("results", number=number),
        )

    def find(self, scope: CacheScope, rows: Sequence[RequestRow]) -> FoundResults:
        """Return the answers to rows that were given before."""
        keys = self._keys.results(scope, rows)
        purges = self._purges
        found = self._memory.get_many(keys)
        answers = [None if one is None else one.value for one in found]
        hits = sum(one is not None for one in answers)
        self._metrics.cache_lookups.add("results", "hit", number=hits)
        self._metrics.cache_lookups.add("results", "miss", number=len(keys) - hits)
        return FoundResults(keys, answers, purges)

    def store(self, found: FoundResults, answers: Sequence[ItemAnswer]) -> None:
        """Store answers to all rows of a look-up; errors are left out.

        Nothing is stored if somebody purged the cache meanwhile.
        """
        if found.purges != self._purges:
            return
        self._memory.put_many(
            [
                NewEntry(key, answer, self._seconds)
                for key, known, answer in zip(found.keys, found.answers, answers, strict=True)
                if known is None and not answer.retcode
            ]
        )
        if found.purges != self._purges:
            self._memory.remove_many(found.keys)

    def purge(self, selection: CacheSelection) -> int:
        """Forget all selected results; return how many."""
        self._purges += 1
        return self._memory.purge(selection)


class FoundResults:
    """What a look-up gave."""

    __slots__ = ("answers", "keys", "purges")

    def __init__(self, keys: list[CacheKey], answers: list[ItemAnswer | None], purges: int) -> None:
        self.keys = keys
        self.answers = answers  #: per row; None: it must be scored
        self.purges = purges


def _size(answer: ItemAnswer) -> int:
    scores = len(answer.score) if isinstance(answer.score, list) else 1
    return _ANSWER_BYTES + scores * _SCORE_BYTES
