"""A value that is made when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Makes a value once, whichever thread asks first; the others wait for it.

    If making it raises, the error goes to who asked, and the next one tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._made: tuple[T] | None = None

    def __call__(self) -> T:
        """Return the value. Raises: what making it raises."""
        made = self._made
        if made is None:
            with self._lock:
                made = self._made = self._made or (self._make(),)
        return made[0]
