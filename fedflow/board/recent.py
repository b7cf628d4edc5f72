"""What many people look at is computed once for all of them, and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import field
from math import inf
from typing import Generic, TypeVar, cast

from flask import current_app

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.values import dataclass

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class RecentValues(Generic[_K, _V]):
    """Values by key: the `limit` that were asked for last. Safe for threads.

    A key names all that its value depends on; what changes without a new key is made again when it
    is `fresh_s` seconds old. Who asks for a value while it is made waits for it.
    """

    def __init__(self, limit: int, *, fresh_s: float = inf, clock: Clock | None = None) -> None:
        self._limit = limit
        self._fresh_s = fresh_s
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._entries: OrderedDict[_K, _Entry[_V]] = OrderedDict()

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return what `make` gave for a key, or gives now; it must not ask for the same key."""
        entry = self._entry(key)
        with entry.lock:
            now_s = self._clock.monotonic_s()
            if entry.made is None or now_s - entry.made.at_s >= self._fresh_s:
                value = make()
                entry.made = _Made(self._clock.monotonic_s(), value)
            return entry.made.value

    def _entry(self, key: _K) -> _Entry[_V]:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._limit:
                self._entries.popitem(last=False)
        return entry


@dataclass(frozen=True, slots=True)
class _Made(Generic[_V]):
    at_s: float
    value: _V


@dataclass(slots=True)
class _Entry(Generic[_V]):
    lock: threading.Lock = field(default_factory=threading.Lock)  #: held while the value is made
    made: _Made[_V] | None = None


@dataclass(frozen=True, kw_only=True)
class RecentOfApp(Generic[_K, _V]):
    """Values that each application keeps for itself, as `RecentValues`; a module declares them."""

    name: str  #: no other module's
    limit: int
    fresh_s: float = inf

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return what `make` gave in this application for a key, or gives now."""
        own = current_app.extensions.setdefault(
            f"board_recent_{self.name}", RecentValues(self.limit, fresh_s=self.fresh_s)
        )
        return cast(RecentValues[_K, _V], own).get(key, make)
