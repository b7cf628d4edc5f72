"""The Workers port: where a component's heavy arithmetic on rows is done.

A task has one of these, `ctx.workers`: processes on the cores of this machine, or a Spark cluster.
What is done is a function of some rows that gives bytes. It must be free of side effects, for it
may run in another process, on another machine, and twice; what it captures is sent there, so it
captures little (a key) and gets what is large as `inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[Any] | pa.Array | "PlacedRows"
else:
    Rows: TypeAlias = Any

BlockWork: TypeAlias = Callable[..., bytes]
"""Gets one slice per input, all of the same rows in order, as arrays. Raises: CodecError, BadData:
the rows are not usable; it arrives at the caller as it is."""

Progress: TypeAlias = Callable[[float], None]
"""Gets the done part, 0 to 1."""


def no_progress(done: float) -> None:
    """Take a progress that nobody asks for."""


class PlacedRows(Protocol):
    """Rows that are near the workers already, so that using them often costs nothing."""

    def __len__(self) -> int: ...

    def select(self, rows: slice | NDArray[np.int64]) -> Rows:
        """Return some of the rows: a slice stays placed, chosen rows are sent anew."""

    def local(self) -> NDArray[Any]:
        """Return the rows in this process."""


class Workers(Protocol):
    """The cores of one task."""

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
        """Return one row of `width` bytes per input row (rows x width, uint8, read-only or not).

        Args:
            work: returns `width` bytes per row of its slices.
            cost: of one row, in multiplications on curve25519 (about 30 microseconds): little work
                is done at once and here.

        Raises: CodecError, BadData: from `work`. MemoryError: also of another process.
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

        For sums: the caller merges what comes back, one value per block. At least one block, also
        of no rows.

        Args:
            work: returns at most `most` bytes.

        Raises: as `fill_rows`.
        """
