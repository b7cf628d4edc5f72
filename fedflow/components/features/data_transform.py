"""DataTransform: raw text rows become instances (id, match id, label, numeric features).

Works on one batch at a time. Passes over the data before the last one, which writes the instances,
are made if something is to be filled or replaced, and to learn which tags there are. Missing
features are NaN in float columns and null in int and text columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.features.cells import BUILT_IN, CellType, SpecialValues
from fedflow.components.features.data_transform_params import (
    DataIOParams,
    DataTransformParams,
    as_described,
    meta_of,
    overruled,
    params_of,
)
from fedflow.components.features.raw_rows import Layout, raw_rows
from fedflow.components.features.replacing import (
    ColumnTally,
    Learnt,
    ReplacementRule,
    Value,
    as_type,
    find,
    learn_missing,
    learn_outliers,
    replace,
)
from fedflow.components.features.typed_rows import CellReader, TypedRows
from fedflow.components.samples.columns import anonymous_header
from fedflow.components.samples.progress import part_of
from fedflow.components.samples.stored import own_model
from fedflow.sdk import (
    BadData,
    Context,
    Model,
    Outputs,
    Table,
    TableKind,
    TableSchema,
    component,
)

MODEL = "DataTransform"  #: its model objects are this and `Meta`, `Param`
OLDER_MODEL = "DataIO"
NOTHING = Learnt(values={}, ratios={})
MAPPED_COLUMNS = 256  #: of tagged rows; with more of them parts of blocks are written here
TINY = 1e-8  #: below this a number counts as 0 in the sparse output format
_BLANK = SpecialValues.of((), texts=BUILT_IN)


@component(
    "DataTransform",
    roles=("guest", "host"),
    params=DataTransformParams,
    outputs=("data", "model"),
    absence="apart",
)
class DataTransform:
    """Turns raw rows into instances with a label and numeric features.

    Each party transforms its own table; nothing is exchanged. With a model input the columns, their
    order and the values to fill with are those of the earlier run. A missing column is an error, an
    additional one is left out. A cell that is no number is an error with its column, first row and
    the count. Empty cells, `NULL`, `null` and `NA` are missing: null in integer and text columns,
    NaN in others, which HeteroLR refuses unless `missing_fill` fills them.

    Rows are `dense` (a cell per column), `sparse` (svmlight: match id, label, then `index:value`)
    or `tag` (match id, label, then `tag` or `tag:value`). The columns of the latter are x0 to the
    greatest index, or all tags in order; what a row does not have is 0. With a model input, tags
    that it does not know are left out. Such files are uploaded with `head` 0; their rows may
    differ in length. White space around an item, and empty items, do not count; of several values
    of one tag the last one does. All instances are stored dense, also with `output_format`
    `sparse`: more than 20,000 features, or 2e9 cells, are refused.

    Match ids are text; the key stays the first column. Where they stand: `match_id_name`, or
    `match_id_index` among the columns that the upload's `meta` names, else after the key. Id
    columns that are not chosen are left out.

    What the table's upload said (`with_meta`) goes before the parameters of the same names.

    Model: `DataTransformMeta`, `DataTransformParam` (header, filled values and ratios; unlike in
    FATE `match_id_name` too). Summary: `missing_fill_info`, `outlier_replace_rate`, if these are
    on. With `need_run` false no model is written (FATE writes a wrong one).
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: BadData: a column is missing, or cells are no numbers (with column, first row and
            count, never the cell).
        """
        return _transform(ctx, name=MODEL)


@component(
    "DataIO",
    roles=("guest", "host"),
    params=DataIOParams,
    outputs=("data", "model"),
    absence="apart",
)
class DataIO:
    """Turns raw rows into instances, as DataTransform does: that module's name before FATE 1.7.

    Model: `DataIOMeta`, `DataIOParam`. It has no parameters for match ids (an upload's `meta` may
    ask for them); for new jobs take DataTransform.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: as DataTransform's.
        """
        return _transform(ctx, name=OLDER_MODEL)


def _transform(ctx: Context, *, name: str) -> Outputs:
    table = ctx.inputs.first("data")
    if table is None:
        raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
    given: DataIOParams = ctx.params
    if not given.need_run:
        return Outputs(data=(table,), passed=True)
    model = own_model(ctx, f"{name}Param")
    params = as_described(given, table) if model is None else params_of(model, given)
    if model is None:
        _warn_of_overruled(ctx, table)
    if table.schema.kind is not TableKind.RAW:
        raise BadData(where=f"table {table.name}", reason="its rows were transformed before")
    run = _Run(ctx=ctx, table=table, params=params, name=name)
    return run.fit() if model is None else run.transform(model)


def _warn_of_overruled(ctx: Context, table: Table) -> None:
    """Warn of parameters that are not used, as the table's upload said something else."""
    for name, given, used in overruled(ctx.params, table):
        ctx.warn(
            "Overruled",
            f"{given!r} is not used: the upload of table {table.name} says {used!r}",
            hint="Take the parameter out, or upload the table again.",
            path=name,
        )


