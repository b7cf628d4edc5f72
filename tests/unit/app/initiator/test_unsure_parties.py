"""Parties without a job that are called all the same: only a call tells how they stand."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.messages import Message
from fedflow.domain.records import Reply
from fedflow.domain.scheduling.circuit import CircuitState
from tests.unit.app.fakes import OneServer

LOST = PartyUnreachable(party_id="10000", address="h:1", reason="connection refused")


def lost(_path: str, _body: Any) -> Reply:
    raise LOST


def state(guest: OneServer) -> CircuitState:
    return guest.core.circuit_breakers.view("10000").state


def test_a_party_out_of_reach_is_called_without_a_job_until_it_is_back(guest: OneServer) -> None:
    for _ in range(3):
        guest.core.circuit_breakers.failed(
            "10000", Message("{address}: {reason}", address="h:1", reason="connection refused")
        )
    heartbeats = guest.core.heartbeats
    assert heartbeats.unsure_parties() == ["10000"]
    guest.parties.answer = lost
    guest.clock.ms += guest.timing.retry_cap_ms
    assert not heartbeats.send("10000")
    assert state(guest) is CircuitState.OPEN

    guest.parties.answer = lambda _path, _body: Reply(retcode=0)
    guest.clock.ms += guest.timing.retry_cap_ms
    assert heartbeats.send("10000")
    assert state(guest) is CircuitState.CLOSED
    assert heartbeats.unsure_parties() == []


def test_a_party_that_is_looked_at_is_called_only_for_as_long(guest: OneServer) -> None:
    heartbeats = guest.core.heartbeats
    assert heartbeats.unsure_parties() == []
    guest.core.circuit_breakers.watch(["9999", "10000", "77777"])
    assert heartbeats.unsure_parties() == ["10000"]
    guest.parties.answer = lost
    for _ in range(3):
        assert not heartbeats.send("10000")
    assert state(guest) is CircuitState.OPEN

    guest.parties.answer = lambda _path, _body: Reply(retcode=0)
    guest.clock.ms += 10_000
    assert heartbeats.send("10000")
    guest.parties.calls.clear()
    assert heartbeats.unsure_parties() == []
    assert heartbeats.send("10000")
    assert guest.parties.calls == []
