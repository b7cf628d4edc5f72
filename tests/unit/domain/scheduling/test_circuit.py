"""The circuit of a party: when calls to it go, and when they wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedflow.domain.scheduling.circuit import (
    FAILURES,
    Circuit,
    CircuitState,
    Pauses,
    answered,
    failed,
    may_try,
    trying,
)

PAUSES = Pauses(base_ms=100, cap_ms=5_000, probe_ms=15_000)


def lost(circuit: Circuit, now_ms: int = 0, *, chance: float = 1.0, error: str = "no") -> Circuit:
    return failed(circuit, now_ms, error, pauses=PAUSES, chance=chance)


def opened(now_ms: int = 0) -> Circuit:
    circuit = Circuit()
    for _ in range(FAILURES):
        circuit = lost(circuit, now_ms)
    return circuit


def test_a_few_failures_in_a_row_open_it_and_an_answer_between_them_does_not_count_them() -> None:
    circuit = lost(lost(Circuit(), 1), 2)
    assert may_try(circuit, 2)
    assert lost(answered(circuit, 3), 4).state is CircuitState.CLOSED
    after = lost(circuit, 5, error="a:1: refused")
    assert (after.state, after.since_ms, after.failures) == (CircuitState.OPEN, 5, FAILURES)
    assert (after.failed_ms, after.error) == (5, "a:1: refused")
    assert not may_try(after, 5)


def test_one_probe_goes_when_it_is_due_and_no_other_beside_it() -> None:
    circuit = opened()
    assert circuit.next_try_ms == PAUSES.base_ms
    assert not may_try(circuit, PAUSES.base_ms - 1)
    assert may_try(circuit, PAUSES.base_ms)
    probed = trying(circuit, PAUSES.base_ms, PAUSES)
    assert probed.state is CircuitState.HALF_OPEN
    assert not may_try(probed, PAUSES.base_ms + PAUSES.probe_ms - 1)


def test_a_probe_that_never_ends_does_not_keep_the_circuit_shut_for_ever() -> None:
    probed = trying(opened(), 100, PAUSES)
    assert may_try(probed, 100 + PAUSES.probe_ms)


def test_pauses_between_probes_double_up_to_the_cap() -> None:
    circuit, now_ms, pauses = opened(), 0, []
    for _ in range(9):
        pauses.append(circuit.next_try_ms - now_ms)
        now_ms = circuit.next_try_ms
        circuit = lost(trying(circuit, now_ms, PAUSES), now_ms)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]


def test_a_late_failure_of_an_older_call_makes_no_pause_longer() -> None:
    circuit = opened()
    again = lost(circuit, 50, error="late")
    assert (again.next_try_ms, again.probes) == (circuit.next_try_ms, 0)
    assert again.error == "late"


def test_the_first_answer_closes_it_wherever_it_came_from() -> None:
    for circuit in (opened(), trying(opened(), 100, PAUSES)):
        after = answered(circuit, 700)
        assert (after.state, after.since_ms, after.failures) == (CircuitState.CLOSED, 700, 0)
        assert may_try(after, 700)
        assert after.answered_ms == 700
        assert after.error == "no"  # what was wrong last stays to be seen


def test_an_answer_to_a_closed_circuit_does_not_change_since_when_it_is() -> None:
    circuit = answered(answered(opened(), 700), 900)
    assert (circuit.since_ms, circuit.answered_ms) == (700, 900)


def test_the_round_trip_is_smoothed() -> None:
    circuit = answered(answered(Circuit(), 1, 80.0), 2, 160.0)
    assert circuit.round_trip_ms == 90.0
    assert answered(circuit, 3).round_trip_ms == 90.0


@given(st.lists(st.tuples(st.sampled_from(("ok", "lost", "try")), st.integers(0, 9_000),
                          st.floats(0, 1)), max_size=60))  # fmt: skip
def test_it_never_waits_longer_than_the_cap_or_a_lost_probe(
    events: list[tuple[str, int, float]],
) -> None:
    circuit, now_ms = Circuit(), 0
    for what, passed_ms, chance in events:
        now_ms += passed_ms
        if what == "ok":
            circuit = answered(circuit, now_ms)
        elif what == "lost":
            circuit = lost(circuit, now_ms, chance=chance)
        elif may_try(circuit, now_ms):
            circuit = trying(circuit, now_ms, PAUSES)
        assert may_try(circuit, now_ms + max(PAUSES.cap_ms, PAUSES.probe_ms))
        assert (circuit.failures < FAILURES) or circuit.state is not CircuitState.CLOSED
