"""Workers that are far away: what they work on is pickled, as it is on the way to a cluster.

They show that a component's work functions can be sent (cloudpickle, as Spark does it), that these
capture little and get what is large as inputs, and that it does not matter into how many blocks the
rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedflow.cores.blocks import ReadyRows, check_filled, check_folded
from fedflow.sdk.workers import BlockWork, PlacedRows, Progress, Rows, RowsAhead, no_progress
from fedflow.testing.pickling import copy_of, form_of

MAX_WORK_BYTES: Final = 256 * 1024  #: what a work function may capture


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkersCall:
    """What was asked of workers: `fill_rows` or `fold_rows`."""

    method: str
    rows: int
    cost: float
    pickled_bytes: int  #: of the work function


class RemoteRows:
    """Rows that only their workers look at; see `fedflow.sdk.PlacedRows`."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, rows: slice | NDArray[np.int64]) -> Rows:
        """Return a slice placed, chosen rows as an array."""
        return RemoteRows(self._rows[rows]) if isinstance(rows, slice) else self._rows[rows]

    def local(self) -> NDArray[Any]:
        """Return the rows in this process."""
        return self._rows


class PicklingWorkers:
    """See `fedflow.sdk.Workers`; every block is worked on in this process, by a copy of the work.

    `calls` tells what was asked. Raises (both methods): AssertionError: the work is larger than
    `MAX_WORK_BYTES`.
    """

    def __init__(self, cores: int = 3, *, block_rows: int = 37) -> None:
        """Cut all rows into blocks of at most `block_rows`."""
        self._cores = cores
        self._block_rows = block_rows
        self.calls: list[WorkersCall] = []

    @property
    def cores(self) -> int:
        """See `fedflow.sdk.Workers`."""
        return self._cores

    def pin(self, rows: NDArray[Any]) -> PlacedRows:
        """Return rows that are pickled whenever they are used."""
        return RemoteRows(rows)

    def fill_rows(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        width: int,
        cost: float = 1.0,
        progress: Progress = no_progress,
    ) -> NDArray[np.uint8]:
        """See `fedflow.sdk.Workers.fill_rows`."""
        found = []
        for rows, result in self._results("fill_rows", work, inputs, cost=cost, progress=progress):
            check_filled(result, rows=rows, width=width)
            found.append(result)
        return np.frombuffer(b"".join(found), np.uint8).reshape(-1, width)

    def fold_rows(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        most: int,
        cost: float = 1.0,
        progress: Progress = no_progress,
    ) -> list[bytes]:
        """See `fedflow.sdk.Workers.fold_rows`."""
        found = []
        for _, result in self._results("fold_rows", work, inputs, cost=cost, progress=progress):
            check_folded(result, most=most)
            found.append(result)
        return found

    def make_ahead(
        self, work: Callable[[int], bytes], count: int, *, width: int, cost: float = 1.0
    ) -> RowsAhead:
        """See `fedflow.sdk.Workers.make_ahead`; half of the rows are made."""
        made = copy_of(form_of(work))(count // 2)
        check_filled(made, rows=count // 2, width=width)
        return ReadyRows(np.frombuffer(made, np.uint8).reshape(-1, width))

    def _results(
        self,
        method: str,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        cost: float,
        progress: Progress,
    ) -> list[tuple[int, bytes]]:
        """Return how many rows each block has and what a copy of `work` makes of it."""
        arrays = [rows.local() if hasattr(rows, "local") else rows for rows in _any(inputs)]
        (count,) = {len(array) for array in arrays}
        pickled = form_of(work)
        if len(pickled) > MAX_WORK_BYTES:
            raise AssertionError(f"work of {len(pickled)} bytes: give large things as inputs")
        self.calls.append(
            WorkersCall(method=method, rows=count, cost=cost, pickled_bytes=len(pickled))
        )
        copied = copy_of(pickled)
        results = []
        for start in range(0, max(count, 1), self._block_rows):
            stop = min(start + self._block_rows, count)
            sent = [copy_of(form_of(a[start:stop])) for a in arrays]
            results.append((stop - start, copied(*sent)))
            progress(stop / count if count else 1.0)
        return results


def _any(inputs: Sequence[Rows]) -> Sequence[Any]:
    return cast("Sequence[Any]", inputs)
