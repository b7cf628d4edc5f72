"""Random jobs under random faults, thousands of times: safety at every step, agreement at the end.

A failure prints its seed; `bin/simulate --seed <seed> --trace` shows that run alone.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.schedules import report, run_seed

SEEDS = int(os.environ.get("FEDFLOW_SIM_SCHEDULES", "100"))
BATCH = 50


@pytest.mark.parametrize("batch", range(max(1, SEEDS // BATCH)))
def test_every_schedule_is_safe_and_ends_in_agreement(batch: int) -> None:
    for seed in range(batch * BATCH, min(SEEDS, (batch + 1) * BATCH)):
        outcome = run_seed(seed)
        assert not outcome.violation, report(outcome)
