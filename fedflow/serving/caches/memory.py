"""Values in the process: the least recently used go first, and all after their life.

Ages are those of the monotonic clock, so that steps of the wall clock do not matter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from fedflow.base.clock import Clock
from fedflow.serving.caches.entries import Aged, NewEntry
from fedflow.serving.caches.keys import CacheKey, CacheSelection

V = TypeVar("V")

_ENTRY_BYTES: Final = 700  #: of a key, its parts and its place, roughly


class _Stored(NamedTuple, Generic[V]):
    value: V
    born_s: float
    life_s: float
    size: int


class MemoryCache(Generic[V]):
    """A bounded cache. Thread-safe."""

    def __init__(
        self,
        *,
        entries: int,
        size_bytes: int,
        size_of: Callable[[V], int],
        clock: Clock,
        evicted: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`size_of` tells how large a value is; `evicted` is told how many had to go."""
        self._entries = entries
        self._size_bytes = size_bytes
        self._size_of = size_of
        self._clock = clock
        self._evicted = evicted
        self._lock = threading.Lock()
        self._stored: OrderedDict[CacheKey, _Stored[V]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def size_bytes(self) -> int:
        """Return how large all of it is, roughly."""
        return self._size

    def get_many(self, keys: Sequence[CacheKey]) -> list[Aged[V] | None]:
        """Return what is stored under keys, in their order."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            return [self._get(key, now_s) for key in keys]

    def put_many(self, entries: Sequence[NewEntry[V]]) -> None:
        """Store values; one that is larger than the cache is left out."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            for key, value, life_s, age_s in entries:
                size = self._size_of(value) + _ENTRY_BYTES
                self._drop(key)
                if size <= self._size_bytes and age_s <= life_s:
                    self._stored[key] = _Stored(value, now_s - age_s, life_s, size)
                    self._size += size
            evicted = self._shrink()
        if evicted:
            self._evicted(evicted)

    def remove_many(self, keys: Sequence[CacheKey]) -> None:
        """Forget values."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def purge(self, selection: CacheSelection) -> int:
        """Forget all selected values; return how many."""
        with self._lock:
            keys = list(self._stored)
        found = [key for key in keys if selection.matches(key)]
        with self._lock:
            return sum(self._drop(key) for key in found)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._stored.clear()
            self._size = 0

    def _get(self, key: CacheKey, now_s: float) -> Aged[V] | None:
        stored = self._stored.get(key)
        if stored is None:
            return None
        age_s = now_s - stored.born_s
        if age_s > stored.life_s:
            self._drop(key)
            return None
        self._stored.move_to_end(key)
        return Aged(stored.value, age_s)

    def _drop(self, key: CacheKey) -> bool:
        stored = self._stored.pop(key, None)
        if stored is None:
            return False
        self._size -= stored.size
        return True

    def _shrink(self) -> int:
        """Forget the values that were not used for longest, as long as there are too many."""
        number = 0
        while len(self._stored) > self._entries or self._size > self._size_bytes:
            _, stored = self._stored.popitem(last=False)
            self._size -= stored.size
            number += 1
        return number
