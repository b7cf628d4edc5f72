"""What the cells of each column amount to, counted while a table is written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.domain.records import ColumnFacts
from fedflow.sdk.table import TableSchema
from fedflow.tables.statistics_file import MAX_COLUMNS

MISSING_TEXTS: Final = ("", "NULL", "null", "NA")
"""Source: docs/reference/data-formats.md#rows."""


class Statistics:
    """Counts the columns behind the id, the first 1,000 of them."""

    def __init__(self, schema: TableSchema) -> None:
        self._columns = [_Column(name) for name in schema.names[1 : MAX_COLUMNS + 1]]

    def add(self, batch: pa.RecordBatch) -> None:
        """Count further rows."""
        for index, column in enumerate(self._columns, start=1):
            column.add(batch.column(index))

    def merge(self, other: Statistics) -> None:
        """Count what another one counted of further rows."""
        for column, more in zip(self._columns, other._columns, strict=True):
            column.merge(more)

    def facts(self) -> list[ColumnFacts]:
        """Return what was counted so far."""
        return [column.facts() for column in self._columns]


@dataclass(slots=True)
class _Column:
    """One column; text counts as numbers as long as every cell is one."""

    name: str
    rows: int = 0
    missing: int = 0
    is_number: bool = True
    least: float = math.inf
    greatest: float = -math.inf
    sums: list[float] = field(default_factory=list)  #: one per batch
    has_gaps: bool = False  #: text cells that mean missing were met

    def add(self, cells: pa.Array) -> None:
        self.rows += len(cells)
        if pa.types.is_string(cells.type):
            self._add_text(cells)
        elif pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type):
            self._add_numbers(cells)
        else:
            self.missing += cells.null_count
            self.is_number = False

    def merge(self, other: _Column) -> None:
        self.rows += other.rows
        self.missing += other.missing
        self.is_number = self.is_number and other.is_number
        self.least = min(self.least, other.least)
        self.greatest = max(self.greatest, other.greatest)
        self.sums += other.sums
        self.has_gaps = self.has_gaps or other.has_gaps

    def _add_text(self, cells: pa.Array) -> None:
        numbers = None
        if self.is_number and not self.has_gaps and not cells.null_count:
            numbers = _numbers(cells)
        if numbers is None:
            gaps = pc.is_in(cells, value_set=pa.array([*MISSING_TEXTS, None], pa.string()))
            self.has_gaps = self.has_gaps or bool(pc.any(gaps).as_py())
            cells = pc.if_else(gaps, pa.scalar(None, pa.string()), cells)
            numbers = _numbers(cells) if self.is_number else None
        if numbers is None:
            self.is_number = False
            self.missing += cells.null_count
        else:
            self._add_numbers(numbers)

    def _add_numbers(self, cells: pa.Array) -> None:
        values = cells.drop_null().to_numpy(zero_copy_only=False)
        self.missing += cells.null_count
        if not len(values):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(values.sum(dtype=np.float64))
            if math.isnan(total):
                present = values[~np.isnan(values)]
                self.missing += len(values) - len(present)
                values, total = present, float(present.sum())
        if len(values):
            self.least = min(self.least, float(values.min()))
            self.greatest = max(self.greatest, float(values.max()))
            self.sums.append(total)

    def facts(self) -> ColumnFacts:
        found = self.rows - self.missing
        if not self.is_number or not found:
            kind = "text" if not self.is_number else "number"
            return ColumnFacts(name=self.name, kind=kind, count=self.rows, missing=self.missing)
        return ColumnFacts(
            name=self.name,
            kind="number",
            count=self.rows,
            missing=self.missing,
            least=_finite(self.least),
            greatest=_finite(self.greatest),
            mean=_mean(self.sums, found),
        )


def _numbers(cells: pa.Array) -> pa.Array:
    """Return text cells as float64, None if one of them is no number."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None


def _mean(sums: list[float], count: int) -> float | None:
    try:
        return _finite(math.fsum(sums) / count)
    except (OverflowError, ValueError):  # infinite numbers
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
