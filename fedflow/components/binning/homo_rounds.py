"""The rounds of HomoFeatureBinning: what members count, and what the arbiter makes of the sums.

| stage | what a member counts | what the arbiter makes of the sums |
|---|---|---|
| search | rows, missing values; ranks of a grid; marks of categories | a narrower grid |
| ranks | the same; ranks of even points (`virtual_summary`) | split points |

A state has all that a round needs, so a party that joins late, or an arbiter that was started
again, goes on from it. Counts are whole numbers; their sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.homo_params import RECURSIVE_QUERY
from fedflow.components.binning.ranks import (
    RankSearch,
    SortedColumn,
    even_points,
    interpolated_points,
    order_of,
    value_of,
)
from fedflow.components.horizontal.packing import Floats, Layout
from fedflow.components.horizontal.rounds import Newcomer, RoundState, Total
from fedflow.components.samples.agreement import agreed, mistake_in, plan_in, refusal
from fedflow.components.samples.common_values import Beginnings, UnionSearch, marks_of
from fedflow.sdk import BadData, Site
from fedflow.sdk.errors import CodecError

PLACE_BYTES: Final = 8  #: of a value, as its number in the order of values
MAX_CATEGORIES: Final = 1024  #: different values of one column in all parties' rows

Ints = NDArray[np.int64]


class BinningPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all parties must agree on; a member says it when it comes."""

    columns: int  #: that are binned
    categories: list[int]  #: which of them are of categories, from 0
    names: str  #: digest of their names, in order
    method: str
    bin_num: int
    sample_bins: int
    error: float
    max_iter: int

    def __post_init__(self) -> None:
        inside = all(0 <= number < self.columns for number in self.categories)
        if not inside or len(set(self.categories)) < len(self.categories):
            raise ValueError("its categories are no columns")

    @property
    def searched(self) -> tuple[int, ...]:
        """Return the columns without categories."""
        return tuple(n for n in range(self.columns) if n not in set(self.categories))

    @property
    def search(self) -> RankSearch:
        """Return the search to begin with: of the quantiles, or of the least and largest value."""
        if self.method == RECURSIVE_QUERY:
            shares = np.arange(1, self.bin_num + 1) / self.bin_num
            return RankSearch.of(len(self.searched), shares, error=self.error)
        return RankSearch.of(len(self.searched), np.array([1e-18, 1.0]))


@dataclass(frozen=True, kw_only=True, slots=True)
class CommonBins:
    """The split points of all parties' rows, and which columns have missing values somewhere."""

    points: tuple[Floats, ...]  #: per binned column
    missing: tuple[bool, ...]

    @staticmethod
    def of(state: RoundState) -> CommonBins:
        """Return what an ended state says. Raises: ValueError: it is no such state."""
        sizes = state.arrays["sizes"].astype(np.int64)
        flat = state.arrays["split_points"]
        if sizes.min(initial=0) < 0 or int(sizes.sum()) != len(flat):
            raise ValueError("the split points are not of the columns")
        points = tuple(np.split(flat, np.cumsum(sizes)[:-1])) if len(sizes) else ()
        if any((np.diff(cuts) <= 0).any() for cuts in points):
            raise ValueError("split points do not ascend")
        return CommonBins(points=points, missing=tuple(bool(m) for m in state.arrays["missing"]))


class BinningMember:
    """A party's rows, column by column."""

    def __init__(self, plan: BinningPlan, columns: Sequence[SortedColumn], *, rows: int) -> None:
        self._plan = plan
        self._columns = columns
        self._rows = rows
        self.state: RoundState | None = None  #: the last one

    @property
    def newcomer(self) -> Newcomer:
        """Return the plan and the number of rows."""
        return Newcomer(rows=self._rows, about=msgspec.to_builtins(self._plan))

    def work(self, state: RoundState, counted: Sequence[Site]) -> Mapping[str, NDArray[Any]]:
        """Return the counts that a state asks for. Raises: CodecError: it is no such state."""
        try:
            return self._counts(state)
        except (KeyError, TypeError, ValueError, IndexError) as exc:
            raise CodecError(reason=f"the arbiter's state: {exc!r}") from exc

    def _counts(self, state: RoundState) -> Mapping[str, NDArray[Any]]:
        rows = np.array([len(c.values) for c in self._columns], dtype=np.int64)
        points = _points(self._plan, state)
        ranks = np.empty(points.shape, dtype=np.int64)
        for place, number in enumerate(self._plan.searched):
            ranks[place] = self._columns[number].ranks(points[place])
        asked = _asked(state)
        marks = [
            marks_of(_bytes_of(self._columns[number].values), about)
            for number, about in zip(self._plan.categories, asked, strict=True)
            if about is not None
        ]
        return {
            "rows": rows,
            "missing": self._rows - rows,
            "ranks": ranks,
            "marks": np.concatenate([*marks, np.empty(0, dtype=np.int64)]),
        }

    def took(self, state: RoundState) -> None:
        """Keep the last state."""
        self.state = state


