"""What has to happen after a transaction was committed: launches, stops, wake-ups.

A handler collects effects while it writes; they run once the writes are safe, and not at all if the
transaction was undone. A crash in between loses only effects that a detector repeats from what is
stored.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack


class AfterCommit:
    """An ordered list of things to do after the commit."""

    def __init__(self) -> None:
        self._todo: list[Callable[[], None]] = []

    def add(self, effect: Callable[[], None]) -> None:
        """Do `effect` after the commit."""
        self._todo.append(effect)

    def run(self) -> None:
        """Do everything that was added, in order; one that fails does not keep the others back.

        Raises: the last failure, once everything was tried.
        """
        todo, self._todo = self._todo, []
        with ExitStack() as stack:
            for effect in reversed(todo):
                stack.callback(effect)
