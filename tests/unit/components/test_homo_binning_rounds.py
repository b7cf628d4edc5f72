"""The rounds of HomoFeatureBinning, without messages, against the quantiles of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.binning.homo_rounds import (
    BinningCombiner,
    BinningMember,
    BinningPlan,
    CommonBins,
)
from fedflow.components.binning.ranks import SortedColumn
from fedflow.components.binning.splitting import quantile_points
from fedflow.components.horizontal.rounds import Newcomer, RoundState, Total
from fedflow.components.samples.agreement import digest_of
from fedflow.sdk import GroupDiffers, Role, Site
from tests.unit.components.hetero_lr_parties import breast_data
from tests.unit.components.in_memory_rounds import nobody, run_rounds

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOSTS = [Site(Role.HOST, str(10000 + n)) for n in range(3)]  # type: ignore[arg-type]
SITES = [GUEST, *HOSTS]


def plan_of(columns: int, **given: Any) -> BinningPlan:
    fields = {
        "categories": [],
        "names": digest_of([f"x{n}" for n in range(columns)]),
        "method": "recursive_query",
        "bin_num": 10,
        "sample_bins": 100,
        "error": 1e-4,
        "max_iter": 100,
    }
    return BinningPlan(columns=columns, **{**fields, **given})


def members_of(parties: Sequence[Sequence[Any]], plan: BinningPlan) -> dict[Site, BinningMember]:
    return {
        site: BinningMember(
            plan,
            [SortedColumn.of(np.asarray(column, dtype=np.float64)) for column in columns],
            rows=len(columns[0]),
        )
        for site, columns in zip(SITES, parties, strict=False)
    }


def bins_of(parties: Sequence[Sequence[Any]], absent: Any = nobody, **given: Any) -> CommonBins:
    plan = plan_of(len(parties[0]), **given)
    return CommonBins.of(run_rounds(BinningCombiner(), members_of(parties, plan), absent=absent))


@pytest.fixture(scope="module")
def breast() -> list[list[Any]]:
    """Return the rows of breast_homo, which are those of breast_hetero, at two parties."""
    features = breast_data().features
    return [list(features[:227].T), list(features[227:455].T)]


def test_a_recursive_query_without_error_cuts_breast_as_its_pooled_quantiles_do(
    breast: list[list[Any]],
) -> None:
    found = bins_of(breast)
    for points, guest, host in zip(found.points, *breast, strict=True):
        pooled = np.concatenate((guest, host))
        exact = quantile_points(pooled, 10)
        assert len(points) == len(exact)
        assert points[-1] == exact[-1]
        ordered = np.sort(pooled)
        assert (ordered.searchsorted(points, "right") == ordered.searchsorted(exact, "right")).all()


def test_the_error_bounds_the_ranks_of_a_recursive_query(breast: list[list[Any]]) -> None:
    found = bins_of(breast, error=0.02)
    for points, guest, host in zip(found.points, *breast, strict=True):
        ordered = np.sort(np.concatenate((guest, host)))
        rank = ordered.searchsorted(points, "right")
        first = ordered.searchsorted(points, "left")
        targets = -(-np.arange(1, 11) * len(ordered) // 10)
        for low, high in zip(first, rank, strict=True):
            within = (targets > low) & (targets <= high) | (
                (high >= targets) & (high - targets <= 0.02 * len(ordered))
            )
            assert within.any()


def test_split_points_of_a_virtual_summary_are_one_step_from_the_quantiles(
    breast: list[list[Any]],
) -> None:
    found = bins_of(breast, method="virtual_summary", sample_bins=100)
    for points, guest, host in zip(found.points, *breast, strict=True):
        pooled = np.concatenate((guest, host))
        step = (pooled.max() - pooled.min()) / 100
        assert points[-1] == pooled.max()
        for quantile in quantile_points(pooled, 10):
            assert np.abs(points - quantile).min() <= step * (1 + 1e-9)


def test_categories_of_any_party_are_bins_of_all() -> None:
    found = bins_of([[[1.0, 3.0], [5.0, 5.0]], [[2.5, np.nan], [6.0, 7.0]]], categories=[0])
    assert found.points[0].tolist() == [1.0, 2.5, 3.0]
    assert found.missing == (True, False)
    assert found.points[1].tolist() == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("method", ["virtual_summary", "recursive_query"])
def test_columns_without_values_have_no_bins(method: str) -> None:
    nan = float("nan")
    found = bins_of([[[nan, nan], [1.0, 2.0]], [[nan], [3.0]]], method=method, bin_num=3)
    assert found.points[0].tolist() == []
    assert found.points[1][-1] == 3.0


@pytest.mark.parametrize("method", ["virtual_summary", "recursive_query"])
def test_a_party_that_misses_rounds_changes_who_counts_and_not_that_it_ends(
    method: str, breast: list[list[Any]]
) -> None:
    found = bins_of(breast, method=method, absent=lambda n: {HOSTS[0]} if 2 <= n < 5 else set())
    assert all(len(points) > 1 for points in found.points)
    alone = bins_of(breast, method=method, absent=lambda n: {HOSTS[0]} if n else set())
    for points, guest in zip(alone.points, breast[0], strict=True):
        assert points[-1] >= guest.max()


def test_max_iter_bounds_the_rounds(breast: list[list[Any]]) -> None:
    state = run_rounds(BinningCombiner(), members_of(breast, plan_of(30, max_iter=3)))
    assert state.round == 3


def test_members_with_other_columns_are_named() -> None:
    members = members_of([[[1.0]], [[2.0]]], plan_of(1))
    members |= members_of([[[1.0]]], plan_of(1, names="another", bin_num=3))
    said = "host 10000 differs from guest 9999 in the columns' names or order, bin_num"
    with pytest.raises(GroupDiffers, match=said):
        run_rounds(BinningCombiner(), members)


def test_who_comes_late_with_other_columns_is_not_admitted() -> None:
    combiner = BinningCombiner()
    begun = members_of([[[1.0]], [[2.0]]], plan_of(1))
    state = combiner.begin({s: m.newcomer for s, m in begun.items()})
    late = Newcomer(rows=1, about={"columns": "many"})
    assert "no plan of these rounds" in str(combiner.admit(state, late))
    other = members_of([[[1.0]]], plan_of(1, error=0.5))[GUEST].newcomer
    assert combiner.admit(state, other) == "its columns or parameters are others"
    assert combiner.admit(state, members_of([[[1.0]]], plan_of(1))[GUEST].newcomer) is None


def test_too_many_categories_are_refused() -> None:
    values = np.arange(1200.0)
    with pytest.raises(BadData, match="more than 1024 different values"):
        bins_of([[values[:700]], [values[700:]]], categories=[0])


@pytest.mark.parametrize("wrong", [-1.0, 0.5, 7.0])
def test_sums_that_are_no_counts_give_the_round_up(wrong: float) -> None:
    combiner, members = BinningCombiner(), members_of([[[1.0]], [[2.0]]], plan_of(1))
    state = combiner.begin({s: m.newcomer for s, m in members.items()})
    arrays = {name: np.zeros(shape) for name, shape in combiner.layout(state).items()}
    arrays["ranks"] += wrong
    total = Total(arrays=arrays, rows=2, counted={GUEST: 1, HOSTS[0]: 1})
    with pytest.raises(ValueError, match=r"counts|ascend"):
        combiner.combine(state, total)


@pytest.mark.parametrize(
    "notes", [{}, {"stage": "search", "unions": [{"asked": 3}]}, {"stage": "ranks", "unions": []}]
)
def test_a_state_that_is_none_is_refused_by_members(notes: dict[str, Any]) -> None:
    member = members_of([[[1.0]]], plan_of(1))[GUEST]
    with pytest.raises(CodecError):
        member.work(RoundState(round=0, arrays={}, notes=notes), (GUEST,))
