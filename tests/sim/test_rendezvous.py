"""Members of a rendezvous under random faults: one state per round at all, and agreement at last.

A failure prints its seed; `bin/simulate rendezvous --seed <seed> --trace` shows that run alone.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from fedflow.elastic import actions, executor
from fedflow.elastic.cleaning import cleaned
from fedflow.elastic.operators import View
from fedflow.elastic.state import State
from tests.sim.rendezvous import Cell, run_seed
from tests.sim.schedules import report

SEEDS = int(os.environ.get("FEDFLOW_SIM_SCHEDULES", "60"))


def test_every_schedule_is_safe_and_ends_in_one_round() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run_seed(seed)
        assert not outcome.violation, report(outcome)
        counts += outcome.counts
    happened = {"crashes", "exits", "closes", "writes lost", "answers lost", "late heartbeats",
                "clock steps", "store lost"}  # fmt: skip
    assert happened <= counts.keys()


def test_a_seed_is_the_same_run_again() -> None:
    assert run_seed(7) == run_seed(7)


def found(seeds: int = 60) -> str:
    """Return the first violation of some seeds. Raises: AssertionError: there is none."""
    for seed in range(seeds):
        if violation := run_seed(seed).violation:
            return violation
    raise AssertionError("the bug was not found")


def test_a_store_that_does_not_compare_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Cell.write

    def blind(cell: Cell, state: bytes, _: str | None) -> bool:
        return write(cell, state, cell.stored[1] if cell.stored is not None else None)

    monkeypatch.setattr(Cell, "write", blind)
    assert found()


def test_members_beyond_the_maximum_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "has_room", property(lambda _: True))
    monkeypatch.setattr(actions, "_counted", lambda state, _settings, **_time: state)
    assert found() == "more participants than are allowed"


def test_a_round_that_changes_after_it_was_complete_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(state: State, settings: object, **times: int) -> State:
        state = cleaned(state, settings, **times)  # type: ignore[arg-type]
        left = state.participants
        return replace(state, size=left) if state.complete and left > 0 else state

    monkeypatch.setattr(executor, "cleaned", forgetful)
    assert found() in ("the size of a complete round changed", "ranks out of order")
