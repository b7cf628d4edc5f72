"""What keeps a shared cache from holding up requests: after a failure it is left alone a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from fedflow.base.clock import Clock

logger = logging.getLogger(__name__)

PAUSE_S: Final = 5.0  #: after a failure


class Outage:
    """Whether something may be tried. Thread-safe."""

    def __init__(self, what: str, *, clock: Clock, count: Callable[[], None]) -> None:
        """`what` stands in the log; `count` is called for each failure."""
        self._what = what
        self._clock = clock
        self._count = count
        self._lock = threading.Lock()
        self._failed = False
        self._next_s = 0.0  #: before this moment nothing is tried

    def may_try(self) -> bool:
        """Tell whether to try; after a pause one caller does, and the others do without."""
        if not self._failed:
            return True
        now_s = self._clock.monotonic_s()
        with self._lock:
            if self._failed and now_s < self._next_s:
                return False
            self._next_s = now_s + PAUSE_S
            return True

    def worked(self) -> None:
        """Note a success."""
        if self._failed:
            with self._lock:
                self._failed = False
            logger.info("%s works again", self._what, extra={"action": "cache_works"})

    def failed(self, error: BaseException) -> None:
        """Note a failure; the text of an error may have keys or addresses and is not logged."""
        self._count()
        with self._lock:
            first, self._failed = not self._failed, True
            self._next_s = self._clock.monotonic_s() + PAUSE_S
        if first:
            logger.warning(
                "%s does not work (%s)",
                self._what,
                type(error).__name__,
                extra={"action": "cache_fails"},
            )
