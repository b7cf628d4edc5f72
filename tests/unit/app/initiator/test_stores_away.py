"""A store that cannot be used, at the other party or here, while its server answers all the time:
that is no heartbeat, and the job ends within the lease, with a sentence that says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.app.ports.store import Store
from fedflow.base.errors.parties import PartyStoreUnavailable
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey, Reply
from fedflow.domain.scheduling.circuit import CircuitState
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import HOST, OneServer, conf, dsl

AWAY = StoreUnavailable(reason="its server's log says why")
SENTENCE = "it answers, but its store cannot be used"


def call(server: OneServer, party_id: str) -> None:
    """Call another party outside of the outbox."""
    server.core.parties.call(
        None, party_id, "/party/info/common", {}, request_id="", job_id="", deadline_s=1
    )


def answers(guest: OneServer, error: StoreUnavailable | NotLeading | None) -> None:
    def answer(_path: str, _body: Any) -> Reply:
        if error is None:
            return Reply(retcode=0)
        return Reply(retcode=error.retcode, retmsg=error.advice, error=error.name)

    guest.parties.answer = answer


def running(guest: OneServer) -> str:
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    return job_id


def beat(guest: OneServer, seconds: int) -> None:
    """Let time pass as the threads of a server do."""
    for _ in range(seconds // 5):
        guest.clock.ms += 5_000
        guest.core.heartbeats.send("10000")
        guest.core.scheduler.tick()


def reason(guest: OneServer, job_id: str) -> Reason:
    found = guest.scheduled(job_id).reason
    assert found is not None
    return found


def test_an_answer_that_the_store_is_away_is_no_heartbeat(guest: OneServer) -> None:
    job_id = running(guest)
    answers(guest, AWAY)
    beat(guest, 55)
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    view = guest.core.circuit_breakers.view("10000")
    assert view.state is not CircuitState.CLOSED
    assert view.error == SENTENCE
    waits = guest.core.explanations.explain(job_id).waits
    assert [w.message for w in waits if w.code == "Silent"] == [
        "host 10000 answers, but has not been able to use its store for 55 seconds"
    ]
    beat(guest, 10)
    assert guest.scheduled(job_id).status is JobStatus.FAILED
    assert (reason(guest, job_id).code, reason(guest, job_id).site) == ("PartyUnreachable", HOST)
    assert "answers, but has not been able to use its store for" in reason(guest, job_id).message


def test_a_store_that_is_back_within_the_lease_costs_no_job(guest: OneServer) -> None:
    job_id = running(guest)
    answers(guest, AWAY)
    beat(guest, 50)
    answers(guest, None)
    beat(guest, 60)
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    assert guest.core.circuit_breakers.view("10000").state is CircuitState.CLOSED


def test_a_party_of_which_no_server_leads_is_not_heard_either(guest: OneServer) -> None:
    job_id = running(guest)
    answers(guest, NotLeading(reason="none does at the moment"))
    beat(guest, 55)
    assert guest.core.circuit_breakers.view("10000").state is CircuitState.CLOSED
    waits = guest.core.explanations.explain(job_id).waits
    assert [w.message for w in waits if w.code == "Silent"] == [
        "host 10000 answers, but none of its servers has led for 55 seconds"
    ]
    beat(guest, 10)
    assert guest.scheduled(job_id).status is JobStatus.FAILED
    assert "answers, but none of its servers has led for" in reason(guest, job_id).message
    answers(guest, None)
    call(guest, "10000")
    assert guest.core.circuit_breakers.lack_of("10000") is None


def test_a_participant_says_that_no_server_of_its_initiator_leads(host: OneServer) -> None:
    host.create()
    answers(host, NotLeading(reason="none does at the moment"))
    call(host, "9999")
    host.clock.ms += 61_000
    host.core.detector.tick()
    found = host.job("1").reason
    assert found is not None
    assert found.code == "InitiatorLost"
    assert found.message == "guest 9999 answers, but none of its servers has led for 61 seconds"


def test_the_store_that_is_away_is_named_by_calls_and_commands(guest: OneServer) -> None:
    answers(guest, AWAY)
    for _ in range(3):
        with pytest.raises(PartyStoreUnavailable, match=f"10000 cannot take part: {SENTENCE}"):
            call(guest, "10000")
    with pytest.raises(PartyStoreUnavailable, match=f"{SENTENCE}; last tried"):
        call(guest, "10000")


class _ReadOnly:
    """A store that can be read only, as on a disk that the system mounted so after an error."""

    def __init__(self, store: Store) -> None:
        self.read = store.read
        self.fails = True
        self._store = store

    def transaction(self) -> Any:
        if self.fails:
            raise StoreUnavailable(reason="fedflow.db: attempt to write a readonly database")
        return self._store.transaction()


def test_an_initiator_without_a_store_sends_no_heartbeats(
    guest: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(guest)
    store = _ReadOnly(guest.store)
    monkeypatch.setattr(guest.core.heartbeats, "_leading", store)
    guest.parties.calls.clear()
    for _ in range(5):
        guest.clock.ms += 5_000
        with pytest.raises(StoreUnavailable):
            guest.core.heartbeats.send("10000")
    assert len(guest.parties.calls) == 1  # the one that met it
    store.fails = False
    assert guest.core.heartbeats.send("10000")
    assert guest.core.heartbeats.send("10000")
    assert len(guest.parties.calls) == 3


def test_a_participant_names_the_store_of_its_initiator(host: OneServer) -> None:
    host.create()
    host.ask("job_apply", JobKey(job_id="1", site=HOST))
    answers(host, AWAY)
    for _ in range(3):
        with pytest.raises(PartyStoreUnavailable):
            call(host, "9999")
    host.clock.ms += 61_000
    host.core.detector.tick()
    found = host.job("1").reason
    assert found is not None
    assert found.code == "InitiatorLost"
    assert found.message.startswith("guest 9999 answers, but has not been able to use its store")
