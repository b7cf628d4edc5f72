"""Rows on their way through the steps of a model, and what they end as."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
Texts = Mapping[str, Sequence[str | None]]

SHOWN = 20  #: columns that a sentence names


@dataclass(frozen=True, kw_only=True, slots=True)
class RowHeader:
    """The columns of rows between two steps, in order."""

    columns: tuple[str, ...]
    texts: frozenset[str] = frozenset()  #: those of text
    whole: frozenset[str] = frozenset()  #: those of whole numbers

    def places(self, names: Sequence[str]) -> Places:
        """Return where columns are. Raises: ValueError: some are not there."""
        places = {name: place for place, name in enumerate(self.columns)}
        if absent := [name for name in names if name not in places]:
            raise ValueError(f"the rows lack its columns {', '.join(absent[:SHOWN])}")
        return np.array([places[name] for name in names], dtype=np.intp)

    def numeric(self, names: Sequence[str]) -> Places:
        """Return where columns of numbers are. Raises: ValueError: some are not there, or text."""
        if texts := [name for name in names if name in self.texts]:
            raise ValueError(f"its columns {', '.join(texts[:SHOWN])} are text, not numbers")
        return self.places(names)

    def now_whole(self, names: Sequence[str], *, whole: bool) -> RowHeader:
        """Return the columns after some became whole numbers, or any numbers."""
        return replace(self, whole=self.whole | set(names) if whole else self.whole - set(names))


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Rows between two steps; those with an error go along, and their numbers mean nothing."""

    features: Floats  #: rows x columns, NaN where missing; columns of text are NaN
    texts: Texts = field(default_factory=dict)  #: by column, None where missing
    errors: dict[int, str] = field(default_factory=dict)
    """Why rows cannot be scored, by their number. It is shared by all steps, which add to it."""

    def fail(self, rows: Flags, reason: str) -> None:
        """Give some rows an error, but those that have one."""
        for row in np.flatnonzero(rows).tolist():
            self.errors.setdefault(row, reason)

    def fail_missing(self, missing: Flags, columns: Sequence[str]) -> None:
        """Give rows an error that have no value in some columns: `missing` is rows x columns."""
        for row in np.flatnonzero(missing.any(axis=1)).tolist():
            absent = [columns[place] for place in np.flatnonzero(missing[row])[:SHOWN].tolist()]
            self.errors.setdefault(row, f"no value of {', '.join(absent)}")

    @property
    def failed(self) -> Flags:
        """Return which rows have an error."""
        failed = np.zeros(len(self.features), dtype=np.bool_)
        failed[list(self.errors)] = True
        return failed


Work = Callable[[Batch], Batch]  #: one step


@dataclass(frozen=True, kw_only=True, slots=True)
class OnlineStep:
    """What one component does to rows."""

    header: RowHeader  #: of the rows that it gives
    work: Work | None = None  #: None: rows stay as they are


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalPart:
    """What the guest has computed by itself; `OnlineModel.merge` adds what hosts say."""

    values: NDArray[Any]  #: rows first
    errors: Mapping[int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """What a model says of one row."""

    score: float | list[float] | None
    """The probability of the second class, one number per class if there are more, or the predicted
    number; None with an error."""
    label: Any = None  #: the predicted class; None if numbers are predicted
    credit_score: float | None = None  #: of a Scorecard
    error: str | None = None  #: why there is no score
