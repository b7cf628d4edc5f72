"""Correlations of one party's own columns, and what follows from them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk import BadData

Floats = NDArray[np.float64]

SMALLEST_EIGENVALUE: Final = 1e-8  #: what is smaller is rounding, of columns that depend on others
_ROWS_PER_BLOCK = 65_536


def standardize(values: Floats, *, name: str, where: str) -> Floats:
    """Return a column with mean 0 and population variance 1.

    Raises: BadData: it has the same value in all rows.
    """
    if values.min() == values.max():
        raise BadData(
            where=where,
            reason=f"column {name!r} has the same value in all {len(values)} rows, so it has no"
            " correlations; choose other columns",
        )
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -exponent)  # exact; squares of what is far from 1 may overflow
    scaled -= scaled.min()  # exact too where values are close to each other
    scaled -= scaled.mean()
    result: Floats = scaled / np.sqrt(np.mean(scaled * scaled))
    return result


def correlations(standardized: Floats) -> Floats:
    """Return the correlation matrix of standardized columns, columns x columns, diagonal 1."""
    rows, columns = standardized.shape
    sums = np.zeros((columns, columns))
    for start in range(0, rows, _ROWS_PER_BLOCK):
        block = standardized[start : start + _ROWS_PER_BLOCK]
        sums += block.T @ block
    matrix: Floats = np.clip(sums / rows, -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def inflation_factors(matrix: Floats) -> Floats:
    """Return the variance inflation factor of each column: the inverse's diagonal.

    Directions with an eigenvalue below 1e-8 are left out, so columns that are sums of others have
    finite factors. Source: docs/reference/components.md#pearson.
    """
    eigenvalues, vectors = np.linalg.eigh(matrix)
    kept = eigenvalues >= SMALLEST_EIGENVALUE
    squares: Floats = vectors[:, kept] ** 2
    factors: Floats = squares @ (1.0 / eigenvalues[kept])
    return factors
