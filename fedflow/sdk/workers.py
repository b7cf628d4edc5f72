"""The Workers port: where a component's heavy arithmetic on rows is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Rows: TypeAlias = "NDArray[Any] | pa.Array | PlacedRows"
"""Rows to work on: a numpy array (first axis: rows), an Arrow array, or what `Workers.pin` gave."""

BlockWork: TypeAlias = Callable[..., bytes]
"""Work on rows: gets one slice per input, all of the same rows, as arrays. CodecError and BadData
that it raises arrive at the caller as they are.
"""

Progress: TypeAlias = Callable[[float], None]
"""Gets how much is done, 0 to 1: `ctx.tracker.progress`, or a part of it."""


def no_progress(done: float) -> None:
    """Take a progress that nobody asks for."""


class PlacedRows(Protocol):
    """Rows that are near the workers already, so that using them often costs nothing."""

    def __len__(self) -> int: ...

    def select(self, rows: slice | NDArray[np.int64]) -> Rows:
        """Return some of the rows: a slice stays placed, chosen rows are sent anew."""

    def local(self) -> NDArray[Any]:
        """Return the rows in this process."""


class RowsAhead(Protocol):
    """Rows that are being made while this process waits for others."""

    def take(self) -> NDArray[np.uint8]:
        """End the work and return what is done, rows x width; only once."""


class Workers(Protocol):
    """Heavy arithmetic on rows: `ctx.workers`, the cores of this machine or a Spark cluster.

    The work is a function of rows that returns bytes. It may run in another process, on another
    machine, and twice, so it changes nothing outside of itself. What it captures is sent there:
    capture little, such as a key, and give what is large as `inputs`. It is best a function of a
    module with `functools.partial`.
    """

    @property
    def cores(self) -> int:
        """Return how many blocks are worked on at a time."""

    def pin(self, rows: NDArray[Any]) -> PlacedRows:
        """Return rows that will be used several times, brought near the workers once."""

    def fill_rows(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        width: int,
        cost: float = 1.0,
        progress: Progress = no_progress,
    ) -> NDArray[np.uint8]:
        """Return one row of `width` bytes per input row: an array rows x width, uint8.

        Args:
            work: gets one slice per input, all of the same rows; returns `width` bytes per row.
            inputs: arrays of equal length, Arrow arrays, or what `pin` returned.
            width: bytes per row of the result.
            cost: of one row, in units of 30 microseconds; little work is done here and at once.
            progress: gets how much is done, up to 1.0.

        Raises: CodecError, BadData: what `work` raised. MemoryError: also of another process.
            ComponentFailed: a worker died, or returned another number of bytes.
        """

    def fold_rows(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        most: int,
        cost: float = 1.0,
        progress: Progress = no_progress,
    ) -> list[bytes]:
        """Return what `work` makes of each of a few large blocks of rows, in the rows' order.

        For sums: the caller merges what comes back. There is at least one block, even of no rows.

        Args:
            work: gets one slice per input, all of the same rows; returns at most `most` bytes.
            inputs: as of `fill_rows`; `cost` and `progress` too.
            most: bytes that a block's result has at most.

        Raises: as `fill_rows`.
        """

    def make_ahead(
        self, work: Callable[[int], bytes], count: int, *, width: int, cost: float = 1.0
    ) -> RowsAhead:
        """Begin to make rows that will be needed later, on cores that would be idle meanwhile.

        Nobody may rely on it: workers may make fewer rows than `count`, or none. What the work
        raises ends it.

        Args:
            work: gets a number of rows, and returns `width` bytes for each.
            count: rows at most.
            cost: as of `fill_rows`.
        """
