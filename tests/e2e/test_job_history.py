"""A job's history at both parties, and why a job waits, from two real servers and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fedflow.wire.api.job_history import Wait
from tests.e2e.commands import fedflow
from tests.e2e.jobs import empty_job
from tests.e2e.servers import QUICK, Pair, Party, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

FEW_CORES = {**QUICK, "FEDFLOW__FATE_ON_STANDALONE__STANDALONE__CORES_PER_NODE": "4"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("history"), settings=FEW_CORES) as pair:
        yield pair


def history(party: Party, job_id: str) -> list[dict[str, Any]]:
    lines = fedflow(party, "job", "events", "-j", job_id, "--json").splitlines()
    return [json.loads(line) for line in lines]


def moves(events: list[dict[str, Any]]) -> list[str]:
    told = []
    for event in events:
        where = (event["site"] or "all").split("-")[0]
        what = event["component"] or event["subject"]
        told.append(f"{what}@{where} {event['old']}>{event['new']}")
    return told


def test_the_histories_of_both_parties_tell_one_story_in_order(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({}, {"fail": "host"})).job_id
    assert set(pair.ends(job_id).values()) == {"failed"}
    pair.wait_idle()
    events = history(pair.guest, job_id)
    told = moves(events)
    order = [
        "job@all None>ready", "site@host creating>created", "job@all ready>waiting",
        "site@host applying>granted", "job@all waiting>running", "empty_0@all waiting>running",
        "empty_0@host waiting>success", "empty_0@all running>success",
        "empty_1@all waiting>running",
        "empty_1@host waiting>failed", "empty_1@all running>failed", "job@all running>failed",
        "share@guest running>failed", "cores@guest held>free",
    ]  # fmt: skip
    shown = [line.replace("running>", "waiting>") if "@host " in line else line for line in told]
    places = [shown.index(line) for line in order]
    assert places == sorted(places), told
    failure = next(e for e in events if e["new"] == "failed")
    assert failure["by"] == "reported by host 10000"
    assert failure["code"] == "ComponentFailed"

    there = history(pair.host, job_id)
    order = [
        "share@host None>waiting", "cores@host free>held", "share@host waiting>running",
        "empty_0@host waiting>running", "empty_0@host running>success",
        "empty_1@host running>failed", "share@host running>failed", "cores@host held>free",
    ]  # fmt: skip
    places = [moves(there).index(line) for line in order]
    assert places == sorted(places), moves(there)
    assert {e["subject"] for e in there} == {"share", "cores", "party_task"}

    one = fedflow(pair.host, "job", "events", "-j", job_id, "-c", "empty_1", "--follow")
    assert "empty_1 at host 10000: running -> failed: ComponentFailed" in one
    assert "empty_0" not in one
    text = fedflow(pair.guest, "job", "explain", "-j", job_id)
    assert "First failure: empty_1 at host 10000." in text
    assert f"fedflow job rerun -j {job_id}" in text


def test_a_job_that_waits_for_cores_is_explained_at_both_parties(pair: Pair) -> None:
    slow = empty_job({"sleep_s": 60}, task_cores=3)
    first = pair.guest.client.submit(*slow).job_id
    wait_for(lambda: pair.guest.client.job(first).status == "running", "the first job")
    second = pair.guest.client.submit(*slow).job_id

    def looked_at() -> Wait | None:
        (wait,) = pair.guest.client.explain(second).waits
        return None if wait.code == "Queued" else wait  # the scheduler has not come to it

    wait = wait_for(looked_at, "the scheduler to look at the second job")
    assert (wait.code, wait.site) == ("NotEnoughResources", "guest-9999")
    assert wait.message.startswith("waits for 3 cores at guest 9999: 1 of 4 free")
    assert wait.since_ms is not None
    text = fedflow(pair.guest, "job", "explain", "-j", second)
    assert "1. NotEnoughResources: waits for 3 cores at guest 9999: 1 of 4 free" in text
    assert "number 1 of 1 in the queue" in text
    assert "What helps: " in text
    there = fedflow(pair.host, "job", "explain", "-j", second)
    assert "guest 9999 has not started the job" in there
    assert "last contact" in there
    view = pair.guest.client.job(second)
    assert view.reason is not None
    assert (view.reason.code, view.deadline_ms) == (
        "NotEnoughResources", (view.since_ms or 0) + 259_200_000
    )  # fmt: skip
    running = {w.code for w in pair.guest.client.explain(first).waits}
    assert running == {"Running"}
    for job_id in (second, first):
        pair.guest.client.stop(job_id)
        assert set(pair.ends(job_id).values()) == {"canceled"}
    assert "Stopped: stopped by a user at guest 9999" in fedflow(
        pair.guest, "job", "explain", "-j", first
    )
    pair.wait_idle()
