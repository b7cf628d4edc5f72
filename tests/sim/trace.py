"""What happened in a simulated run, as lines of text: for people who read a failure, and a digest
that two runs of one seed share.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fedflow.base.errors.store import StoreUnavailable

_RANDOM = re.compile("[0-9a-f]{32}")  #: ids and tokens that no seed decides


class Trace:
    """The lines of one run. `expected` are exceptions that faults explain."""

    expected: tuple[type[BaseException], ...] = (StoreUnavailable, OSError)

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()  #: how often each kind of fault or command happened
        #: exceptions that the servers logged and that no fault explains
        self.defects: list[str] = []
        self._hash = hashlib.blake2b(digest_size=8)

    def note(self, at_ms: int, where: str, what: str) -> None:
        """Add a line."""
        line = f"{at_ms / 1000:10.3f} {where:<6} {_RANDOM.sub('<id>', what)}"
        self.lines.append(line)
        self._hash.update(line.encode())

    def count(self, kind: str) -> None:
        """Count a fault or a command of a user."""
        self.counts[kind] += 1

    def digest(self) -> str:
        """Return 16 hexadecimal digits that differ if any line does."""
        return self._hash.hexdigest()

    def last(self, count: int, *, job_id: str | None = None) -> list[str]:
        """Return the last lines, of one job and of what concerns no job if it is named."""
        if job_id is None:
            return self.lines[-count:]
        mine = [line for line in self.lines if job_id in line or " ! " in line]
        return mine[-count:]


def digest_of(lines: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that differ if any line does."""
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


class _Tap(logging.Handler):
    """Takes what the servers log into the trace."""

    def __init__(self, world: Any) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        trace: Trace = self._world.trace
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            message += f" [{type(error).__name__}: {error}]"
            if not isinstance(error, trace.expected):
                trace.defects.append(message)
        self._world.note(f"| {message}")


@contextmanager
def logs_of(world: Any) -> Iterator[None]:
    """Have everything that the servers log in the world's trace, and nowhere else."""
    logger = logging.getLogger("fedflow")
    before = logger.level, logger.propagate, logger.handlers[:]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers[:] = [_Tap(world)]
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers[:] = before
        logger.setLevel(before[0])
