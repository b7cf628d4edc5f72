"""Text cells as numbers, a column at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

#: texts that mean missing (docs/reference/data-formats.md#rows)
BUILT_IN = ("", "NULL", "null", "NA")
_INT64 = range(-(2**63), 2**63)


class CellType(Enum):
    """What the cells of a column become."""

    FLOAT = "float"
    INT = "int"
    TEXT = "text"

    @staticmethod
    def of(name: str) -> CellType:
        """Return the type that FATE's name (`float64`, `long` and so on) stands for."""
        if name == "str":
            return CellType.TEXT
        return CellType.INT if name in {"int", "int64", "long"} else CellType.FLOAT

    @property
    def arrow(self) -> pa.DataType:
        """Return the Arrow type of such a column."""
        kinds = {CellType.FLOAT: pa.float64(), CellType.INT: pa.int64(), CellType.TEXT: pa.string()}
        return kinds[self]


@dataclass(frozen=True, slots=True)
class SpecialValues:
    """Values with a meaning of their own, such as missing: as texts, and as numbers."""

    texts: tuple[str, ...]
    numbers: tuple[float, ...]

    @staticmethod
    def of(
        values: Iterable[str | int | float | None], *, texts: tuple[str, ...] = ()
    ) -> SpecialValues:
        """Return the marks `values` and `texts`; -9999 as a value also matches the text -9999.0."""
        words = [str(v) for v in values]
        return SpecialValues(
            texts=tuple(dict.fromkeys((*texts, *words))),
            numbers=tuple(n for n in map(_finite, words) if n is not None),
        )

    def in_text(self, column: pa.Array) -> pa.Array:
        """Return where `column` (text) has one of the texts."""
        return pc.is_in(column, value_set=pa.array(self.texts, pa.string()))

    def in_numbers(self, column: pa.Array) -> pa.Array:
        """Return where `column` (int64 or float64) has one of the numbers; False where null."""
        return pc.is_in(
            pc.cast(column, pa.float64()), value_set=pa.array(self.numbers, pa.float64())
        )

    def __bool__(self) -> bool:
        return bool(self.texts or self.numbers)


class BadCells(Exception):
    """Cells of one column are no numbers: the first row in the batch, from 0, and how many."""

    def __init__(self, first: int, count: int) -> None:
        super().__init__(f"{count} cells, first in row {first}")
        self.first = first
        self.count = count


def parse(column: pa.Array, kind: CellType, *, missing: SpecialValues) -> pa.Array:
    """Return text cells as float64, int64 or text; missing ones are null.

    `nan` is missing too; `inf` and numbers beyond the type's range are not allowed. An int column
    takes 3.0 as 3. White space around a number is ignored.

    Raises: BadCells: cells are neither missing nor numbers.
    """
    kept = pc.if_else(missing.in_text(column), pa.scalar(None, pa.string()), column)
    if kind is CellType.TEXT:
        return kept
    numbers = _parse_fast(kept, kind)
    if numbers is None:
        numbers = _parse_slowly(kept, kind, missing)
    if missing.numbers:
        hit = missing.in_numbers(numbers)
        numbers = pc.if_else(hit, pa.scalar(None, numbers.type), numbers)
    return numbers


def _parse_fast(column: pa.Array, kind: CellType) -> pa.Array | None:
    """Return the numbers of a clean column, or None if a cell needs a closer look."""
    if kind is CellType.INT and pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
        return None  # Arrow reads 0x10
    try:
        numbers = pc.cast(column, kind.arrow)
    except pa.ArrowInvalid:
        return None
    if kind is CellType.FLOAT and not pc.all(pc.is_finite(numbers)).as_py():
        return None
    return numbers


def _parse_slowly(column: pa.Array, kind: CellType, missing: SpecialValues) -> pa.Array:
    numbers: list[float | int | None] = []
    bad: list[int] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            numbers.append(number_of(text, kind, missing))
        except (ValueError, OverflowError):
            bad.append(row)
    if bad:
        raise BadCells(bad[0], len(bad))
    return pa.array(numbers, kind.arrow)


def number_of(text: str | None, kind: CellType, missing: SpecialValues) -> float | int | None:
    """Return the number that `text` stands for, None for missing. Raises: ValueError."""
    if text is None or (text := text.strip()) in missing.texts:
        return None
    if not text.isascii() or "_" in text:
        raise ValueError("not a plain number")
    number = float(text)
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise ValueError("not finite")
    if kind is CellType.FLOAT:
        return number
    try:
        whole = int(text)
    except ValueError:
        whole = int(number)
        if whole != number:
            raise
    if whole not in _INT64:
        raise ValueError("out of range")
    return whole


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
