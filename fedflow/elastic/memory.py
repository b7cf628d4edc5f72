"""A back end in memory: for the members of one process, and for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fedflow.base.ids import new_token
from fedflow.elastic.backend import StoredState, WrittenState
from fedflow.elastic.stored import bytes_of, text_of


class MemoryBackend:
    """See `backend.Backend`. `now_ms` is the time of all its members."""

    name: Final = "memory"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.held: tuple[str, str] | None = None  #: the text of the state, and its token

    def now_ms(self) -> int:
        return self._now_ms()

    def get_state(self) -> StoredState | None:
        if self.held is None:
            return None
        text, token = self.held
        return StoredState(state=bytes_of(text), token=token, now_ms=self._now_ms())

    def set_state(self, state: bytes, token: str | None) -> WrittenState | None:
        text, before = text_of(state), self.held
        if token == (before[1] if before is not None else None):
            self.held = (text, new_token())
        now = self.get_state()
        return None if now is None else WrittenState(stored=now, was_set=self.held is not before)
