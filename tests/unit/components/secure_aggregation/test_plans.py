"""Plans: thresholds, neighbours, and who could be separated from whom."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from tests.unit.components.secure_aggregation.rounds import names, plan_of


def test_short_vectors_have_all_pairs_and_long_ones_neighbours() -> None:
    assert plan_of(20, length=1_000).neighbours is None
    long = plan_of(20, length=25_000_000)
    assert (long.neighbours, long.threshold, long.min_members) == (10, 6, 11)
    assert plan_of(5, length=25_000_000).neighbours is None


@given(st.integers(2, 200), st.booleans())
def test_thresholds_are_more_than_half_or_two_thirds(count: int, may_lie: bool) -> None:
    plan = plan_of(count, aggregator_may_lie=may_lie)
    part = 2 / 3 if may_lie else 1 / 2
    assert plan.threshold > count * part
    assert plan.threshold - 1 <= count * part
    assert plan.min_members == plan.threshold
    assert (SumStage.CONFIRMATIONS in plan.stages) is may_lie


def test_more_members_may_be_wanted_and_never_fewer() -> None:
    assert plan_of(10, min_members=9).min_members == 9
    assert plan_of(10, min_members=2).min_members == 6


@pytest.mark.parametrize(
    "change",
    [
        {"members": ("b", "a", "c", "d", "e", "f")},
        {"members": ("a", "a", "b", "c", "d", "e")},
        {"members": ("a",)},
        {"round": -1},
        {"length": 0},
        {"ring_bits": 16},
        {"fraction_bits": 63},
        {"neighbours": 3},
        {"neighbours": 5},
        {"threshold": 3},
        {"threshold": 7},
        {"min_members": 3},
        {"signed": True},
    ],
)
def test_a_plan_that_does_not_hold_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"member|round|bits|neighbours|threshold"):
        replace(plan_of(6), **change)


@settings(max_examples=50, deadline=None)
@given(count=st.integers(7, 40), half=st.integers(1, 2))
def test_neighbours_are_mutual_and_as_many_as_planned(count: int, half: int) -> None:
    plan = circulant(count, 2 * half)
    for name in plan.members:
        found = plan.neighbours_of(name)
        assert len(found) == 2 * half
        assert list(found) == sorted(set(found) - {name})
        assert all(name in plan.neighbours_of(other) for other in found)
        assert plan.holders_of(name) == tuple(sorted((name, *found)))


def test_members_have_other_neighbours_in_another_session() -> None:
    one = circulant(30, 4)
    other = replace(one, session="another job")
    assert [one.neighbours_of(n) for n in one.members] != [
        other.neighbours_of(n) for n in one.members
    ]


@settings(max_examples=25, deadline=None)
@given(data=st.data(), count=st.integers(6, 9))
def test_the_smallest_cut_is_that_of_the_graph(data: st.DataObject, count: int) -> None:
    plan = circulant(count, 4 if count > 6 else 2)
    there = set(data.draw(st.lists(st.sampled_from(names(count)), min_size=3, unique=True)))
    assert plan.smallest_cut(there) == _smallest_cut(plan, there)


def test_no_coalition_separates_members_who_are_all_neighbours() -> None:
    plan = plan_of(8)
    assert plan.smallest_cut(set(names(8)[:3])) is None


def circulant(count: int, neighbours: int) -> SumPlan:
    return replace(plan_of(count), neighbours=neighbours, threshold=(neighbours + 1) // 2 + 1)


def _smallest_cut(plan: SumPlan, there: set[str]) -> int | None:
    """Return the same by trying all coalitions."""
    for size in range(len(there) + 1):
        for coalition in combinations(sorted(there), size):
            honest = there - set(coalition)
            if honest and _reached(plan, honest) != honest:
                return size
    return None


def _reached(plan: SumPlan, honest: set[str]) -> set[str]:
    reached, edge = set(), [min(honest)]
    while edge:
        name = edge.pop()
        reached.add(name)
        edge += [n for n in plan.neighbours_of(name) if n in honest and n not in reached]
    return reached
