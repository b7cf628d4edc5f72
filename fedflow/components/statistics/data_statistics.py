"""DataStatistics: sums, moments and quantiles of a party's own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fedflow.components.samples.columns import columns_here
from fedflow.components.samples.decoding import numbers, where_of
from fedflow.components.statistics.describing import describe
from fedflow.components.statistics.params import DataStatisticsParams
from fedflow.sdk import BadData, BadParameter, Context, Model, Outputs, Table, component

META_NAME = "StatisticMeta"
PARAM_NAME = "StatisticParam"
MODEL_NAME = "statistic_model"

Described = Mapping[str, Mapping[str, float | None]]  #: column -> statistic -> value


@component(
    "DataStatistics",
    roles=("guest", "host"),
    params=DataStatisticsParams,
    param_name="StatisticsParam",
    outputs=("data", "model"),
    absence="apart",
)
class DataStatistics:
    """Computes statistics of the columns, for people and for HeteroFeatureSelection.

    Each party describes its own table; nothing is exchanged. The data pass through unchanged. The
    basic statistics (`sum`, `mean`, `stddev`, `median`, `min`, `max`, `missing_ratio`,
    `missing_count`, `skewness`, `kurtosis`, `coefficient_of_variance`) are always computed.
    `count`, `variance` and quantiles such as `95%` are computed when asked for.

    Variance is that of the population. A quantile is a value of the column, of rank ceil(p / 100 *
    n). So the median of an even number of values is the lower one. `coefficient_of_variance` is
    |stddev / mean| with |mean| at least 1e-8. Missing values and those of `abnormal_list` are not
    counted, except by `missing_count` and `missing_ratio`. Skewness and kurtosis of equal values
    are 0; what is undefined because a column has no value at all is null. Names that this party's
    table does not have are left out with a warning, as common parameters name both parties'
    columns. None at all is an error. With its model as an input (in a predict job) it does nothing.

    Model: `StatisticMeta`, `StatisticParam`. Summary: column -> statistic -> value.

    Unlike FATE: quantiles are exact, whatever `quantile_error` says.
    """

    def run(self, ctx: Context) -> Outputs:
        """Describe the chosen columns.

        Raises: BadParameter: an index is out of range, no name is a column here. BadData: no
            table, row or column; a column is no number or has infinite values.
        """
        params: DataStatisticsParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        if any(model.param_name == PARAM_NAME for model in ctx.inputs.model.values()):
            return Outputs(data=(table,))
        columns = columns_here(
            ctx,
            table.schema,
            params.column_indexes,
            params.column_names,
            field="column_indexes",
            names_field="column_names",
        )
        if not columns and table.schema.columns:
            path = "column_names" if params.column_names else "column_indexes"
            reason = "none of the features that it names is in this table"
            raise BadParameter(path=f"{ctx.component}.{path}", reason=reason)
        if not columns:
            raise BadData(where=f"table {table.name}", reason="has no columns to describe")
        if table.count == 0:
            raise BadData(where=f"table {table.name}", reason="has no rows")
        work = describing(table, params.wanted, abnormal=params.abnormal, bias=params.bias)
        described = {}
        for name, statistics in zip(columns, table.map_columns(work, columns), strict=True):
            described[name] = statistics
            ctx.tracker.progress(len(described) / len(columns))
        return Outputs(
            data=(table,), model=_model(params, columns, described), summary=dict(described)
        )


def describing(
    table: Table,
    statistics: Sequence[str],
    *,
    abnormal: frozenset[float] = frozenset(),
    bias: bool = True,
) -> Callable[[str, pa.ChunkedArray], dict[str, float | None]]:
    """Return what makes `statistics` of a column of `table`, for `Table.map_columns`.

    It raises BadData: the column is no number or has infinite values.
    """
    where = where_of(table)

    def describe_column(name: str, column: pa.ChunkedArray) -> dict[str, float | None]:
        values = numbers(column, name=name, where=where, keep_missing=True)
        return describe(values, statistics, abnormal=abnormal, bias=bias)

    return describe_column


def _model(params: DataStatisticsParams, columns: Sequence[str], described: Described) -> Model:
    results: list[dict[str, Any]] = [
        {
            "value_name": statistic,
            "col_names": list(columns),
            "values": [described[name][statistic] for name in columns],
        }
        for statistic in params.wanted
    ]
    return Model(
        meta_name=META_NAME,
        param_name=PARAM_NAME,
        meta={
            "statistics": list(params.wanted),
            "static_columns": list(columns),
            "quantile_error": params.quantile_error,
            "need_run": params.need_run,
        },
        param={"self_values": {"results": results}, "host_values": {}, "model_name": MODEL_NAME},
    )
