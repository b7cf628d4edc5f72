"""Rounds under adversarial schedules; the long form is `bin/simulate rounds`."""

from __future__ import annotations

from tests.sim.elastic_rounds import simulate


def test_no_schedule_mixes_rounds_counts_twice_or_hangs() -> None:
    ends = simulate(range(300))
    assert set(ends) <= {"success", "TooFewInRound", "RoundsFailed"}
    assert ends["success"] > 150
