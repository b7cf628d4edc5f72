"""What many people look at is made once in a while for all of them, not once for each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from fedflow.base.clock import Clock, SystemClock

FRESH_S: Final = 1.5  #: less than the pause between two looks of one page, seconds
_KEPT: Final = 32


class SharedLook:
    """Values by key, each made again when it is older than `FRESH_S`. Safe for threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` gave for a key lately, or gives now."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            at_s, value = self._kept.get(key, (None, None))
        if at_s is not None and now_s - at_s < FRESH_S:
            return value
        value = make()
        with self._lock:
            self._kept[key] = (now_s, value)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return value
