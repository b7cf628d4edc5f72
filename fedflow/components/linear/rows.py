"""One data set of one party as a linear model sees it: features, targets, offsets of the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.families import Family
from fedflow.components.samples.decoding import (
    Instances,
    is_class,
    label_classes,
    label_numbers,
    numbers,
    read_instances,
)
from fedflow.sdk import BadData, Context, Role, Table

Floats = NDArray[np.float64]

SMALLEST_EXPOSURE = 1e-7  #: stands for an exposure of 0, as in FATE


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Rows to train, measure or predict: `kind` is train, validate or predict."""

    kind: str
    data: Instances
    targets: Floats | None = None  #: at the guest: -1.0 and 1.0 for two classes, or the labels
    offset: Floats | None = None  #: at the guest: what is added to every row's score

    @property
    def known_targets(self) -> Floats:
        """Return the targets. Raises: BadData: there are none."""
        if self.targets is None:
            where = f"table {self.data.table.namespace}.{self.data.table.name}"
            raise BadData(where=where, reason="has no labels")
        return self.targets

    def offset_of(self, rows: slice | NDArray[np.int64]) -> Floats | float:
        """Return what is added to the scores of some rows."""
        return 0.0 if self.offset is None else self.offset[rows]

    def select(self, columns: Sequence[str]) -> Rows:
        """Return the rows with some of the features."""
        indexes = [self.data.columns.index(name) for name in columns]
        features = np.ascontiguousarray(self.data.features[:, indexes])
        return replace(self, data=replace(self.data, columns=tuple(columns), features=features))

    def against_the_rest(self, value: Any) -> Rows:
        """Return the rows with the targets of one class against all others."""
        return replace(self, targets=signs(self.data, value))


def read_rows(
    ctx: Context,
    table: Table,
    *,
    kind: str,
    columns: tuple[str, ...] | None = None,
    exposure: str | None = None,
) -> Rows:
    """Return the rows of a table without targets; `columns` as in `read_instances`.

    The guest's column `exposure`, if it has one, becomes the offset and is no feature.

    Raises: BadData: as `read_instances`; or an exposure is missing or negative.
    """
    name = exposure if ctx.site.role is Role.GUEST else None
    if name is None or name not in table.schema.columns:
        if name is not None:
            message = f"there is no column {name!r}: all rows have the same exposure"
            ctx.warn("UnknownColumn", message, path="exposure_colname")
        return Rows(kind=kind, data=read_instances(table, columns=columns))
    wanted = columns or tuple(c for c in table.schema.columns if c != name)
    where = f"table {table.namespace}.{table.name}"
    exposures = numbers(table.read((name,)).column(0), name=name, where=where)
    negative = int((exposures < 0).sum())
    if negative:
        raise BadData(where=where, reason=f"column {name!r} has {negative} negative exposures")
    offset = np.log(np.where(exposures == 0, SMALLEST_EXPOSURE, exposures))
    return Rows(kind=kind, data=read_instances(table, columns=wanted), offset=offset)


def classes_of(family: Family, rows: Rows) -> tuple[Any, ...]:
    """Return the label values of the guest's rows in order, none if labels are numbers.

    Raises: BadData: as `label_classes`.
    """
    return label_classes(rows.data) if family.classifies else ()


def with_targets(family: Family, rows: Rows, *, classes: tuple[Any, ...]) -> Rows:
    """Return the guest's rows with the targets of the second class, or with the labels.

    Raises: BadData: no labels, a missing one, or one that the model cannot have.
    """
    if family.classifies:
        return rows.against_the_rest(classes[1])
    targets = label_numbers(rows.data)
    if not family.quadratic and (negative := int((targets < 0).sum())):
        where = f"table {rows.data.table.namespace}.{rows.data.table.name}"
        raise BadData(where=where, reason=f"{negative} labels are negative, which no count is")
    return replace(rows, targets=targets)


def signs(data: Instances, value: Any) -> Floats:
    """Return 1.0 for rows with the label `value`, -1.0 for others. Raises: BadData."""
    return np.where(is_class(data, value), 1.0, -1.0)
