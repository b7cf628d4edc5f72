"""Positions of rows that another party has chosen, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Site
from fedflow.sdk.errors import CodecError

Positions = NDArray[np.int64]  #: of rows, from 0


def received_positions(
    ctx: Context, name: str, *, from_: Site, rows: int, repeated: bool, tag: str = ""
) -> Positions:
    """Return positions that another party chose.

    Args:
        rows: how many rows there are to choose from.
        repeated: a row may be chosen several times.

    Raises: CodecError: they are no ascending positions of these rows.
    """
    value = wait_for(ctx, name, from_, tag=tag)
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != 1:
        raise CodecError(reason=f"{name} of {from_} is not a list of positions")
    if len(value) and (int(value[0]) < 0 or int(value[-1]) >= rows):
        raise CodecError(reason=f"{name} of {from_} has positions beyond the {rows} rows")
    steps = np.diff(value)
    if len(steps) and int(steps.min()) < (0 if repeated else 1):
        raise CodecError(reason=f"{name} of {from_} is not in ascending order")
    return value
