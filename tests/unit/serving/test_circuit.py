"""The circuit of a partner: when it opens, what probes it, and for how long it stays open."""

from __future__ import annotations

import pytest

from fedflow.serving.partners.circuit import PartnerCircuit
from tests.sim.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def circuit(clock: FakeClock) -> PartnerCircuit:
    return PartnerCircuit(failures=3, open_s=1.0, clock=clock)


def fail(circuit: PartnerCircuit, times: int = 3) -> None:
    for _ in range(times):
        assert circuit.lets_through()
        circuit.failed()


def test_it_opens_after_failures_in_a_row(circuit: PartnerCircuit) -> None:
    fail(circuit, 2)
    circuit.answered()
    fail(circuit, 2)
    assert circuit.state == "closed"
    fail(circuit, 1)
    assert circuit.state == "open"
    assert not circuit.lets_through()


def test_one_probe_goes_through_and_its_answer_closes_it(
    circuit: PartnerCircuit, clock: FakeClock
) -> None:
    fail(circuit)
    clock.time.ms += 1000
    assert circuit.state == "half-open"
    assert circuit.lets_through()
    assert not circuit.lets_through()
    circuit.answered()
    assert circuit.state == "closed"
    assert circuit.lets_through()


def test_a_probe_that_fails_doubles_the_pause(circuit: PartnerCircuit, clock: FakeClock) -> None:
    fail(circuit)
    for pause_s in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        clock.time.ms += round(pause_s * 1000) - 10
        assert not circuit.lets_through()
        clock.time.ms += 10
        fail(circuit, 1)


def test_a_late_failure_of_a_call_before_it_opened_changes_no_pause(
    circuit: PartnerCircuit, clock: FakeClock
) -> None:
    fail(circuit)
    circuit.failed()
    clock.time.ms += 1000
    assert circuit.lets_through()


def test_a_call_that_had_too_little_time_decides_nothing(
    circuit: PartnerCircuit, clock: FakeClock
) -> None:
    for _ in range(10):
        assert circuit.lets_through()
        circuit.undecided()
    assert circuit.state == "closed"
    fail(circuit)
    clock.time.ms += 1000
    assert circuit.lets_through()
    circuit.undecided()
    assert circuit.state == "half-open"
    assert circuit.lets_through()
