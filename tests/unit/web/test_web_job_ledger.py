"""`/v1/job/ledger`: what a job's tasks here sent to each party, and the signed export."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.queries.job_ledgers import JobLedgers
from fedflow.domain.job.ledger import Messages, PeerLedger
from fedflow.domain.records import TaskKey
from fedflow.domain.states import TaskEvent, TaskStatus
from fedflow.wire.api.ledgers import SignedLedger
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeClock, FakeSessions
from tests.unit.app.queries.test_deleting import GUEST, HOST, JOB, World
from tests.unit.web.applications import app_over

SENT = Messages(name="=w", is_sent=True, calls=2, size_bytes=30, first_ms=1000, last_ms=2000)
CAME = Messages(name="z", is_sent=False, calls=1, size_bytes=4, first_ms=500, last_ms=500)
LEDGER = (PeerLedger(peer=HOST, receives=1, receive_s=1.5, messages=(CAME, SENT)),)


def signed(text: str) -> SignedLedger:
    return SignedLedger(csv=text, signature="signed", public_key="PEM")


def contents(module: str) -> dict[str, str]:
    return {"=w": "masked"} if module == "Step" else {}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(MemoryStore(), tmp_path)


@pytest.fixture
def sessions() -> FakeSessions:
    return FakeSessions()


@pytest.fixture
def client(world: World, sessions: FakeSessions) -> FlaskClient:
    ledgers = JobLedgers(store=world.store, sessions=sessions, clock=FakeClock(), contents=contents)
    return app_over(SimpleNamespace(job_ledgers=ledgers, signed_ledger=signed)).test_client()


def task(world: World, *, ended: bool) -> TaskKey:
    job = world.job(dsl={"components": {"step_0": {}}})
    running = {"party_status": TaskStatus.RUNNING, "started_ms": 1, "requested_ms": 1}
    key = world.task(job, **running).key
    if ended:
        with world.store.transaction() as tx:
            tx.tasks.move_party(
                key, TaskEvent.SUCCEEDED, seen=TaskStatus.RUNNING, now_ms=6001, ledger=LEDGER
            )
    return key


def call(client: FlaskClient, what: str, **body: Any) -> Any:
    answer = client.post(f"/v1/job/ledger/{what}", json=body)
    assert answer.status_code == 200
    return answer.json


def test_the_ledger_of_an_ended_task_outlives_its_session(
    client: FlaskClient, world: World
) -> None:
    task(world, ended=True)
    (found,) = call(client, "query", job_id=JOB)["data"]["tasks"]
    assert (found["component"], found["site"], found["status"]) == ("step_0", GUEST.key, "success")
    assert (found["seconds"], found["computing_s"]) == (6.0, 4.5)
    (peer,) = found["peers"]
    assert (peer["site"], peer["sent"], peer["sent_bytes"]) == (HOST.key, 2, 30)
    assert (peer["arrived"], peer["arrived_bytes"], peer["receive_s"]) == (1, 4, 1.5)
    assert [(m["name"], m["is_sent"]) for m in peer["messages"]] == [("=w", True), ("z", False)]


def test_of_a_running_task_it_is_what_the_session_has_counted(
    client: FlaskClient, world: World, sessions: FakeSessions
) -> None:
    key = task(world, ended=False)
    assert call(client, "query", job_id=JOB)["data"]["tasks"] == []
    sessions.ledgers[key.session, GUEST, 0] = (replace(LEDGER[0], messages=(SENT,)),)
    (found,) = call(client, "query", job_id=JOB, component_name="step_0")["data"]["tasks"]
    assert (found["status"], found["peers"][0]["sent"]) == ("running", 2)


def test_the_export_is_csv_that_spreadsheets_do_not_run_and_is_signed(
    client: FlaskClient, world: World
) -> None:
    task(world, ended=True)
    found = call(client, "export", job_id=JOB)["data"]
    assert (found["signature"], found["public_key"]) == ("signed", "PEM")
    head, *lines = csv.reader(io.StringIO(found["csv"], newline=""))
    assert head[0] == "ledger of job"
    assert [line[5:10] for line in lines] == [
        ["sent", "'=w", "masked", "2", "30"],
        ["arrived", "z", "", "1", "4"],
    ]


@pytest.mark.parametrize("what", ["query", "export"])
def test_an_unknown_job_and_an_unknown_component_are_refused(
    client: FlaskClient, world: World, what: str
) -> None:
    task(world, ended=True)
    assert call(client, what, job_id="none")["retcode"] == 102
    assert call(client, what, job_id=JOB, component_name="lr_7")["retcode"] == 101
    assert call(client, what)["retcode"] != 0
