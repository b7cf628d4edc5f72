"""Writing chosen rows of a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fedflow.components.samples.positions import Positions
from fedflow.components.samples.progress import part_of
from fedflow.sdk import Context, Table


def write_rows(ctx: Context, table: Table, positions: Positions, *, new_ids: bool = False) -> Table:
    """Return a new table of the rows at `positions`; with `new_ids` their ids are 0, 1, 2 ..."""
    made = None
    if new_ids:
        numbers = pa.array(np.arange(len(positions))).cast(pa.string())
        made = pa.table({table.schema.id: numbers})
    return table.take(positions, made=made, progress=part_of(ctx))
