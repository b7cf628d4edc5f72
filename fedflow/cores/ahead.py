"""Rows that are made while this process waits: forked processes that give way to others."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors.error import FedflowError
from fedflow.cores.blocks import bounds, check_filled
from fedflow.cores.forked import BLOCK, become_child, end_without, run_blocks

_COUNT: Final = 8  # bytes of a number of rows, little-endian
_LOW_PRIORITY: Final = 10  # added to the niceness of what nobody waits for


class ForkedRowsAhead:
    """See `fedflow.sdk.workers.RowsAhead`: processes of low priority fill a mapping."""

    def __init__(
        self, work: Callable[[int], bytes], count: int, *, width: int, processes: int, cost: float
    ) -> None:
        self._width = width
        self._places = bounds(count, processes)
        size = width * count
        shared = memoryview(mmap.mmap(-1, size + processes * _COUNT))
        self._rows, rest = shared[:size], shared[size:]
        self._done = [rest[i : i + _COUNT] for i in range(0, len(rest), _COUNT)]
        fork = multiprocessing.get_context("fork")
        block = max(1, int(BLOCK / cost))
        self._children = [
            fork.Process(
                target=self._fill,
                args=(work, i),
                kwargs={"block": block, "parent": os.getpid()},
                name=f"rows-ahead-{i}",
                daemon=True,
            )
            for i in range(processes)
        ]
        for child in self._children:
            child.start()

    def take(self) -> NDArray[np.uint8]:
        """See `fedflow.sdk.workers.RowsAhead.take`."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.join()
        counts = [int.from_bytes(done, "little") for done in self._done]
        rows = np.frombuffer(self._rows, np.uint8).reshape(-1, self._width)
        starts = self._places[:-1]
        return np.concatenate([rows[s : s + n] for s, n in zip(starts, counts, strict=True)])

    def _fill(self, work: Callable[[int], bytes], part: int, *, block: int, parent: int) -> None:
        """Run in a forked process. A block counts once it is there as a whole."""
        become_child()
        os.nice(_LOW_PRIORITY)
        start, stop = self._places[part : part + 2]

        def write(begin: int, end: int, memory: memoryview) -> None:
            found = work(end - begin)
            check_filled(found, rows=end - begin, width=self._width)
            memory[:] = found
            self._done[part][:] = (end - start).to_bytes(_COUNT, "little")

        with suppress(FedflowError, MemoryError):
            run_blocks(
                write,
                start,
                stop,
                memory=self._rows,
                width=self._width,
                block=block,
                progress=lambda _: end_without(parent),
            )
