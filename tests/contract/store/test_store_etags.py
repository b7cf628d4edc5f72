"""Marks: cheap texts that are other ones once something that a page of a job shows has changed."""

from __future__ import annotations

import pytest

from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import ScheduledSite
from fedflow.domain.scheduling.history import OWN_HALF, EventFilter, Subject
from fedflow.domain.states import JobEvent, JobStatus, TaskEvent, TaskStatus


@pytest.fixture
def filled(store, make):
    """A store with a scheduled job, the initiator's share and the host's, and a task of each."""
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 8, now_ms=1)
        tx.schedules.add(make.schedule())
        tx.jobs.add(make.job())
        tx.jobs.add(make.job(site=make.host))
        tx.tasks.add([make.task(), make.task(make.task_key(site=make.host))])
    return store


def marks(store, job_id="j1"):
    with store.read() as tx:
        return (
            tx.events.last_number(job_id), tx.jobs.etag(job_id), tx.tasks.etag(job_id),
            tx.schedules.etag(job_id),
        )  # fmt: skip


CHANGES = {
    "a share moves": lambda tx, m: tx.jobs.move(
        m.job_key(), JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=1000),
    "a share's progress": lambda tx, m: tx.jobs.set_progress(m.job_key(), 40, now_ms=1000),
    "cores are taken": lambda tx, m: tx.jobs.take_cores(m.job_key(), now_ms=1000),
    "the job moves": lambda tx, m: tx.schedules.move(
        "j1", JobEvent.QUEUED, seen=JobStatus.READY, now_ms=1000),
    "the job's reason": lambda tx, m: tx.schedules.set_reason("j1", m.reason(), now_ms=1000),
    "a site moves": lambda tx, m: tx.schedules.set_site(
        "j1", ScheduledSite(site=m.host, phase=SitePhase.CREATED), seen=SitePhase.CREATING,
        now_ms=1000),
    "a task starts": lambda tx, m: tx.schedules.start_task("j1", "a", 0, now_ms=1000),
    "a site reports": lambda tx, m: tx.schedules.report(
        "j1", "a", 0, m.host, TaskStatus.RUNNING, reason=None, progress=0.0, now_ms=1000),
    "a share of a task moves": lambda tx, m: tx.tasks.move_party(
        m.task_key(), TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=1000),
    "a task's progress here": lambda tx, m: tx.tasks.set_progress(
        m.task_key(), 0.25, now_ms=1000),
    "a further attempt": lambda tx, m: tx.tasks.add([m.task(m.task_key(version=1))]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_changes_a_mark_even_within_the_same_millisecond(filled, make, name):
    before = marks(filled)
    with filled.transaction() as tx:
        CHANGES[name](tx, make)
    assert marks(filled) != before


def test_progress_that_another_site_reports_changes_the_mark(filled, make):
    def report(progress):
        with filled.transaction() as tx:
            tx.schedules.report(
                "j1", "a", 0, make.host, TaskStatus.RUNNING, reason=None, progress=progress,
                now_ms=1000,
            )  # fmt: skip

    report(0.0)
    seen = set()
    for progress in (0.25, 0.5, 0.75):
        report(progress)
        seen.add(marks(filled))
    assert len(seen) == 3


def test_other_jobs_and_looking_change_no_mark(filled, make):
    before = marks(filled)
    with filled.transaction() as tx:
        tx.jobs.add(make.job("j2"))
        tx.tasks.add([make.task(make.task_key(job_id="j2"))])
        tx.jobs.set_progress(make.job_key("j2"), 10, now_ms=2000)
    assert marks(filled) == before


def test_an_unknown_job_has_no_mark(filled):
    number, jobs, _, schedule = marks(filled, "none")
    assert (number, jobs, schedule) == (0, "", "")


def test_a_site_reads_of_a_servers_own_half_only_what_is_about_itself(filled, make):
    with filled.transaction() as tx:
        for site in (make.guest, make.host):
            tx.tasks.move_party(
                make.task_key(site=site), TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=9
            )
        tx.schedules.start_task("j1", "a", 0, now_ms=9)
    with filled.read() as tx:
        seen = tx.events.find(EventFilter(job_id="j1", own=make.host))
        own = tx.events.find(EventFilter(job_id="j1", own=make.host, subjects=OWN_HALF))
        about = tx.events.find(EventFilter(job_id="j1", site=make.guest))
    assert {e.site for e in seen if e.subject in OWN_HALF} == {make.host}
    assert Subject.TASK in {e.subject for e in seen}
    assert {e.site for e in own} == {make.host}
    assert {e.site for e in about} == {make.guest}
