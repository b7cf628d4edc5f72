"""What the history of a running job has when one of its parties falls silent and comes back."""

from __future__ import annotations

from typing import Any

from fedflow.app.queries.job_lists import JobLists
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.domain.records import JobFilter, Reply
from fedflow.domain.scheduling.explain import SILENT, SILENT_MS
from fedflow.domain.scheduling.history import HEARD_AGAIN, EventFilter, Subject, actor
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import HOST, OneServer, conf, dsl


def lost(_path: str, _body: Any) -> Reply:
    raise PartyUnreachable(party_id="10000", address="h:1", reason="no answer within 10 s")


def there(_path: str, _body: Any) -> Reply:
    return Reply(retcode=0)


def begin(guest: OneServer) -> str:
    """Return the id of a job that runs at both parties."""
    job_id = guest.core.submissions.begin(dsl(), conf())[0]
    guest.work()
    assert guest.scheduled(job_id).status is JobStatus.RUNNING
    return job_id


def notes(guest: OneServer, job_id: str) -> list[str]:
    which = EventFilter(job_id=job_id, subjects=(Subject.SITE,), site=HOST)
    with guest.store.read() as tx:
        found = [e for e in tx.events.find(which) if not e.new]
    assert {actor(e) for e in found} <= {"the scheduler"}
    return [e.reason.code for e in found if e.reason]


def silent(guest: OneServer) -> list[tuple[str, ...]]:
    lists = JobLists(
        store=guest.store, queue=guest.core.queue, clock=guest.clock,
        party_leases=guest.core.kernel.party_leases,
    )  # fmt: skip
    return [line.silent for line in lists.lines(JobFilter())]


def test_a_silence_and_its_end_are_noted_once_each_however_often_it_is_called(
    guest: OneServer,
) -> None:
    job_id = begin(guest)
    heartbeats = guest.core.heartbeats
    heartbeats.send("10000")
    guest.parties.answer = lost
    heartbeats.send("10000")
    assert (notes(guest, job_id), silent(guest)) == ([], [()])
    for _ in range(4):
        guest.clock.ms += SILENT_MS // 2 + 1
        heartbeats.send("10000")
    assert (notes(guest, job_id), silent(guest)) == ([SILENT], [("10000",)])
    guest.parties.answer = there
    guest.clock.ms += guest.timing.retry_cap_ms
    for _ in range(3):
        heartbeats.send("10000")
    assert (notes(guest, job_id), silent(guest)) == ([SILENT, HEARD_AGAIN], [()])
    guest.parties.answer = lost
    guest.clock.ms += SILENT_MS + 1
    heartbeats.send("10000")
    assert notes(guest, job_id) == [SILENT, HEARD_AGAIN, SILENT]


def test_a_server_that_was_started_again_knows_what_was_noted(guest: OneServer) -> None:
    job_id = begin(guest)
    guest.parties.answer = lost
    guest.clock.ms += SILENT_MS + 1
    guest.core.heartbeats.send("10000")
    guest.boot()
    guest.clock.ms += SILENT_MS + 1
    guest.core.heartbeats.send("10000")
    assert notes(guest, job_id) == [SILENT]
    guest.boot()
    guest.parties.answer = there
    guest.core.heartbeats.send("10000")
    assert notes(guest, job_id) == [SILENT, HEARD_AGAIN]


def test_an_initiator_that_is_hosted_here_is_never_silent(alone: OneServer) -> None:
    begin(alone)
    alone.clock.ms += 10 * SILENT_MS
    assert silent(alone) == [(), ()]


def test_a_host_sees_that_its_initiator_says_nothing(host: OneServer) -> None:
    key = host.create()
    host.ask("job_apply", key)
    host.ask("job_start", key)
    assert silent(host) == [()]
    host.clock.ms += SILENT_MS + 1
    assert silent(host) == [("9999",)]
