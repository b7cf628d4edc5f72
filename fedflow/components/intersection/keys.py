"""What a table is matched by: its sample ids, or its match ids, which may repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.intersection.elements import Positions
from fedflow.sdk import BadData, Context, Role, Table


@dataclass(frozen=True, kw_only=True, slots=True)
class RowKeys:
    """The keys of a table's rows, checked."""

    values: pa.Array  #: distinct keys, strings, in the order of their first rows
    of_row: Positions  #: row -> position of its key in `values`
    sample_ids: pa.Array  #: of each row, strings, distinct
    match_ids: bool  #: keys are match ids

    @property
    def repeated(self) -> int:
        """Return how many rows have a key that an earlier row has."""
        return len(self.of_row) - len(self.values)

    def row_of_key(self) -> Positions:
        """Return the first row of each key."""
        return np.unique(self.of_row, return_index=True)[1].astype(np.int64)

    def rows_per_key(self) -> Positions:
        """Return how many rows each key has."""
        return np.bincount(self.of_row, minlength=len(self.values))


def read_keys(table: Table) -> RowKeys:
    """Return the keys of `table`.

    Raises: BadData: no rows, a missing id, repeated sample ids.
    """
    schema, where = table.schema, f"table {table.namespace}.{table.name}"
    if table.count == 0:
        raise BadData(where=where, reason="the table has no rows")
    ids = _column(table, schema.id, where=where)
    repeated = len(ids) - pc.count_distinct(ids).as_py()
    if repeated:
        raise BadData(
            where=where,
            reason=f"column {schema.id}: {repeated} of {len(ids)} ids repeat another one",
        )
    if schema.match_id is None:
        return RowKeys(values=ids, of_row=np.arange(len(ids)), sample_ids=ids, match_ids=False)
    encoded = _column(table, schema.match_id, where=where).dictionary_encode()
    return RowKeys(
        values=encoded.dictionary,
        of_row=encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        sample_ids=ids,
        match_ids=True,
    )


def check_not_repeated(ctx: Context, keys: RowKeys, common: Positions) -> None:
    """Do nothing if each of the keys `common`, which all parties have, is that of one row.

    Raises: BadData: not so; only the party of `sample_id_generator` may repeat match ids.
    """
    repeated = int(np.count_nonzero(keys.rows_per_key()[common] > 1))
    if repeated:
        raise BadData(
            where=ctx.component,
            reason=f"{repeated} of the {len(common)} match ids in the intersection are those of "
            f"several rows at the {ctx.site.role.value}; only the sample_id_generator, here the "
            f"{ctx.params.sample_id_generator}, may repeat them. {_cure(ctx)}",
        )


def _cure(ctx: Context) -> str:
    """Return what a party that repeats match ids may do."""
    if len(ctx.sites_of(Role.HOST)) > 1:
        return "Make them unique in its table"
    role = ctx.site.role.value
    return f"Set sample_id_generator to {role!r}, or make them unique in its table"


def _column(table: Table, name: str, *, where: str) -> pa.Array:
    column = pc.cast(table.read((name,)).column(0), pa.string()).combine_chunks()
    if column.null_count:
        raise BadData(where=where, reason=f"{column.null_count} rows have no {name}")
    return column
