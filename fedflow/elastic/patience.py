"""A back end that waits for its server: while that is restarted, members wait and do not fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from fedflow.base.errors.rendezvous import RendezvousUnreachable
from fedflow.elastic.backend import Backend, StoredState, WrittenState
from fedflow.elastic.executor import Timer

T = TypeVar("T")

_PAUSE_S: Final = 0.5  #: before a call is made again


class PatientBackend:
    """Makes each call again for `limit_s` seconds, until a server answers.

    A write whose answer was lost may have taken place. Repeated, it is one that another member was
    faster with: the member decides again, with its own write before it.
    """

    def __init__(self, backend: Backend, timer: Timer, *, limit_s: float) -> None:
        self._backend = backend
        self._timer = timer
        self._limit_s = limit_s

    @property
    def name(self) -> str:
        return self._backend.name

    def now_ms(self) -> int:
        return self._patiently(self._backend.now_ms)

    def get_state(self) -> StoredState | None:
        return self._patiently(self._backend.get_state)

    def set_state(self, state: bytes, token: str | None) -> WrittenState | None:
        return self._patiently(lambda: self._backend.set_state(state, token))

    def _patiently(self, call: Callable[[], T]) -> T:
        begun_s = self._timer.monotonic_s()
        while True:
            try:
                return call()
            except RendezvousUnreachable:
                if self._timer.monotonic_s() - begun_s >= self._limit_s:
                    raise
                self._timer.pause(_PAUSE_S)
