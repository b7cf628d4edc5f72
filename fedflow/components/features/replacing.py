"""What replaces missing values and outliers: learnt in one pass over the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.features.cells import CellType, SpecialValues
from fedflow.sdk import BadData

Value = float | int | str
Given = Value | list[Value] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacementRule:
    """One kind of replacement: which cells, and how the value for a column is found."""

    marks: SpecialValues
    method: str | None  #: min, max, mean, designated; None is designated
    given: Given  #: the designated value, or one per feature


@dataclass(frozen=True, kw_only=True, slots=True)
class Learnt:
    """What a pass over the data gave: the value for each column and the share of cells replaced."""

    values: Mapping[str, Value]
    ratios: Mapping[str, float]


@dataclass(slots=True)
class Tally:
    """Least, greatest and sum of numbers."""

    count: int = 0
    least: float = math.inf
    greatest: float = -math.inf
    sums: list[float] = field(default_factory=list)  #: one per batch

    def add(self, numbers: pa.Array) -> None:
        """Add the values that are not null."""
        values = numbers.drop_null().to_numpy(zero_copy_only=False)
        if len(values):
            self.put(float(values.min()), float(values.max()), float(np.sum(values)), len(values))

    def put(self, least: float, greatest: float, total: float, count: int) -> None:
        """Add `count` numbers by their least, greatest and sum."""
        self.count += count
        self.least = min(self.least, least)
        self.greatest = max(self.greatest, greatest)
        self.sums.append(total)

    def merge(self, other: Tally) -> None:
        """Add the numbers of another one."""
        self.count += other.count
        self.least = min(self.least, other.least)
        self.greatest = max(self.greatest, other.greatest)
        self.sums.extend(other.sums)

    def value(self, method: str) -> float | None:
        """Return the min, max or mean, or None if there was no number."""
        if not self.count:
            return None
        if method == "mean":
            return math.fsum(self.sums) / self.count
        return self.least if method == "min" else self.greatest


@dataclass(slots=True)
class ColumnTally:
    """What one column's cells amount to, for both kinds of replacement."""

    rows: int = 0
    missing: int = 0
    outliers: int = 0
    present: Tally = field(default_factory=Tally)  #: all numbers
    normal: Tally = field(default_factory=Tally)  #: numbers that are no outliers

    def add(self, column: pa.Array, *, outliers: pa.Array | None) -> None:
        """Add a batch: parsed cells, null where missing, and which of them are outliers."""
        self.rows += len(column)
        self.missing += column.null_count
        text = pa.types.is_string(column.type)
        if not text:
            self.present.add(column)
        if outliers is not None:
            self.outliers += pc.sum(outliers).as_py() or 0
            if not text:
                self.normal.add(pc.if_else(outliers, pa.scalar(None, column.type), column))

    def merge(self, other: ColumnTally) -> None:
        """Add the cells of another one."""
        self.rows += other.rows
        self.missing += other.missing
        self.outliers += other.outliers
        self.present.merge(other.present)
        self.normal.merge(other.normal)


def learn_missing(
    tallies: Mapping[str, ColumnTally], rule: ReplacementRule, *, types: Mapping[str, CellType]
) -> Learnt:
    """Return the values that fill missing cells; a column of missing cells alone has none.

    Raises: BadData: a column of text has no such value.
    """
    return Learnt(
        values=_values(tallies, {c: t.present for c, t in tallies.items()}, rule, types=types),
        ratios={c: _share(t.missing, t.rows) for c, t in tallies.items()},
    )


def learn_outliers(
    tallies: Mapping[str, ColumnTally],
    rule: ReplacementRule,
    *,
    types: Mapping[str, CellType],
    filled: Mapping[str, Value],
) -> Learnt:
    """Return the values that replace outliers; missing cells were `filled` before.

    Min, max and mean are over the cells that are no outliers, filled ones included. A column of
    missing cells alone has no value.
    Raises: BadData: a column of text, or of outliers alone, has no such value.
    """
    ratios = {}
    for name, tally in tallies.items():
        outliers = tally.outliers
        fill = filled.get(name)
        if fill is None or is_mark(fill, rule.marks):
            outliers += tally.missing if fill is not None or _means_missing(rule) else 0
        elif tally.missing and isinstance(fill, int | float):
            tally.normal.put(fill, fill, fill * tally.missing, tally.missing)
        ratios[name] = _share(outliers, tally.rows)
    values = _values(tallies, {c: t.normal for c, t in tallies.items()}, rule, types=types)
    return Learnt(values=values, ratios=ratios)


def replace(
    column: pa.Array,
    *,
    fill: Value | None,
    outliers: ReplacementRule | None,
    outlier_value: Value | None,
) -> pa.Array:
    """Return `column` with nulls filled and outliers replaced, as far as values are given."""
    if fill is not None:
        column = pc.fill_null(column, pa.scalar(fill, column.type))
    if outliers is None or outlier_value is None:
        return column
    scalar = pa.scalar(outlier_value, column.type)
    column = pc.if_else(find(column, outliers.marks), scalar, column)
    return pc.fill_null(column, scalar) if _means_missing(outliers) else column


def find(column: pa.Array, marks: SpecialValues) -> pa.Array:
    """Return where a parsed column has one of the marks; False where null."""
    text = pa.types.is_string(column.type)
    return marks.in_text(column) if text else marks.in_numbers(column)


def is_mark(value: Value, marks: SpecialValues) -> bool:
    """Tell whether one value is among the marks."""
    return value in marks.texts if isinstance(value, str) else float(value) in marks.numbers


def as_type(value: Any, kind: CellType, *, where: str) -> Value:
    """Return a designated or stored value in the type of its column.

    Raises: BadData: it is no number (or no finite one), and the column is one of numbers.
    """
    if kind is CellType.TEXT:
        return str(value)
    try:
        number = float(value)
        if not math.isfinite(number):
            raise ValueError("not finite")
        if kind is CellType.FLOAT:
            return number
        return int(value) if isinstance(value, str) and "." not in value else round(number)
    except (TypeError, ValueError) as exc:
        raise BadData(where=where, reason=f"{value!r} is no number to fill it with") from exc


def _means_missing(rule: ReplacementRule) -> bool:
    return "" in rule.marks.texts


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _values(
    columns: Mapping[str, ColumnTally],
    tallies: Mapping[str, Tally],
    rule: ReplacementRule,
    *,
    types: Mapping[str, CellType],
) -> dict[str, Value]:
    if rule.method in (None, "designated"):
        return _designated(tuple(tallies), rule.given, types=types)
    values: dict[str, Value] = {}
    for name, tally in tallies.items():
        where = f"column {name!r}"
        if types[name] is CellType.TEXT:
            raise BadData(where=where, reason=f"text has no {rule.method} to fill it with")
        value = tally.value(rule.method or "")
        if value is None and columns[name].missing == columns[name].rows:
            continue
        if value is None:
            raise BadData(where=where, reason=f"no number in it, so no {rule.method} to fill with")
        values[name] = as_type(value, types[name], where=where)
    return values


def _designated(
    columns: tuple[str, ...], given: Given, *, types: Mapping[str, CellType]
) -> dict[str, Value]:
    if isinstance(given, list) and len(given) != len(columns):
        reason = f"{len(given)} values are designated for {len(columns)} features"
        raise BadData(where="the values to fill with", reason=reason)
    each = given if isinstance(given, list) else [given] * len(columns)
    return {
        name: as_type(value, types[name], where=f"column {name!r}")
        for name, value in zip(columns, each, strict=True)
    }
