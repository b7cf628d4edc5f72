"""The output table of an intersection."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.instances.gathering import take_rows
from fedflow.components.psi.alignment import Aligned
from fedflow.sdk import Context, Table, TableSchema


def write_rows(ctx: Context, table: Table, aligned: Aligned) -> Table:
    """Return a new table of the chosen rows in their order, with their sample ids.

    A row of zeros has 0 in every feature and in the weight, and neither label nor match id.
    """
    schema = table.schema
    if ctx.params.only_output_key:
        schema = TableSchema(kind=schema.kind, id=schema.id, match_id=schema.match_id, columns=())
    done = 0
    with ctx.tables.create(schema) as writer:
        writer.write(table.head(0).select(list(schema.names)))
        for batch in take_rows(table, aligned.rows, columns=schema.names):
            absent = aligned.rows[done : done + batch.num_rows] < 0
            rows = _zero(batch, schema, pa.array(absent)) if absent.any() else batch
            if aligned.ids is not None:
                ids = aligned.ids.slice(done, batch.num_rows)
                rows = rows.set_column(0, schema.id, ids)
            writer.write(rows)
            done += batch.num_rows
        return writer.close()


def _zero(block: pa.RecordBatch, schema: TableSchema, absent: pa.Array) -> pa.RecordBatch:
    zeroed = {*schema.columns, schema.weight}
    for index, name in enumerate(block.schema.names):
        if name in zeroed:
            column = block.column(index)
            filled = pc.if_else(absent, _zero_of(column.type), column)
            block = block.set_column(index, name, filled)
    return block


def _zero_of(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.scalar("0", kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False, kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.scalar(0, kind)
    return pa.scalar(None, kind)
