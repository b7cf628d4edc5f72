"""Statistics of one column, exact.

Source: docs/reference/numerics.md#features. Variance is that of the population; a quantile `p%` is
the data value of rank ceil(p / 100 * n), so the median of an even number of values is the lower
one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BASIC: Final = (
    "sum",
    "mean",
    "stddev",
    "median",
    "min",
    "max",
    "missing_ratio",
    "missing_count",
    "skewness",
    "kurtosis",
    "coefficient_of_variance",
)  #: what `summary` means, in the order in which it is shown
OTHERS: Final = ("count", "variance")
SMALLEST_MEAN: Final = 1e-8  #: |mean| counts as at least this in the coefficient of variance

_QUANTILE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")


def quantile_of(statistic: str) -> Fraction | None:
    """Return p / 100 of a statistic named `p%` (0 to 100), None if it is not named so."""
    found = _QUANTILE.fullmatch(statistic)
    if found is None:
        return None
    share = Fraction(found[1]) / 100
    return share if share <= 1 else None


def is_statistic(name: str) -> bool:
    """Tell whether there is a statistic of that name."""
    return name in BASIC or name in OTHERS or quantile_of(name) is not None


def describe(
    values: Floats,
    statistics: Iterable[str],
    *,
    abnormal: Collection[float] = (),
    bias: bool = True,
) -> dict[str, float | None]:
    """Return the named `statistics` of one column; None where they are undefined.

    Args:
        values: one per row, NaN = missing.
        abnormal: values that count as missing.
        bias: skewness and kurtosis are those of the population, else corrected estimates.

    Raises: ValueError: there is no such statistic.
    """
    missing = np.isnan(values)
    if abnormal:
        missing |= np.isin(values, np.fromiter(abnormal, dtype=np.float64))
    counted = values[~missing] if missing.any() else values
    lost = len(values) - len(counted)
    known: dict[str, float] = {
        "count": float(len(counted)),
        "missing_count": float(lost),
        "missing_ratio": lost / len(values) if len(values) else 0.0,
        "sum": 0.0,
    }
    names = list(statistics)
    if len(counted):
        known |= _moments(counted, bias=bias)
        known |= _quantiles(counted, names)
    for name in names:
        if not is_statistic(name):
            raise ValueError(f"there is no statistic {name!r}")
    found = {name: known.get(name) for name in names}
    return {n: v if v is not None and math.isfinite(v) else None for n, v in found.items()}


def _moments(values: Floats, *, bias: bool) -> dict[str, float]:
    """Return all statistics that are made of sums, of at least one value.

    Deviations from the mean are divided by the greatest one before they are raised to powers, so
    that these do not leave the range of floats.
    """
    count = len(values)
    low, high = float(values.min()), float(values.max())
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is None in the end
        total = float(values.sum())
        mean = total / count if low < high else low
        centred = values - mean
        scale = float(np.abs(centred).max())
        second = third = fourth = 0.0
        if low < high:
            centred /= scale
            squares = centred * centred
            second = float(squares.mean())
            third = float((squares * centred).mean())
            squares *= squares
            fourth = float(squares.mean())
    deviation = math.sqrt(second) * scale
    return {
        "sum": total,
        "mean": mean,
        "min": low,
        "max": high,
        "variance": second * scale * scale,
        "stddev": deviation,
        "coefficient_of_variance": abs(deviation / max(abs(mean), SMALLEST_MEAN)),
        "skewness": _skewness(second, third, count=0 if bias else count),
        "kurtosis": _kurtosis(second, fourth, count=0 if bias else count),
    }


def _skewness(second: float, third: float, *, count: int) -> float:
    """Return m3 / m2**1.5, 0 for equal values; with `count` > 2 corrected for bias.

    Source: Joanes and Gill 1998, "Comparing measures of sample skewness and kurtosis": g1, G1.
    """
    if second == 0:
        return 0.0
    skewness = third / (second * math.sqrt(second))
    if count > 2:
        skewness *= math.sqrt(count * (count - 1)) / (count - 2)
    return skewness


def _kurtosis(second: float, fourth: float, *, count: int) -> float:
    """Return m4 / m2**2 - 3, 0 for equal values; with `count` > 3 corrected for bias.

    Source: as `_skewness`: g2, G2.
    """
    if second == 0:
        return 0.0
    kurtosis = fourth / second**2 - 3.0
    if count > 3:
        kurtosis = ((count + 1) * kurtosis + 6) * (count - 1) / ((count - 2) * (count - 3))
    return kurtosis


def _quantiles(values: Floats, names: Iterable[str]) -> dict[str, float]:
    """Return the quantiles among `names`, from at least one value."""
    count = len(values)
    shares = {name: quantile_of("50%" if name == "median" else name) for name in names}
    ranks = {
        name: max(1, math.ceil(share * count)) - 1
        for name, share in shares.items()
        if share is not None
    }
    if not ranks:
        return {}
    ordered = np.partition(values, sorted(set(ranks.values())))
    return {name: float(ordered[rank]) for name, rank in ranks.items()}
