"""Into how many blocks rows are cut, from what their work costs, and what a block may answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors.components import ComponentFailed
from fedflow.sdk.workers import Rows

UNIT_S: Final = 30e-6  #: an operation of cost 1 on one core, seconds
BLOCK_S: Final = 1.0  #: of a block of `fill_rows` on a cluster, seconds of one core
SHORTEST_S: Final = 0.2  #: blocks there are not made shorter to use all cores
FOLD_S: Final = 10.0  #: of a block of `fold_rows`, whose caller pays for each
BLOCKS_PER_CORE: Final = 8  #: asked of a cluster at a time; of `fold_rows` in all
BLOCK_BYTES: Final = 8 << 20  #: of the result of one block of `fill_rows`


def seconds(rows: int, cost: float) -> float:
    """Return how long rows of a cost take on one core, about."""
    return rows * cost * UNIT_S


def fill_blocks(rows: int, *, cost: float, width: int, cores: int) -> int:
    """Return how many blocks of `fill_rows` a cluster gets for some rows, at least one."""
    total_s = seconds(rows, cost)
    wanted = max(cores, math.ceil(total_s / BLOCK_S))
    wanted = min(wanted, math.ceil(total_s / SHORTEST_S))
    wanted = max(wanted, math.ceil(rows * width / BLOCK_BYTES))
    return max(1, min(rows, _full(wanted, cores)))


def fold_blocks(rows: int, *, cost: float, cores: int) -> int:
    """Return into how many blocks `fold_rows` cuts some rows, at least one."""
    wanted = min(cores * BLOCKS_PER_CORE, math.ceil(seconds(rows, cost) / FOLD_S))
    return max(1, min(rows, _full(max(cores, wanted), cores)))


def bounds(rows: int, blocks: int) -> list[int]:
    """Return where blocks of about the same size begin, and behind them the end of the last."""
    return [rows * i // blocks for i in range(blocks + 1)]


class ReadyRows:
    """See `fedflow.sdk.workers.RowsAhead`: rows that are there."""

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self._rows = rows

    @staticmethod
    def none(width: int) -> ReadyRows:
        """Return no rows: of workers that make none ahead."""
        return ReadyRows(np.empty((0, width), np.uint8))

    def take(self) -> NDArray[np.uint8]:
        """See `fedflow.sdk.workers.RowsAhead.take`."""
        return self._rows


def count_of(inputs: Sequence[Rows]) -> int:
    """Return how many rows all inputs have. Raises: ValueError: not the same, or no inputs."""
    counts = {len(rows) for rows in cast("Sequence[Any]", inputs)}
    if len(counts) != 1:
        raise ValueError(f"inputs of {sorted(counts)} rows")
    return counts.pop()


def check_filled(result: bytes, *, rows: int, width: int) -> None:
    """Raises: ComponentFailed: the result of `rows` rows has not `width` bytes for each."""
    if len(result) != rows * width:
        raise _wrong(f"{len(result)} bytes of {rows} rows, not {width} each")


def check_folded(result: bytes, *, most: int) -> None:
    """Raises: ComponentFailed: the result of a block has more than `most` bytes."""
    if len(result) > most:
        raise _wrong(f"{len(result)} bytes of a block, more than {most}")


def _wrong(reason: str) -> ComponentFailed:
    return ComponentFailed(component="a worker", reason=reason)


def _full(blocks: int, cores: int) -> int:
    """Return at least so many blocks that no core idles at the end, if there are more than cores"""
    return blocks if blocks <= cores else -(-blocks // cores) * cores
