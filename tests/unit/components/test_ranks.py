"""Quantiles from sums of ranks, against the quantiles of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedflow.components.binning.ranks import (
    Floats,
    Ints,
    RankSearch,
    SortedColumn,
    even_points,
    interpolated_points,
    order_of,
    value_of,
)
from fedflow.components.binning.splitting import bin_numbers, quantile_points

FINITE = st.floats(-1.7e308, allow_infinity=False)
ROWS = hnp.arrays(np.float64, st.integers(1, 40), elements=FINITE)
PLAIN = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e9, 1e9))
MANY_ROUNDS = 20

Parties = Sequence[Sequence[SortedColumn]]  # per party its columns


def summed(parties: Parties, points: Floats) -> tuple[Ints, Ints]:
    """Return the sums of all parties' ranks and rows."""
    ranks = np.zeros(points.shape, dtype=np.int64)
    rows = np.zeros(len(points), dtype=np.int64)
    for columns in parties:
        rows += [len(column.values) for column in columns]
        for ranked, column, asked in zip(ranks, columns, points, strict=True):
            ranked += column.ranks(asked)
    return ranks, rows


def searched(
    search: RankSearch, parties_in: Callable[[int], Parties], *, most: int = MANY_ROUNDS
) -> tuple[Floats, int]:
    rounds = 0
    while not search.ended and rounds < most:
        points = search.points()
        search = search.after(*summed(parties_in(rounds), points))
        rounds += 1
    return search.high, rounds


@given(hnp.arrays(np.float64, 20, elements=FINITE))
def test_numbers_keep_the_order_of_floats(values: Floats) -> None:
    places = order_of(values)
    assert (value_of(places) == values).all()
    assert (np.argsort(places, kind="stable") == np.argsort(values, kind="stable")).all()


@settings(max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 12))
def test_the_search_finds_the_quantiles_of_all_rows(parts: list[Floats], bins: int) -> None:
    shares = np.arange(1, bins + 1) / bins
    parties = [[SortedColumn.of(part)] for part in parts]
    values, rounds = searched(RankSearch.of(1, shares), lambda _: parties)
    assert rounds <= 14
    assert (np.unique(values[0]) == quantile_points(np.concatenate(parts), bins)).all()


@settings(max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=4), st.floats(0, 0.3))
def test_an_allowed_error_bounds_the_rank_and_not_the_largest_value(
    parts: list[Floats], error: float
) -> None:
    shares = np.arange(1, 6) / 5
    parties = [[SortedColumn.of(part)] for part in parts]
    (values,), _ = searched(RankSearch.of(1, shares, error=error), lambda _: parties)
    everything = SortedColumn.of(np.concatenate(parts))
    count = len(everything.values)
    for value, target in zip(values, -(-np.arange(1, 6) * count // 5), strict=True):
        below = everything.ranks(np.array([np.nextafter(value, -np.inf)]))[0]
        assert below < target or everything.ranks(np.array([value]))[0] - target <= error * count
        assert everything.ranks(np.array([value]))[0] >= target
    assert values[-1] == everything.values[-1]


@settings(max_examples=40)
@given(ROWS, ROWS, st.sets(st.integers(0, 8)))
def test_a_party_that_comes_and_goes_breaks_no_search(
    stays: Floats, guest: Floats, absent: set[int]
) -> None:
    parties: Parties = [[SortedColumn.of(stays)], [SortedColumn.of(guest)]]
    shares = np.arange(1, 5) / 4
    (values,), rounds = searched(
        RankSearch.of(1, shares), lambda n: parties[:1] if n in absent else parties, most=40
    )
    assert rounds < 40
    everything = np.concatenate((stays, guest))
    assert set(values) <= set(everything)


def test_a_column_without_values_ends_at_once() -> None:
    search = RankSearch.of(2, np.array([0.5, 1.0]))
    parties = [[SortedColumn.of(np.array([np.nan])), SortedColumn.of(np.array([1.0, 2.0]))]]
    values, _ = searched(search, lambda _: parties)
    assert values[1].tolist() == [1.0, 2.0]


@settings(max_examples=60)
@given(st.lists(PLAIN, min_size=1, max_size=4), st.integers(1, 10), st.integers(1, 60))
def test_interpolated_points_are_one_step_from_the_quantiles(
    parts: list[Floats], bins: int, steps: int
) -> None:
    rows = np.concatenate(parts)
    points = even_points(float(rows.min()), float(rows.max()), steps)
    ranks, counts = summed([[SortedColumn.of(part)] for part in parts], points[None])
    found = interpolated_points(points, ranks[0], int(counts[0]), bins)
    step = float(np.diff(points).max())
    assert found[-1] == rows.max()
    targets = np.sort(rows)[-(-np.arange(1, bins + 1) * len(rows) // bins) - 1]
    for target in targets:
        assert np.abs(found - target).min() <= step * (1 + 1e-9)
    assert (np.diff(found) > 0).all()


def test_bins_of_the_search_are_those_of_all_rows_when_a_rank_is_exact() -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=1000)
    parties = [[SortedColumn.of(part)] for part in np.split(rows, [300, 450])]
    shares = np.arange(1, 11) / 10
    (values,), rounds = searched(RankSearch.of(1, shares, error=1e-4), lambda _: parties)
    assert rounds <= 14
    assert (bin_numbers(rows, values) == bin_numbers(rows, quantile_points(rows, 10))).all()


@pytest.mark.parametrize("count", [1, 3])
def test_equal_ends_make_equal_points(count: int) -> None:
    assert even_points(2.0, 2.0, count).tolist() == [2.0] * (count + 1)
