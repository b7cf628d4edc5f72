"""FeatureImputation: fills missing features, by a method per column, at each party for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field

from fedflow.components.features.cells import BUILT_IN, CellType, SpecialValues
from fedflow.components.features.replacing import (
    ColumnTally,
    ReplacementRule,
    Value,
    as_type,
    find,
    learn_missing,
)
from fedflow.components.samples.progress import RowProgress, part_of
from fedflow.components.samples.stored import need_columns, own_model
from fedflow.components.training.params import one_of
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Model,
    Outputs,
    Params,
    Table,
    component,
)
from fedflow.sdk.spellings import EMPTY_AS_NULL

Cell = str | int | float
METHODS = ("min", "max", "mean", "designated")


class FeatureImputationParams(Params, frozen=True, kw_only=True):
    """Which features are filled, and with what."""

    #: what `designated` fills with: a value for all features, or a list with one per feature
    default_value: Cell | list[Cell] | None = 0
    #: `min`, `max`, `mean` (of the present numbers) or `designated`, for the columns that
    #: `col_missing_fill_method` does not name; null: they are not filled
    missing_fill_method: str | None = None
    #: column -> method
    col_missing_fill_method: Annotated[dict[str, str] | None, EMPTY_AS_NULL] = field(
        default_factory=dict
    )
    #: values that count as missing, beside missing ones; null: in text columns the empty text,
    #: `NULL`, `null`, `NA`
    missing_impute: Annotated[list[Cell | None] | None, EMPTY_AS_NULL] = None
    need_run: bool = True  #: false: the output is the input

    @property
    def per_column(self) -> dict[str, str]:
        """Return the columns with a method of their own."""
        return {name: m.lower() for name, m in (self.col_missing_fill_method or {}).items()}

    def method_of(self, column: str) -> str | None:
        """Return a column's method, None if it is not filled."""
        general = self.missing_fill_method
        return self.per_column.get(column, None if general is None else general.lower())

    def check(self) -> None:
        """Methods must be known, and `designated` needs a value."""
        methods = list(self.per_column.values())
        for name, method in self.per_column.items():
            one_of(f"col_missing_fill_method.{name}", method, METHODS)
        if self.missing_fill_method is not None:
            one_of("missing_fill_method", self.missing_fill_method, METHODS)
            methods.append(self.missing_fill_method.lower())
        if "designated" in methods and self.default_value is None:
            raise ValueError("default_value: the method designated needs it")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fills:
    """What fills which columns."""

    values: Mapping[str, Value]  #: by column
    ratios: Mapping[str, float]  #: share of cells that were missing, by column
    methods: Mapping[str, str]  #: by column
    marks: SpecialValues  #: what counts as missing

    def skipped(self, header: tuple[str, ...]) -> list[str]:
        """Return the columns that are not filled."""
        return [name for name in header if name not in self.values]


@component(
    "FeatureImputation",
    roles=("guest", "host"),
    params=FeatureImputationParams,
    outputs=("data", "model"),
    absence="apart",
)
class FeatureImputation:
    """Fills missing features with a column's least, greatest or mean value, or a given one.

    Missing are empty cells (NaN) and the values that `missing_impute` lists. Columns without a
    method are left as they are. Each party works on its own columns; nothing is sent. With a model
    the columns that it names get the values that it holds.

    Model: `FeatureImputationMeta`, `FeatureImputationParam`. Summary: `missing_value`,
    `missing_impute_value` and `missing_impute_rate` per column, `skip_cols`.
    """

    def run(self, ctx: Context) -> Outputs:
        """Learn the values from the input, unless a model is connected, and fill with them.

        Raises: BadParameter: a method is given for an unknown column. BadData: a column has no
            number to learn from, or the model's columns are not there.
        """
        params: FeatureImputationParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        stored = own_model(ctx, "FeatureImputationParam")
        if stored is not None:
            return Outputs(data=(_filled(ctx, table, _load(ctx, stored, table)),), model=stored)
        fills = _learn(ctx, table)
        if not fills.values:
            ctx.log.warning("No column has a method: nothing is filled.")
        return Outputs(
            data=(_filled(ctx, table, fills),),
            model=_model(params, table, fills),
            summary={
                "missing_value": list(fills.marks.texts),
                "missing_impute_value": dict(fills.values),
                "missing_impute_rate": dict(fills.ratios),
                "skip_cols": fills.skipped(table.schema.columns),
            },
        )


