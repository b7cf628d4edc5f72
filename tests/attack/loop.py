"""The one event loop of a scene: gRPC's asynchronous calls belong to the loop of their process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Loop:
    """Runs coroutines in a thread of its own, for threads that wait for them. A context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="attack-loop")

    def run(self, work: Coroutine[Any, Any, T], *, within_s: float = 300.0) -> T:
        """Return what a coroutine returns. Raises: TimeoutError, and what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
