"""The scheduler's pass over many jobs: the queue, its explanations, and jobs that are broken."""

from __future__ import annotations

import pytest

from fedflow.domain.records import Command, CommandKind, Reply
from fedflow.domain.schedule import SitePhase
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import CORES, HOST, OneServer, conf, dsl


def begin(server: OneServer, cores: int) -> str:
    server.clock.ms += 1
    return server.core.submissions.begin(dsl(), conf(cores=cores))[0]


def test_a_job_that_does_not_fit_lets_smaller_ones_behind_it_pass(alone: OneServer) -> None:
    jobs = [begin(alone, cores) for cores in (3, 4, 1)]  # at two sites each
    alone.work()
    statuses = [alone.scheduled(job_id).status for job_id in jobs]
    assert statuses == [JobStatus.RUNNING, JobStatus.WAITING, JobStatus.RUNNING]
    reason = alone.scheduled(jobs[1]).reason
    assert reason is not None
    assert reason.message == "waits for 8 cores at guest 9999: 2 of 8 free"
    assert alone.free_cores() == 0


def test_a_job_starts_when_the_cores_of_another_come_back(alone: OneServer) -> None:
    alone.live()
    first, second = begin(alone, 4), begin(alone, 4)
    alone.work()
    assert alone.scheduled(second).status is JobStatus.WAITING
    alone.core.jobs.ask_stop(first)
    alone.work()
    assert alone.scheduled(first).status is JobStatus.CANCELED
    alone.work()
    assert alone.scheduled(second).status is JobStatus.RUNNING
    assert alone.scheduled(second).reason is None
    assert alone.free_cores() == CORES - 8


def test_a_broken_job_stops_no_other(alone: OneServer, caplog: pytest.LogCaptureFixture) -> None:
    broken = begin(alone, 1)
    alone.boot()  # forgets the parsed job
    with alone.store.transaction() as tx:
        tx.schedules._jobs[broken].conf.clear()  # type: ignore[attr-defined]
        tx.schedules._composed.clear()  # type: ignore[attr-defined]
    good = begin(alone, 1)
    alone.work()
    assert alone.scheduled(good).status is JobStatus.RUNNING
    assert f"Job {broken} could not be scheduled" in caplog.text


def test_a_pass_without_news_writes_nothing(alone: OneServer) -> None:
    job_id = begin(alone, 1)
    alone.work()
    before = alone.scheduled(job_id)
    alone.clock.ms += 1_000
    alone.core.scheduler.tick()
    assert alone.scheduled(job_id) == before
    assert alone.waiting() == []


def take(guest: OneServer, kind: CommandKind) -> Command:
    """Let everything go well until a command of this kind is on its way to the host."""
    for _ in range(10):
        guest.core.scheduler.tick()
        while (own := guest.core.delivery.take("9999")) is not None:
            guest.core.delivery.settle(own, guest.deliver(own))
        command = guest.core.delivery.take("10000")
        if command is not None and command.kind is kind:
            return command
        if command is not None:
            guest.core.delivery.settle(command, Reply(retcode=0))
    raise AssertionError(f"no {kind}")


DENIED = Reply(retcode=103, retmsg="waits for 2 cores", error="NotEnoughResources")


def test_the_queue_is_looked_at_again_when_a_denied_job_may_ask(guest: OneServer) -> None:
    begin(guest, 1)
    guest.core.delivery.settle(take(guest, CommandKind.APPLY_CORES), DENIED)
    guest.core.scheduler.tick()
    assert guest.core.scheduler.next_retry_ms() == guest.clock.ms + guest.timing.denied_base_ms


def test_a_job_that_waits_for_an_answer_does_not_keep_the_scheduler_awake(
    guest: OneServer,
) -> None:
    """The denied site's time has come, but another site is asked first and has not answered."""
    job_id = begin(guest, 1)
    guest.core.delivery.settle(take(guest, CommandKind.APPLY_CORES), DENIED)
    guest.core.scheduler.tick()
    own = guest.core.delivery.take("9999")
    assert own is not None
    assert own.kind is CommandKind.RETURN_CORES
    guest.core.delivery.settle(own, guest.deliver(own))
    guest.clock.ms += guest.timing.denied_base_ms
    guest.core.scheduler.look_at_queue()
    phases = {s.site: s.phase for s in guest.scheduled(job_id).sites}
    assert phases.pop(HOST) is SitePhase.DENIED
    assert set(phases.values()) == {SitePhase.APPLYING}
    guest.clock.ms += 1
    guest.core.scheduler.tick()
    assert guest.core.scheduler.next_retry_ms() is None
