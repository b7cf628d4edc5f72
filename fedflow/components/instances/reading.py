"""A party's rows as arrays, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.sdk import BadData, NotSupportedYet, Table

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
    if table.count == 0:
        raise BadData(where=where, reason="has no rows")
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


def two_classes(data: Instances) -> tuple[list[Any], Floats]:
    """Return the two label values in order, and the rows' labels as -1.0 and 1.0.

    Raises: BadData: no label column, a missing label, only one class. NotSupportedYet: more than 2.
    """
    where = f"table {data.table.namespace}.{data.table.name}"
    if data.labels is None:
        raise BadData(where=where, reason="has no label column, which the guest needs to train")
    if data.labels.null_count:
        raise BadData(where=where, reason=f"{data.labels.null_count} rows have no label")
    counts = {entry["values"]: entry["counts"] for entry in data.labels.value_counts().to_pylist()}
    if len(counts) > 2:
        raise NotSupportedYet(what=f"HeteroLR with {len(counts)} classes (multi_class)")
    if len(counts) < 2:
        (count,) = counts.values()
        raise BadData(where=where, reason=f"all {count} labels are equal; two classes are needed")
    classes = sorted(counts)
    positive = pc.equal(data.labels, pa.scalar(classes[1], data.labels.type))
    return classes, np.where(positive.to_numpy(), 1.0, -1.0)


def numbers(column: pa.ChunkedArray, *, name: str, where: str) -> Floats:
    """Return a column as float64. Raises: BadData: no number, or a missing or infinite value."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise BadData(where=where, reason=f"column {name!r} is {kind}, not a number")
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    bad = int(np.count_nonzero(~np.isfinite(values)))  # a null arrives as NaN
    if bad:
        raise BadData(
            where=where, reason=f"column {name!r} has {bad} missing or infinite values; fill them"
        )
    return values
