"""Numbers of a table as whole numbers, several in one: what is shared, and what sums mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.verifiable.sharing import BITS
from fedflow.sdk import BadData

Floats = NDArray[np.float64]

CELL_BITS: Final = 80  #: of a cell's sum
VALUE_BITS: Final = 62  #: of a cell, with its sign
PER_NUMBER: Final = (BITS - 8) // CELL_BITS  #: cells in one shared number
MOST_PARTIES: Final = 1 << (CELL_BITS - VALUE_BITS - 1)


def packed(cells: Floats, *, decimals: int, where: str) -> list[int]:
    """Return numbers that hold the cells, rounded to so many decimals.

    Raises: BadData: a cell times 10**decimals has more than 61 bits.
    """
    largest = float(np.abs(cells).max(initial=0.0))
    if largest * 10.0**decimals >= 2.0 ** (VALUE_BITS - 1):
        reason = f"a value of {largest:g} is too large for {decimals} decimals"
        raise BadData(where=where, reason=reason)
    scale, offset = 10**decimals, 1 << (VALUE_BITS - 1)
    whole = [round(cell * scale) + offset for cell in cells.ravel().tolist()]
    return [
        sum(cell << (CELL_BITS * place) for place, cell in enumerate(whole[at : at + PER_NUMBER]))
        for at in range(0, len(whole), PER_NUMBER)
    ]


def unpacked(sums: Sequence[int], *, count: int, parties: int, decimals: int) -> Floats:
    """Return the sums of cells, from sums of what `packed` gave of so many parties."""
    mask, offset = (1 << CELL_BITS) - 1, parties << (VALUE_BITS - 1)
    cells = [
        (number >> (CELL_BITS * place) & mask) - offset
        for number in sums
        for place in range(PER_NUMBER)
    ]
    return np.array([cell / 10**decimals for cell in cells[:count]], dtype=np.float64)
