"""The outbox on its way: order, retries, deadlines, and what becomes of answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedflow.base.errors.jobs import JobNotFound, WrongSite
from fedflow.base.errors.parties import BadPacket, NoRoute, PartyUnreachable
from fedflow.base.errors.start import NotLeading
from fedflow.base.messages import Message
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import Command, CommandKind, JobKey, Reply, TaskKey
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl
from tests.unit.app.initiator.test_fenced_passes import Fenced

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
    for attempt in range(2):  # the circuit opens with the third
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


# --- circuits -------------------------------------------------------------------------------------


def lose(guest: OneServer, command: Command) -> None:
    guest.core.delivery.settle(command, LOST)


def open_circuit(guest: OneServer) -> None:
    """Let calls to the host fail until its circuit is open."""
    while not guest.core.circuit_breakers.opened():
        lose(guest, taken(guest))
        guest.clock.ms = max(guest.clock.ms, guest.core.delivery.next_due_ms("10000") or 0)


def more_jobs(guest: OneServer, count: int) -> list[str]:
    ids = [guest.core.submissions.begin(dsl(), conf())[0] for _ in range(count)]
    settle_own(guest)
    return ids


def test_while_a_party_is_unreachable_one_command_at_a_time_tries_it(
    guest: OneServer, job_id: str
) -> None:
    more_jobs(guest, 3)
    open_circuit(guest)
    delivery = guest.core.delivery
    probe = delivery.take("10000")
    assert probe is not None
    assert delivery.take("10000") is None
    assert not delivery.has_more("10000")
    lose(guest, probe)
    assert delivery.take("10000") is None
    due_ms = delivery.next_due_ms("10000")
    assert due_ms is not None
    assert due_ms > guest.clock.ms
    guest.clock.ms = due_ms
    assert delivery.take("10000") is not None


def test_the_first_answer_lets_everything_that_waits_go_at_once(
    guest: OneServer, job_id: str
) -> None:
    jobs = {job_id, *more_jobs(guest, 3)}
    open_circuit(guest)
    probe = taken(guest)
    guest.wakeup.outboxes.clear()
    guest.core.delivery.settle(probe, Reply(retcode=0))
    assert "10000" in guest.wakeup.outboxes
    sent = {probe.job_id, *(taken(guest).job_id for _ in range(3))}
    assert sent == jobs


def test_an_answer_to_any_other_call_closes_the_circuit_too(guest: OneServer, job_id: str) -> None:
    open_circuit(guest)
    lose(guest, taken(guest))
    assert guest.core.delivery.take("10000") is None
    guest.core.circuit_breakers.hurry("10000", after_s=0)
    assert guest.core.preflight.ping(GUEST, "10000") == []
    assert guest.core.delivery.take("10000") is not None


def test_a_server_that_leads_no_more_hears_answers_and_keeps_no_turn(
    guest: OneServer, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_circuit(guest)
    probe, delivery = taken(guest), guest.core.delivery
    with monkeypatch.context() as follows:
        follows.setattr(delivery, "_store", Fenced(guest.store))
        with pytest.raises(NotLeading):
            delivery.settle(probe, Reply(retcode=0))
        for _ in range(3):
            guest.core.circuit_breakers.failed(
                "10000", Message("{address}: {reason}", address="a:1", reason="no answer")
            )
        guest.core.circuit_breakers.hurry("10000", after_s=0)
        assert guest.core.preflight.ping(GUEST, "10000") == []  # nothing of it needs to lead
    guest.clock.ms = delivery.next_due_ms("10000") or 0
    assert taken(guest).number == probe.number


def test_a_refusal_is_an_answer_and_opens_no_circuit(guest: OneServer, job_id: str) -> None:
    for other in more_jobs(guest, 5):
        assert other
        refusal = Reply(retcode=103, retmsg="no", error="SubmitRefused")
        guest.core.delivery.settle(taken(guest), refusal)
    assert guest.core.circuit_breakers.opened() == []


def test_a_dead_party_delays_no_command_to_another(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001"})
    three = conf(guest=[9999], host=[10000, 10001])
    guest.core.submissions.begin(dsl(), three)
    settle_own(guest)
    open_circuit(guest)
    other = guest.core.delivery.take("10001")
    assert other is not None
    assert guest.core.delivery.next_due_ms("10001") is None
    assert guest.core.circuit_breakers.opened() == ["10000"]


def test_deadlines_count_while_nothing_is_sent_and_need_no_call(
    guest: OneServer, job_id: str
) -> None:
    open_circuit(guest)
    delivery, deadline_ms = guest.core.delivery, guest.outbox("10000")[0].deadline_ms
    probe = taken(guest)  # of `job_id`; those of the others have waited since before
    others = more_jobs(guest, 3)
    guest.clock.ms = deadline_ms + guest.timing.create_timeout_ms
    calls = len(guest.parties.calls)
    guest.core.circuit_breakers.failed(
        "10000", Message("{address}: {reason}", address="a:1", reason="no answer")
    )
    assert delivery.take("10000") is None
    assert [phase(guest, other) for other in others] == [SitePhase.REFUSED] * 3
    assert len(guest.parties.calls) == calls
    assert [c.number for c in guest.outbox("10000")] == [probe.number]
    site = next(s for s in guest.scheduled(others[0]).sites if s.site == HOST)
    assert site.reason is not None
    assert "a:1: no answer" in site.reason.message


def test_the_outbox_senders_wake_for_the_probe_or_for_a_deadline_that_comes_before_it(
    guest: OneServer, job_id: str
) -> None:
    open_circuit(guest)
    probe = taken(guest)
    assert guest.core.delivery.next_due_ms("10000") is None  # who settles the probe looks again
    [other] = more_jobs(guest, 1)
    created = next(c for c in guest.outbox("10000") if c.job_id == other)
    within_ms = int(guest.timing.preflight_timeout_s * 1000)  # sooner than its deadline
    assert guest.core.delivery.next_due_ms("10000") == created.created_ms + within_ms
    lose(guest, probe)
    next_try_ms = guest.core.circuit_breakers.next_try_ms("10000")
    assert guest.core.delivery.next_due_ms("10000") == next_try_ms


def test_order_within_a_job_is_kept_while_its_commands_fail(guest: OneServer, job_id: str) -> None:
    first = guest.outbox("10000")[0]
    with guest.store.transaction() as tx:
        tx.outbox.put([replace(first, request_id=f"later-{n}") for n in range(3)])
    numbers = [c.number for c in guest.outbox("10000")]
    rounds = 0
    arrived = []
    while len(arrived) < 4:
        command = guest.core.delivery.take("10000")
        rounds += 1
        if command is None:
            guest.clock.ms += 50
        elif rounds % 3:
            lose(guest, command)
        else:
            arrived.append(command.number)
            guest.core.delivery.settle(command, Reply(retcode=0))
    assert arrived == numbers


def test_a_restarted_server_waits_for_no_pause_of_a_clock_that_was_put_back(
    guest: OneServer, job_id: str
) -> None:
    lose(guest, taken(guest))
    guest.clock.ms -= 600_000
    guest.boot()
    assert guest.core.delivery.take("10000") is None
    guest.core.delivery.recover()
    assert guest.core.delivery.take("10000") is not None
