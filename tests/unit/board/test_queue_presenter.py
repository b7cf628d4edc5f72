"""What the pages of queue and parties show."""

from __future__ import annotations

from typing import Any

from fedflow.app.initiator.neighbours import Neighbour
from fedflow.app.protocol.circuit_breakers import CircuitView
from fedflow.board.presenters.parties import PartyRow, row
from fedflow.board.presenters.queue import engine_rows
from fedflow.domain.records import Engine
from fedflow.domain.scheduling.circuit import CircuitState

NOW_MS = 100_000


def neighbour(**circuit: Any) -> Neighbour:
    values: dict[str, Any] = {
        "state": CircuitState.CLOSED, "since_ms": None, "failures": 0, "answered_ms": None,
        "failed_ms": None, "error": "", "next_try_ms": None, "round_trip_ms": None, "speaks": None,
    }  # fmt: skip
    view = CircuitView(**{**values, **circuit})
    return Neighbour(party_id="10000", address="h:1", circuit=view, protocol=None, waiting=2)


def test_an_engine_that_was_made_smaller_shows_more_held_than_there_is() -> None:
    (one,) = engine_rows([Engine(name="STANDALONE", cores=4, remaining_cores=-2)])
    assert (one.cores, one.held, one.free, one.memory) == (4, 6, 0, 0)


def test_an_engine_with_memory_counts_it() -> None:
    (one,) = engine_rows(
        [
            Engine(
                name="STANDALONE", cores=4, remaining_cores=1, memory=100, remaining_memory=30,
                cores_percent=0.5,
            )
        ]
    )  # fmt: skip
    assert (one.held, one.per_job, one.memory_held, one.memory_free) == (3, 2, 70, 30)


def shown(**circuit: Any) -> PartyRow:
    return row(neighbour(**circuit), NOW_MS)


def test_a_party_that_was_never_called_is_not_called_reachable() -> None:
    assert shown().state == "none"
    assert shown(answered_ms=5, round_trip_ms=0.2).state == "closed"
    assert shown(answered_ms=5, round_trip_ms=0.2).round_trip_ms == 1
    assert shown(failed_ms=5, answered_ms=5).state == "closed"
    assert shown(state=CircuitState.OPEN, failures=3, failed_ms=5).state == "open"


def test_a_party_whose_last_call_was_not_answered_is_silent_since_it_was_heard() -> None:
    one = shown(failures=1, answered_ms=NOW_MS - 14_000, failed_ms=NOW_MS - 2_000)
    assert (one.state, one.silent_ms) == ("silent", 14_000)
    assert shown(failures=1, failed_ms=NOW_MS - 2_000).silent_ms == 2_000
    assert shown(answered_ms=5).silent_ms is None


def test_a_very_long_error_is_cut() -> None:
    assert len(shown(error="x" * 100_000).error) == 1000
