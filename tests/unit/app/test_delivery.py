"""The outbox on its way: order, retries, deadlines, and what becomes of answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedflow.base.errors import BadPacket, JobNotFound, NoRoute, PartyUnreachable, WrongSite
from fedflow.domain.records import Command, CommandKind, JobKey, Reply, TaskKey
from fedflow.domain.schedule import SitePhase
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl

LOST = PartyUnreachable(party_id="10000", address="a:1", reason="no answer")


@pytest.fixture
def job_id(guest: OneServer) -> str:
    """A job whose create command waits for the host; the guest's own share is there."""
    job_id = guest.core.submissions.begin(dsl(), conf())[0]
    settle_own(guest)
    return job_id


def settle_own(guest: OneServer) -> None:
    while (command := guest.core.delivery.take("9999")) is not None:
        guest.core.delivery.settle(command, guest.deliver(command))


def taken(guest: OneServer) -> Command:
    command = guest.core.delivery.take("10000")
    assert command is not None
    return command


def phase(guest: OneServer, job_id: str) -> SitePhase:
    return next(s.phase for s in guest.scheduled(job_id).sites if s.site == HOST)


def granting(guest: OneServer, job_id: str) -> Command:
    """Bring the job to the point where the host is asked for cores; return that command."""
    guest.core.delivery.settle(taken(guest), Reply(retcode=0))
    for _ in range(3):
        guest.core.scheduler.tick()
        settle_own(guest)
    command = taken(guest)
    assert command.kind is CommandKind.APPLY_CORES
    return command


def test_commands_of_one_job_go_one_after_the_other_those_of_others_beside_it(
    guest: OneServer, job_id: str
) -> None:
    other = guest.core.submissions.begin(dsl(), conf())[0]
    later = replace(guest.outbox("10000")[0], request_id="later")
    with guest.store.transaction() as tx:
        tx.outbox.put([later])
    delivery = guest.core.delivery
    first, beside = taken(guest), taken(guest)
    assert (first.job_id, beside.job_id) == (job_id, other)
    assert delivery.take("10000") is None
    delivery.settle(first, Reply(retcode=0))
    second = taken(guest)
    assert second.job_id == job_id
    assert second.number > first.number


def test_nobody_waits_for_the_clock_while_a_job_is_under_way(guest: OneServer, job_id: str) -> None:
    delivery = guest.core.delivery
    assert delivery.next_due_ms("10000") == guest.clock.ms
    command = taken(guest)
    assert delivery.next_due_ms("10000") is None
    delivery.settle(command, LOST)
    due_ms = delivery.next_due_ms("10000")
    assert due_ms is not None
    assert due_ms > guest.clock.ms


def test_a_lost_command_is_sent_again_after_growing_pauses(guest: OneServer, job_id: str) -> None:
    delivery, timing = guest.core.delivery, guest.timing
    for attempt in range(6):
        command = taken(guest)
        assert command.attempts == attempt
        delivery.settle(command, LOST)
        assert delivery.take("10000") is None
        pause_ms = (delivery.next_due_ms("10000") or 0) - guest.clock.ms
        ceiling = min(timing.retry_cap_ms, timing.retry_base_ms * 2**attempt)
        assert ceiling // 3 <= pause_ms <= ceiling
        guest.clock.ms += pause_ms
    again = taken(guest)
    assert again.error == str(LOST)
    assert again.request_id == command.request_id  # so that the receiver knows a repeat


@pytest.mark.parametrize("retcode", [105, 106])
def test_an_answer_that_means_not_now_is_no_answer(
    guest: OneServer, job_id: str, retcode: int
) -> None:
    guest.core.delivery.settle(taken(guest), Reply(retcode=retcode, retmsg="starting"))
    assert phase(guest, job_id) is SitePhase.CREATING
    assert len(guest.outbox("10000")) == 1


def test_a_command_is_given_up_at_its_deadline(guest: OneServer, job_id: str) -> None:
    delivery = guest.core.delivery
    rounds = 0
    while (command := delivery.take("10000")) is not None:
        delivery.settle(command, LOST)
        guest.clock.ms = delivery.next_due_ms("10000") or guest.clock.ms
        rounds += 1
    assert rounds < 50
    assert guest.outbox("10000") == []
    assert phase(guest, job_id) is SitePhase.REFUSED
    guest.core.scheduler.tick()
    job = guest.scheduled(job_id)
    assert job.status is JobStatus.FAILED
    assert job.reason is not None
    assert job.reason.code == "PartyUnreachable"
    assert "host 10000 could not be reached" in job.reason.message


