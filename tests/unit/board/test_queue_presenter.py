"""What the pages of queue and parties show."""

from __future__ import annotations

from typing import Any

from fedflow.app.initiator.neighbours import Neighbour
from fedflow.app.protocol.circuit_breakers import CircuitView
from fedflow.board.presenters.parties import row
from fedflow.board.presenters.queue import engine_rows
from fedflow.domain.records import Engine
from fedflow.domain.scheduling.circuit import CircuitState


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


def test_a_party_that_was_never_called_is_not_called_reachable() -> None:
    assert row(neighbour()).state == "none"
    assert row(neighbour(answered_ms=5, round_trip_ms=0.2)).state == "closed"
    assert row(neighbour(answered_ms=5, round_trip_ms=0.2)).round_trip_ms == 1
    assert row(neighbour(failed_ms=5)).state == "closed"
    assert row(neighbour(state=CircuitState.OPEN, failed_ms=5)).state == "open"


def test_a_very_long_error_is_cut() -> None:
    assert len(row(neighbour(error="x" * 100_000)).error) == 1000
