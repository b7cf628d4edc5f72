"""The worker's way to its server over a real unix socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.executors import LaunchRefused, ServerRefused
from fedflow.base.errors.start import ServerNotReachable
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import TaskStatus
from fedflow.wire.task_report import EndReport, RunningReport
from fedflow.wire.worker_commands import SaveMetrics
from fedflow.worker.report import ServerLink
from tests.support.executors import WorkerServer

KEY = TaskKey(job_id="1", component="a_0", version=2, site=Site.from_key("host-10000"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WorkerServer]:
    with WorkerServer(tmp_path / "s") as server:
        yield server


@pytest.fixture
def link(tmp_path: Path) -> Iterator[ServerLink]:
    link = ServerLink(str(tmp_path / "s"), key=KEY, token="t0", launch_id="l0")
    yield link
    link.close()


def ended(summary: dict[str, Any]) -> EndReport:
    return EndReport(party_status=TaskStatus.SUCCESS, summary=summary)


def test_calls_carry_the_token_and_name_the_attempt(server: WorkerServer, link: ServerLink) -> None:
    link.report(RunningReport())
    link.call(SaveMetrics())
    paths = [(r.path, r.token) for r in server.requests]
    assert paths == [
        ("/v1/party/1/a_0/1_a_0/2/host/10000/report", "t0"),
        ("/v1/tracker/1/a_0/1_a_0/2/host/10000/metric_data/save", "t0"),
    ]
    assert server.requests[0].body == {"launch_id": "l0", "party_status": "running"}


def test_answers_of_the_server_become_errors(server: WorkerServer, link: ServerLink) -> None:
    server.answers.retcodes["report"] = 10
    with pytest.raises(LaunchRefused):
        link.report(RunningReport())
    server.answers.retcodes["report"] = 109
    with pytest.raises(ServerRefused, match="return code 109: refused by the test"):
        link.report(RunningReport())


def test_a_call_waits_for_a_server_that_restarts(server: WorkerServer, link: ServerLink) -> None:
    link.report(RunningReport(pid=1))
    server.stop()
    timer = threading.Timer(0.3, server.start)
    timer.start()
    link.report(RunningReport(pid=2))
    timer.join()
    assert [r.body["pid"] for r in server.requests] == [1, 2]


def test_a_server_that_is_busy_is_asked_again(server: WorkerServer, link: ServerLink) -> None:
    server.answers.broken = 2
    link.report(RunningReport())
    assert len(server.requests) == 1
    server.answers.retcodes["report"] = 105
    with pytest.raises(ServerNotReachable, match="refused by the test"):
        link.report(RunningReport(), patience_s=0.2)
    assert len(server.requests) > 2


def test_a_server_that_does_not_come_back_is_given_up(tmp_path: Path) -> None:
    link = ServerLink(str(tmp_path / "nobody"), key=KEY, token="t", launch_id="l")
    clock = SystemClock()
    began_s = clock.monotonic_s()
    with pytest.raises(ServerNotReachable, match="No such file"):
        link.report(RunningReport(), patience_s=0.3)
    assert 0.1 < clock.monotonic_s() - began_s < 60.0


def test_a_body_that_is_no_plain_json_is_refused_before_it_is_sent(
    server: WorkerServer, link: ServerLink
) -> None:
    with pytest.raises(ValueError):
        link.report(ended({"x": float("nan")}))
    with pytest.raises(TypeError):
        link.report(ended({"x": {1}}))
    assert not server.requests


def test_one_link_serves_several_threads(server: WorkerServer, link: ServerLink) -> None:
    threads = [threading.Thread(target=link.report, args=(RunningReport(pid=i),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.body["pid"] for r in server.requests) == list(range(8))
