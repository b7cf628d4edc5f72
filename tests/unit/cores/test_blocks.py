"""Into how many blocks rows are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.cores.blocks import fill_blocks, fold_blocks, seconds

ROWS = st.integers(0, 10**9)
COSTS = st.floats(0.01, 1_000)
CORES = st.integers(1, 500)


@pytest.mark.parametrize(
    ("rows", "cost", "width", "cores", "blocks"),
    [
        (0, 1, 32, 4, 1),
        (3, 10_000, 32, 8, 3),  # not more than rows
        (50_000, 1, 32, 2, 2),  # 1.5 s: all cores
        (50_000, 1, 32, 100, 8),  # but none for less than 0.2 s
        (10_000_000, 1, 32, 7, 301),  # 300 s: blocks of a second, 43 for each core
        (1_000_000, 0.001, 512, 2, 62),  # little work, but not all results at once
    ],
)
def test_blocks_of_a_cluster(rows: int, cost: float, width: int, cores: int, blocks: int) -> None:
    assert fill_blocks(rows, cost=cost, width=width, cores=cores) == blocks


@pytest.mark.parametrize(
    ("rows", "cost", "cores", "blocks"),
    [(0, 1, 2, 1), (1, 1e6, 2, 1), (50_000, 1, 2, 2), (1_000_000, 1, 2, 4), (10**9, 1, 2, 16)],
)
def test_blocks_of_a_fold_are_few(rows: int, cost: float, cores: int, blocks: int) -> None:
    assert fold_blocks(rows, cost=cost, cores=cores) == blocks


@given(ROWS, COSTS, st.integers(1, 2_000), CORES)
def test_blocks_have_rows_and_are_shared_evenly(
    rows: int, cost: float, width: int, cores: int
) -> None:
    for blocks in (
        fill_blocks(rows, cost=cost, width=width, cores=cores),
        fold_blocks(rows, cost=cost, cores=cores),
    ):
        assert 1 <= blocks <= max(1, rows)
        assert blocks <= cores or blocks == rows or blocks % cores == 0
    assert seconds(rows, cost) >= 0