class _Run:
    """One transformation of one table."""

    def __init__(
        self, *, ctx: Context, table: Table, params: DataTransformParams, name: str
    ) -> None:
        self._ctx = ctx
        self._name = name
        self._table = table
        self._params = params
        self._rows = raw_rows(table, params, ctx.log)
        self._missing_rule = missing_rule(params)
        self._outlier_rule = outlier_rule(params)
        self._learns = params.missing_fill or params.outlier_replace
        self._rows_done = 0
        self._rows_in_all = max(1, table.count) * (1 + self._rows.looks)

    def fit(self) -> Outputs:
        """Return instances and the model of what was learnt."""
        if self._learns:
            self._rows_in_all += self._table.count
        layout = self._rows.layout(None, told=self._progress)
        types = self._types(layout.columns)
        typed = self._typed(layout, types)
        missing = outliers = NOTHING
        if self._learns:
            missing, outliers = self._learn(typed, types)
        table = self._write(layout, typed, missing=missing, outliers=outliers)
        return Outputs(
            data=(table,),
            model=self._model(layout, missing=missing, outliers=outliers),
            summary=self._summary(missing, outliers),
        )

    def transform(self, model: Model) -> Outputs:
        """Return instances with the columns, in the order, and with the values of `model`."""
        columns, missing, outliers = stored_columns(model)
        types = self._types(columns)
        layout = self._rows.layout(columns, told=self._progress)
        for learnt in (missing, outliers):
            for name in columns:
                if name in learnt:
                    where = f"column {name!r}"
                    learnt[name] = as_type(learnt[name], types[name], where=where)
        table = self._write(
            layout,
            self._typed(layout, types),
            missing=Learnt(values=missing, ratios={}),
            outliers=Learnt(values=outliers, ratios={}),
        )
        return Outputs(data=(table,), model=model)

    def _types(self, columns: tuple[str, ...]) -> dict[str, CellType]:
        special = {name.lower() for name in self._params.exclusive_data_type or {}}
        unknown = sorted(special - {c.lower() for c in columns})
        if unknown:
            message = f"there are no columns {', '.join(unknown[:20])}"
            self._ctx.warn("UnknownColumn", message, path="exclusive_data_type")
        return column_types(self._params, columns)

    def _typed(self, layout: Layout, types: Mapping[str, CellType]) -> TypedRows:
        params = self._params
        reader = CellReader(
            blocks=self._rows.blocks(layout),
            layout=layout,
            types=tuple(types[name] for name in layout.columns),
            label_type=CellType.of(params.label_type),
            missing=self._missing_rule.marks,
            keeps_text=not params.missing_fill,
        )
        return TypedRows(self._table, reader)

    def _learn(self, typed: TypedRows, types: Mapping[str, CellType]) -> tuple[Learnt, Learnt]:
        """Return what fills missing cells and what replaces outliers, from a pass over the data."""
        tallies = {name: ColumnTally() for name in types}
        rule = self._outlier_rule
        with typed.explained():
            for rows, blocks in self._table.fold_blocks(_tallying(typed.reader, rule)):
                for tally, block in zip(tallies.values(), blocks, strict=True):
                    tally.merge(block)
                self._progress(rows)
        missing = outliers = NOTHING
        if self._params.missing_fill:
            missing = learn_missing(tallies, self._missing_rule, types=types)
            if empty := [name for name in types if name not in missing.values]:
                self._ctx.log.warning("Nothing to fill with, all cells are missing: %s", empty)
        if rule is not None:
            outliers = learn_outliers(tallies, rule, types=types, filled=missing.values)
        return missing, outliers

    def _write(
        self, layout: Layout, typed: TypedRows, *, missing: Learnt, outliers: Learnt
    ) -> Table:
        schema = TableSchema(
            kind=TableKind.INSTANCES,
            id=self._table.schema.id,
            match_id=layout.match_id,
            label=layout.label,
            columns=layout.columns,
            anonymous=self._anonymous(layout),
        )
        converter = _Converter(
            reader=typed.reader,
            names=schema.names,
            missing=missing.values,
            outliers=outliers.values,
            outlier_rule=self._outlier_rule,
            sparse=self._params.output_format == "sparse",
        )
        with typed.explained():
            if self._rows.spreads and len(layout.columns) > MAPPED_COLUMNS:
                return self._write_parts(converter, schema)
            begin = self._rows_done / self._rows_in_all
            return self._table.map_blocks(
                converter, schema=schema, progress=part_of(self._ctx, start=begin)
            )

    def _write_parts(self, converter: _Converter, schema: TableSchema) -> Table:
        """Return the instances, written here: a whole block would take too much memory."""
        with self._ctx.tables.create(schema) as writer:
            none = pa.RecordBatch.from_pylist([], schema=self._table.head(0).schema)
            writer.write(converter(none))  # for the types
            for batch in self._table.to_batches():
                for part in converter.parts(batch):
                    writer.write(part)
                    self._progress(part.num_rows)
            return writer.close()

    def _anonymous(self, layout: Layout) -> tuple[str, ...]:
        """Return the anonymous names; raw columns that have one already keep it (ColumnExpand)."""
        raw = self._table.schema
        known = dict(zip(raw.columns, raw.anonymous, strict=True)) if raw.anonymous else {}
        fresh = iter(anonymous_header(self._ctx.site, layout.columns))
        return tuple(known.get(name) or next(fresh) for name in layout.columns)

    def _progress(self, rows: int) -> None:
        self._rows_done += rows
        self._ctx.tracker.progress(min(1.0, self._rows_done / self._rows_in_all))

    def _model(self, layout: Layout, *, missing: Learnt, outliers: Learnt) -> Model:
        newer: dict[str, Any] = {}
        if self._name == MODEL:
            newer = {"anonymous_header": list(self._anonymous(layout))}
            if layout.match_id is not None:
                newer["match_id_name"] = layout.match_id
        return Model(
            meta_name=f"{self._name}Meta",
            param_name=f"{self._name}Param",
            meta=meta_of(self._params, match_ids=self._name == MODEL),
            param={
                "header": list(layout.columns),
                **newer,
                "sid_name": self._table.schema.id,
                "label_name": layout.label or "",
                "imputer_param": {
                    "missing_replace_value": _as_texts(missing),
                    "missing_value_ratio": dict(missing.ratios),
                },
                "outlier_param": {
                    "outlier_replace_value": _as_texts(outliers),
                    "outlier_value_ratio": dict(outliers.ratios),
                },
            },
        )

    def _summary(self, missing: Learnt, outliers: Learnt) -> dict[str, Any]:
        summary: dict[str, Any] = {}
        if self._params.missing_fill:
            summary["missing_fill_info"] = {
                "missing_value": list(self._missing_rule.marks.texts),
                "missing_impute_value": dict(missing.values),
                "missing_impute_rate": dict(missing.ratios),
            }
        if self._params.outlier_replace:
            summary["outlier_replace_rate"] = dict(outliers.ratios)
        return summary


