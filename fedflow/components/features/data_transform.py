"""DataTransform: raw text rows become instances (id, label, numeric features).

Works on one batch at a time. A first pass over the data is made only if something is to be filled
or replaced; the second writes the instances. Missing features are NaN in float columns and null in
int and text columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.features.cells import BUILT_IN, BadCells, CellType, Marks, parse
from fedflow.components.features.data_transform_params import (
    DataIOParams,
    DataTransformParams,
    as_described,
    meta_of,
    params_of,
    unsupported,
)
from fedflow.components.features.replacing import (
    ColumnTally,
    Learnt,
    Rule,
    as_type,
    find,
    learn_missing,
    learn_outliers,
    replace,
)
from fedflow.components.instances.columns import anonymous_header
from fedflow.sdk import (
    BadData,
    Context,
    Model,
    NotSupportedYet,
    Outputs,
    Table,
    TableKind,
    TableSchema,
    component,
)

MODEL = "DataTransform"  #: its model objects are this and `Meta`, `Param`
OLDER_MODEL = "DataIO"
NOTHING = Learnt(values={}, ratios={})
TINY = 1e-8  #: below this a number counts as 0 in the sparse output format
_BLANK = Marks.of((), texts=BUILT_IN)
_NO_MARKS = Marks.of(())


@component(
    "DataTransform",
    roles=("guest", "host"),
    params=DataTransformParams,
    outputs=("data", "model"),
)
class DataTransform:
    """Turns raw rows into instances with a label and numeric features.

    Each party transforms its own table; nothing is exchanged. With a model input the columns, their
    order and the values to fill with are those of the earlier run; a column that is missing is an
    error, one more is left out. A cell that is no number is told with its column, the first row and
    the count. Empty cells, `NULL`, `null` and `NA` are missing: null in integer and text columns,
    NaN in others, which HeteroLR refuses unless `missing_fill` fills them.

    What the table's upload said (`with_meta`) goes before the parameters of the same names.

    Model: `DataTransformMeta`, `DataTransformParam` (header, filled values and ratios). Summary:
    `missing_fill_info`, `outlier_replace_rate`, if these are on.

    Not yet: sparse (svmlight) and tag rows, match ids.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: BadData: a column is missing, or cells are no numbers (with column, first row and
            count, never the cell). NotSupportedYet: sparse or tag rows, match ids.
        """
        return _transform(ctx, name=MODEL)


@component("DataIO", roles=("guest", "host"), params=DataIOParams, outputs=("data", "model"))
class DataIO:
    """Turns raw rows into instances, as DataTransform does: that module's name before FATE 1.7.

    Model: `DataIOMeta`, `DataIOParam`. There are no match ids; for new jobs take DataTransform.
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
    params: DataIOParams = ctx.params
    if not params.need_run:
        return Outputs(data=(table,), passed=True)
    model = _model_input(ctx, name=name)
    params = as_described(params, table) if model is None else params_of(model)
    if what := unsupported(params):
        raise NotSupportedYet(what=what)
    if table.schema.kind is not TableKind.RAW:
        raise BadData(where=f"table {table.name}", reason="its rows were transformed before")
    run = _Run(ctx=ctx, table=table, params=params, name=name)
    return run.fit() if model is None else run.transform(model)


def _model_input(ctx: Context, *, name: str) -> Model | None:
    models = list(ctx.inputs.model.values())
    for model in models:
        if model.param_name == f"{name}Param":
            return model
    if models:
        names = [m.param_name for m in models]
        raise BadData(where="the model input", reason=f"it is {names}, not {name}Param")
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layout:
    """Which columns a table gives and of what type they are."""

    label: str | None
    columns: tuple[str, ...]
    types: Mapping[str, CellType]


