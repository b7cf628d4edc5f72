"""Count, mean, spread and range of a column, one block after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    @staticmethod
    def of(values: Floats) -> Moments:
        """Return those of a block. Numbers too large for their sum or squares make these infinite
        or NaN.
        """
        values = values[~np.isnan(values)]
        if not len(values):
            return Moments()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(np.square(values - mean).sum())
        return Moments(
            count=len(values),
            mean=mean,
            squares=squares,
            least=float(values.min()),
            greatest=float(values.max()),
        )

    def add(self, values: Floats) -> None:
        """Add a block."""
        self.merge(Moments.of(values))

    def merge(self, block: Moments) -> None:
        """Add those of a further block."""
        if not block.count:
            return
        gap, total = block.mean - self.mean, self.count + block.count
        self.squares += block.squares
        self.squares += gap * gap * self.count * block.count / total
        self.mean += gap * block.count / total
        self.count = total
        self.least = min(self.least, block.least)
        self.greatest = max(self.greatest, block.greatest)

    @property
    def std(self) -> float:
        """Return the population standard deviation, 0 without numbers."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0
