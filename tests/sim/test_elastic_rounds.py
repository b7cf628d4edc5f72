"""Rounds under adversarial schedules.

A failure prints its seed; `bin/simulate rounds --seed <seed> --trace` shows that run alone.
"""

from __future__ import annotations

from collections import Counter

from tests.sim.elastic_rounds import run_seed
from tests.sim.schedules import report


def test_no_schedule_mixes_rounds_counts_twice_or_hangs() -> None:
    counts: Counter[str] = Counter()
    for seed in range(300):
        outcome = run_seed(seed)
        assert not outcome.violation, report(outcome)
        counts += outcome.counts
    ends = {kind for kind in counts if kind.startswith("end: ")}
    assert ends <= {"end: success", "end: TooFewInRound", "end: RoundsFailed"}
    assert counts["end: success"] > 150