class _Run:
    """One transformation of one table."""

    def __init__(self, *, ctx: Context, table: Table, params: DataIOParams, name: str) -> None:
        self._ctx = ctx
        self._name = name
        self._table = table
        self._params = params
        self._missing_rule = Rule(
            marks=Marks.of(params.missing_impute or (), texts=BUILT_IN),
            method=params.missing_fill_method,
            given=params.default_value,
        )
        self._outlier_rule: Rule | None = None
        if params.outlier_replace:
            replaced = params.outlier_impute
            self._outlier_rule = Rule(
                marks=_BLANK if replaced is None else Marks.of(replaced),
                method=params.outlier_replace_method,
                given=params.outlier_replace_value,
            )
        self._learns = params.missing_fill or params.outlier_replace
        self._rows_done = 0
        self._rows_in_all = max(1, table.count)

    def fit(self) -> Outputs:
        """Return instances and the model of what was learnt."""
        label = self._label(required=True)
        columns = tuple(c for c in self._table.schema.columns if c != label)
        layout = _Layout(label=label, columns=columns, types=self._types(columns))
        missing = outliers = NOTHING
        if self._learns:
            self._rows_in_all *= 2
            missing, outliers = self._learn(layout)
        table = self._write(layout, missing=missing, outliers=outliers)
        return Outputs(
            data=(table,),
            model=self._model(layout, missing=missing, outliers=outliers),
            summary=self._summary(missing, outliers),
        )

    def transform(self, model: Model) -> Outputs:
        """Return instances with the columns, in the order, and with the values of `model`."""
        layout, missing, outliers = self._stored(model)
        table = self._write(layout, missing=missing, outliers=outliers)
        return Outputs(data=(table,), model=model)

    def _label(self, *, required: bool) -> str | None:
        """Return the label column's name, or None for rows without a label."""
        name = self._params.label_name
        if not self._params.with_label:
            return None
        if name in self._table.schema.columns:
            return name
        if not required:
            self._ctx.log.warning("no label column %r: the rows stay unlabelled", name)
            return None
        # Only this party's log has the names: an error's sentence goes to all parties of the job.
        self._ctx.log.error("columns of the table: %s", ", ".join(self._table.schema.columns))
        raise BadData(
            where=f"table {self._table.name}",
            reason=f"with_label is true, but there is no column {name!r}: the log lists them",
        )

    def _types(self, columns: tuple[str, ...]) -> dict[str, CellType]:
        special = {k.lower(): v for k, v in (self._params.exclusive_data_type or {}).items()}
        unknown = sorted(set(special) - {c.lower() for c in columns})
        if unknown:
            self._ctx.log.warning("exclusive_data_type names no column here: %s", unknown)
        return {c: CellType.of(special.get(c.lower(), self._params.data_type)) for c in columns}

    def _stored(self, model: Model) -> tuple[_Layout, Learnt, Learnt]:
        try:
            columns = tuple(str(c) for c in model.param["header"])
            fills = dict(model.param["imputer_param"]["missing_replace_value"])
            replaced = dict(model.param["outlier_param"]["outlier_replace_value"])
        except (KeyError, TypeError, ValueError) as exc:
            reason = f"it is no {self._name}Param ({exc!r})"
            raise BadData(where="the model input", reason=reason) from exc
        absent = [c for c in columns if c not in self._table.schema.columns]
        if absent:
            reason = f"{len(absent)} columns of the model are missing: {', '.join(absent[:20])}"
            raise BadData(where=f"table {self._table.name}", reason=reason)
        types = self._types(columns)
        layout = _Layout(label=self._label(required=False), columns=columns, types=types)
        for values in (fills, replaced):
            for name in columns:
                if name in values:
                    values[name] = as_type(values[name], types[name], where=f"column {name!r}")
        return layout, Learnt(values=fills, ratios={}), Learnt(values=replaced, ratios={})

    def _learn(self, layout: _Layout) -> tuple[Learnt, Learnt]:
        """Return what fills missing cells and what replaces outliers, from a pass over the data."""
        tallies = {name: ColumnTally() for name in layout.columns}
        rule = self._outlier_rule
        for batch in self._table.to_batches():
            for name, tally in tallies.items():
                column = self._feature(batch, name, layout.types[name])
                tally.add(column, outliers=None if rule is None else find(column, rule.marks))
            self._progress(batch)
        missing = outliers = NOTHING
        if self._params.missing_fill:
            missing = learn_missing(tallies, self._missing_rule, types=layout.types)
        if rule is not None:
            outliers = learn_outliers(tallies, rule, types=layout.types, filled=missing.values)
        return missing, outliers

    def _write(self, layout: _Layout, *, missing: Learnt, outliers: Learnt) -> Table:
        schema = TableSchema(
            kind=TableKind.INSTANCES,
            id=self._table.schema.id,
            label=layout.label,
            columns=layout.columns,
            anonymous=anonymous_header(self._ctx.site, layout.columns),
        )

        def instances(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = [batch.column(0)]
            if layout.label is not None:
                arrays.append(self._label_cells(batch, layout.label))
            for name in layout.columns:
                column = replace(
                    self._feature(batch, name, layout.types[name]),
                    fill=missing.values.get(name),
                    outliers=self._outlier_rule,
                    outlier_value=outliers.values.get(name),
                )
                arrays.append(self._finished(column))
            self._progress(batch)
            return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))

        return self._table.map_blocks(instances, schema=schema)

    def _feature(self, batch: pa.RecordBatch, name: str, kind: CellType) -> pa.Array:
        keeps_text = kind is CellType.TEXT and not self._params.missing_fill
        marks = _NO_MARKS if keeps_text else self._missing_rule.marks
        return self._cells(batch, name, lambda cells: parse(cells, kind, missing=marks))

    def _label_cells(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        kind = CellType.of(self._params.label_type)
        return self._cells(batch, name, lambda cells: _without_gaps(cells, kind))

    def _cells(
        self, batch: pa.RecordBatch, name: str, read: Callable[[pa.Array], pa.Array]
    ) -> pa.Array:
        """Return a column as `read` gives it. Raises: BadData: with all that is wrong in it."""
        try:
            return read(batch.column(name))
        except BadCells:
            raise self._all_bad_cells(name, read) from None

    def _all_bad_cells(self, name: str, read: Callable[[pa.Array], pa.Array]) -> BadData:
        rows, first, count = 0, -1, 0
        for batch in self._table.to_batches():
            try:
                read(batch.column(name))
            except BadCells as bad:
                first = rows + bad.first if first < 0 else first
                count += bad.count
            rows += batch.num_rows
        what = "label" if name == self._params.label_name and self._params.with_label else "number"
        return BadData(
            where=f"column {name!r}",
            reason=f"{count} of {rows} cells hold no valid {what}, first in row {first + 1}",
        )

    def _finished(self, column: pa.Array) -> pa.Array:
        if not pa.types.is_floating(column.type):
            return column
        if self._params.output_format == "sparse":
            column = pc.if_else(pc.less(pc.abs(column), TINY), 0.0, column)
        return pc.fill_null(column, math.nan)

    def _progress(self, batch: pa.RecordBatch) -> None:
        self._rows_done += batch.num_rows
        self._ctx.tracker.progress(min(1.0, self._rows_done / self._rows_in_all))

    def _model(self, layout: _Layout, *, missing: Learnt, outliers: Learnt) -> Model:
        anonymous: dict[str, Any] = {}
        if self._name == MODEL:
            anonymous = {"anonymous_header": list(anonymous_header(self._ctx.site, layout.columns))}
        return Model(
            meta_name=f"{self._name}Meta",
            param_name=f"{self._name}Param",
            meta=meta_of(self._params),
            param={
                "header": list(layout.columns),
                **anonymous,
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


def _without_gaps(cells: pa.Array, kind: CellType) -> pa.Array:
    """Return labels of type `kind`. Raises: BadCells: one is missing or of another type."""
    labels = parse(cells, kind, missing=_BLANK)
    if labels.null_count:
        raise BadCells(pc.index(pc.is_null(labels), True).as_py(), labels.null_count)
    return labels


def _as_texts(learnt: Learnt) -> dict[str, str]:
    return {name: str(value) for name, value in learnt.values.items()}