def missing_rule(params: DataTransformParams) -> ReplacementRule:
    """Return which cells are missing, and how the values that fill them are found."""
    return ReplacementRule(
        marks=SpecialValues.of(params.missing_impute or (), texts=BUILT_IN),
        method=params.missing_fill_method,
        given=params.default_value,
    )


def outlier_rule(params: DataTransformParams) -> ReplacementRule | None:
    """Return which cells are outliers and how the values for them are found, None if none are."""
    if not params.outlier_replace:
        return None
    replaced = params.outlier_impute
    return ReplacementRule(
        marks=_BLANK if replaced is None else SpecialValues.of(replaced),
        method=params.outlier_replace_method,
        given=params.outlier_replace_value,
    )


def column_types(params: DataTransformParams, columns: Sequence[str]) -> dict[str, CellType]:
    """Return what the cells of each column become."""
    special = {k.lower(): v for k, v in (params.exclusive_data_type or {}).items()}
    return {c: CellType.of(special.get(c.lower(), params.data_type)) for c in columns}


def stored_columns(model: Model) -> tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]:
    """Return the columns of a model, and what fills and replaces, by column.

    Raises: BadData: it is no such model.
    """
    try:
        columns = tuple(str(c) for c in model.param["header"])
        fills = dict(model.param["imputer_param"]["missing_replace_value"])
        replaced = dict(model.param["outlier_param"]["outlier_replace_value"])
    except (KeyError, TypeError, ValueError) as exc:
        reason = f"it is no {model.param_name} ({exc!r})"
        raise BadData(where="the model input", reason=reason) from exc
    return columns, fills, replaced


