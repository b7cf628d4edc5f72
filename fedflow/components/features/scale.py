"""FeatureScale: columns to a common range or spread, at each party for itself.

The table is read block by block: once for what has to be learnt (and a column at a time for the
quantiles of mode `cap`), once for the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import field as parameter
from numpy.typing import NDArray

from fedflow.components.features.moments import Moments
from fedflow.components.samples.columns import ALL, columns_here
from fedflow.components.samples.decoding import (
    block_numbers,
    counted_in_all,
    numbers,
    where_of,
)
from fedflow.components.samples.progress import RowProgress, part_of
from fedflow.components.samples.stored import need_columns, own_model, stored_number
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

Floats = NDArray[np.float64]
Limit = float | list[float | None] | None

STANDARD, MIN_MAX = "standard_scale", "min_max_scale"
TINY = 1e-6  #: a smaller divisor counts as 1


class FeatureScaleParams(Params, frozen=True, kw_only=True):
    """How columns are scaled."""

    #: `standard_scale`, `min_max_scale` (in any case), or null: the values stay
    method: str | None = STANDARD
    #: what the limits are: `normal` (values) or `cap` (quantiles, 0 to 1), in any case
    mode: str = "normal"
    #: values above this become this: a number, or a list with one (or null) per feature, or per
    #: scaled feature
    feat_upper: Limit = None
    feat_lower: Limit = None  #: values below this become this; as `feat_upper`
    scale_col_indexes: int | list[int] = ALL  #: features to scale, from 0; -1: all
    #: further features by name, beside a list of indexes
    scale_names: list[str] | None = parameter(default_factory=list)
    with_mean: bool = True  #: `standard_scale` subtracts the mean
    with_std: bool = True  #: `standard_scale` divides by the population standard deviation
    need_run: bool = True  #: false: the output is the input

    @property
    def kind(self) -> str | None:
        """Return the method in lower case."""
        return None if self.method is None else self.method.lower()

    @property
    def capped(self) -> bool:
        """Tell whether the limits are quantiles."""
        return self.mode.lower() == "cap"

    def check(self) -> None:
        """Limits must be in order, and quantiles between 0 and 1."""
        if self.method is not None:
            one_of("method", self.method, (STANDARD, MIN_MAX))
        one_of("mode", self.mode, ("normal", "cap"))
        if isinstance(self.scale_col_indexes, int) and self.scale_col_indexes != ALL:
            raise ValueError("scale_col_indexes: must be -1 or a list")
        for name, limit in (("feat_upper", self.feat_upper), ("feat_lower", self.feat_lower)):
            for value in limit if isinstance(limit, list) else [limit]:
                if value is not None and not math.isfinite(value):
                    raise ValueError(f"{name}: must be finite")
                if value is not None and self.capped and not 0 <= value <= 1:
                    raise ValueError(f"{name}: {value} is no quantile, 0 to 1 (mode cap)")
        if (
            isinstance(self.feat_upper, float)
            and isinstance(self.feat_lower, float)
            and self.feat_lower > self.feat_upper
        ):
            raise ValueError("feat_lower: it is greater than feat_upper")


@dataclass(slots=True)
class ColumnFit:
    """What was learnt of one column."""

    lower: float  #: values below become this
    upper: float  #: values above become this
    mean: float = 0.0
    std: float = 1.0

    def terms(self, method: str) -> tuple[float, float, float, float]:
        """Return the last four arguments of `scaled_values`."""
        if method == MIN_MAX:
            return self.lower, self.upper, self.lower, _divisor(self.upper - self.lower)
        return self.lower, self.upper, self.mean, self.std


def scaled_values(
    values: Floats,
    lower: Floats | float,
    upper: Floats | float,
    shift: Floats | float,
    divisor: Floats | float,
) -> Floats:
    """Return values clipped to a range, less `shift`, by `divisor`; NaN stays.

    The last four are numbers, or arrays with one per column.
    """
    found: Floats = (np.clip(values, lower, upper) - shift) / divisor
    return found


@component(
    "FeatureScale",
    roles=("guest", "host"),
    params=FeatureScaleParams,
    param_name="ScaleParam",
    outputs=("data", "model"),
    absence="apart",
)
class FeatureScale:
    """Scales features to mean 0 and deviation 1, or to the range 0 to 1.

    `standard_scale`: (x - mean) / population standard deviation; `min_max_scale`: (x - least) /
    (greatest - least). A divisor below 1e-6 counts as 1. Limits (`feat_upper`, `feat_lower`) clip
    values first; with mode `cap` they are quantiles of the column: the value of rank ceil(q n).
    Each party works on its own columns; nothing is sent. Missing values are left out and stay.

    With a model the columns that it names are scaled as they were when it was trained. Values
    outside its range (`column_lower` to `column_upper`) are clipped to it, with both methods, as in
    FATE. The range is the limits, else the least and greatest value of the training.

    Model: `ScaleMeta`, `ScaleParam` with `column_upper`, `column_lower`, `mean`, `std` per column.
    Summary: the same per column. Metric `train` / `scale`.

    Unlike FATE: a limit may be null for single columns. A list of limits may have one per scaled
    column. An unknown name in `scale_names` is an error.
    """

    def run(self, ctx: Context) -> Outputs:
        """Learn from the input, unless a model is connected, and scale it.

        Raises: BadParameter: an unknown column, lists of another length. BadData: a column without
            numbers, or the model's columns are not there.
        """
        params: FeatureScaleParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        stored = own_model(ctx, "ScaleParam")
        if stored is not None:
            method, fits = _load(ctx, stored, table)
            return Outputs(data=(_scaled(ctx, table, fits, method),), model=stored)
        if params.kind is None:
            return Outputs(data=(table,), model=_model(params, table, {}))
        if params.scale_col_indexes == ALL and params.scale_names:
            message = "scale_col_indexes is -1: all columns are scaled"
            ctx.warn("NoEffect", message, path="scale_names")
        fits = _learn(ctx, table)
        scaled = _scaled(ctx, table, fits, params.kind)
        ctx.tracker.metric("train", "scale", metric_type="SCALE", meta={"method": params.kind})
        return Outputs(
            data=(scaled,), model=_model(params, table, fits), summary=_columns(fits, params.kind)
        )


def _learn(ctx: Context, table: Table) -> dict[str, ColumnFit]:
    """Return what the table's columns need. Raises: BadData: a column has no numbers."""
    params: FeatureScaleParams = ctx.params
    columns = columns_here(
        ctx,
        table.schema,
        params.scale_col_indexes,
        params.scale_names,
        field="scale_col_indexes",
        names_field="scale_names",
        only_names=True,
    )
    limits = {name: _Limits() for name in columns}
    for bound, given in (("upper", params.feat_upper), ("lower", params.feat_lower)):
        path = f"{ctx.component}.feat_{bound}"
        for name, value in _per_column(given, table.schema.columns, columns, path=path).items():
            setattr(limits[name], bound, value)
    for name, limit in limits.items():
        if limit.lower is not None and limit.upper is not None and limit.lower > limit.upper:
            raise BadParameter(
                path=f"{ctx.component}.feat_lower",
                reason=f"it is greater than feat_upper for column {name!r}",
            )
    if params.capped:
        capped = table.map_columns(_quantiles(limits, where_of(table)), columns)
        for index, (name, limit) in enumerate(zip(columns, capped, strict=True)):
            limits[name] = limit
            ctx.tracker.progress(0.3 * (index + 1) / len(columns))
    moments = {name: Moments() for name in columns}
    progress = RowProgress(ctx, table, start=0.3, end=0.6)
    with counted_in_all(table, columns):
        for rows, blocks in table.fold_blocks(_moments(limits, where_of(table))):
            for moment, block in zip(moments.values(), blocks, strict=True):
                moment.merge(block)
            progress.add(rows)
    return {name: _fit_of(params, name, m, rows=table.count) for name, m in moments.items()}


