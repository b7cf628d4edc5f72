"""Undoing writes to dictionaries, and what all parts of the store in memory share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from fedflow.domain.scheduling.history import Event

_K = TypeVar("_K")
_V = TypeVar("_V")

_ABSENT: Final = object()


class Journal:
    """Remembers what each write of the open transaction replaced."""

    def __init__(self) -> None:
        self._entries: list[tuple[dict[Any, Any], Any, Any]] = []
        self._writes: bool | None = None
        self._after_undo: list[Callable[[], None]] = []
        self.events: list[Event] = []  #: what happened in the open transaction
        self.writes = 0  #: how many there were, also those that were undone

    def begin(self, *, write: bool) -> None:
        self._writes = write

    def end(self) -> None:
        """Refuse writes from now on."""
        self._entries.clear()
        self.events = []
        self._writes = None

    def undo(self) -> None:
        """Bring everything back that the transaction changed."""
        for table, key, old in reversed(self._entries):
            if old is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = old
        if self._entries:
            for forget in self._after_undo:
                forget()

    def after_undo(self, forget: Callable[[], None]) -> None:
        """Call `forget` after every undo, to drop what was derived from the tables."""
        self._after_undo.append(forget)

    def put(self, table: dict[_K, _V], key: _K, value: _V) -> None:
        """Set an entry. A dictionary keeps its order only if nothing is dropped from it."""
        self._count()
        self._entries.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[_K, _V], key: _K) -> None:
        """Remove an entry if it is there."""
        self._count()
        if key in table:
            self._entries.append((table, key, table.pop(key)))

    def keep(self, table: dict[_K, None], key: _K, *, when: bool) -> None:
        """Have `key` in a set (a dictionary of None) exactly when `when` holds."""
        if when and key not in table:
            self.put(table, key, None)
        elif not when:
            self.drop(table, key)

    def tell(self, *events: Event) -> None:
        """Note what happened; it is written when the transaction ends."""
        self._count()
        self.events += events

    def _count(self) -> None:
        if self._writes is None:
            raise RuntimeError("this transaction has ended")
        if not self._writes:
            raise RuntimeError("this transaction only reads: use store.transaction()")
        self.writes += 1
