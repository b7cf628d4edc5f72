"""What an initiator makes of a party's word about ended jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.app.initiator.agreement import EndComparison
from fedflow.domain.records import Reply
from fedflow.domain.scheduling.agreement import EndMatch, compare
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl


@pytest.fixture
def job_id(guest: OneServer) -> str:
    """Return a job that has ended here as canceled."""
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.core.jobs.stop(job_id)
    guest.work()
    assert guest.scheduled(job_id).status is JobStatus.CANCELED
    return job_id


def beat(guest: OneServer, job_id: str, *, run: str = "r1", **told: Any) -> None:
    """Send a heartbeat that the host answers so."""
    data = {"run": run, "jobs": {job_id: {HOST.key: told}}}
    guest.parties.answer = lambda _path, _body: Reply(retcode=0, data=data)
    guest.core.heartbeats.remote_parties()
    assert guest.core.heartbeats.send("10000")


def warnings(guest: OneServer, job_id: str) -> list[str]:
    return [one.message for one in guest.job(job_id, GUEST).warnings]


def named(guest: OneServer, job_id: str) -> int:
    """Return in how many heartbeats the job was named with its end."""
    bodies = [body for _, path, body in guest.parties.calls if path == "/party/heartbeat"]
    return sum("status" in body["jobs"].get(job_id, {}) for body in bodies)


def test_a_job_that_was_confirmed_is_not_named_again(guest: OneServer, job_id: str) -> None:
    for _ in range(3):
        beat(guest, job_id, status="canceled", epoch=0)
    assert named(guest, job_id) == 1
    assert warnings(guest, job_id) == []
    assert guest.core.heartbeats.remote_parties() == []


def test_a_party_may_be_settled_while_others_are_looked_through(guest: OneServer) -> None:
    """The detector's thread reads what the threads of heartbeats change."""
    comparison = EndComparison(guest.core.kernel)
    with guest.store.read() as tx:
        for party_id in comparison.unsettled(tx, ["10000", "10001", "10002"]):
            comparison.settled(party_id)
        assert comparison.unsettled(tx, []) == set()


def test_it_is_named_again_once_the_partys_server_has_been_started_anew(
    guest: OneServer, job_id: str
) -> None:
    other = guest.core.submissions.submit(dsl(), conf()).job_id  # so that there are heartbeats
    beat(guest, job_id, status="canceled", epoch=0)
    guest.clock.ms += 11_000
    beat(guest, job_id, run="r2", status="canceled", epoch=0)
    beat(guest, job_id, run="r2", status="canceled", epoch=0)
    assert named(guest, job_id) == 2
    for number in range(20):  # who claims that all the time is asked seldom
        beat(guest, job_id, run=f"x{number}", status="canceled", epoch=0)
    assert named(guest, job_id) == 2
    assert other != job_id


def test_a_party_that_is_behind_gets_the_end_again_and_only_once(
    guest: OneServer, job_id: str
) -> None:
    def ends() -> int:
        return sum(path.endswith("/stop/canceled") for _, path, _ in guest.parties.calls)

    before = ends()
    beat(guest, job_id, status="running", epoch=0)
    assert ends() == before + 1
    for _ in range(2):
        beat(guest, job_id, status="running", epoch=0)
    assert ends() == before + 1
    assert warnings(guest, job_id) == [
        "host 10000 has this job as running, while here it ended as canceled"
    ]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"status": "success", "epoch": 0}, "has this job as success, while here it ended"),
        ({"status": "failed", "epoch": 4}, "has run 5 of this job as failed"),
        ({"status": None}, "does not have this job"),
    ],
)
def test_what_cannot_be_repaired_is_a_warning_that_goes_when_they_agree(
    guest: OneServer, job_id: str, told: dict[str, Any], words: str
) -> None:
    beat(guest, job_id, **told)
    (sentence,) = warnings(guest, job_id)
    assert words in sentence
    (wait,) = guest.core.explanations.explain(job_id).waits
    assert (wait.code, str(wait.message)) == ("PartiesDisagree", sentence)
    guest.boot()
    beat(guest, job_id, status="canceled", epoch=0)
    assert warnings(guest, job_id) == []


@pytest.mark.parametrize(
    "told",
    [{"status": "x" * 5000, "epoch": 0}, {"status": 7, "epoch": 0}, {"status": ["success"]},
     {"status": "canceled", "epoch": 10**40}, {"status": "canceled", "epoch": "1"}],
)  # fmt: skip
def test_an_answer_that_is_none_leaves_nothing(
    guest: OneServer, job_id: str, told: dict[str, Any]
) -> None:
    beat(guest, job_id, **told)
    assert warnings(guest, job_id) == []
    assert guest.outbox("10000") == []


def test_a_site_that_did_not_agree_may_lack_a_job(guest: OneServer, job_id: str) -> None:
    with guest.store.read() as tx:
        (took,) = tx.queue.ended_with("10000", since_ms=0, limit=9)
    unsure = replace(took, may_lack=True)
    assert compare(took, status=None, epoch=None) is EndMatch.DIFFERS
    assert compare(unsure, status=None, epoch=None) is EndMatch.AGREES
    assert compare(unsure, status="success", epoch=0) is EndMatch.DIFFERS
