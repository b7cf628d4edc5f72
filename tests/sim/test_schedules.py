"""Random jobs under random faults, thousands of times: safety at every step, agreement at the end.

A failure prints its seed; `bin/simulate servers --seed <seed> --trace` shows that run alone.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.faults import Faults
from tests.sim.schedules import report, run_seed

SEEDS = int(os.environ.get("FEDFLOW_SIM_SCHEDULES", "100"))
BATCH = 50


PUT_BACK = (
    Faults(put_back_every_s=8, submits_every_s=4),
    Faults(put_back_every_s=8, submits_every_s=5, reruns_every_s=3, stops_every_s=8),
    Faults(
        put_back_every_s=15, submits_every_s=5, loses=0.1, crashes_every_s=20, kills_every_s=5,
        cuts_every_s=20, options=0.4, fails=0.1,
    ),
)  # fmt: skip
FOUND = (
    72,  # under faults: a site that never agreed was not compared
    170,  # plain: a process begins whose job its initiator, put back, does not know
    195,  # plain: the same, and its input still runs there
)


@pytest.mark.parametrize("faults", PUT_BACK, ids=["plain", "reruns", "faults"])
def test_parties_whose_databases_were_put_back_agree_or_say_that_they_do_not(
    faults: Faults,
) -> None:
    """Jobs end, cores return, and no two sites have different ends that neither of them names."""
    put_back = 0
    for seed in (*FOUND, *range(max(12, SEEDS // 8))):
        outcome = run_seed(seed, faults=faults)
        assert not outcome.violation, report(outcome)
        put_back += outcome.counts["databases put back"]
    assert put_back > 10


@pytest.mark.parametrize("batch", range(max(1, SEEDS // BATCH)))
def test_every_schedule_is_safe_and_ends_in_agreement(batch: int) -> None:
    for seed in range(batch * BATCH, min(SEEDS, (batch + 1) * BATCH)):
        outcome = run_seed(seed)
        assert not outcome.violation, report(outcome)


ELASTIC = (
    Faults(elastic=True, kills_every_s=3, dies_early=0.1, dies_unreported=0.1),
    Faults(elastic=True, crashes_every_s=8, cuts_every_s=15),
    Faults(elastic=True, stalls_every_s=10, hangs=0.1, loses=0.2, says_twice=0.5, repeats=0.3),
    Faults(
        elastic=True, kills_every_s=5, crashes_every_s=15, cuts_every_s=20, submits_every_s=10,
        stops_every_s=30, reruns_every_s=20, pauses_every_s=10, fails=0.02, commit_errors=0.02,
    ),
)  # fmt: skip
NAMES = ["kills", "crashes", "stalls", "all"]


@pytest.mark.parametrize("faults", ELASTIC, ids=NAMES)
def test_elastic_jobs_end_in_agreement_and_absent_hosts_pass(faults: Faults) -> None:
    seen: Counter[str] = Counter()
    for seed in range(max(4, SEEDS // 12)):
        parties = ("9999", "10000", "10001", "10002", "10003")[: 3 + seed % 3]
        outcome = run_seed(seed, faults=faults, parties=parties)
        assert not outcome.violation, report(outcome)
        seen += outcome.counts
    assert seen["party tasks of absent hosts"]
    if faults.kills_every_s:
        assert seen["launched again at host"]
