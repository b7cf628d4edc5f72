"""Products of ciphertexts per bucket, for many columns at once: encrypted sums per bin.

Column by column, every ciphertext is multiplied into one bucket per column. Several columns with
few buckets share a pass: ciphertexts are multiplied into *cells*, one per combination of their
buckets, and at the end cells into buckets. With n rows, g columns and c cells a column costs about
(n + g c) / g products in place of n; columns are grouped so that this is small.

Source: measured in docs/reference/numerics.md#sums-of-ciphertexts-per-bin (two features per pass).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

_ONE = mpz(1)
_MAX_CELLS = 1 << 17  #: of all groups, unless there are more buckets; bounds memory

Buckets = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns that share a pass."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]  #: buckets of each

    @property
    def cells(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))


class BucketProducts:
    """The buckets of all columns, filled block of rows by block of rows, in several passes each."""

    def __init__(self, sizes: Sequence[int], modulus: mpz, *, rows: int) -> None:
        """Prepare `sizes[i]` empty buckets for column i.

        `rows` is how many rows are expected; it decides how columns are grouped, not the result.
        """
        self._sizes = tuple(sizes)
        self._modulus = modulus
        self._groups = _grouped(self._sizes, rows)
        self._cells = [[_ONE] * group.cells for group in self._groups]
        self._merged = [[_ONE] * size for size in self._sizes]

    def add(self, ciphertexts: Sequence[mpz], buckets: Buckets) -> None:
        """Multiply each ciphertext into its bucket of every column.

        Args:
            buckets: rows x columns, from 0.

        Raises: ValueError: another shape, or no such bucket.
        """
        for number, cells in enumerate(self._cells):
            self._fill(cells, number, ciphertexts, buckets)

    def merge(self, products: Sequence[Sequence[mpz]]) -> None:
        """Multiply into this what `products` gave of other rows, for the same buckets."""
        for own, found in zip(self._merged, products, strict=True):
            for bucket, product in enumerate(found):
                own[bucket] = own[bucket] * product % self._modulus

    def products(self) -> list[list[mpz]]:
        """Return the product of each bucket, per column; 1 of an empty bucket."""
        found = [list(merged) for merged in self._merged]
        for group, cells in zip(self._groups, self._cells, strict=True):
            places = np.unravel_index(np.arange(len(cells)), group.sizes)
            for column, size, own in zip(group.columns, group.sizes, places, strict=True):
                for bucket, product in enumerate(self._joined(cells, own.tolist(), size)):
                    found[column][bucket] = found[column][bucket] * product % self._modulus
        return found

    def _fill(
        self, cells: list[mpz], number: int, ciphertexts: Sequence[mpz], buckets: Buckets
    ) -> None:
        if buckets.shape != (len(ciphertexts), len(self._sizes)):
            raise ValueError(f"buckets {buckets.shape} for {len(ciphertexts)} ciphertexts")
        group, modulus = self._groups[number], self._modulus
        chosen = tuple(buckets[:, column].astype(np.intp) for column in group.columns)
        places = np.ravel_multi_index(chosen, group.sizes)
        for place, ciphertext in zip(places.tolist(), ciphertexts, strict=True):
            cells[place] = cells[place] * ciphertext % modulus

    def _joined(self, cells: list[mpz], places: list[int], size: int) -> list[mpz]:
        if len(cells) == size:
            return list(cells)
        buckets = [_ONE] * size
        for place, cell in zip(places, cells, strict=True):
            if cell is not _ONE:
                buckets[place] = buckets[place] * cell % self._modulus
        return buckets


def passes_of(sizes: Sequence[int], *, rows: int) -> int:
    """Return how many products a row costs in `BucketProducts` of these columns and rows."""
    return len(_grouped(sizes, rows))


def _grouped(sizes: Sequence[int], rows: int) -> list[_Group]:
    """Return the columns in groups, those with few buckets first."""
    groups = _cheapest(sizes, rows, at_most=len(sizes))
    while sum(group.cells for group in groups) > _MAX_CELLS:
        largest = max(len(group.columns) for group in groups)
        if largest == 1:
            break
        groups = _cheapest(sizes, rows, at_most=largest - 1)
    return groups


def _cheapest(sizes: Sequence[int], rows: int, *, at_most: int) -> list[_Group]:
    """Return groups of at most so many columns for which a column costs least products."""
    groups: list[_Group] = []
    waiting = sorted(range(len(sizes)), key=lambda column: sizes[column])
    start = 0
    while start < len(waiting):
        best, lowest, cells = 1, float("inf"), 1
        for count, column in enumerate(waiting[start : start + at_most], start=1):
            cells *= max(1, sizes[column])
            cost = (rows + (count * cells if count > 1 else 0)) / count
            if cost > lowest:
                break
            best, lowest = count, cost
        chosen = tuple(waiting[start : start + best])
        groups.append(_Group(chosen, tuple(sizes[column] for column in chosen)))
        start += best
    return groups
