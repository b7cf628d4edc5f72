"""What differs between the contents of two versions of a model, number by number. Everything given
here is what the viewer's own site may see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.document_diff import DocumentComparison, delta_of, number_of

MOST_WEIGHTS: Final = 300  #: that are shown of one model


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """One number that both versions may have."""

    name: str
    before: float | None
    after: float | None

    @property
    def delta(self) -> float | None:
        """Return how much it changed."""
        return delta_of(self.before, self.after)


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentComparison:
    """A component that at least one of two versions has; sizes in bytes, None: it is not there."""

    name: str
    module: str
    size_before: int | None
    size_after: int | None
    same: bool  #: the contents have the same digests
    trouble: str = ""  #: why contents were not compared
    weights: Sequence[Weight] = ()
    more_weights: int = 0
    meta: DocumentComparison | None = None
    param: DocumentComparison | None = None


def weights(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[Weight], int]:
    """Return the weights of two linear models side by side, greatest change first, and how many
    more there are. The intercept stands first.
    """
    one, two = _weights(before), _weights(after)
    rows = [Weight(name=n, before=one.get(n), after=two.get(n)) for n in {**one, **two}]
    rows.sort(key=lambda row: -abs(row.delta) if row.delta is not None else math.inf)
    intercepts = (number_of(before.get("intercept")), number_of(after.get("intercept")))
    if rows and intercepts != (None, None):
        first = Weight(name="intercept", before=intercepts[0], after=intercepts[1])
        rows = [first, *rows]
    return rows[:MOST_WEIGHTS], max(0, len(rows) - MOST_WEIGHTS)


def _weights(param: Mapping[str, Any]) -> dict[str, float]:
    given = param.get("weight")
    if not isinstance(given, Mapping):
        return {}
    numbers = {str(name): number_of(value) for name, value in given.items()}
    return {name: value for name, value in numbers.items() if value is not None}
