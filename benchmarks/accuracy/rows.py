"""Lines of the report: an expected number, a found one, and how far apart they may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.data import DataFolder

FLOOR = 1e-3  #: relative differences of smaller numbers are relative to this

HEAD = (
    "component",
    "data",
    "measure",
    "plaintext reference",
    "expected",
    "fedflow",
    "difference",
    "tolerance",
    "",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One comparison."""

    component: str
    data: str
    measure: str
    reference: str  #: what computed `expected`
    expected: float
    found: float
    tolerance: float
    relative: bool = False  #: the difference is relative to `expected`, or to FLOOR
    at_least: bool = False  #: a larger number is no difference

    @property
    def difference(self) -> float:
        """Return how far apart the two are, infinity if one of them is no number."""
        apart = abs(self.found - self.expected)
        if self.at_least and self.expected < self.found < math.inf:
            apart = 0.0
        if self.relative:
            apart /= max(abs(self.expected), FLOOR)
        return apart if math.isfinite(apart) else math.inf

    @property
    def passed(self) -> bool:
        return self.difference <= self.tolerance

    def cells(self) -> tuple[str, ...]:
        """Return the line as text, in the order of HEAD."""
        kind = " relative" if self.relative else ""
        return (
            self.component,
            self.data,
            self.measure,
            self.reference,
            f"{self.expected:.6g}",
            f"{self.found:.6g}",
            f"{self.difference:.1e}" if self.difference else "0",
            "at least" if self.at_least and not self.tolerance else f"{self.tolerance:g}{kind}",
            "ok" if self.passed else "**FAILED**",
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows of one component on one data set against one reference."""

    component: str
    data: str
    reference: str

    def one(
        self,
        measure: str,
        expected: float,
        found: float,
        tolerance: float,
        *,
        relative: bool = False,
        at_least: bool = False,
    ) -> Row:
        """Return the comparison of two numbers."""
        return Row(
            component=self.component,
            data=self.data,
            reference=self.reference,
            measure=measure,
            expected=float(expected),
            found=float(found),
            tolerance=tolerance,
            relative=relative,
            at_least=at_least,
        )

    def worst(
        self,
        measure: str,
        expected: Any,
        found: Any,
        tolerance: float = 1e-6,
        *,
        relative: bool = True,
    ) -> Row:
        """Return the comparison of those two numbers of two equal shapes that differ most.

        NaN equals NaN. Raises: ValueError: the shapes differ, or there is nothing.
        """
        one, other = np.asarray(expected, dtype=float), np.asarray(found, dtype=float)
        if one.shape != other.shape or not one.size:
            raise ValueError(f"{self.component}, {measure}: {one.shape} against {other.shape}")
        label = f"{measure} (the worst of {one.size})" if one.size > 1 else measure
        one, other = one.ravel(), other.ravel()
        missing = np.isnan(one) & np.isnan(other)
        one, other = np.where(missing, 0.0, one), np.where(missing, 0.0, other)
        apart = np.abs(one - other) / (np.maximum(np.abs(one), FLOOR) if relative else 1.0)
        at = int(np.where(np.isnan(apart), np.inf, apart).argmax())
        return self.one(label, one[at], other[at], tolerance, relative=relative)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """Some rows that are computed together."""

    name: str  #: what `--only` takes
    make: Callable[[DataFolder, Path], Iterator[Row]]  #: of the data and an empty folder
    quick: bool = False  #: takes a few seconds, and breast_hetero alone
