"""Writing chosen rows of a table, one block after the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fedflow.components.instances.gathering import Positions, take_rows
from fedflow.components.instances.progress import RowProgress
from fedflow.sdk import Context, Table


def write_rows(ctx: Context, table: Table, positions: Positions, *, new_ids: bool = False) -> Table:
    """Return a new table of the rows at `positions`; with `new_ids` their ids are 0, 1, 2 ..."""
    schema = table.schema
    progress = RowProgress(ctx, len(positions))
    with ctx.tables.create(schema) as writer:
        writer.write(table.head(0))
        for batch in take_rows(table, positions):
            rows = batch
            if new_ids:
                names = np.arange(progress.done, progress.done + batch.num_rows).astype(str)
                rows = batch.set_column(0, schema.id, pa.array(names, pa.string()))
            writer.write(rows)
            progress.add(batch.num_rows)
        return writer.close()
