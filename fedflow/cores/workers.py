"""Workers on the cores of this machine; see `fedflow.sdk.workers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedflow.cores import forked
from fedflow.cores.blocks import (
    ReadyRows,
    bounds,
    check_filled,
    check_folded,
    count_of,
    fold_blocks,
)
from fedflow.sdk.workers import BlockWork, PlacedRows, Progress, Rows, RowsAhead, no_progress

_LENGTH = 8  # bytes before each result of a fold, little-endian


class LocalPlacedRows:
    """Rows in memory; see `fedflow.sdk.PlacedRows`."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, rows: slice | NDArray[np.int64]) -> Rows:
        return self._rows[rows]

    def local(self) -> NDArray[Any]:
        return self._rows


class LocalWorkers:
    """See `fedflow.sdk.Workers`; small work is done in this process."""

    def __init__(self, cores: int) -> None:
        self._cores = max(1, cores)

    @property
    def cores(self) -> int:
        return self._cores

    def pin(self, rows: NDArray[Any]) -> PlacedRows:
        """Return the rows as they are: forked processes share this process's memory."""
        return LocalPlacedRows(rows)

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
        arrays, count = _arrays(inputs)

        def block(start: int, stop: int, out: memoryview) -> None:
            found = work(*(a[start:stop] for a in arrays))
            check_filled(found, rows=stop - start, width=width)
            out[:] = found

        return forked.fill_rows(
            count, width, block, processes=self._cores, progress=progress, cost=cost
        )

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
        arrays, count = _arrays(inputs)
        little = self._cores == 1 or count * cost < forked.FORK_FROM
        parts = fold_blocks(count, cost=cost, cores=1 if little else self._cores)
        places = bounds(count, parts)
        width = most + _LENGTH

        def block(start: int, stop: int, out: memoryview) -> None:
            for part in range(start, stop):
                found = work(*(a[places[part] : places[part + 1]] for a in arrays))
                check_folded(found, most=most)
                place = (part - start) * width
                out[place : place + _LENGTH] = len(found).to_bytes(_LENGTH, "little")
                out[place + _LENGTH : place + _LENGTH + len(found)] = found

        rows = forked.fill_rows(
            parts,
            width,
            block,
            processes=self._cores,
            progress=progress,
            cost=max(1.0, cost * count / parts),
        )
        return [_framed(row.tobytes()) for row in rows]

    def make_ahead(
        self, work: Callable[[int], bytes], count: int, *, width: int, cost: float = 1.0
    ) -> RowsAhead:
        """See `fedflow.sdk.Workers.make_ahead`."""
        if not forked.is_worth_forks(count, cost):
            return ReadyRows.none(width)
        from fedflow.cores.ahead import ForkedRowsAhead  # a worker pays for it once it is used

        return ForkedRowsAhead(work, count, width=width, processes=self._cores, cost=cost)


def _framed(row: bytes) -> bytes:
    return row[_LENGTH : _LENGTH + int.from_bytes(row[:_LENGTH], "little")]


def _arrays(inputs: Sequence[Rows]) -> tuple[list[Any], int]:
    """Return inputs that can be sliced, and how many rows they all have.

    Raises: ValueError: they have different numbers of rows, or there are none.
    """
    arrays = [r.local() if hasattr(r, "local") else r for r in cast("Sequence[Any]", inputs)]
    return arrays, count_of(inputs)
