"""Histograms of several parties against those of all rows, added up under masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.components.boosting.bins import LEFT
from fedflow.components.boosting.histograms import NO_NODE, Histograms, binned_at
from fedflow.components.horizontal.driving import run_aggregator, run_member
from fedflow.components.horizontal.packing import Layout
from fedflow.components.horizontal.rounds import Newcomer, RoundRules, RoundState, Total
from fedflow.sdk import Context, Outputs, Params, Role, Site, component
from fedflow.testing.run import outputs_of, run_component
from tests.unit.components.homo_parties import ARBITER, GUEST, HOST, HOST_2

POINTS = (np.array([-0.5, 0.5, 9.0]), np.array([0.0, 9.0]))
NODES = 3


def rows_of(seed: int, count: int) -> tuple[Any, Any, Any]:
    """Return features with missing values, derivatives of two classes, and nodes."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, 2))
    features[rng.random(count) < 0.2, 0] = np.nan
    return features, rng.normal(size=(count, 4)), rng.integers(NO_NODE, NODES, count)


def histograms_of(rows: tuple[Any, Any, Any]) -> Histograms:
    features, derivatives, nodes = rows
    binned = binned_at(features, POINTS, missing=(True, False))
    return Histograms.of(binned, derivatives, nodes, count=NODES)


@given(st.integers(0, 1000), st.integers(0, 40))
def test_what_goes_left_is_what_the_splits_say(seed: int, count: int) -> None:
    features, derivatives, nodes = rows_of(seed, count)
    binned = binned_at(features, POINTS, missing=(True, False))
    candidates = binned.candidates([0, 1])
    left = histograms_of((features, derivatives, nodes)).left(candidates)
    values = np.column_stack((derivatives, np.ones(count)))
    for number in range(len(candidates)):
        split = binned.split_of(candidates, number)
        goes = split.goes_left(features[:, split.column])
        for node in range(NODES):
            own = values[goes & (nodes == node)].sum(axis=0)
            assert left[node, number] == pytest.approx(own, abs=1e-9)
    assert LEFT in candidates.missing


def test_a_sibling_is_the_parent_less_the_child() -> None:
    features, derivatives, nodes = rows_of(3, 50)
    parent = histograms_of((features, derivatives, np.zeros(50, dtype=int)))
    child = histograms_of((features, derivatives, np.where(nodes == 0, 0, NO_NODE)))
    other = histograms_of((features, derivatives, np.where(nodes == 0, NO_NODE, 0)))
    assert parent.sibling(child).sums == pytest.approx(other.sums, abs=1e-9)


@pytest.mark.parametrize("wrong", ["shape", "rows"])
def test_sums_that_are_no_histograms_are_refused(wrong: str) -> None:
    found = histograms_of(rows_of(1, 30))
    sums = found.sums.copy()
    if wrong == "rows":
        sums[0, 0, -1] += 1
    sizes = (4, 3) if wrong == "rows" else (4, 4)
    with pytest.raises(ValueError, match=r"rows in all|other bins"):
        Histograms.added(sums, sizes)
    assert Histograms.added(found.sums, (4, 3)).totals == pytest.approx(found.totals)


class Level:
    """One round: the histograms of a level."""

    needs_singles = False

    def __init__(self, rows: tuple[Any, Any, Any] | None = None) -> None:
        self._rows = rows

    @property
    def newcomer(self) -> Newcomer:
        return Newcomer(rows=len(self._rows[0]) if self._rows else 1, about={})

    def work(self, state: RoundState, counted: Sequence[Site]) -> Mapping[str, Any]:
        assert self._rows is not None
        return {"sums": histograms_of(self._rows).sums}

    def took(self, state: RoundState) -> None: ...

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        return RoundState(round=0, arrays={})

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        return None

    def layout(self, state: RoundState) -> Layout:
        return {"sums": (NODES, 7, 5)}

    def combine(self, state: RoundState, total: Total) -> RoundState:
        return RoundState(round=1, arrays=total.arrays, ended=True)


@component("Level", roles=("guest", "host", "arbiter"), params=Params, data_ports=())
class LevelOfATree:
    """Adds up the histograms of one level."""

    def run(self, ctx: Context) -> Outputs:
        """Add them up."""
        if ctx.site.role is Role.ARBITER:
            run_aggregator(ctx, Level(), rules=RoundRules())
            return Outputs()
        rows = rows_of(int(ctx.site.party_id), 40)
        state = run_member(ctx, Level(rows), rules=RoundRules())
        return Outputs(summary={"sums": state.arrays["sums"].tolist()})


def test_masked_histograms_add_up_to_those_of_all_rows(tmp_path: Path) -> None:
    sites = (GUEST, HOST, HOST_2)
    found = outputs_of(run_component(LevelOfATree, sites=[*sites, ARBITER], work_dir=tmp_path))
    sums = Histograms.added(np.array(found[HOST].summary["sums"]), (4, 3))
    parts = [rows_of(int(site.party_id), 40) for site in sites]
    everything = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    pooled = histograms_of(everything)  # type: ignore[arg-type]
    assert sums.sums == pytest.approx(pooled.sums, abs=1e-5)
    assert (np.rint(sums.sums[..., -1]) == pooled.sums[..., -1]).all()
