"""What differs between two JSON documents, path by path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.flattening import flat

MOST_PATHS: Final = 20_000  #: of one document
MOST_SHOWN: Final = 300  #: differences of one document


class Change(StrEnum):
    """How a path differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentDifference:
    """One path that differs; `delta` where both values are numbers."""

    path: str
    change: Change
    before: Any
    after: Any
    delta: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentComparison:
    """The differences of two documents: at most `MOST_SHOWN`, `count` in all."""

    differences: Sequence[DocumentDifference]
    count: int
    same: int  #: paths with the same value in both
    is_cut: bool  #: a document has more than `MOST_PATHS` paths: the rest was not compared

    @property
    def more(self) -> int:
        """Return how many differences are not shown."""
        return self.count - len(self.differences)


def compare(before: Any, after: Any) -> DocumentComparison:
    """Return how two JSON documents differ, path by path, in the order of the first."""
    one, two = flat(before, most=MOST_PATHS), flat(after, most=MOST_PATHS)
    cut = len(one) >= MOST_PATHS or len(two) >= MOST_PATHS
    found = [d for path in {**one, **two} if (d := _difference(path, one, two)) is not None]
    return DocumentComparison(
        differences=found[:MOST_SHOWN],
        count=len(found),
        same=len(one.keys() | two.keys()) - len(found),
        is_cut=cut,
    )


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same in JSON: 1 is 1.0 but not true."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def delta_of(before: float | None, after: float | None) -> float | None:
    """Return how much a number changed, None if that is no number."""
    if before is None or after is None:
        return None
    delta = after - before
    return delta if math.isfinite(delta) else None


def number_of(value: Any) -> float | None:
    """Return a number, also one that is written as text, as FATE's models have them."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _difference(
    path: str, one: Mapping[str, Any], two: Mapping[str, Any]
) -> DocumentDifference | None:
    if path not in two:
        return DocumentDifference(path=path, change=Change.REMOVED, before=one[path], after=None)
    if path not in one:
        return DocumentDifference(path=path, change=Change.ADDED, before=None, after=two[path])
    before, after = one[path], two[path]
    if equal(before, after):
        return None
    delta = delta_of(number_of(before), number_of(after))
    return DocumentDifference(
        path=path, change=Change.CHANGED, before=before, after=after, delta=delta
    )  # fmt: skip
