"""A party's rows as arrays, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.sdk import BadData, Table

Floats = NDArray[np.float64]

READ_CELLS: Final = 1 << 23  #: of features that are read at a time, beside those that are kept


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


def read_instances(
    table: Table, *, columns: tuple[str, ...] | None = None, keep_missing: bool = False
) -> Instances:
    """Return the rows of `table`; `columns` picks and orders the features (None = all).

    With `keep_missing` a missing feature is NaN. Raises: BadData: no rows, a missing column, a
    feature that is no number or has missing values that are not kept, a missing weight.
    """
    schema = table.schema
    where = f"table {table.namespace}.{table.name}"
    wanted = schema.columns if columns is None else columns
    absent = [name for name in wanted if name not in schema.columns]
    if absent:
        raise BadData(where=where, reason=f"lacks the model's columns {', '.join(absent[:20])}")
    need_rows(table)
    features = np.empty((table.count, len(wanted)), dtype=np.float64)
    step = max(1, READ_CELLS // table.count)
    for start in range(0, len(wanted), step):
        names = tuple(wanted[start : start + step])
        for index, column in enumerate(table.read(names).columns, start=start):
            features[:, index] = numbers(
                column, name=wanted[index], where=where, keep_missing=keep_missing
            )
    about = table.read(tuple(n for n in (schema.id, schema.label, schema.weight) if n is not None))
    weights = None
    if schema.weight is not None:
        weights = numbers(about.column(schema.weight), name=schema.weight, where=where)
        total = float(weights.sum())
        if total <= 0:
            raise BadData(where=where, reason="the mean of the weights must be above 0")
        weights = weights * (len(weights) / total)
    return Instances(
        table=table,
        ids=about.column(schema.id),
        columns=tuple(wanted),
        features=features,
        labels=None if schema.label is None else about.column(schema.label),
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


def where_of(table: Table) -> str:
    """Return how errors name a table."""
    return f"table {table.namespace}.{table.name}"


def block_numbers(batch: pa.RecordBatch, name: str, *, where: str) -> Floats:
    """Return a column of one block as float64, NaN where missing.

    Raises: BadData: it is not of numbers, or has infinite ones; see `counted_in_all`.
    """
    column = pa.chunked_array([batch.column(name)])
    return numbers(column, name=name, where=where, keep_missing=True)


@contextmanager
def counted_in_all(table: Table, names: Sequence[str]) -> Iterator[None]:
    """Let an error of `block_numbers` say how many values of the whole column are wrong.

    `names` are the columns that blocks look at, in their order. Of several wrong columns it is the
    first of the first block that has one, wherever the blocks are worked on.
    """
    try:
        yield
    except BadData:
        where = where_of(table)
        wrong = (n for n in table.fold_blocks(_first_wrong(names, where)) if n is not None)
        if (name := next(wrong, None)) is not None:
            numbers(table.read((name,)).column(0), name=name, where=where, keep_missing=True)
        raise


def _first_wrong(names: Sequence[str], where: str) -> Callable[[pa.RecordBatch], str | None]:
    def first(batch: pa.RecordBatch) -> str | None:
        for name in names:
            try:
                block_numbers(batch, name, where=where)
            except BadData:
                return name
        return None

    return first
