"""Leases: who was heard from, and the grace that an own absence gives."""

from __future__ import annotations

import pytest

from fedflow.app.protocol.party_leases import PartyLeases
from fedflow.app.protocol.timing import Timing
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import NOW_MS, FakeClock, FakeParties

TIMING = Timing(lease_ms=60_000)
PARTIES = FakeParties(local=frozenset({"9999"}), known=frozenset({"10000"}))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def party_leases(store: MemoryStore, clock: FakeClock) -> PartyLeases:
    return PartyLeases(store=store, parties=PARTIES, clock=clock, timing=TIMING)


def test_a_party_is_heard_when_it_answers(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    clock.ms += 5_000
    with store.transaction() as tx:
        party_leases.heard(tx, "10000")
        party_leases.begin(tx, "job")
    clock.ms += 9_000
    with store.read() as tx:
        assert party_leases.party_ms(tx, "10000") == NOW_MS + 5_000
        assert party_leases.initiator_ms(tx, "job") == NOW_MS + 5_000
        assert party_leases.initiator_ms(tx, "other job") == NOW_MS


def test_a_party_that_is_hosted_here_answers_always(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    clock.ms += 10**9
    with store.read() as tx:
        assert party_leases.party_ms(tx, "9999") == clock.ms


def test_silence_counts_only_from_the_servers_own_start(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    with store.transaction() as tx:
        party_leases.heard(tx, "10000")
        party_leases.begin(tx, "job")
    clock.ms += 10 * TIMING.lease_ms  # this server was down
    restarted = PartyLeases(store=store, parties=PARTIES, clock=clock, timing=TIMING)
    with store.read() as tx:
        assert restarted.party_ms(tx, "10000") == clock.ms
        assert restarted.initiator_ms(tx, "job") == clock.ms
        assert party_leases.party_ms(tx, "10000") == NOW_MS


def test_a_lease_is_written_again_only_if_that_moves_it_enough(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    seen = []
    for step_ms in (0, 1_000, 1_000, 1):
        clock.ms += step_ms
        with store.transaction() as tx:
            party_leases.heard(tx, "10000")
            seen.append(party_leases.party_ms(tx, "10000") - NOW_MS)
    assert seen == [0, 0, 0, 2_001]


def test_what_a_server_wrote_whose_clock_is_ahead_counts_as_heard_now(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    clock.ms += 10 * TIMING.lease_ms
    ahead = FakeClock(ms=clock.ms + 12_000)
    other = PartyLeases(store=store, parties=PARTIES, clock=ahead, timing=TIMING)
    with store.transaction() as tx:
        other.heard(tx, "10000")
        assert party_leases.party_ms(tx, "10000") == clock.ms
        party_leases.heard(tx, "10000")
        assert party_leases.party_ms(tx, "10000") == clock.ms
        clock.ms += 5_000
        assert party_leases.party_ms(tx, "10000") == clock.ms - 5_000


def test_an_answer_counts_after_the_clock_was_put_back(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    with store.transaction() as tx:
        party_leases.heard(tx, "10000")
    clock.ms -= 100 * TIMING.lease_ms
    restarted = PartyLeases(store=store, parties=PARTIES, clock=clock, timing=TIMING)
    clock.ms += 2 * TIMING.lease_ms
    with store.transaction() as tx:
        assert restarted.party_ms(tx, "10000") == clock.ms - 2 * TIMING.lease_ms
        restarted.heard(tx, "10000")
        assert restarted.party_ms(tx, "10000") == clock.ms


def test_the_lease_of_an_ended_job_is_dropped(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    clock.ms += 5_000
    with store.transaction() as tx:
        party_leases.begin(tx, "job")
        party_leases.forget(tx, "job")
        party_leases.forget(tx, "job")
        assert tx.leases.get("initiator/job") is None


def test_what_an_initiator_says_extends_a_lease_and_brings_none_back(
    party_leases: PartyLeases, store: MemoryStore, clock: FakeClock
) -> None:
    with store.transaction() as tx:
        party_leases.begin(tx, "job")
        clock.ms += 5_000
        party_leases.heard_initiator(tx, "job")
        assert party_leases.initiator_ms(tx, "job") == NOW_MS + 5_000
        party_leases.forget(tx, "job")  # a heartbeat that had read the job before
        party_leases.heard_initiator(tx, "job")
        assert tx.leases.get("initiator/job") is None
