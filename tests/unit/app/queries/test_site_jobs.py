"""A job as one of its sites may see it, also where several sites are on one server."""

from __future__ import annotations

import pytest

from fedflow.app.queries.history import Histories
from fedflow.base.errors.jobs import JobNotFound
from fedflow.domain.scheduling.history import Subject
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import ARBITER, GUEST, HOST, OneServer, conf, dsl
from tests.unit.app.queries.test_explain import end


def start(server: OneServer) -> str:
    job_id, _ = server.core.submissions.begin(dsl(a="Step", b="Step"), conf())
    server.work()
    return str(job_id)


def test_the_initiator_sees_all_sites_and_another_site_its_own_share(alone: OneServer) -> None:
    job_id = start(alone)
    seen = alone.core.site_jobs.at(job_id, GUEST)
    assert seen.is_initiator
    assert {t.key.site for t in seen.tasks} == {GUEST, HOST}
    assert seen.own_sites == (GUEST, HOST)
    host = alone.core.site_jobs.at(job_id, HOST)
    assert not host.is_initiator
    assert {t.key.site for t in host.tasks} == {HOST}
    assert {w.site for w in host.explained.waits} <= {HOST.key, GUEST.key}
    assert host.order == seen.order == ("a", "b")


def test_a_site_that_takes_no_part_is_not_here(alone: OneServer) -> None:
    job_id = start(alone)
    for of, site in ((job_id, ARBITER), ("none", GUEST)):
        with pytest.raises(JobNotFound):
            alone.core.site_jobs.at(of, site)
    with pytest.raises(JobNotFound):
        alone.core.site_jobs.etag("none")
    with pytest.raises(JobNotFound):
        Histories(store=alone.store).events(job_id, seen_by=ARBITER)


def test_a_host_reads_its_own_half_of_the_history_only(alone: OneServer) -> None:
    job_id = start(alone)
    end(alone, job_id)
    histories = Histories(store=alone.store)
    every = histories.events(job_id, seen_by=GUEST).events
    assert {e.subject for e in every} >= {"job", "site", "task", "share", "party_task"}
    own = {"share", "cores", "party_task"}
    assert {e.site for e in every if e.subject in own} == {GUEST.key}
    assert {e.site for e in every if e.subject == "report"} == {HOST.key}
    host = histories.events(job_id, seen_by=HOST).events
    assert {e.subject for e in host} == own
    assert {e.site for e in host} == {HOST.key}
    about = histories.events(job_id, seen_by=GUEST, about=HOST).events
    assert {e.site for e in about} == {HOST.key}


def test_the_newest_events_come_with_whether_there_are_earlier_ones(alone: OneServer) -> None:
    job_id = start(alone)
    histories = Histories(store=alone.store)
    every = histories.events(job_id).events
    last = histories.events(job_id, limit=3, newest=True)
    assert last.events == every[-3:]
    assert last.more
    assert not histories.events(job_id, newest=True).more


def test_the_attempts_that_a_site_knows_come_with_its_history(alone: OneServer) -> None:
    job_id = start(alone)
    tasks, events = alone.core.site_jobs.attempts(job_id, HOST)
    assert {t.key.site for t in tasks} == {HOST}
    assert {e.site for e in events} == {HOST}
    tasks, events = alone.core.site_jobs.attempts(job_id, GUEST)
    assert {t.key.site for t in tasks} == {GUEST, HOST}
    assert Subject.JOB in {e.subject for e in events}


def test_an_unchanged_job_keeps_its_mark_for_a_while(alone: OneServer) -> None:
    job_id = start(alone)
    at = alone.core.site_jobs
    first = at.etag(job_id)
    assert at.etag(job_id) == first
    alone.clock.ms += 20_000
    assert at.etag(job_id) != first, "who is silent, and the queue, depend on the time"
    before = at.etag(job_id)
    end(alone, job_id)
    assert at.etag(job_id) != before
    assert alone.core.jobs.is_watched()


def test_a_paused_job_may_be_continued_and_an_ended_one_may_not(alone: OneServer) -> None:
    job_id = start(alone)
    alone.core.control.pause(job_id)
    seen = alone.core.site_jobs.at(job_id, GUEST)
    assert (seen.is_stopped, seen.is_paused) == (True, True)
    alone.core.control.proceed(job_id)
    end(alone, job_id)
    end(alone, job_id)
    seen = alone.core.site_jobs.at(job_id, GUEST)
    assert seen.job.status is JobStatus.SUCCESS
    assert (seen.is_stopped, seen.is_final) == (False, True)


def test_a_site_whose_initiator_is_elsewhere_has_its_own_share(host: OneServer) -> None:
    job_id = host.create().job_id
    seen = host.core.site_jobs.at(job_id, HOST)
    assert not seen.is_initiator
    assert {t.key.site for t in seen.tasks} == {HOST}
    assert [w.code for w in seen.explained.waits] == ["Initiator"]
    assert {t.key.site for t in host.core.site_jobs.own_tasks(job_id, HOST)} == {HOST}
    assert host.core.site_jobs.etag(job_id)
    with pytest.raises(JobNotFound):
        host.core.site_jobs.share(job_id, GUEST)
