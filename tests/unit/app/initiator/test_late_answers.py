"""Messages that come when what they are about is over: found by simulation."""

from __future__ import annotations

import pytest

from fedflow.app.initiator.idempotency import was_refused
from fedflow.app.protocol.party_commands import PartyCommands
from fedflow.base.errors.jobs import RerunRefused, StillEnding
from fedflow.domain.records import JobKey, Reply, TaskKey
from fedflow.domain.scheduling.rerun import next_attempt
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus
from tests.unit.app.fakes import HOST, OneServer, conf, dsl


def test_an_answer_about_an_attempt_says_nothing_of_the_next_one(guest: OneServer) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    job = guest.scheduled(job_id)
    task = job.tasks[0]
    sites = [p.site for p in task.parties]
    key = TaskKey(job_id=job_id, component=task.component, version=task.version, site=HOST)
    party_commands = PartyCommands(
        clock=guest.clock, timing=guest.timing, new_request_id=lambda: "late"
    )
    start = party_commands.start_task(job, key, news={})
    with guest.store.transaction() as tx:
        tx.schedules.add_attempt(job_id, next_attempt(task, sites, epoch=job.epoch), now_ms=0)
    guest.core.delivery.take("10000")  # the job's turn
    ended = {"party_status": "success", "progress": 1.0, "reason": None}
    guest.core.delivery.settle(start, Reply(retcode=10, retmsg="it has ended here", data=ended))
    again = guest.scheduled(job_id).tasks[0]
    assert again.version == task.version + 1
    assert {p.status for p in again.parties} == {TaskStatus.WAITING}


def test_a_late_heartbeat_leaves_no_lease_of_an_ended_job(host: OneServer) -> None:
    key = host.create()
    host.ask("job_stop", key, status="failed")
    jobs = {key.job_id: {"epoch": 0, "sites": {key.site.key: "created"}}}
    answer = host.ask("heartbeat", body={"jobs": jobs})
    assert answer.data["jobs"][key.job_id][key.site.key]["status"] == "failed"
    with host.store.read() as tx:
        assert tx.leases.get(f"initiator/{key.job_id}") is None


def test_a_job_is_held_only_once_its_processes_are_gone(host: OneServer) -> None:
    key = host.create()
    assert host.ask("job_apply", key).retcode == 0
    host.ask("job_start", key)
    task = host.run_task(pid=7)
    host.ask("task_stop", task, status="failed")
    with pytest.raises(StillEnding):
        host.ask("job_return", key)
    assert host.job(key.job_id).in_use
    host.core.workers.exited(task, str(host.task(task).launch_id), None, 15)
    assert host.ask("job_return", key).retcode == 0
    assert not host.job(key.job_id).in_use


def test_a_late_consent_does_not_revive_a_submit_that_was_refused(guest: OneServer) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    create = guest.core.delivery.take("10000")
    assert create is not None
    guest.core.jobs.request_stop(job_id)
    while (command := guest.core.delivery.take("9999")) is not None:
        guest.core.delivery.settle(command, guest.deliver(command))
    guest.core.scheduler.tick()
    assert guest.scheduled(job_id).status is JobStatus.CANCELED
    assert was_refused(guest.scheduled(job_id))
    guest.core.delivery.settle(create, Reply(retcode=0))
    assert was_refused(guest.scheduled(job_id))
    with pytest.raises(RerunRefused, match="not all its sites"):
        guest.core.reruns.begin(job_id)


def test_a_stop_that_was_asked_for_before_a_rerun_does_not_end_it(guest: OneServer) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    key = JobKey(job_id=job_id, site=HOST)
    with guest.store.transaction() as tx:
        tx.schedules.move(job_id, JobEvent.FAILED, seen=JobStatus.READY, now_ms=1)
        tx.schedules.rerun(job_id, seen=JobStatus.FAILED, epoch=1, now_ms=2)
    late = guest.ask("initiator_stop", key, source="10000", status="canceled", body={"epoch": 0})
    assert late.retcode == 10
    assert guest.scheduled(job_id).stop is None
    now = guest.ask("initiator_stop", key, source="10000", status="canceled", body={"epoch": 1})
    assert now.retcode == 0
    assert guest.scheduled(job_id).stop is not None