def _moments(
    limits: Mapping[str, _Limits], where: str
) -> Callable[[pa.RecordBatch], tuple[int, list[Moments]]]:
    """Return what gives the rows of a block, and its clipped columns' moments."""

    def moments(batch: pa.RecordBatch) -> tuple[int, list[Moments]]:
        columns = (
            limit.clip(block_numbers(batch, name, where=where)) for name, limit in limits.items()
        )
        return batch.num_rows, [Moments.of(values) for values in columns]

    return moments


def _fit_of(params: FeatureScaleParams, name: str, moments: Moments, *, rows: int) -> ColumnFit:
    if not moments.count:
        reason = f"it has no numbers to learn from ({rows} rows)"
        raise BadData(where=f"column {name!r}", reason=reason)
    spread = moments.std if params.kind == STANDARD else moments.greatest - moments.least
    if not math.isfinite(spread):
        reason = f"its values ({rows} rows) are too large: their spread is beyond float64"
        raise BadData(where=f"column {name!r}", reason=reason)
    fit = ColumnFit(lower=moments.least, upper=moments.greatest)
    if params.kind == STANDARD and params.with_mean:
        fit.mean = moments.mean
    if params.kind == STANDARD and params.with_std:
        fit.std = _divisor(spread)
    return fit


def _scaled(ctx: Context, table: Table, fits: Mapping[str, ColumnFit], method: str | None) -> Table:
    if method is None:
        return table
    names, where = table.schema.names, where_of(table)

    def block(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            pa.array(
                scaled_values(block_numbers(batch, name, where=where), *fits[name].terms(method))
            )
            if name in fits
            else batch.column(name)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    with counted_in_all(table, [name for name in names if name in fits]):
        return table.map_blocks(block, schema=table.schema, progress=part_of(ctx, start=0.6))


@dataclass(slots=True)
class _Limits:
    """Between which values a column's are kept; None = no limit."""

    lower: float | None = field(default=None)
    upper: float | None = field(default=None)

    def clip(self, values: Floats) -> Floats:
        if self.lower is None and self.upper is None:
            return values
        return np.clip(values, self.lower, self.upper)


def _quantiles(
    limits: Mapping[str, _Limits], where: str
) -> Callable[[str, pa.ChunkedArray], _Limits]:
    """Return what gives a column's values at the ranks that its limits are.

    That of rank ceil(q n) each, the least for q = 0.
    """

    def quantiles(name: str, column: pa.ChunkedArray) -> _Limits:
        ranks = limits[name]
        if ranks.lower is None and ranks.upper is None:
            return ranks
        values = numbers(column, name=name, where=where, keep_missing=True)
        values = values[~np.isnan(values)]
        if not len(values):
            return _Limits()

        def at(rank: float | None) -> float | None:
            return None if rank is None else float(np.quantile(values, rank, method="inverted_cdf"))

        return _Limits(lower=at(ranks.lower), upper=at(ranks.upper))

    return quantiles


def _per_column(
    given: Limit, header: tuple[str, ...], chosen: tuple[str, ...], *, path: str
) -> dict[str, float | None]:
    """Return the limit of every chosen column. Raises: BadParameter: a list does not fit."""
    if not isinstance(given, list):
        return dict.fromkeys(chosen, given)
    if len(given) == len(header):
        each = dict(zip(header, given, strict=True))
        return {name: each[name] for name in chosen}
    if len(given) == len(chosen):
        return dict(zip(chosen, given, strict=True))
    raise BadParameter(path=path, reason=f"{len(given)} limits for {len(header)} features")


def _divisor(value: float) -> float:
    return value if value >= TINY else 1.0


def _columns(fits: Mapping[str, ColumnFit], method: str | None) -> dict[str, dict[str, float]]:
    return {
        name: {
            "column_upper": fit.upper,
            "column_lower": fit.lower,
            "mean": fit.mean if method == STANDARD else 0.0,
            "std": fit.std if method == STANDARD else 0.0,
        }
        for name, fit in fits.items()
    }


def _model(params: FeatureScaleParams, table: Table, fits: Mapping[str, ColumnFit]) -> Model:
    header = table.schema.columns
    return Model(
        meta_name="ScaleMeta",
        param_name="ScaleParam",
        meta={
            "method": params.kind or "",
            "mode": params.mode.lower(),
            "area": "null",
            "scale_column": list(fits),
            "feat_upper": _texts(params.feat_upper, len(header)),
            "feat_lower": _texts(params.feat_lower, len(header)),
            "with_mean": params.with_mean,
            "with_std": params.with_std,
            "need_run": params.need_run,
        },
        param={"col_scale_param": _columns(fits, params.kind), "header": list(header)},
    )


def _texts(limit: Limit, count: int) -> list[str]:
    """Return limits as FATE stores them: texts, "None" for none."""
    return [str(v) for v in (limit if isinstance(limit, list) else [limit] * count)]


def _load(ctx: Context, model: Model, table: Table) -> tuple[str | None, dict[str, ColumnFit]]:
    """Return the method and what was learnt. Raises: BadData: it does not fit the table."""
    method, fits = read_fits(model)
    need_columns(ctx, table, fits)
    return method, fits


def read_fits(model: Model) -> tuple[str | None, dict[str, ColumnFit]]:
    """Return a model's method and what was learnt. Raises: BadData: it is not of FeatureScale."""
    method = model.meta.get("method") or None
    columns = model.param.get("col_scale_param")
    if method not in (None, STANDARD, MIN_MAX) or not isinstance(columns, Mapping):
        raise BadData(where="the model input", reason="it is not of FeatureScale")
    fits = {}
    for name, values in columns.items():
        if not isinstance(values, Mapping):
            raise BadData(where="the model input", reason=f"it has no values for column {name!r}")
        of = {key: _number(values, key, name=name) for key in ("column_lower", "column_upper")}
        fits[name] = ColumnFit(lower=of["column_lower"], upper=of["column_upper"])
        if method == STANDARD:
            fits[name].mean = _number(values, "mean", name=name)
            fits[name].std = _divisor(_number(values, "std", name=name))
    return method, fits


def _number(values: Mapping[str, Any], key: str, *, name: str) -> float:
    return stored_number(values.get(key), what=f"{key} of column {name!r}")
