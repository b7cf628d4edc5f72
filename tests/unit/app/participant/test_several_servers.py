"""Whose executors are whose, where several servers of a party share a store."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fedflow.app.ports.store import Store
from fedflow.base.errors.start import NotLeading
from fedflow.domain.records import Handle, JobKey, TaskKey
from fedflow.domain.states import JobStatus, TaskStatus
from tests.unit.app.fakes import ARBITER, CORES, HOST, OneServer, create_body, dsl, participant

KEY = JobKey(job_id="1", site=HOST)


@dataclass
class TwoServers:
    """This server is `mine`; what the other one is, tests say."""

    leads: bool = True
    lost_s: int | None = None
    own_id: str = "mine"
    has_others: bool = True
    looked: list[str] = field(default_factory=list)

    def is_local(self, instance_id: str) -> bool:
        return instance_id in ("", self.own_id)

    def lost_for_s(self, instance_id: str) -> int | None:
        return None if self.is_local(instance_id) else self.lost_s

    def scan_now(self, instance_id: str) -> None:
        self.looked.append(instance_id)

    def guarded(self, store: Store) -> Store:
        return store


@pytest.fixture
def servers() -> TwoServers:
    return TwoServers()


@pytest.fixture
def host(tmp_path, servers) -> OneServer:
    made = participant(tmp_path)
    made.servers = servers
    made.boot()
    return made


def started(host: OneServer, servers: TwoServers, *, by: str, pid: int = 7) -> TaskKey:
    """Let a server start a task; then this one is `mine` again."""
    host.create()
    servers.own_id = by
    key = host.run_task(pid=pid)
    servers.own_id = "mine"
    host.executor.started.clear()
    return key


def tick(host: OneServer) -> None:
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()


def test_a_task_names_the_server_that_took_its_start_command(host, servers):
    assert host.task(started(host, servers, by="mine")).instance_id == "mine"


def test_a_server_watches_its_own_processes_only(host, servers):
    key = started(host, servers, by="other")
    host.executor.alive.clear()
    tick(host)
    assert host.executor.adopted == []
    assert host.task(key).party_status is TaskStatus.WAITING
    servers.own_id = "other"
    tick(host)
    assert host.task(key).party_status is TaskStatus.FAILED


def test_a_restarted_server_adopts_its_own_processes_only(host, servers):
    started(host, servers, by="other")
    before = list(host.sessions.events)
    host.boot()
    host.core.detector.recover()
    assert host.executor.adopted == []
    assert host.sessions.events == before


def test_the_leader_ends_the_tasks_of_a_lost_server_with_its_reason(host, servers):
    key = started(host, servers, by="other")
    servers.lost_s = 12
    tick(host)
    task = host.task(key)
    assert task.party_status is TaskStatus.FAILED
    assert task.handle is None
    assert task.reason.code == "ServerLost"
    assert "12 s" in task.reason.message
    assert [pid for pid, _ in host.executor.stopped] == [7]
    assert host.executor.stopped[0][1] == 0.0


def test_processes_on_another_machine_are_left_to_their_server(host, servers):
    key = started(host, servers, by="other")
    launch_id = str(host.task(key).launch_id)
    with host.store.transaction() as tx:
        tx.tasks.set_handle(key, launch_id, Handle(pid=9, start_time=9, host="elsewhere"))
    servers.lost_s = 12
    tick(host)
    assert host.executor.stopped == []
    assert host.task(key).handle is None


def test_a_launch_that_a_lost_server_never_made_ends_too(host, servers):
    host.create()
    servers.own_id = "other"
    key = host.run_task()
    servers.own_id = "mine"
    servers.lost_s = 11
    host.executor.started.clear()
    tick(host)
    assert host.task(key).reason.code == "ServerLost"
    assert host.executor.started == []


def test_a_follower_leaves_the_tasks_of_a_lost_server_to_the_leader(host, servers):
    key = started(host, servers, by="other")
    servers.leads, servers.lost_s = False, 12
    tick(host)
    assert host.task(key).party_status is TaskStatus.WAITING


def test_an_ended_job_of_a_lost_server_gives_its_cores_back(host, servers):
    host.create()
    host.ask("job_apply", KEY)
    servers.own_id = "other"
    host.run_task(pid=7)
    servers.own_id = "mine"
    host.ask("job_stop", KEY, status="canceled")
    assert host.free_cores() < CORES
    servers.lost_s = 12
    tick(host)
    assert host.job("1").status is JobStatus.CANCELED
    assert host.free_cores() == CORES


def test_a_stop_of_another_servers_task_lets_that_one_look(host, servers):
    started(host, servers, by="other")
    host.ask("job_stop", KEY, status="canceled")
    assert host.executor.stopped == []
    assert servers.looked == ["other"]


def test_a_server_that_is_told_to_look_stops_what_another_one_ended(host, servers):
    key = started(host, servers, by="other")
    host.ask("job_stop", KEY, status="canceled")
    servers.own_id = "other"
    host.sessions.events.clear()
    host.core.detector.stop_ended()
    assert [pid for pid, _ in host.executor.stopped] == [7]
    assert host.sessions.events == [("fail", key.session, HOST.key)]


def test_the_session_of_an_attempt_that_another_server_ended_ends_with_its_process(host, servers):
    key = started(host, servers, by="other")
    servers.lost_s = 12
    tick(host)
    servers.own_id = "other"  # it was cut off from the store, and is back
    host.sessions.events.clear()
    host.processes.exited(str(host.task(key).launch_id), None, 9)
    assert host.sessions.events == [("fail", key.session, HOST.key)]


def test_an_attempt_whose_shares_would_be_at_two_servers_ends_and_is_tried_again(host, servers):
    body = create_body(dsl_=dsl(a="Keys"), guest=[9999], host=[10000], arbiter=[10000])
    for site in (HOST, ARBITER):
        host.ask("job_create", JobKey(job_id="1", site=site), body=body, request_id=site.key)
    servers.own_id = "other"
    host.run_task()
    servers.own_id = "mine"
    key = TaskKey(job_id="1", component="a", version=0, site=ARBITER)
    host.ask("task_start", key, body={"epoch": 0})
    task = host.task(key)
    assert task.party_status is TaskStatus.FAILED
    assert task.reason.code == "ServerLost"
    assert task.instance_id == ""
    assert host.waiting() == ["9999"]  # it is reported


def test_commands_are_carried_out_by_the_leader_only(host, servers, monkeypatch):
    class Refusing:
        def __init__(self, store):
            self.read = store.read

        def transaction(self):
            raise NotLeading(reason="another one does")

    monkeypatch.setattr(servers, "guarded", Refusing, raising=False)
    host.boot()
    with pytest.raises(NotLeading) as refused:
        host.ask("job_start", KEY)
    assert refused.value.retcode == 105  # the sender tries again
