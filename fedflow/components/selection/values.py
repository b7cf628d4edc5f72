"""The values that a step compares, from models or from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.selection import known
from fedflow.components.selection.known import IsometricModels, Known, Value
from fedflow.components.selection.steps import RANGE, FilterStep, ValueSource
from fedflow.components.statistics.data_statistics import describing
from fedflow.sdk import BadParameter, Context, Role, Table

_NEEDED: Final = {
    ValueSource.IV: (known.BINNING,),
    ValueSource.STATISTIC: (known.STATISTICS,),
    ValueSource.PSI: (known.PSI,),
    ValueSource.VIF: (known.PEARSON,),
    ValueSource.HETERO_TREES: (known.HETERO_TREES,),
    ValueSource.HOMO_TREES: (known.HOMO_TREES,),
    ValueSource.CORRELATION: (known.PEARSON, known.BINNING),
}
_GUEST_KNOWS: Final = (ValueSource.IV, ValueSource.HETERO_TREES, ValueSource.CORRELATION)


def check_models(ctx: Context, steps: Sequence[FilterStep], models: IsometricModels) -> None:
    """Do nothing if this party has all models that it needs to judge its columns.

    Raises: BadParameter: a model or a statistic is missing.
    """
    for step in steps:
        if step.optional or (step.source in _GUEST_KNOWS and ctx.site.role is not Role.GUEST):
            continue
        for kind in _NEEDED.get(step.source, ()):
            models.need(kind, filter_name=step.name)
        if step.source is ValueSource.STATISTIC and step.metric not in models.statistics():
            raise BadParameter(
                path=f"{ctx.component}.statistic_param.metrics",
                reason=f"the model of DataStatistics has no {step.metric}; ask it for that",
            )


def values_for(
    ctx: Context, step: FilterStep, models: IsometricModels, *, table: Table, columns: Sequence[str]
) -> Known:
    """Return the values of a step, of `columns` and perhaps of more.

    Where only the guest knows values, a host gets none. Raises: BadData: a model or column cannot
    be read.
    """
    if step.source in _GUEST_KNOWS and ctx.site.role is not Role.GUEST:
        return Known(own={})
    match step.source:
        case ValueSource.IV | ValueSource.CORRELATION:
            return models.iv(step.merge)
        case ValueSource.PSI:
            return models.psi()
        case ValueSource.VIF:
            return models.vif()
        case ValueSource.HETERO_TREES:
            return _or_zero(models.importances(known.HETERO_TREES), columns)
        case ValueSource.HOMO_TREES:
            return _or_zero(models.importances(known.HOMO_TREES), columns)
        case ValueSource.STATISTIC:
            return Known(own=_statistics(step, models, table=table, columns=columns))
        case ValueSource.DATA:
            shares = table.map_columns(_most_frequent, columns)
            return Known(own=dict(zip(columns, shares, strict=True)))
    return Known(own={})


def _or_zero(found: Known, columns: Sequence[str]) -> Known:
    """Return importances with 0 for each of the own columns that no tree uses."""
    return Known(own={name: found.own.get(name, 0.0) for name in columns}, hosts=found.hosts)


def _statistics(
    step: FilterStep, models: IsometricModels, *, table: Table, columns: Sequence[str]
) -> dict[str, Value]:
    stored = models.statistics() if models.has(known.STATISTICS) else {}
    if not step.optional:
        return dict(stored[step.metric])
    parts = ("max", "min") if step.metric == RANGE else (step.metric,)
    unknown = [n for n in columns if not all(n in stored.get(part, {}) for part in parts)]
    described = dict(
        zip(unknown, table.map_columns(describing(table, parts), unknown), strict=True)
    )
    found: dict[str, Value] = {}
    for name in columns:
        if name in described:
            numbers = [described[name][part] for part in parts]
        else:
            numbers = [stored[part][name] for part in parts]
        high, low = numbers[0], numbers[1] if len(numbers) > 1 else 0.0
        found[name] = None if high is None or low is None else high - low
    return found


def _most_frequent(name: str, column: pa.ChunkedArray) -> float:
    """Return the share of the most frequent value; all missing ones count as one value."""
    if pa.types.is_floating(column.type):
        column = pc.add(pc.fill_null(column, math.nan), 0.0)  # -0.0 becomes 0.0
    counts = pc.value_counts(column).field("counts")
    return float(pc.max(counts).as_py() / max(1, len(column)))