@pytest.mark.parametrize("error", [LOST, NoRoute(party_id="10000"), BadPacket(reason="no JSON")])
def test_what_keeps_a_command_from_arriving_is_a_result_not_an_exception(
    guest: OneServer, job_id: str, error: Exception
) -> None:
    def fail(_path: str, _body: object) -> Reply:
        raise error

    guest.parties.answer = fail
    assert guest.core.delivery.deliver(taken(guest)) is error


def test_a_job_whose_command_could_not_be_settled_is_free_again(
    guest: OneServer, job_id: str
) -> None:
    command = taken(guest)
    guest.store.close()
    with pytest.raises(Exception, match="closed"):
        guest.core.delivery.settle(command, LOST)
    guest.store._closed = False
    assert taken(guest) == command


def test_consent_moves_the_site_on(guest: OneServer, job_id: str) -> None:
    guest.core.delivery.settle(taken(guest), Reply(retcode=0))
    assert phase(guest, job_id) is SitePhase.CREATED
    assert guest.wakeup.scheduled[-1] == job_id


def test_a_stale_answer_is_no_consent(guest: OneServer, job_id: str) -> None:
    stale = Reply(retcode=10, retmsg="epoch 1 is current", error="StaleCommand")
    guest.core.delivery.settle(granting(guest, job_id), stale)
    assert phase(guest, job_id) is SitePhase.GONE
    guest.core.scheduler.tick()
    assert guest.scheduled(job_id).status is JobStatus.FAILED


def test_a_denial_is_asked_again_after_pauses_that_double(guest: OneServer, job_id: str) -> None:
    denied = Reply(retcode=103, retmsg="waits for 2 cores", error="NotEnoughResources")
    command = granting(guest, job_id)
    pauses = []
    for _ in range(7):
        guest.core.delivery.settle(command, denied)
        site = next(s for s in guest.scheduled(job_id).sites if s.site == HOST)
        assert site.phase is SitePhase.DENIED
        pauses.append(site.retry_ms - guest.clock.ms)
        reason = guest.scheduled(job_id).reason
        assert reason is not None
        assert reason.message == "waits for 2 cores"
        guest.core.scheduler.tick()
        settle_own(guest)
        assert guest.free_cores() == 8  # what was taken here is given back meanwhile
        guest.clock.ms = site.retry_ms
        for _ in range(3):
            guest.core.scheduler.tick()
            settle_own(guest)
        command = taken(guest)
    assert pauses == [100, 200, 400, 800, 1_600, 2_000, 2_000]


def test_any_other_refusal_of_cores_ends_the_job(guest: OneServer, job_id: str) -> None:
    refusal = Reply(retcode=103, retmsg="the job has ended here", error="JobEnded")
    guest.core.delivery.settle(granting(guest, job_id), refusal)
    guest.core.scheduler.tick()
    job = guest.scheduled(job_id)
    assert job.reason is not None
    assert (job.status, job.reason.code, job.reason.site) == (JobStatus.FAILED, "JobEnded", HOST)


def test_an_answer_is_proof_of_life(guest: OneServer, job_id: str) -> None:
    guest.clock.ms += 5_000
    guest.core.delivery.settle(taken(guest), Reply(retcode=0))
    with guest.store.read() as tx:
        assert tx.leases.get("party/10000") is not None
        assert tx.leases.get("party/9999") is None  # itself


def test_reports_and_stops_are_checked_for_who_sends_them(guest: OneServer, job_id: str) -> None:
    share = JobKey(job_id=job_id, site=HOST)
    task = TaskKey(job_id=job_id, component="a", version=0, site=HOST)
    for name, key in (("initiator_stop", share), ("initiator_report", task)):
        with pytest.raises(WrongSite):
            guest.ask(name, key, source="10001", status="canceled", body={"party_status": "failed"})
    stranger = JobKey(job_id=job_id, site=GUEST.from_key("host-10001"))
    with pytest.raises(WrongSite):
        guest.ask("initiator_stop", stranger, source="10001", status="canceled")
    unknown = JobKey(job_id="unknown", site=HOST)
    with pytest.raises(JobNotFound):
        guest.ask("initiator_stop", unknown, source="10000", status="canceled")
    assert guest.scheduled(job_id).stop is None
    guest.ask("initiator_stop", share, source="10000", status="canceled")
    assert guest.scheduled(job_id).stop is not None


def test_a_defect_while_sending_does_not_hold_up_the_job(
    guest: OneServer, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Reply:
        raise RuntimeError("a defect")

    delivery, command = guest.core.delivery, taken(guest)
    with monkeypatch.context() as patch:
        patch.setattr(delivery._parties, "call", broken)
        delivery.settle(command, delivery.deliver(command))
    guest.clock.ms = delivery.next_due_ms("10000") or 0
    assert taken(guest).request_id == command.request_id
