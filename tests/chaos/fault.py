"""One fault of a run, and the freezing of a process, which several of them do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is done to one party, or between it and another."""

    number: int
    kind: str
    party: str
    other: str  #: the second party, of faults of the network
    duration_s: float  #: between its begin and its end
    amount: float  #: 0 to 1: how much of it, where there is more or less

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} at {self.party} ({self.duration_s:.1f} s)"


class NoVictim(Exception):
    """There was nothing to do it to, as no executor was at work."""


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Freeze a process until the block ends; it may be killed meanwhile."""
    try:
        process = psutil.Process(pid)
        process.suspend()
    except psutil.NoSuchProcess:
        raise NoVictim from None
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()
