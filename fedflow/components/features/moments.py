"""Count, mean, spread and range of a column, one block after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.instances.reading import numbers
from fedflow.sdk import BadData, Table

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Moments:
    """Of the numbers added so far; NaN is left out.

    Source: Chan, Golub and LeVeque 1983, "Algorithms for Computing the Sample Variance", eq. 2.1.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  #: sum of squared differences to the mean
    least: float = math.inf
    greatest: float = -math.inf

    def add(self, values: Floats) -> None:
        """Add a block. Numbers too large for their sum or squares make these infinite or NaN."""
        values = values[~np.isnan(values)]
        if not len(values):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(np.square(values - mean).sum())
        gap, total = mean - self.mean, self.count + len(values)
        self.squares += squares
        self.squares += gap * gap * self.count * len(values) / total
        self.mean += gap * len(values) / total
        self.count = total
        self.least = min(self.least, float(values.min()))
        self.greatest = max(self.greatest, float(values.max()))

    @property
    def std(self) -> float:
        """Return the population standard deviation, 0 without numbers."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0


def block_numbers(table: Table, batch: pa.RecordBatch, name: str) -> Floats:
    """Return a column of one of the table's batches as float64, NaN where missing.

    Raises: BadData: it is not of numbers, or has infinite ones; with their count in the table.
    """
    where = f"table {table.namespace}.{table.name}"
    try:
        column = pa.chunked_array([batch.column(name)])
        return numbers(column, name=name, where=where, keep_missing=True)
    except BadData:
        numbers(table.read((name,)).column(0), name=name, where=where, keep_missing=True)
        raise
