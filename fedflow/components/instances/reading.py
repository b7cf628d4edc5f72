"""A party's rows as arrays, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.sdk import BadData, Table

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Instances:
    """One table in memory."""

    table: Table
    ids: pa.ChunkedArray
    columns: tuple[str, ...]
    features: Floats  #: rows x columns
    labels: pa.ChunkedArray | None
    weights: Floats | None  #: one per row, mean 1

    @property
    def rows(self) -> int:
        return int(self.features.shape[0])


def read_instances(table: Table, *, columns: tuple[str, ...] | None = None) -> Instances:
    """Return the rows of `table`; `columns` picks and orders the features (None = all).

    Raises: BadData: no rows, a missing column, a feature that is no number or has missing values, a
        negative or missing weight.
    """
    schema = table.schema
    where = f"table {table.namespace}.{table.name}"
    wanted = schema.columns if columns is None else columns
    absent = [name for name in wanted if name not in schema.columns]
    if absent:
        raise BadData(where=where, reason=f"lacks the model's columns {', '.join(absent[:20])}")
    need_rows(table)
    rows = table.read()
    features = np.empty((rows.num_rows, len(wanted)), dtype=np.float64)
    for index, name in enumerate(wanted):
        features[:, index] = numbers(rows.column(name), name=name, where=where)
    weights = None
    if schema.weight is not None:
        weights = numbers(rows.column(schema.weight), name=schema.weight, where=where)
        total = float(weights.sum())
        if float(weights.min()) < 0 or total <= 0:
            raise BadData(where=where, reason="weights must not be negative or all 0")
        weights = weights * (len(weights) / total)
    return Instances(
        table=table,
        ids=rows.column(schema.id),
        columns=tuple(wanted),
        features=features,
        labels=None if schema.label is None else rows.column(schema.label),
        weights=weights,
    )


def need_rows(table: Table) -> None:
    """Do nothing if there is something to learn from. Raises: BadData: no rows."""
    if table.count == 0:
        raise BadData(where=f"table {table.namespace}.{table.name}", reason="has no rows")


def label_classes(data: Instances) -> tuple[Any, ...]:
    """Return the distinct label values in order, at least two.

    Raises: BadData: no label column, a missing label, only one class.
    """
    where, labels = _labels(data)
    values = labels.unique()
    if len(values) < 2:
        raise BadData(
            where=where, reason=f"all {data.rows} labels are equal; two classes are needed"
        )
    return tuple(sorted(values.to_pylist()))


def is_class(data: Instances, value: Any) -> NDArray[np.bool_]:
    """Return which rows have the label `value`.

    Raises: BadData: no label column, gaps, or labels of another kind than `value`.
    """
    where, labels = _labels(data)
    try:
        wanted = pa.scalar(value).cast(labels.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        reason = f"its labels are {labels.type}, those that the model knows are not"
        raise BadData(where=where, reason=reason) from exc
    found = pc.equal(labels, wanted)
    return np.asarray(found.to_numpy(), dtype=np.bool_)


def label_numbers(data: Instances) -> Floats:
    """Return the labels as numbers. Raises: BadData: no label column, gaps, no finite numbers."""
    where, labels = _labels(data)
    return numbers(labels, name=str(data.table.schema.label), where=where)


def _labels(data: Instances) -> tuple[str, pa.ChunkedArray]:
    where = f"table {data.table.namespace}.{data.table.name}"
    if data.labels is None:
        raise BadData(where=where, reason="has no label column, which the guest needs to train")
    missing = pc.sum(pc.is_null(data.labels, nan_is_null=True)).as_py()
    if missing:
        raise BadData(where=where, reason=f"{missing} rows have no label")
    return where, data.labels


def numbers(
    column: pa.ChunkedArray, *, name: str, where: str, keep_missing: bool = False
) -> Floats:
    """Return a column as float64; with `keep_missing` a missing value is NaN.

    Raises: BadData: no number, an infinite value, or a missing one that is not to be kept.
    """
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise BadData(where=where, reason=f"column {name!r} is {kind}, not a number")
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    unusable = np.isinf(values) if keep_missing else ~np.isfinite(values)  # a null arrives as NaN
    bad = int(np.count_nonzero(unusable))
    if bad:
        what = "infinite values" if keep_missing else "missing or infinite values; fill them"
        raise BadData(where=where, reason=f"column {name!r} has {bad} {what}")
    return values
