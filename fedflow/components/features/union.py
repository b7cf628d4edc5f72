"""Union: the rows of several tables of one party in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.samples.progress import RowProgress
from fedflow.sdk import BadData, Context, Doubt, Outputs, Params, Table, TableSchema, component


class UnionParams(Params, frozen=True, kw_only=True):
    """How tables are put together."""

    need_run: bool = True  #: false: the output is the first input
    allow_missing: bool = False  #: without effect: every row here has all columns of its table
    #: keep rows whose id another table has too: every id becomes `<id>_<component>`
    keep_duplicate: bool = False

    def doubts(self) -> Iterable[Doubt]:
        if self.allow_missing:
            yield Doubt("allow_missing", "every row here has all columns of its table")


@component("Union", roles=("guest", "host"), params=UnionParams, absence="apart")
class Union:
    """Appends tables to each other; of rows with equal ids the first is kept.

    All tables must have the same kind, id name, label name and columns in the same order; empty
    ones are skipped. Columns that are whole numbers in some tables and not in others become
    floating. With `keep_duplicate` all ids get the name of the component that they come from, with
    a number if it is connected more than once. Each party unites its own tables; nothing is sent.

    Metric `train` / `union`: rows per component and `Total`. Summary: the same.
    """

    def run(self, ctx: Context) -> Outputs:
        """Write the rows of all tables.

        Raises: BadData: fewer than two tables, or they do not fit together.
        """
        params: UnionParams = ctx.params
        tables = _inputs(ctx)
        if not tables:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(tables[0][1],), passed=True)
        if len(tables) < 2:
            raise BadData(where="input.data", reason="Union needs two tables or more, this is one")
        filled = [(name, table) for name, table in tables if table.count]
        for name, table in tables:
            if not table.count:
                ctx.warn("EmptyTable", f"the table of {name} has no rows and is left out")
        united = _unite(ctx, filled or tables[:1], keep_duplicate=params.keep_duplicate)
        counts = {name: table.count for name, table in tables} | {"Total": united.count}
        points = [(name, count) for name, count in counts.items()]
        ctx.tracker.metric("train", "union", metric_type="UNION", points=points)
        return Outputs(data=(united,), summary=counts)


def _inputs(ctx: Context) -> list[tuple[str, Table]]:
    """Return the tables under the names of their components, made different with numbers."""
    found: list[tuple[str, Table]] = []
    for upstream, table in ctx.inputs.data.get("data", ()):
        if table is None:
            continue
        taken = {name for name, _ in found}
        name, number = upstream, 1
        while name in taken:
            name, number = f"{upstream}_{number}", number + 1
        found.append((name, table))
    return found


def _unite(ctx: Context, tables: Sequence[tuple[str, Table]], *, keep_duplicate: bool) -> Table:
    schema = tables[0][1].schema
    for name, table in tables[1:]:
        _check_fits(schema, table.schema, first=tables[0][0], other=name)
    types = _types(tables)
    progress = RowProgress(ctx, sum(table.count for _, table in tables))
    seen: list[pa.Array] = []
    with ctx.tables.create(schema) as writer:
        writer.write(types.empty_table())
        for index, (name, table) in enumerate(tables):
            ids = table.read((schema.id,)).column(0)
            new = None if keep_duplicate else pc.invert(pc.is_in(ids, value_set=_array(seen)))
            start = 0
            for batch in table.to_batches():
                rows = pa.Table.from_batches([batch]).cast(types)
                if new is None:
                    renamed = pc.binary_join_element_wise(rows.column(0), name, "_")
                    rows = rows.set_column(0, schema.id, renamed)
                elif index:
                    rows = rows.filter(new.slice(start, batch.num_rows))
                writer.write(rows)
                start += batch.num_rows
                progress.add(batch.num_rows)
            seen.extend(ids.chunks)
        return writer.close()


def _array(chunks: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


def _check_fits(first_schema: TableSchema, schema: TableSchema, *, first: str, other: str) -> None:
    """Do nothing if two tables can be united. Raises: BadData: what differs."""
    for what, one, two in (
        ("kind", first_schema.kind.value, schema.kind.value),
        ("id column", first_schema.id, schema.id),
        ("match id column", first_schema.match_id, schema.match_id),
        ("label column", first_schema.label, schema.label),
        ("weight column", first_schema.weight, schema.weight),
        ("number of columns", len(first_schema.columns), len(schema.columns)),
    ):
        if one != two:
            reason = f"the {what} of {other} is {two}, that of {first} is {one}"
            raise BadData(where="input.data", reason=reason)
    for index, (mine, theirs) in enumerate(zip(first_schema.columns, schema.columns, strict=True)):
        if mine != theirs:
            reason = f"column {index + 1} of {other} is {theirs!r}, that of {first} is {mine!r}"
            raise BadData(where="input.data", reason=reason)


def _types(tables: Sequence[tuple[str, Table]]) -> pa.Schema:
    """Return the columns' common types. Raises: BadData: there is none for a column."""
    fields = []
    for name in tables[0][1].schema.names:
        kinds = {table.head(1).schema.field(name).type for _, table in tables}
        if len(kinds) > 1:
            numeric = all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds)
            if not numeric:
                reason = "it is text in some tables, and numbers in others"
                raise BadData(where=f"column {name!r}", reason=reason)
            kinds = {pa.float64()}
        fields.append(pa.field(name, kinds.pop()))
    return pa.schema(fields)
