"""PULL: a site that sends nothing to the initiator, which collects what there is to tell."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, create_body, dsl

KEY = JobKey(job_id="1", site=HOST)


def pulled(kind: str = "PULL", role: str | None = None) -> dict[str, Any]:
    document = conf()
    given = {"federated_status_collect_type": kind}
    section = document["job_parameters"]
    if role is None:
        section["common"].update(given)
    else:
        section["role"] = {role: {"0": given}}
    return document


def create(server: OneServer, document: dict[str, Any]) -> None:
    server.ask("job_create", KEY, body=create_body(conf_=document), request_id="c")
    server.ask("job_apply", KEY)
    server.ask("job_start", KEY)


def beat(server: OneServer, epoch: int = 0) -> Any:
    sites = {HOST.key: "granted"}
    body = {"jobs": {"1": {"epoch": epoch, "sites": sites, "tasks": {}}}}
    return server.ask("heartbeat", body=body).data["jobs"]["1"][HOST.key]


def sent(server: OneServer) -> list[str]:
    return [command.kind.value for command in server.outbox()]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pulled("PUSH"), ["report_task"]),
        (pulled(), []),
        (pulled(role="host"), []),
        (pulled(role="guest"), ["report_task"]),
    ],
)
def test_a_site_reports_the_end_of_a_task_unless_it_is_collected(
    host: OneServer, document: dict[str, Any], expected: list[str]
) -> None:
    create(host, document)
    key = host.run_task(pid=7)
    host.report(key, "running")
    host.report(key, "success")
    assert sent(host) == expected
    assert beat(host)["tasks"]["a"]["party_status"] == "success"


def test_it_is_so_after_a_restart_too(host: OneServer) -> None:
    create(host, pulled())
    key = host.run_task(pid=7)
    host.boot()
    host.core.workers.exited(key, str(host.task(key).launch_id), 1, None)
    assert host.task(key).party_status is TaskStatus.FAILED
    assert sent(host) == []


def test_a_stop_at_a_collected_site_ends_its_processes_and_waits_to_be_collected(
    host: OneServer,
) -> None:
    create(host, pulled())
    host.run_task(pid=7)
    assert "stop" in beat(host)
    assert beat(host)["stop"] is None
    host.core.jobs.request_stop("1")
    host.core.jobs.request_stop("1", "failed")  # the first wish counts
    assert {pid for pid, _ in host.executor.stopped} == {7}
    assert sent(host) == []
    answer = beat(host)
    assert answer["stop"]["status"] == "canceled"
    assert answer["stop"]["reason"]["code"] == "Stopped"
    assert answer["tasks"]["a"]["party_status"] == "canceled"


def test_a_stop_concerns_its_epoch_only(host: OneServer) -> None:
    create(host, pulled())
    host.core.jobs.request_stop("1")
    host.ask("job_stop", KEY, status="canceled")
    body = {"epoch": 1, "runtime_conf": pulled(), "tasks": {"a": 1, "b": 1}}
    host.ask("job_rerun", KEY, body=body)
    assert beat(host, 1)["stop"] is None


def answer(server: OneServer, job_id: str, site: Site, **more: Any) -> bool:
    told = {"status": "running", "epoch": 0, "tasks": {}, **more}
    with server.store.transaction() as tx:
        job = tx.schedules.get(job_id)
        assert job is not None
        return server.core.delivery._initiator.take_answer(tx, job, site, told)


def test_the_initiator_ends_a_job_when_it_collects_a_stop(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), pulled()).job_id
    assert alone.scheduled(job_id).sites[0].phase is SitePhase.GRANTED
    reason = {"code": "Stopped", "message": "stopped by a user", "site": HOST.key}
    assert answer(alone, job_id, HOST, stop={"status": "canceled", "reason": reason})
    assert not answer(alone, job_id, HOST, stop={"status": "canceled", "reason": reason})
    alone.work()
    ended = alone.scheduled(job_id)
    assert ended.status is JobStatus.CANCELED
    assert ended.reason is not None
    assert (ended.reason.code, ended.reason.site) == ("Stopped", HOST)


@pytest.mark.parametrize("stop", [None, 3, {}, {"status": "success"}, {"status": ["canceled"]}])
def test_what_is_no_stop_ends_nothing(alone: OneServer, stop: Any) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), pulled()).job_id
    assert not answer(alone, job_id, GUEST, stop=stop)
    assert alone.scheduled(job_id).stop is None


def test_the_end_of_a_task_is_taken_from_a_heartbeats_answer(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), pulled()).job_id
    told = {"a": {"version": 0, "party_status": "failed", "reason": {"message": "no"}}}
    assert answer(alone, job_id, HOST, tasks=told)
    key = TaskKey(job_id=job_id, component="a", version=0, site=HOST)
    (task,) = [t for t in alone.scheduled(job_id).tasks if t.component == "a"]
    assert {p.site: p.status for p in task.parties}[key.site] is TaskStatus.FAILED
