"""A circuit per partner: who does not answer is not waited for by every request.

After so many calls in a row without an answer the circuit is open: calls fail at once. After a
while one call goes through, the probe. If it is answered the circuit closes, else it stays open,
twice as long each time.
"""

from __future__ import annotations

import threading
from typing import Final, Literal

from fedflow.base.clock import Clock

_LONGEST_S: Final = 30.0


class PartnerCircuit:
    """The circuit of one partner. Thread-safe."""

    def __init__(self, *, failures: int, open_s: float, clock: Clock) -> None:
        """It opens after `failures` in a row, for `open_s` at first."""
        self._most = failures
        self._first_s = open_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._pause_s = open_s
        self._open_until_s: float | None = None  #: None: closed
        self._probes = False

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Return how it is."""
        with self._lock:
            if self._open_until_s is None:
                return "closed"
            late = self._probes or self._clock.monotonic_s() >= self._open_until_s
            return "half-open" if late else "open"

    def lets_through(self) -> bool:
        """Tell whether a call may be made; what comes of it must be told then."""
        with self._lock:
            if self._open_until_s is None:
                return True
            if self._probes or self._clock.monotonic_s() < self._open_until_s:
                return False
            self._probes = True
            return True

    def answered(self) -> None:
        """Close it."""
        with self._lock:
            self._failures = 0
            self._pause_s = self._first_s
            self._open_until_s = None
            self._probes = False

    def undecided(self) -> None:
        """Count nothing: the call had too little time to tell; the next one may be the probe."""
        with self._lock:
            self._probes = False

    def failed(self) -> None:
        """Count a call without an answer."""
        with self._lock:
            self._failures += 1
            if self._open_until_s is None and self._failures < self._most:
                return
            if self._probes:
                self._pause_s = min(self._pause_s * 2, _LONGEST_S)
            self._probes = False
            self._open_until_s = self._clock.monotonic_s() + self._pause_s
