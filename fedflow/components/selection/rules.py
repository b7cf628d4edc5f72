"""The filters' rules, on values in memory.

A column is a key of any kind. A column without an entry in `values` is not judged and stays; one
whose value is None or NaN (undefined, such as the mean of nothing) is worse than all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, TypeVar

from fedflow.components.selection.params import THRESHOLD, TOP_K

Key = TypeVar("Key", bound=Hashable)
Value = float | None

_SLACK: Final = 1e-9  #: share * n may be above a whole number by rounding only


def keep_by_value(
    columns: Sequence[Key],
    values: Mapping[Key, Value],
    *,
    filter_type: str,
    take_high: bool,
    threshold_of: Callable[[Key], float],
) -> set[Key]:
    """Return the columns that stay.

    Args:
        threshold_of: gives the threshold of a column; with `top_k` and `top_percentile` it is the
            same for all, k or the share to keep (k = the share of the judged columns, rounded up).
    """
    judged = [column for column in columns if column in values]
    kept = set(columns) - set(judged)
    if not judged:
        return kept
    if filter_type == THRESHOLD:
        return kept | {c for c in judged if _reaches(values[c], threshold_of(c), take_high)}
    limit = threshold_of(judged[0])
    count = int(limit) if filter_type == TOP_K else math.ceil(limit * len(judged) - _SLACK)
    return kept | set(best_first(judged, values, take_high=take_high)[:count])


def best_first(
    columns: Sequence[Key], values: Mapping[Key, Value], *, take_high: bool
) -> list[Key]:
    """Return the columns by value, best first, undefined ones last; equal ones as they come."""

    def rank(column: Key) -> tuple[bool, float]:
        value = values.get(column)
        if value is None or math.isnan(value):
            return True, 0.0
        return False, -value if take_high else value

    return sorted(columns, key=rank)


def keep_uncorrelated(
    columns: Sequence[Key],
    goodness: Mapping[Key, Value],
    *,
    correlation: Callable[[Key, Key], float],
    is_own: Callable[[Key], bool],
    threshold: float,
) -> set[Key]:
    """Return the columns that are not like a better one.

    All columns are walked through, those with high `goodness` first. An own column that is still
    there removes all columns after it that are like it. Another party's column removes own columns
    only, and does so even if it was removed before, as in FATE: two columns of that party cannot be
    compared here.

    Args:
        correlation: of two columns, 0 where it is unknown.
        threshold: columns are alike where |correlation| is above it.

    Source: docs/reference/components.md#selection.
    """
    order = best_first(columns, goodness, take_high=True)
    own = [position for position, column in enumerate(order) if is_own(column)]
    kept = set(columns)
    later: Sequence[int]
    for position, column in enumerate(order):
        if own and own[0] == position:
            del own[0]
            if column not in kept:
                continue
            later = range(position + 1, len(order))
        else:
            later = own
        for other in later:
            if abs(correlation(column, order[other])) > threshold:
                kept.discard(order[other])
    return kept


def at_least_one(
    columns: Sequence[Key], kept: set[Key], values: Mapping[Key, Value], *, take_high: bool
) -> set[Key]:
    """Return what is kept of one party's `columns`; if that is none, the best one, or the first."""
    left = {column for column in columns if column in kept}
    if left or not columns:
        return left
    return {best_first(columns, values, take_high=take_high)[0]}


def _reaches(value: Value, threshold: float, take_high: bool) -> bool:
    if value is None:
        return False
    return value >= threshold if take_high else value <= threshold
