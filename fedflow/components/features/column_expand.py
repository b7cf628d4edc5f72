"""ColumnExpand: raw rows get further columns, each with one value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import pyarrow as pa

from fedflow.components.features.row_formats import Delimited
from fedflow.components.samples.progress import part_of
from fedflow.components.samples.stored import own_model
from fedflow.sdk import (
    BadData,
    Context,
    Model,
    Outputs,
    Params,
    Site,
    Table,
    TableKind,
    TableSchema,
    component,
)
from fedflow.sdk.names import has_control
from fedflow.sdk.spellings import ANY_CASE

META, PARAM = "ColumnExpandMeta", "ColumnExpandParam"
Cell = str | int | float


class ColumnExpandParams(Params, frozen=True, kw_only=True):
    """Parameters of ColumnExpand; docs/reference/components.md#columnexpand."""

    append_header: list[str] | None = None  #: names of the new columns; none: rows stay as they are
    method: Annotated[Literal["manual"], ANY_CASE] = "manual"  #: the values are given
    fill_value: Cell | list[Cell] = 1e-8  #: of all new columns, or a list with one per column
    need_run: bool = True  #: false: the output is the input

    def check(self) -> None:
        """Names are usable and differ; there are as many values as names."""
        names = self.append_header or []
        if len(set(names)) != len(names):
            raise ValueError("append_header: it names a column twice")
        if any(not name.strip() or has_control(name) for name in names):
            raise ValueError("append_header: it holds a name that no column may have")
        if isinstance(self.fill_value, list) and len(self.fill_value) != len(names):
            given = f"{len(self.fill_value)} values, {len(names)} names in append_header"
            raise ValueError(f"fill_value: {given}")
        values = self.fill_value if isinstance(self.fill_value, list) else [self.fill_value]
        if any(isinstance(v, float) and not math.isfinite(v) for v in values):
            raise ValueError("fill_value: it must be finite")
        if any(isinstance(v, str) and set(v) & {"\n", "\r"} for v in values):
            raise ValueError("fill_value: it must be one line")


@component(
    "ColumnExpand",
    roles=("guest", "host"),
    params=ColumnExpandParams,
    outputs=("data", "model"),
    absence="apart",
)
class ColumnExpand:
    """Adds columns with one value each to raw rows, before DataTransform.

    So parties that miss features of others can take part in models that need the same columns
    everywhere. The new columns stand behind the others. Other parties know the k-th as
    `<role>_<party>_exp_<k>`, also after DataTransform; k counts from 0 and goes on if columns are
    added twice. With a model input the columns and values are those of the earlier run.

    Model: `ColumnExpandMeta` (`append_header`, `method`, `fill_value`, `need_run`),
    `ColumnExpandParam` (`header`: all columns behind the id). Rows of tags or svmlight have no
    columns yet: they are refused.
    """

    def run(self, ctx: Context) -> Outputs:
        """Add the columns.

        Raises: BadData: no table, no raw rows, no column names, a column of such a name exists, or
            the model is another module's.
        """
        params: ColumnExpandParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        model = own_model(ctx, PARAM)
        names, values = _columns(params) if model is None else stored_columns(model)
        _check(table, names)
        schema = _expanded(table.schema, names, ctx.site)
        header = list(schema.names)

        def expand(batch: pa.RecordBatch) -> pa.RecordBatch:
            more = [pa.array([v], pa.string()) for v in values]
            rows = pa.array([0] * batch.num_rows, pa.int64())
            arrays = [*batch.columns, *(one.take(rows) for one in more)]
            return pa.RecordBatch.from_arrays(arrays, names=header)

        made = table.map_blocks(expand, schema=schema, progress=part_of(ctx))
        return Outputs(data=(made,), model=model or _model(params, names, values, schema))


def _columns(params: ColumnExpandParams) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and values of the new columns."""
    names = tuple(name.strip() for name in params.append_header or ())
    given = params.fill_value
    each = given if isinstance(given, list) else [given] * len(names)
    return names, tuple(str(value) for value in each)


def stored_columns(model: Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and values of the columns that a model adds. Raises: BadData: it is none."""
    try:
        names = tuple(str(name) for name in model.meta["append_header"])
        values = tuple(str(value) for value in model.meta["fill_value"])
        if len(names) != len(values):
            raise ValueError("values and names differ in number")
    except (KeyError, TypeError, ValueError) as exc:
        raise BadData(where="the model input", reason=f"it is no {META} ({exc!r})") from exc
    return names, values


def _check(table: Table, names: Sequence[str]) -> None:
    where = f"table {table.name}"
    if table.schema.kind is not TableKind.RAW:
        raise BadData(where=where, reason="its rows were transformed before; columns come first")
    if isinstance(table, Delimited) and not table.is_named:
        raise BadData(where=where, reason="it was uploaded without column names")
    if taken := [name for name in names if name in table.schema.names]:
        raise BadData(where=where, reason=f"{len(taken)} of the new columns exist already")


def _expanded(schema: TableSchema, names: tuple[str, ...], site: Site) -> TableSchema:
    """Return the schema with further columns; those known by no anonymous name keep an empty one,
    which DataTransform fills.
    """
    known = schema.anonymous or ("",) * len(schema.columns)
    prefix = f"{site.role.value}_{site.party_id}_exp_"
    begin = sum(1 for name in known if name.startswith(prefix))
    return TableSchema(
        kind=schema.kind,
        id=schema.id,
        label=schema.label,
        match_id=schema.match_id,
        weight=schema.weight,
        columns=(*schema.columns, *names),
        anonymous=(*known, *(f"{prefix}{begin + k}" for k in range(len(names)))),
    )


def _model(
    params: ColumnExpandParams, names: Sequence[str], values: Sequence[str], schema: TableSchema
) -> Model:
    return Model(
        meta_name=META,
        param_name=PARAM,
        meta={
            "append_header": list(names),
            "method": params.method,
            "fill_value": list(values),
            "need_run": params.need_run,
        },
        param={"header": list(schema.columns)},
    )
