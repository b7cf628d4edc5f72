"""Sets of places that look like the requested ones: drawn at random, unpredictably."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
_SPARSE = 4  #: below one place in so many, draws that repeat are rare


def random_places(count: int, *, among: int) -> Positions:
    """Return `count` different places from 0 to `among` - 1, ascending, all sets equally probable.

    From the operating system's generator: whoever sees many sets cannot compute others.
    """
    if count * _SPARSE >= among:
        return np.sort(np.argpartition(_words(among), count - 1)[:count] if count else _none())
    places = _none()
    while len(places) < count:
        drawn = (_words(count + 16) % np.uint64(among)).astype(np.int64)  # bias below among / 2**64
        every = np.concatenate([places, drawn])
        _, first = np.unique(every, return_index=True)
        places = every[np.sort(first)][:count]  # the first `count` different ones, as drawn
    return np.sort(places)


def _words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)


def _none() -> Positions:
    return np.empty(0, dtype=np.int64)
