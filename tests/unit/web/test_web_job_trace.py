"""`/v1/job/trace`: counts and records of a job's values at this server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.queries.job_traces import JobTraces
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeSessions
from tests.unit.app.queries.test_deleting import JOB, OTHER, World
from tests.unit.web.applications import app_over


@pytest.fixture
def sessions() -> FakeSessions:
    return FakeSessions()


@pytest.fixture
def client(tmp_path: Path, sessions: FakeSessions) -> FlaskClient:
    world = World(MemoryStore(), tmp_path)
    world.ran()
    world.job(OTHER, dsl={"components": {"reader_0": {}, "lr_0": {}}})
    traces = JobTraces(store=world.store, sessions=sessions)
    return app_over(SimpleNamespace(job_traces=traces)).test_client()


def call(client: FlaskClient, what: str, **body: Any) -> Any:
    answer = client.post(f"/v1/job/trace/{what}", json=body)
    assert answer.status_code == 200
    return answer.json


def test_a_job_is_recorded_and_shown_whole_or_by_component(
    client: FlaskClient, sessions: FakeSessions
) -> None:
    assert len(call(client, "record", job_id=JOB, is_on=True)["data"]["sessions"]) == 2
    call(client, "record", job_id=JOB, is_on=False)
    assert [event[:2] for event in sessions.events] == [("trace", JOB), ("do not trace", JOB)]
    (found,) = call(client, "query", job_id=OTHER, component_name="reader_0")["data"]["sessions"]
    assert found["component"] == "reader_0"


@pytest.mark.parametrize("what", ["query", "record"])
def test_an_unknown_job_and_a_wrong_body_are_refused(
    client: FlaskClient, sessions: FakeSessions, what: str
) -> None:
    more = {"is_on": True} if what == "record" else {}
    assert call(client, what, job_id="nobody_s", **more)["retcode"] == 102
    assert call(client, what, **more)["retcode"] != 0
    assert call(client, "record", job_id=JOB, is_on="maybe")["retcode"] != 0
    assert sessions.events == []


def test_an_unknown_component_is_refused_with_those_that_there_are(client: FlaskClient) -> None:
    answer = call(client, "query", job_id=OTHER, component_name="lr_7")
    assert answer["retcode"] == 101
    assert "has no component 'lr_7', but reader_0, lr_0" in answer["retmsg"]