def _learn(ctx: Context, table: Table) -> Fills:
    """Return the values from a pass over the table. Raises: BadParameter, BadData."""
    params: FeatureImputationParams = ctx.params
    header = table.schema.columns
    if unknown := sorted(set(params.per_column) - set(header)):
        raise BadParameter(
            path=f"{ctx.component}.col_missing_fill_method",
            reason=f"there are no features {', '.join(unknown[:20])}",
        )
    given = params.default_value
    if isinstance(given, list) and len(given) != len(header):
        raise BadParameter(
            path=f"{ctx.component}.default_value",
            reason=f"{len(given)} values for {len(header)} features",
        )
    marks = _marks(params.missing_impute)
    chosen = {name: m for name in header if (m := params.method_of(name)) is not None}
    tallies = {name: ColumnTally() for name in chosen}
    types: dict[str, CellType] = dict.fromkeys(chosen, CellType.FLOAT)
    if table.count:
        types = {name: _cell_type(table.head(0).column(name), name) for name in chosen}
    progress = RowProgress(ctx, table, end=0.5)
    for rows, blocks in table.fold_blocks(_tallying(tuple(chosen), marks)):
        for tally, block in zip(tallies.values(), blocks, strict=True):
            tally.merge(block)
        progress.add(rows)
    values: dict[str, Value] = {}
    ratios = dict.fromkeys(header, 0.0)
    for index, name in enumerate(header):
        if name in chosen:
            own = given[index] if isinstance(given, list) else given
            rule = ReplacementRule(marks=marks, method=chosen[name], given=own)
            learnt = learn_missing({name: tallies[name]}, rule, types=types)
            if name not in learnt.values:
                reason = f"no number in it, so no {rule.method} to fill with"
                raise BadData(where=f"column {name!r}", reason=reason)
            values.update(learnt.values)
            ratios.update(learnt.ratios)
    return Fills(values=values, ratios=ratios, methods=chosen, marks=marks)


def _tallying(
    names: Sequence[str], marks: SpecialValues
) -> Callable[[pa.RecordBatch], tuple[int, list[ColumnTally]]]:
    """Return what gives the rows of a block, and what its columns amount to."""

    def tallies(batch: pa.RecordBatch) -> tuple[int, list[ColumnTally]]:
        found = []
        for name in names:
            tally = ColumnTally()
            tally.add(_with_gaps(batch.column(name), marks), outliers=None)
            found.append(tally)
        return batch.num_rows, found

    return tallies


def _filled(ctx: Context, table: Table, fills: Fills) -> Table:
    names, values, marks = table.schema.names, dict(fills.values), fills.marks

    def block(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for name in names:
            column = batch.column(name)
            if name in values:
                value = pa.scalar(values[name], column.type)
                column = pc.fill_null(_with_gaps(column, marks), value)
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    return table.map_blocks(block, schema=table.schema, progress=part_of(ctx, start=0.5))


def _with_gaps(column: pa.Array, marks: SpecialValues) -> pa.Array:
    """Return the column with null where it is NaN or has one of the marks."""
    gap = find(column, marks)
    if pa.types.is_floating(column.type):
        gap = pc.or_(gap, pc.fill_null(pc.is_nan(column), False))
    return pc.if_else(gap, pa.scalar(None, column.type), column)


def _marks(listed: list[Cell | None] | None) -> SpecialValues:
    if listed is None:
        return SpecialValues.of((), texts=BUILT_IN)
    return SpecialValues.of([value for value in listed if value is not None])


def _cell_type(column: pa.Array, name: str) -> CellType:
    if pa.types.is_string(column.type):
        return CellType.TEXT
    if pa.types.is_integer(column.type):
        return CellType.INT
    if pa.types.is_floating(column.type):
        return CellType.FLOAT
    raise BadData(where=f"column {name!r}", reason=f"{column.type} is no type that is filled")


def _model(params: FeatureImputationParams, table: Table, fills: Fills) -> Model:
    header = table.schema.columns
    return Model(
        meta_name="FeatureImputationMeta",
        param_name="FeatureImputationParam",
        meta={
            "need_run": params.need_run,
            "imputer_meta": {
                "is_imputer": True,
                "strategy": (params.missing_fill_method or "").lower(),
                "missing_value": list(fills.marks.texts),
                "missing_value_type": _mark_types(params.missing_impute, fills.marks),
                "cols_strategy": params.per_column,
            },
        },
        param={
            "header": list(header),
            "imputer_param": {
                "missing_replace_value": {n: str(v) for n, v in fills.values.items()},
                "missing_replace_value_type": {
                    n: type(v).__name__ for n, v in fills.values.items()
                },
                "missing_value_ratio": dict(fills.ratios),
                "skip_cols": fills.skipped(header),
                "cols_replace_method": dict(fills.methods),
            },
        },
    )


def _mark_types(listed: list[Cell | None] | None, marks: SpecialValues) -> list[str]:
    kinds = {str(v): type(v).__name__ for v in listed or ()}
    return [kinds.get(text, "str") for text in marks.texts]


def _load(ctx: Context, model: Model, table: Table) -> Fills:
    """Return what a model fills. Raises: BadData: it does not fit the table."""
    texts, marks = read_fills(model)
    need_columns(ctx, table, texts)
    kinds = {name: _cell_type(table.head(0).column(name), name) for name in texts}
    values: dict[str, Value] = {
        name: as_type(value, kinds[name], where=f"column {name!r}") for name, value in texts.items()
    }
    return Fills(values=values, ratios={}, methods={}, marks=marks)


def read_fills(model: Model) -> tuple[dict[str, Any], SpecialValues]:
    """Return what a model fills each column with, as text, and what counts as missing.

    Raises: BadData: it is not of FeatureImputation.
    """
    try:
        texts = dict(model.param["imputer_param"]["missing_replace_value"])
        skipped = set(model.param["imputer_param"].get("skip_cols", ()))
        marks = [str(v) for v in model.meta["imputer_meta"]["missing_value"]]
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise BadData(
            where="the model input", reason=f"it is not of FeatureImputation ({exc!r})"
        ) from exc
    filled = {name: value for name, value in texts.items() if name not in skipped}
    return filled, SpecialValues.of(marks)
