"""A server that stood still, or whose clock was put: nothing of that is the silence of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.base.clock import SteadyClock
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.domain.records import JobKey
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import (
    GUEST,
    HOST,
    FakeClock,
    OneServer,
    conf,
    dsl,
    initiator,
    participant,
)

LOST = PartyUnreachable(party_id="10000", address="a:1", reason="no answer")


class Machine(FakeClock):
    """The machine's clocks, and the steady time of the server on it."""

    def __init__(self) -> None:
        super().__init__()
        self.up_ms = 5_000_000
        self.steady = SteadyClock(_Raw(self))
        self.steady.tick()

    def now_ms(self) -> int:
        return self.steady.now_ms()

    def monotonic_s(self) -> float:
        return self.up_ms / 1000

    def live(self, seconds: int, *, beats: bool = True) -> None:
        for _ in range(seconds):
            self.ms += 1000
            self.up_ms += 1000
            if beats:
                self.steady.tick()


class _Raw:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def now_ms(self) -> int:
        return self._machine.ms

    def monotonic_s(self) -> float:
        return self._machine.up_ms / 1000


def on(server: OneServer) -> tuple[OneServer, Machine]:
    machine = Machine()
    server.clock = machine
    server.boot()
    return server, machine


def look(server: OneServer) -> None:
    server.core.scheduler.tick()
    server.core.detector.tick()


def stand_still(machine: Machine) -> None:
    machine.live(90, beats=False)


def put_forward(machine: Machine) -> None:
    machine.ms += 600_000


def put_back(machine: Machine) -> None:
    machine.ms -= 600_000


EVENTS = [stand_still, put_forward, put_back]


@pytest.mark.parametrize("happens", EVENTS)
def test_an_initiator_loses_no_job_by_it(tmp_path: Path, happens: object) -> None:
    guest, machine = on(initiator(tmp_path))
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    before = guest.scheduled(job_id).status
    assert before is JobStatus.RUNNING
    machine.live(30)
    assert callable(happens)
    happens(machine)
    look(guest)  # before anything has beaten
    machine.steady.tick()
    look(guest)
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    machine.live(5)
    guest.core.heartbeats.send("10000")
    machine.live(40)
    look(guest)
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    machine.live(120)
    look(guest)
    assert guest.scheduled(job_id).status is JobStatus.FAILED  # a real silence is still one


@pytest.mark.parametrize("happens", EVENTS)
def test_a_participant_loses_no_job_by_it(tmp_path: Path, happens: object) -> None:
    host, machine = on(participant(tmp_path))
    host.create()
    host.ask("job_apply", JobKey(job_id="1", site=HOST))
    machine.live(30)
    assert callable(happens)
    happens(machine)
    look(host)
    machine.steady.tick()
    look(host)
    assert host.job("1").status is not JobStatus.FAILED
    machine.live(120)
    look(host)
    assert host.job("1").status is JobStatus.FAILED


@pytest.mark.parametrize("happens", EVENTS)
def test_no_command_expires_or_waits_longer_by_it(tmp_path: Path, happens: object) -> None:
    guest, machine = on(initiator(tmp_path))
    job_id = guest.core.submissions.begin(dsl(), conf())[0]
    delivery = guest.core.delivery
    while (own := delivery.take("9999")) is not None:
        delivery.settle(own, guest.deliver(own))
    command = delivery.take("10000")
    assert command is not None
    delivery.settle(command, LOST)
    assert callable(happens)
    happens(machine)
    machine.steady.tick()
    look(guest)
    machine.live(2)
    again = delivery.take("10000")
    assert again is not None
    assert again.request_id == command.request_id
    assert guest.scheduled(job_id).initiator == GUEST
    assert guest.scheduled(job_id).status is JobStatus.READY


def test_a_lease_from_before_the_clock_was_put_back_ends_with_a_full_lease_from_the_start(
    tmp_path: Path,
) -> None:
    host = participant(tmp_path)
    host.create()
    host.clock.ms -= 600_000
    host.boot()
    host.core.detector.tick()
    assert host.job("1").status is not JobStatus.FAILED
    host.clock.ms += host.timing.lease_ms + 1000
    host.core.detector.tick()
    assert host.job("1").status is JobStatus.FAILED