class BinningCombiner:
    """The arbiter's half: it sees sums alone."""

    needs_singles = False

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        """Return state 0. Raises: GroupDiffers: the members' columns or parameters differ."""
        plan = agreed(newcomers, BinningPlan)
        unions = [UnionSearch(most=MAX_CATEGORIES) for _ in plan.categories]
        return _searching(plan, 0, plan.search, unions)

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        """Return what of a late member's plan is not that of the others."""
        return refusal(newcomer, _plan_of(state))

    def mistake(self, state: RoundState) -> str | None:
        """Return why what a member calls the state is none of these rounds."""
        return None if state.ended else mistake_in(state, self.layout)

    def layout(self, state: RoundState) -> Layout:
        """Return the shapes of the counts."""
        plan = _plan_of(state)
        return {
            "rows": (plan.columns,),
            "missing": (plan.columns,),
            "ranks": _points(plan, state).shape,
            "marks": (sum(about.size for about in _asked(state) if about is not None),),
        }

    def combine(self, state: RoundState, total: Total) -> RoundState:
        """Return the next state. Raises: ValueError: no counts of rows. BadData."""
        plan = _plan_of(state)
        rows, missing, ranks, marks = (
            _counts(total.arrays[name]) for name in ("rows", "missing", "ranks", "marks")
        )
        searched = rows[list(plan.searched)]
        most = searched.reshape(-1, *(1,) * (ranks.ndim - 1))
        if (np.diff(ranks, axis=-1) < 0).any() or (ranks > most).any():
            raise ValueError("the ranks of a column do not ascend to its rows")
        number = state.round + 1
        if state.notes["stage"] == "ranks":
            points = _points(plan, state)
            found = [
                interpolated_points(points[i], ranks[i], int(count), plan.bin_num)
                if count
                else np.empty(0)
                for i, count in enumerate(searched)
            ]
            return _ended(plan, number, found, _categories(_unions(state)), missing)
        unions = _unions(state)
        start = 0
        for union in unions:
            if union.asked is not None:
                size = union.asked.size
                union.take(marks[start : start + size])
                start += size
        if any(union.too_many for union in unions):
            reason = f"a column of categories has more than {MAX_CATEGORIES} different values"
            raise BadData(where="the parties' rows", reason=reason)
        search = _search(plan, state)
        search = search.after(ranks, searched)
        over = number >= plan.max_iter
        if not over and not (search.ended and all(union.asked is None for union in unions)):
            return _searching(plan, number, search, unions)
        if plan.method == RECURSIVE_QUERY:
            quantiles = [
                np.unique(values) if count else np.empty(0)
                for values, count in zip(search.high, searched, strict=True)
            ]
            return _ended(plan, number, quantiles, _categories(unions), missing)
        return RoundState(
            round=number,
            arrays={"ends": search.high, "rows": searched.astype(np.float64)},
            notes={**_notes(plan, unions), "stage": "ranks"},
        )


def _searching(
    plan: BinningPlan, number: int, search: RankSearch, unions: Sequence[UnionSearch]
) -> RoundState:
    arrays = {"low": search.low, "high": search.high, "found": search.found.astype(np.float64)}
    notes = {**_notes(plan, unions), "stage": "search"}
    return RoundState(round=number, arrays=arrays, notes=notes)


def _ended(
    plan: BinningPlan,
    number: int,
    found: Sequence[Floats],
    categories: Sequence[Floats],
    missing: Ints,
) -> RoundState:
    by_column = dict(zip(plan.searched, found, strict=True))
    by_column |= dict(zip(plan.categories, categories, strict=True))
    points = [by_column[number] for number in range(plan.columns)]
    return RoundState(
        round=number,
        arrays={
            "split_points": np.concatenate([*points, np.empty(0)]),
            "sizes": np.array([len(cuts) for cuts in points], dtype=np.float64),
            "missing": (missing > 0).astype(np.float64),
        },
        notes={"plan": msgspec.to_builtins(plan), "stage": "ended"},
        ended=True,
    )


def _notes(plan: BinningPlan, unions: Sequence[UnionSearch]) -> dict[str, Any]:
    return {"plan": msgspec.to_builtins(plan), "unions": [union.to_json() for union in unions]}


def _plan_of(state: RoundState) -> BinningPlan:
    return plan_in(state.notes["plan"], BinningPlan)


def _unions(state: RoundState) -> list[UnionSearch]:
    return [UnionSearch.of_json(one, most=MAX_CATEGORIES) for one in state.notes["unions"]]


def _asked(state: RoundState) -> list[Beginnings | None]:
    searching = state.notes["stage"] == "search"
    return [union.asked if searching else None for union in _unions(state)]


def _categories(unions: Sequence[UnionSearch]) -> list[Floats]:
    """Return the values of each column of categories, ascending."""
    places = [
        sorted(int.from_bytes(value) for value in union.values if len(value) == PLACE_BYTES)
        for union in unions
    ]
    return [value_of(np.array(found, dtype=np.uint64)) for found in places]


def _bytes_of(values: Floats) -> list[bytes]:
    """Return the different values as bytes, in the order of the numbers."""
    return [int(place).to_bytes(PLACE_BYTES) for place in order_of(np.unique(values))]


def _search(plan: BinningPlan, state: RoundState) -> RankSearch:
    begun = plan.search
    low, high, found = (state.arrays[name] for name in ("low", "high", "found"))
    if low.shape != begun.low.shape or high.shape != low.shape or found.shape != low.shape:
        raise ValueError("the state is of other columns")
    return replace(begun, low=low, high=high, found=found.astype(np.bool_))


def _points(plan: BinningPlan, state: RoundState) -> Floats:
    """Return the points that a state asks for: columns x targets x grid, or columns x points."""
    if state.notes["stage"] == "search":
        return _search(plan, state).points()
    ends: Floats = state.arrays["ends"]
    rows = [even_points(low, high, plan.sample_bins) for low, high in ends.tolist()]
    return np.array(rows).reshape(len(ends), plan.sample_bins + 1)


def _counts(sums: Floats) -> Ints:
    """Return sums as counts. Raises: ValueError: they are none."""
    counts = np.rint(sums)
    if (counts < 0).any() or (np.abs(counts - sums) > 1e-3).any():
        raise ValueError("they are no counts of rows")
    return counts.astype(np.int64)
