"""An event loop whose time passes only while nothing runs: tests of pauses take none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class QuickLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer as soon as nothing else is to be done."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; the time of its loop begins with 0."""
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(work)
