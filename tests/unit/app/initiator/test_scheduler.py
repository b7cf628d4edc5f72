"""The scheduler's pass over many jobs: the queue, its explanations, and jobs that are broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import Command, CommandKind, Reply, TaskKey
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import CORES, GUEST, HOST, NOW_MS, OneServer, conf, dsl


def begin(server: OneServer, cores: int) -> str:
    server.clock.ms += 1
    return server.core.submissions.begin(dsl(), conf(cores=cores))[0]


def test_a_job_that_does_not_fit_lets_smaller_ones_behind_it_pass(alone: OneServer) -> None:
    jobs = [begin(alone, cores) for cores in (3, 4, 1)]  # at two sites each
    alone.work()
    statuses = [alone.scheduled(job_id).status for job_id in jobs]
    assert statuses == [JobStatus.RUNNING, JobStatus.WAITING, JobStatus.RUNNING]
    with alone.store.read() as tx:
        reason = alone.core.queue.reason(tx, jobs[1])
        assert alone.core.queue.reason(tx, jobs[0]) is None
    assert reason is not None
    assert reason.message == "waits for 8 cores at guest 9999: 0 of 8 free"
    assert alone.free_cores() == 0


def test_a_job_starts_when_the_cores_of_another_come_back(alone: OneServer) -> None:
    alone.live()
    first, second = begin(alone, 4), begin(alone, 4)
    alone.work()
    assert alone.scheduled(second).status is JobStatus.WAITING
    alone.core.jobs.request_stop(first)
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
        tx.schedules.set_conf(broken, {}, now_ms=NOW_MS)
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


def test_only_reports_that_may_decide_something_wake_the_scheduler(alone: OneServer) -> None:
    job_id = begin(alone, 1)
    alone.work()
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    guest, host = (TaskKey(job_id=job_id, component="a", version=0, site=s) for s in (GUEST, HOST))

    def wakes(key: TaskKey, status: str) -> int:
        alone.wakeup.scheduled.clear()
        alone.ask("initiator_report", key, source=key.site.party_id, body={"party_status": status})
        return len(alone.wakeup.scheduled)

    assert wakes(host, "running") == 0
    assert wakes(host, "success") == 0  # the guest's share runs
    assert wakes(guest, "success") == 1
    assert wakes(guest, "success") == 1  # it may be that the first one was lost
    alone.work()
    guest, host = (replace(key, component="b") for key in (guest, host))
    assert wakes(host, "failed") == 1


def test_a_starving_job_goes_before_jobs_of_greater_priority(alone: OneServer) -> None:
    first = begin(alone, 4)
    alone.work()
    old = begin(alone, 4)
    alone.work()
    alone.clock.ms += alone.timing.starving_after_ms + 1
    urgent = conf(cores=1)
    urgent["job_parameters"]["common"]["priority"] = 1000
    later = alone.core.submissions.begin(dsl(), urgent)[0]
    alone.work()
    alone.core.jobs.request_stop(first)
    for _ in range(3):
        alone.work()
        alone.clock.ms += alone.timing.denied_cap_ms + 1
    alone.work()
    assert alone.scheduled(old).status is JobStatus.RUNNING
    assert alone.scheduled(later).status is JobStatus.WAITING
    places, count = alone.core.queue.page(limit=10)
    assert (count, [p.job.job_id for p in places]) == (1, [later])


def test_nothing_is_kept_for_a_job_that_the_engine_has_become_too_small_for(
    alone: OneServer,
) -> None:
    first = begin(alone, 4)
    alone.work()
    large = begin(alone, 4)
    alone.work()
    alone.clock.ms += alone.timing.starving_after_ms + 1
    alone.work()
    with alone.store.transaction() as tx:
        tx.engines.put(ENGINE, CORES - 1, now_ms=0)
    alone.core.jobs.request_stop(first)
    small = begin(alone, 1)
    for _ in range(3):
        alone.work()
        alone.clock.ms += alone.timing.denied_cap_ms + 1
    assert alone.scheduled(small).status is JobStatus.RUNNING
    assert alone.scheduled(large).status is JobStatus.WAITING


def test_the_queue_is_shown_in_the_order_in_which_jobs_go(alone: OneServer) -> None:
    begin(alone, 4)
    alone.work()
    low, old = begin(alone, 4), begin(alone, 3)
    urgent = conf(cores=2)
    urgent["job_parameters"]["common"]["priority"] = 5
    first = alone.core.submissions.begin(dsl(), urgent)[0]
    alone.work()
    places, count = alone.core.queue.page(limit=2, offset=0)
    assert count == 3
    assert [(p.position, p.job.job_id) for p in places] == [(1, first), (2, low)]
    assert places[0].reason.message == "waits for 4 cores at guest 9999: 0 of 8 free"
    (last,), _ = alone.core.queue.page(limit=2, offset=2)
    assert (last.position, last.job.job_id, last.starves) == (3, old, False)
    alone.clock.ms += alone.timing.starving_after_ms + 1
    starving, _ = alone.core.queue.page(limit=1)
    assert (starving[0].job.job_id, starving[0].starves) == (low, True)


def test_a_waiting_job_ends_by_its_timeout_though_nothing_happens(alone: OneServer) -> None:
    begin(alone, 4)
    alone.work()
    asks = conf(cores=4)
    asks["job_parameters"]["common"]["timeout"] = 60
    waiting = alone.core.submissions.begin(dsl(), asks)[0]
    alone.work()
    alone.clock.ms += 60_000
    alone.core.scheduler.tick()
    assert alone.scheduled(waiting).status is JobStatus.WAITING
    alone.clock.ms += 1
    alone.core.scheduler.tick()
    assert alone.scheduled(waiting).status is JobStatus.TIMEOUT


def test_jobs_that_need_a_full_party_do_not_hide_those_that_do_not(guest: OneServer) -> None:
    """So many were denied by the host that no further ones ask it; others go."""
    guest.timing = replace(guest.timing, denied_base_ms=30_000, denied_cap_ms=30_000)
    guest.boot()
    guest.parties.answer = lambda path, _body: DENIED if "apply" in path else Reply(retcode=0)
    denied = [begin(guest, 1) for _ in range(8)]
    for _ in range(4):
        guest.work()
    asked = sum("apply" in path for _, path, _ in guest.parties.calls)
    assert asked == 8
    held_back = begin(guest, 1)
    alone = guest.core.submissions.begin(dsl(a="Step"), conf(cores=1, guest=[9999]))[0]
    guest.work()
    assert guest.scheduled(alone).status is JobStatus.RUNNING
    assert guest.scheduled(held_back).status is JobStatus.WAITING
    assert sum("apply" in path for _, path, _ in guest.parties.calls) == asked
    assert {guest.scheduled(j).status for j in denied} == {JobStatus.WAITING}
    guest.parties.answer = lambda _path, _body: Reply(retcode=0)
    guest.clock.ms += 30_001
    for _ in range(3):
        guest.work()
    assert JobStatus.RUNNING in {guest.scheduled(j).status for j in denied}


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