@dataclass(frozen=True, kw_only=True, slots=True)
class _Converter:
    """Makes instances of blocks of raw rows."""

    reader: CellReader
    names: tuple[str, ...]  #: of the instances' columns
    missing: Mapping[str, Value]  #: what fills missing cells, by feature
    outliers: Mapping[str, Value]  #: what replaces outliers, by feature
    outlier_rule: ReplacementRule | None
    sparse: bool  #: tiny numbers become 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the instances of a block. Raises: BadData: see `CellReader.read`."""
        first, *more = self.parts(batch)
        if not more:
            return first
        (whole,) = pa.Table.from_batches([first, *more]).combine_chunks().to_batches()
        return whole

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the instances of a block, some at a time, at least once. Raises: as the call."""
        for cells in self.reader.read(batch):
            arrays = [a for a in (cells.ids, cells.match_ids, cells.labels) if a is not None]
            for name, column in zip(self.reader.layout.columns, cells.features, strict=True):
                replaced = replace(
                    column,
                    fill=self.missing.get(name),
                    outliers=self.outlier_rule,
                    outlier_value=self.outliers.get(name),
                )
                arrays.append(self._finished(replaced))
            yield pa.RecordBatch.from_arrays(arrays, names=list(self.names))

    def _finished(self, column: pa.Array) -> pa.Array:
        if not pa.types.is_floating(column.type):
            return column
        if self.sparse:
            column = pc.if_else(pc.less(pc.abs(column), TINY), 0.0, column)
        return pc.fill_null(column, math.nan)


def _tallying(
    reader: CellReader, rule: ReplacementRule | None
) -> Callable[[pa.RecordBatch], tuple[int, list[ColumnTally]]]:
    """Return what gives the rows of a block, and what its features amount to."""

    def tallies(batch: pa.RecordBatch) -> tuple[int, list[ColumnTally]]:
        found = [ColumnTally() for _ in reader.types]
        for cells in reader.read(batch):
            for tally, column in zip(found, cells.features, strict=True):
                tally.add(column, outliers=None if rule is None else find(column, rule.marks))
        return batch.num_rows, found

    return tallies


def _as_texts(learnt: Learnt) -> dict[str, str]:
    return {name: str(value) for name, value in learnt.values.items()}
