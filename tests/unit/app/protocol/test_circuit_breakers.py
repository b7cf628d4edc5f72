"""What is noted of calls to other parties, and which calls are not made."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fedflow.app.protocol.circuit_breakers import CheckedParties, CircuitBreakers
from fedflow.app.protocol.timing import Timing
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import BadPacket, NoRoute, PartyUnreachable
from fedflow.domain.records import Reply
from fedflow.domain.scheduling.circuit import CircuitState
from fedflow.wire.versions import BEFORE, OURS, Speaks
from tests.unit.app.fakes import FakeClock, FakeParties

LOST = PartyUnreachable(party_id="10000", address="h:1", reason="connection refused")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def circuit_breakers(clock: FakeClock) -> CircuitBreakers:
    return CircuitBreakers(clock=clock, timing=Timing(), rng=Random(1))


@pytest.fixture
def outside() -> FakeParties:
    return FakeParties(local=frozenset({"9999"}), known=frozenset({"10000", "10001"}))


@pytest.fixture
def parties(
    outside: FakeParties, circuit_breakers: CircuitBreakers, clock: FakeClock
) -> CheckedParties:
    return CheckedParties(outside, circuit_breakers, clock=clock)


def call(parties: CheckedParties, party_id: str = "10000") -> Reply:
    return parties.call(
        None, party_id, "/party/info/common", {}, request_id="", job_id="", deadline_s=1.0
    )


def fails(outside: FakeParties, error: Exception) -> None:
    def answer(_path: str, _body: Any) -> Reply:
        raise error

    outside.answer = answer


def open_it(parties: CheckedParties, outside: FakeParties) -> None:
    fails(outside, LOST)
    for _ in range(3):
        with pytest.raises(PartyUnreachable):
            call(parties)


def test_a_call_to_an_unreachable_party_is_refused_without_being_made(
    parties: CheckedParties,
    outside: FakeParties,
    circuit_breakers: CircuitBreakers,
    clock: FakeClock,
) -> None:
    open_it(parties, outside)
    assert circuit_breakers.opened() == ["10000"]
    with pytest.raises(
        PartyUnreachable, match=r"at h:1: connection refused; last tried 0\.0 s ago"
    ):
        call(parties)
    assert len(outside.calls) == 3
    clock.ms += 10_000
    with pytest.raises(PartyUnreachable, match=r"connection refused\."):
        call(parties)
    assert len(outside.calls) == 4


def test_calls_to_other_parties_and_to_this_one_go_on(
    parties: CheckedParties, outside: FakeParties
) -> None:
    open_it(parties, outside)
    outside.answer = lambda _path, _body: Reply(retcode=0)
    assert call(parties, "10001").retcode == 0
    assert call(parties, "9999").retcode == 0


def test_a_view_has_wall_times_whatever_happened_to_the_clock(
    parties: CheckedParties,
    outside: FakeParties,
    circuit_breakers: CircuitBreakers,
    clock: FakeClock,
) -> None:
    outside.answer = lambda _path, _body: Reply(retcode=0, speaks=OURS.header)
    call(parties)
    answered_ms = clock.ms
    clock.ms += 5_000
    open_it(parties, outside)
    view = circuit_breakers.view("10000")
    assert (view.state, view.failures) == (CircuitState.OPEN, 3)
    assert (view.answered_ms, view.failed_ms, view.since_ms) == (answered_ms, clock.ms, clock.ms)
    assert view.next_try_ms is not None
    assert clock.ms <= view.next_try_ms <= clock.ms + 200
    assert view.speaks == OURS
    assert view.error == "h:1: connection refused"


def test_whoever_waits_is_told_once_that_a_party_is_back(
    parties: CheckedParties,
    outside: FakeParties,
    circuit_breakers: CircuitBreakers,
    clock: FakeClock,
) -> None:
    back: list[str] = []
    circuit_breakers.connect(back.append)
    open_it(parties, outside)
    clock.ms += 10_000
    outside.answer = lambda _path, _body: Reply(retcode=0)
    call(parties)
    call(parties)
    assert back == ["10000"]


@pytest.mark.parametrize("error", [BadPacket(reason="the answer is not JSON"), LOST])
def test_an_answer_that_nobody_can_read_is_none(
    parties: CheckedParties,
    outside: FakeParties,
    circuit_breakers: CircuitBreakers,
    error: FedflowError,
) -> None:
    fails(outside, error)
    with pytest.raises(type(error)):
        call(parties)
    assert circuit_breakers.view("10000").failures == 1
    refused = circuit_breakers.unreachable("10000")
    assert isinstance(refused, PartyUnreachable)
    assert error.fields["reason"] in refused.message


def test_a_party_without_a_route_has_no_circuit(
    parties: CheckedParties, circuit_breakers: CircuitBreakers
) -> None:
    with pytest.raises(NoRoute):
        call(parties, "777")
    assert circuit_breakers.parties() == []


def test_hurry_lets_one_call_go_but_not_beside_a_probe_or_right_after_one(
    parties: CheckedParties,
    outside: FakeParties,
    circuit_breakers: CircuitBreakers,
    clock: FakeClock,
) -> None:
    assert circuit_breakers.hurry("10000")
    open_it(parties, outside)
    clock.ms += 10_000
    with pytest.raises(PartyUnreachable):
        call(parties)  # a probe that failed: the next pause may be long
    circuit_breakers.failed("10000", "late")
    assert not circuit_breakers.hurry("10000")
    clock.ms += 1_000
    assert circuit_breakers.hurry("10000")
    assert circuit_breakers.admit("10000")
    assert not circuit_breakers.hurry("10000", after_s=0)
    assert not circuit_breakers.admit("10000")


def test_a_party_that_was_upgraded_is_known_with_its_new_release(
    circuit_breakers: CircuitBreakers,
) -> None:
    for speaks in (BEFORE, OURS, Speaks(lowest=2, highest=3, product="9.9")):
        reply = Reply(retcode=0, speaks=speaks.header)
        assert circuit_breakers.take("10000", reply) is reply
        assert circuit_breakers.theirs("10000") == speaks
