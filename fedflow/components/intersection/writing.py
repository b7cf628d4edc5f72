"""The output table of an intersection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.intersection.alignment import Aligned
from fedflow.sdk import Context, Table, TableSchema


def write_rows(ctx: Context, table: Table, aligned: Aligned) -> Table:
    """Return a new table of the chosen rows in their order, with their sample ids.

    A row of zeros has 0 in every feature and in the weight, and neither label nor match id.
    """
    schema = table.schema
    if ctx.params.only_output_key:
        schema = TableSchema(kind=schema.kind, id=schema.id, match_id=schema.match_id, columns=())
    made = {} if aligned.ids is None else {schema.id: aligned.ids}
    absent = aligned.rows < 0
    if not absent.any() or not {*schema.columns, schema.weight} - {None}:
        return table.take(aligned.rows, schema=schema, made=pa.table(made) if made else None)
    mark = _unused(schema)
    marked = replace(schema, columns=(*schema.columns, mark), anonymous=())
    taken = table.take(
        aligned.rows, schema=marked, made=pa.table(made | {mark: pa.array(absent.astype(int))})
    )
    return taken.map_blocks(_zeroes(schema, mark), schema=schema)


def _unused(schema: TableSchema) -> str:
    """Return a column name that the table does not have."""
    name = "absent"
    while name in schema.names:
        name += "_"
    return name


def _zeroes(schema: TableSchema, mark: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return what puts zeros into the rows that are marked, and leaves the marks out."""
    zeroed = {*schema.columns, schema.weight}
    names = list(schema.names)

    def zero(block: pa.RecordBatch) -> pa.RecordBatch:
        absent = pc.equal(block.column(mark), 1)
        columns = [
            pc.if_else(absent, _zero_of(block.column(name).type), block.column(name))
            if name in zeroed
            else block.column(name)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    return zero


def _zero_of(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.scalar("0", kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False, kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.scalar(0, kind)
    return pa.scalar(None, kind)
